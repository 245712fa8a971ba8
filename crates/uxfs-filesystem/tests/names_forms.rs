//! Directories, attributes and parent pointers of every form, compared with what the kernel says of the same image.

use std::{
    collections::{BTreeMap, BTreeSet},
    ops::ControlFlow,
    sync::Arc,
};

use uxfs_format::{attribute, directory, name_tree, units::FileBlock};
use uxfs_volume::volume::Volume;
use uxfs_volume::{
    attribute::{Namespace, xattr::XattrView},
    directory::DirectoryEntry,
    error::{Error, OperationError},
    inode::{FileType, Fork, Inode},
    parent_pointer::paths::PathLimits,
};

use crate::common::{PatchedDevice, case_folded, names};

fn file_system() -> Volume {
    PatchedDevice::new(names()).mount()
}

fn manifest() -> BTreeSet<String> {
    let packed = include_bytes!("../testdata/names/manifest.zst");
    let text = String::from_utf8(zstd::decode_all(packed.as_slice()).unwrap()).unwrap();
    text.lines().map(str::to_owned).collect()
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Every path with its inode, the root directory as the empty path. Directories are walked, and `each` sees all.
fn walk(file_system: &Volume, mut each: impl FnMut(&[u8], &Arc<Inode>)) {
    let mut rest = vec![(Vec::new(), file_system.root().unwrap())];
    while let Some((path, inode)) = rest.pop() {
        each(&path, &inode);
        if inode.file_type() != Some(FileType::Directory) {
            continue;
        }
        let mut reader = file_system.open_directory(&inode, 0).unwrap();
        while let Some(entry) = reader.next_entry().unwrap() {
            if !matches!(entry.name, b"." | b"..") {
                let below = [&path, b"/".as_slice(), entry.name].concat();
                rest.push((below, file_system.inode_of_entry(&inode, entry.inode).unwrap()));
            }
        }
    }
}

fn magic_of(file_system: &Volume, path: &[u8], fork: Fork, block: FileBlock) -> Option<u16> {
    let inode = file_system.resolve(path, false).unwrap();
    let map = file_system.extent_map(&inode, fork).unwrap();
    let extent = map.lookup(block)?;
    let before = block.checked_distance_from(extent.file_block)?;
    let sector = file_system.geometry().sector_of_block(extent.start.checked_add(before)?)?;
    let mut bytes = [0; 64];
    file_system.device().read(sector.get() * 512, &mut bytes).unwrap();
    name_tree::header::magic_of(&bytes)
}

#[test]
fn the_image_has_every_form() {
    let file_system = file_system();
    let leaf_start = file_system.geometry().directory_leaf_start();
    let directory = |path: &[u8]| magic_of(&file_system, path, Fork::Data, leaf_start);
    let forks = |path: &[u8]| magic_of(&file_system, path, Fork::Attribute, FileBlock::new(0));
    assert_eq!(directory(b"short"), None);
    assert_eq!(directory(b"block"), None);
    assert_eq!(directory(b"leaf"), Some(directory::leaf::SINGLE_MAGIC));
    assert_eq!(directory(b"node"), Some(name_tree::node::MAGIC));
    assert_eq!(directory(b"collide"), Some(name_tree::node::MAGIC));
    assert_eq!(forks(b"attributes/short"), None);
    assert_eq!(forks(b"attributes/leaf"), Some(attribute::leaf::MAGIC));
    assert_eq!(forks(b"attributes/remote"), Some(attribute::leaf::MAGIC));
    assert_eq!(forks(b"attributes/node"), Some(name_tree::node::MAGIC));
    assert_eq!(forks(b"attributes/collide"), Some(name_tree::node::MAGIC));
    let node = file_system.resolve(b"node", false).unwrap();
    let map = file_system.extent_map(&node, Fork::Data).unwrap();
    let blocks = node.size_bytes() >> file_system.geometry().block_log;
    let hole = (0..blocks).find(|block| map.lookup(FileBlock::new(*block)).is_none());
    assert!(hole.is_some(), "holes in the data space");
}

#[test]
fn every_entry_and_attribute_is_as_the_kernel_says() {
    let file_system = file_system();
    let mut found = BTreeSet::new();
    walk(&file_system, |path, inode| {
        let visit = |name: &[u8], value: &[u8]| {
            found.insert(format!("X {} {} {}", hexadecimal(path), hexadecimal(name), hexadecimal(value)));
            Ok(ControlFlow::Continue(()))
        };
        file_system.attributes(inode).unwrap().visit_xattrs(XattrView::Root, visit).unwrap();
        if inode.file_type() != Some(FileType::Directory) {
            return;
        }
        let list = |entry: DirectoryEntry<'_>| {
            let (path, name) = (hexadecimal(path), hexadecimal(entry.name));
            let code = entry.file_type.unwrap().directory_code();
            found.insert(format!("E {path} {name} {} {code} {}", entry.inode, entry.cookie));
            ControlFlow::Continue(())
        };
        file_system.read_directory(inode, 0, list).unwrap();
    });
    let manifest = manifest();
    assert!(manifest.len() > 3000, "otherwise this test isn't testing anything");
    let differences: Vec<_> = manifest.symmetric_difference(&found).take(5).collect();
    assert!(differences.is_empty(), "{differences:#?}");
}

#[test]
fn every_name_is_found_by_its_hash_and_no_other() {
    let file_system = file_system();
    walk(&file_system, |_, inode| {
        if inode.file_type() != Some(FileType::Directory) {
            assert!(matches!(
                file_system.lookup(inode, b"name"),
                Err(Error::Operation(OperationError::NotADirectory))
            ));
            return;
        }
        let mut reader = file_system.open_directory(inode, 0).unwrap();
        let mut index = 0;
        while let Some(entry) = reader.next_entry().unwrap() {
            // Where all names have one hash, each is compared with all others.
            index += 1;
            if index > 300 && index % 13 != 0 {
                continue;
            }
            let found = file_system.lookup(inode, entry.name).unwrap().unwrap();
            let expected = (entry.inode, entry.file_type, entry.cookie);
            assert_eq!((found.inode, found.file_type, found.cookie), expected);
            let mut other = entry.name.to_vec();
            other.push(b'~');
            if other.len() <= 255 {
                assert_eq!(file_system.lookup(inode, &other).unwrap(), None);
            }
        }
        assert_eq!(file_system.lookup(inode, b"").unwrap(), None);
        assert!(matches!(
            file_system.lookup(inode, &[b'x'; 256]),
            Err(Error::Operation(OperationError::NameTooLong))
        ));
    });
    // The hash of the names in this directory, but none of them.
    let collide = file_system.resolve(b"collide", false).unwrap();
    let mut name = *b"ABCDEFGHIJKLMNOPQRST";
    for byte in [0, 2, 4, 6, 8, 10, 12, 14, 16, 18] {
        (name[byte], name[byte + 1]) = (name[byte] ^ 1, name[byte + 1] ^ 0x80);
    }
    assert_eq!(directory::name_hash::hash(&name), directory::name_hash::hash(b"ABCDEFGHIJKLMNOPQRST"));
    assert_eq!(file_system.lookup(&collide, &name).unwrap(), None);
}

#[test]
fn reading_goes_on_from_every_cookie() {
    let file_system = file_system();
    for path in [b"short".as_slice(), b"block", b"leaf", b"node"] {
        let directory = file_system.resolve(path, false).unwrap();
        let mut all = Vec::new();
        let mut collect = |entry: DirectoryEntry<'_>| {
            all.push((entry.cookie, entry.next_cookie, entry.name.to_vec()));
            ControlFlow::Continue(())
        };
        file_system.read_directory(&directory, 0, &mut collect).unwrap();
        assert!(all.windows(2).all(|pair| pair[0].0 < pair[1].0 && pair[0].1 <= pair[1].0));
        for (index, (cookie, next_cookie, _)) in all.iter().enumerate().step_by(11) {
            for (from, expected) in [(*cookie, all.get(index)), (*next_cookie, all.get(index + 1))] {
                let mut reader = file_system.open_directory(&directory, from).unwrap();
                let next = reader.next_entry().unwrap().map(|entry| entry.name.to_vec());
                assert_eq!(next.as_ref(), expected.map(|(.., name)| name));
            }
        }
        let mut behind = file_system.open_directory(&directory, u64::MAX).unwrap();
        assert_eq!(behind.next_entry().unwrap(), None);
    }
}

#[test]
fn every_attribute_is_found_by_its_name_and_no_other() {
    let file_system = file_system();
    let missing = |result| matches!(result, Err(Error::Operation(OperationError::NoSuchAttribute)));
    walk(&file_system, |_, inode| {
        let mut shown = Vec::new();
        let compare = |name: &[u8], value: &[u8]| {
            assert_eq!(file_system.attributes(inode).unwrap().xattr(name).unwrap(), value);
            // ACL names are fixed, and the longest names have no room for another byte.
            if !name.starts_with(b"system.") && name.len() < 255 {
                let other = [name, b"~"].concat();
                assert!(missing(file_system.attributes(inode).unwrap().xattr(&other)));
            }
            shown.push(name.to_vec());
            Ok(ControlFlow::Continue(()))
        };
        file_system.attributes(inode).unwrap().visit_xattrs(XattrView::Root, compare).unwrap();
        assert_eq!(file_system.attributes(inode).unwrap().xattr_names(XattrView::Root).unwrap(), shown);
        assert!(missing(file_system.attributes(inode).unwrap().xattr(b"user.~")));
    });
    let file = file_system.resolve(b"attributes/short", false).unwrap();
    assert!(matches!(
        file_system.attributes(&file).unwrap().xattr(b"other.name"),
        Err(Error::Operation(OperationError::UnknownNamespace))
    ));
    assert_eq!(file_system.attributes(&file).unwrap().get(Namespace::Trusted, b"one").unwrap(), None);
    assert_eq!(file_system.attributes(&file).unwrap().get(Namespace::User, b"one").unwrap().unwrap(), b"1");
}

#[test]
fn who_looks_decides_which_names_are_listed() {
    let file_system = file_system();
    let file = file_system.resolve(b"attributes/acl", false).unwrap();
    let names = |view| {
        let names = file_system.attributes(&file).unwrap().xattr_names(view).unwrap();
        names.into_iter().map(|name| String::from_utf8(name).unwrap()).collect::<Vec<_>>()
    };
    assert_eq!(names(XattrView::Root), ["system.posix_acl_access", "trusted.SGI_ACL_FILE"]);
    assert_eq!(names(XattrView::Unprivileged), ["system.posix_acl_access"]);
    assert_eq!(names(XattrView::Copy), ["system.posix_acl_access"]);
    let acl = file_system.attributes(&file).unwrap().access_acl().unwrap().unwrap();
    let text = "user::rwx\nuser:1000:rwx\ngroup::r-x\ngroup:100:r-x\nmask::rwx\nother::r-x\n";
    assert_eq!(acl.to_string(), text);
    assert_eq!(file_system.attributes(&file).unwrap().default_acl().unwrap(), None);
}

#[test]
fn parent_pointers_alone_give_every_path() {
    let file_system = file_system();
    let mut paths: BTreeMap<_, (Arc<Inode>, Vec<Vec<u8>>)> = BTreeMap::new();
    walk(&file_system, |path, inode| {
        let path = if path.is_empty() { b"/".to_vec() } else { path.to_vec() };
        let known = paths.entry(inode.number).or_insert_with(|| (Arc::clone(inode), Vec::new()));
        known.1.push(path);
    });
    let most = paths.values().map(|(_, paths)| paths.len()).max().unwrap();
    assert!(most > 1500, "otherwise this test isn't testing anything");
    for (inode, expected) in paths.values_mut() {
        expected.sort_unstable();
        let found = file_system.paths_of(inode, &PathLimits::default()).unwrap();
        assert!(found.is_complete && found.problems.is_empty());
        assert_eq!(&found.paths, expected);
    }
}

#[test]
fn limits_end_the_search_for_paths() {
    let file_system = file_system();
    let base = file_system.resolve(b"base", false).unwrap();
    let bottom = file_system.resolve(b"deep/bottom too", false).unwrap();
    let paths = |inode: &Arc<Inode>, limits: &PathLimits| {
        let found = file_system.paths_of(inode, limits).unwrap();
        (found.paths.len(), found.is_complete)
    };
    let limits = PathLimits::default();
    assert_eq!(paths(&base, &PathLimits { paths: 10, ..limits }), (10, false));
    assert!(!paths(&base, &PathLimits { steps: 10, ..limits }).1);
    assert!(paths(&base, &PathLimits { bytes: 1000, ..limits }).0 < 100);
    assert_eq!(paths(&bottom, &limits), (2, true));
    assert_eq!(paths(&bottom, &PathLimits { depth: 20, ..limits }), (1, false));
}

#[test]
fn paths_are_resolved_as_linux_does() {
    let file_system = file_system();
    let number = |path: &[u8], follow| file_system.resolve(path, follow).map(|inode| inode.number);
    let a = number(b"/short/a", true).unwrap();
    let root = file_system.geometry().root_inode;
    let same: [(&[u8], bool); 14] = [
        (b"short/a", false),
        (b"//short///a", false),
        (b"/short/./a", false),
        (b"/short/../short/a", false),
        (b"/../../short/a", false),
        (b"/links/to_file", true),
        (b"/links/to_directory/a", false),
        (b"/links/absolute", true),
        (b"/links/above_root", true),
        (b"/links/slash_behind/a", false),
        (b"/links/chain", true),
        (b"/links/long", true),
        (b"/links/step_38", true),
        (b"/links/to_directory/../links/to_file", true),
    ];
    for (path, follow) in same {
        assert_eq!(number(path, follow).unwrap(), a, "{}", String::from_utf8_lossy(path));
    }
    for path in [b"".as_slice(), b"/", b"..", b"/short/..", b"."] {
        assert_eq!(number(path, true).unwrap(), root);
    }
    assert_ne!(number(b"/links/to_file", false).unwrap(), a);
    assert_ne!(number(b"/links/itself", false).unwrap(), a);
    let short = number(b"/short", false).unwrap();
    assert_eq!(number(b"/links/to_directory/", false).unwrap(), short, "a slash behind follows");
    let from = file_system.resolve(b"/links", false).unwrap();
    let resolved = file_system.resolve_from(&from, b"../short/a", false).unwrap();
    assert_eq!(resolved.number, a);
}

#[test]
fn paths_that_lead_nowhere_say_why_as_linux_does() {
    use OperationError as E;
    let file_system = file_system();
    let long = [b"/".as_slice(), &[b'x'; 256]].concat();
    let cases: [(&[u8], bool, E); 11] = [
        (b"/nowhere", false, E::NotFound),
        (b"/nowhere/below", false, E::NotFound),
        (b"/short/a/below", false, E::NotADirectory),
        (b"/short/a/", false, E::NotADirectory),
        (b"/short/a/..", false, E::NotADirectory),
        (b"/links/to_file/", false, E::NotADirectory),
        (b"/links/itself", true, E::TooManySymlinks),
        (b"/links/itself/below", false, E::TooManySymlinks),
        (b"/links/step_40", true, E::TooManySymlinks),
        (b"/links/dangling", true, E::NotFound),
        (&long, false, E::NameTooLong),
    ];
    for (path, follow, expected) in cases {
        let path_text = String::from_utf8_lossy(path);
        match file_system.resolve(path, follow) {
            Err(Error::Operation(found)) => assert_eq!(found, expected, "{path_text}"),
            other => panic!("{path_text}: {other:?}"),
        }
    }
    assert!(file_system.resolve(b"/links/step_39", true).is_ok(), "40 links are allowed");
}

#[test]
fn case_is_disregarded_where_the_file_system_says_so() {
    let file_system = PatchedDevice::new(case_folded()).mount();
    let mut count = 0;
    walk(&file_system, |_, inode| {
        if inode.file_type() != Some(FileType::Directory) {
            let found = file_system.paths_of(inode, &PathLimits::default()).unwrap();
            assert!(found.is_complete && found.problems.is_empty() && !found.paths.is_empty());
            return;
        }
        let mut reader = file_system.open_directory(inode, 0).unwrap();
        while let Some(entry) = reader.next_entry().unwrap() {
            let lower: Vec<u8> =
                entry.name.iter().map(|byte| directory::name_hash::fold_case(*byte)).collect();
            let exact = file_system.lookup(inode, entry.name).unwrap().unwrap();
            assert_eq!((exact.inode, exact.cookie, exact.stored_name), (entry.inode, entry.cookie, None));
            for other in [lower, entry.name.to_ascii_uppercase()] {
                let found = file_system.lookup(inode, &other).unwrap().unwrap();
                assert_eq!(found.inode, entry.inode);
                assert_eq!(found.stored_name.as_deref(), (other != entry.name).then_some(entry.name));
            }
            count += 1;
        }
    });
    assert!(count > 400, "otherwise this test isn't testing anything");
    let short = file_system.resolve(b"/SHORT", false).unwrap();
    // Multiplication sign and sharp s lie between the letters and have no other case.
    assert!(file_system.lookup(&short, b"\xe4\xf6\xfc\xd7\xdf.TXT").unwrap().is_some());
    assert!(file_system.lookup(&short, b"\xe4\xf6\xfc\xf7\xdf.TXT").unwrap().is_none());
}
