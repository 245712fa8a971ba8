//! Attributes through handles: what Linux refuses we refuse with the same error, and threads do not disturb each other.

use std::{
    collections::BTreeMap,
    path::Path,
    sync::{Arc, Mutex},
};

use rustix::{
    fs::{XattrFlags, lgetxattr, lremovexattr, lsetxattr},
    io::Errno,
};
use uxfs_block::engine::{OpenOptions, sync::SyncDevice};
use uxfs_engine::{
    attribute::SetMode,
    options::{LogOptions, MountOptions},
};
use uxfs_filesystem::{
    filesystem::FileSystem,
    inode::table::InodeHandle,
    operations::{
        set_attributes::{AttributeChanges, FlagChanges},
        xattr::{AclKind, LIST_MAX_BYTES},
    },
};
use uxfs_testkit::{
    judges::Judge,
    mount::{Access, LoopMount},
    require,
    seeds::{Random, Seed},
    sparse,
};
use uxfs_volume::{
    attribute::xattr::{ACL_ACCESS, ACL_DEFAULT, XattrView},
    error::{Error, OperationError},
    inode::InodeFlags,
};

use super::{
    fixture::{Image, Model, make_files},
    random::{name_of, value_of},
};

#[derive(Debug, Clone)]
enum Step {
    Get(Vec<u8>),
    Set(Vec<u8>, Vec<u8>, SetMode),
    Remove(Vec<u8>),
}

type Answer = Result<Vec<u8>, Errno>;

/// User's entry, group's and others', as `setxattr` takes them; `mask` with a named user before it.
fn acl(mask: Option<u8>) -> Vec<u8> {
    let entry = |tag: u8, permissions: u8, id: u32| {
        let mut entry = vec![tag, 0, permissions, 0];
        entry.extend_from_slice(&id.to_le_bytes());
        entry
    };
    let mut entries = vec![vec![2, 0, 0, 0], entry(1, 6, u32::MAX)];
    if mask.is_some() {
        entries.push(entry(2, 7, 1000));
    }
    entries.push(entry(4, 4, u32::MAX));
    if let Some(mask) = mask {
        entries.push(entry(0x10, mask, u32::MAX));
    }
    entries.push(entry(0x20, 0, u32::MAX));
    entries.concat()
}

/// A list of `entries` entries, most of them for users.
fn long_acl(entries: u32) -> Vec<u8> {
    let mut list = acl(Some(7));
    let more: Vec<u8> =
        (0..entries - 5).flat_map(|user| [[2, 0, 7, 0], (2000 + user).to_le_bytes()].concat()).collect();
    list.splice(20..20, more);
    list
}

fn steps() -> Vec<Step> {
    let mut steps = Vec::new();
    let long = |prefix: &str, length: usize| [prefix.as_bytes(), &vec![b'n'; length - prefix.len()]].concat();
    let names = [
        b"user.a".to_vec(),
        b"trusted.a".to_vec(),
        b"security.a".to_vec(),
        b"user.".to_vec(),
        b"trusted.".to_vec(),
        b"system.other".to_vec(),
        b"unknown.a".to_vec(),
        b"a".to_vec(),
        b"".to_vec(),
        long("user.", 255),
        long("trusted.", 255),
        long("user.", 256),
    ];
    for name in &names {
        steps.push(Step::Get(name.clone()));
        steps.push(Step::Remove(name.clone()));
        steps.push(Step::Set(name.clone(), b"old".to_vec(), SetMode::Replace));
        steps.push(Step::Set(name.clone(), b"new".to_vec(), SetMode::Create));
        steps.push(Step::Set(name.clone(), b"other".to_vec(), SetMode::Create));
        steps.push(Step::Get(name.clone()));
        steps.push(Step::Set(name.clone(), vec![7; 5000], SetMode::Replace));
        steps.push(Step::Set(name.clone(), vec![8; 65536], SetMode::Upsert));
        steps.push(Step::Set(name.clone(), vec![9; 65537], SetMode::Upsert));
        steps.push(Step::Get(name.clone()));
        steps.push(Step::Set(name.clone(), Vec::new(), SetMode::Upsert));
        steps.push(Step::Get(name.clone()));
        if name.len() != 255 {
            steps.push(Step::Remove(name.clone()));
        }
    }
    for name in [ACL_ACCESS, ACL_DEFAULT] {
        let name = name.to_vec();
        steps.push(Step::Get(name.clone()));
        steps.push(Step::Remove(name.clone()));
        let broken = acl(None)[..12].to_vec();
        let mut bad_tag = acl(None);
        bad_tag[4] = 3;
        let values = [
            acl(Some(5)),
            acl(None),
            broken,
            bad_tag,
            long_acl(5461),
            long_acl(5462),
            vec![2, 0, 0],
            vec![1, 0, 0, 0],
            vec![2, 0, 0, 0],
            acl(Some(6)),
        ];
        for value in values {
            for mode in [SetMode::Create, SetMode::Replace] {
                steps.push(Step::Set(name.clone(), value.clone(), mode));
                steps.push(Step::Get(name.clone()));
                steps.push(Step::Get(b"trusted.SGI_ACL_FILE".to_vec()));
            }
        }
    }
    steps
}

fn by_kernel(path: &Path, step: &Step) -> Answer {
    match step {
        Step::Get(name) => {
            let mut value = vec![0; 1 << 16];
            let length = lgetxattr(path, name.as_slice(), value.as_mut_slice())?;
            value.truncate(length);
            Ok(value)
        }
        Step::Set(name, value, mode) => {
            let flags = match mode {
                SetMode::Upsert => XattrFlags::empty(),
                SetMode::Create => XattrFlags::CREATE,
                SetMode::Replace => XattrFlags::REPLACE,
            };
            lsetxattr(path, name.as_slice(), value, flags).map(|()| Vec::new())
        }
        Step::Remove(name) => lremovexattr(path, name.as_slice()).map(|()| Vec::new()),
    }
}

fn by_us(file_system: &FileSystem, file: &InodeHandle, step: &Step) -> Answer {
    let result = match step {
        Step::Get(name) => file_system.get_xattr(file, name),
        Step::Set(name, value, mode) => file_system.set_xattr(file, name, value, *mode).map(|()| Vec::new()),
        Step::Remove(name) => file_system.remove_xattr(file, name).map(|()| Vec::new()),
    };
    result.map_err(|error| match error {
        error @ Error::Operation(_) => Errno::from_raw_os_error(error.errno()),
        other => panic!("{step:?}: {other}"),
    })
}

const KINDS: [&str; 5] = ["empty", "directory", "link", "device", "fifo"];

#[test]
fn answers_are_those_of_linux() {
    require!(Judge::Mkfs, Judge::XfsRepair, Judge::Kernel);
    let mut image = Image::empty(&[], 320);
    image.populate(make_files);
    let theirs = image.path.with_extension("theirs");
    sparse::copy(&image.path, &theirs).unwrap();
    let steps = steps();
    let mount = LoopMount::new(&theirs, Access::ReadWrite).unwrap();
    let file_system = image.change();
    for kind in KINDS {
        let file = file_system.open(image.files[kind]).unwrap();
        for step in &steps {
            let (ours, theirs) = (by_us(&file_system, &file, step), by_kernel(&mount.join(kind), step));
            assert!(ours == theirs, "{kind}: {step:.200?}: {ours:.40?} instead of {theirs:.40?}");
        }
        use std::os::unix::fs::MetadataExt;
        let status = file_system.stat(&file).unwrap();
        let mode = std::fs::symlink_metadata(mount.join(kind)).unwrap().mode();
        assert_eq!(u32::from(status.mode), mode, "{kind}");
        let mut names = vec![0_u8; 1 << 16];
        let length = rustix::fs::llistxattr(mount.join(kind), names.as_mut_slice()).unwrap();
        let listed = file_system.list_xattrs(&file, XattrView::Root, LIST_MAX_BYTES).unwrap();
        let listed: Vec<u8> = listed.into_iter().flat_map(|name| [name, vec![0]].concat()).collect();
        let sorted = |names: &[u8]| {
            let mut names: Vec<Vec<u8>> = names.split(|byte| *byte == 0).map(<[u8]>::to_vec).collect();
            names.sort();
            names
        };
        assert_eq!(sorted(&listed), sorted(&names[..length]), "{kind}");
    }
    mount.unmount().unwrap();
    file_system.close().unwrap();
    let [ours, theirs] = [&image.path, &theirs].map(|path| {
        uxfs_testkit::verdict::repair_is_silent(path).unwrap();
        let mount = LoopMount::new(path, Access::ReadOnly).unwrap();
        let found = KINDS.map(|kind| {
            let names = super::fixture::list(&mount.join(kind));
            names
                .into_iter()
                .map(|name| (super::fixture::get(&mount.join(kind), &name), name))
                .collect::<Vec<_>>()
        });
        mount.unmount().unwrap();
        found
    });
    assert!(ours == theirs, "what is stored differs");
}

#[test]
fn immutable_files_keep_their_attributes() {
    require!(Judge::Mkfs, Judge::XfsRepair, Judge::Kernel);
    let mut image = Image::empty(&[], 320);
    image.populate(make_files);
    let file_system = image.change();
    let file = file_system.open(image.files["empty"]).unwrap();
    file_system.set_xattr(&file, b"user.a", b"value", SetMode::Upsert).unwrap();
    for flags in [InodeFlags::IMMUTABLE, InodeFlags::APPEND] {
        let flags = FlagChanges { flags, ..FlagChanges::default() };
        let changes = AttributeChanges { flags: Some(flags), ..AttributeChanges::default() };
        file_system.set_attributes(&file, &changes).unwrap();
        let refused = |result: uxfs_volume::error::Result<()>| {
            assert!(matches!(result, Err(Error::Operation(OperationError::NotPermitted))), "{result:?}");
        };
        refused(file_system.set_xattr(&file, b"user.a", b"new", SetMode::Upsert));
        refused(file_system.remove_xattr(&file, b"user.a"));
        refused(file_system.set_acl(&file, AclKind::Access, None, true));
        assert_eq!(file_system.get_xattr(&file, b"user.a").unwrap(), b"value");
    }
    let few = file_system.list_xattrs(&file, XattrView::Root, 6);
    assert!(matches!(few, Err(Error::Operation(OperationError::TooManyAttributes))));
    assert_eq!(file_system.list_xattrs(&file, XattrView::Root, 7).unwrap(), [b"user.a".to_vec()]);
}

#[test]
fn a_list_of_somebody_else_takes_the_group_bit() {
    require!(Judge::Mkfs, Judge::XfsRepair, Judge::Kernel);
    let mut image = Image::empty(&[], 320);
    image.populate(make_files);
    let file_system = image.change();
    let file = file_system.open(image.files["empty"]).unwrap();
    let permissions = AttributeChanges { permissions: Some(0o2_755), ..AttributeChanges::default() };
    file_system.set_attributes(&file, &permissions).unwrap();
    let list = uxfs_format::attribute::posix_acl::PosixAcl::from_xattr(&acl(Some(5))).unwrap();
    for (keeps, mode) in [(true, 0o102_650), (false, 0o100_650)] {
        file_system.set_acl(&file, AclKind::Access, Some(&list), keeps).unwrap();
        assert_eq!(file_system.stat(&file).unwrap().mode, mode);
        assert_eq!(file_system.get_acl(&file, AclKind::Access).unwrap().as_ref(), Some(&list));
    }
}

/// A thread with its part of a model: names that begin with its own number.
fn change_some(
    file_system: &FileSystem,
    files: &BTreeMap<&str, InodeHandle>,
    thread: u64,
    random: &mut Random,
) -> Model {
    let mut model: Model = files.keys().map(|file| ((*file).to_owned(), BTreeMap::new())).collect();
    for round in 0..6 {
        let sets = if round % 2 == 0 { 75 } else { 25 };
        for _ in 0..250 {
            let (file, handle) = files.iter().nth(random.below(files.len() as u64) as usize).unwrap();
            let attributes = model.get_mut(*file).unwrap();
            let own = name_of(random, 40);
            let name = [format!("trusted.{thread}").as_bytes(), &own].concat();
            let old = attributes.get(&name).cloned();
            let read = file_system.get_xattr(handle, &name);
            assert_eq!(read.ok(), old, "{}", String::from_utf8_lossy(&name));
            if random.below(100) < sets {
                let value = value_of(random, true);
                let mode = [SetMode::Upsert, SetMode::Create, SetMode::Replace][random.below(3) as usize];
                let result = file_system.set_xattr(handle, &name, &value, mode);
                match (mode, old) {
                    (SetMode::Create, Some(_)) => assert!(result.is_err()),
                    (SetMode::Replace, None) => assert!(result.is_err()),
                    _ => {
                        result.unwrap();
                        attributes.insert(name, value);
                    }
                }
            } else {
                assert_eq!(file_system.remove_xattr(handle, &name).is_ok(), old.is_some());
                attributes.remove(&name);
            }
        }
    }
    model
}

/// How the file system is mounted, and how it ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    Bulk,
    Closed,
    /// All is durable, and the file system is not closed: the kernel recovers.
    CutOff,
}

fn mount(image: &Image, end: End) -> Arc<FileSystem> {
    if end == End::Bulk {
        return Arc::new(image.change());
    }
    let options = OpenOptions { writable: true, ..OpenOptions::default() };
    let device = SyncDevice::open(&image.path, &options).unwrap();
    let log = LogOptions { has_background: true, ..LogOptions::default() };
    let options = MountOptions { cache_budget_bytes: Some(64 << 20), log, ..MountOptions::default() };
    FileSystem::mount_logged(Arc::new(device), &options).unwrap()
}

fn unmount(file_system: Arc<FileSystem>, image: &Image, end: End) {
    if end == End::CutOff {
        file_system.force().unwrap();
        drop(file_system);
        LoopMount::new(&image.path, Access::ReadWrite).unwrap().unmount().unwrap();
    } else {
        file_system.close().unwrap();
    }
}

#[test]
fn threads_change_the_attributes_of_the_same_files() {
    require!(Judge::Mkfs, Judge::XfsRepair, Judge::Kernel);
    for end in [End::Bulk, End::Closed, End::CutOff] {
        let seed = Seed::from_environment("attributes by threads", 11);
        let mut image = Image::empty(&[], 400);
        image.populate(make_files);
        let file_system = mount(&image, end);
        let names = ["empty", "directory", "link", "fifo"];
        let files: BTreeMap<&str, InodeHandle> =
            names.iter().map(|name| (*name, file_system.open(image.files[*name]).unwrap())).collect();
        let mut whole: Model = names.iter().map(|name| ((*name).to_owned(), BTreeMap::new())).collect();
        let mut random = seed.random();
        let starts: Vec<u64> = (0..3).map(|_| random.next_u64()).collect();
        let models = Mutex::new(Vec::new());
        std::thread::scope(|scope| {
            for (thread, start) in (0..).zip(&starts) {
                let (file_system, files, models) = (&file_system, &files, &models);
                scope.spawn(move || {
                    let model = change_some(file_system, files, thread, &mut Random::new(*start));
                    models.lock().unwrap().push(model);
                });
            }
        });
        for model in models.into_inner().unwrap() {
            for (file, attributes) in model {
                whole.get_mut(&file).unwrap().extend(attributes);
            }
        }
        drop(files);
        unmount(file_system, &image, end);
        image.judge(&whole);
    }
}

#[test]
fn a_full_file_system_refuses_whole_attributes_and_lets_them_go() {
    require!(Judge::Mkfs, Judge::XfsRepair, Judge::Kernel);
    for end in [End::Closed, End::CutOff] {
        let mut image = Image::empty(&["--unsupported"], 48);
        image.populate(make_files);
        let file_system = mount(&image, end);
        let file = file_system.open(image.files["empty"]).unwrap();
        let mut model = BTreeMap::new();
        let mut refused = 0;
        for (round, length) in [65536, 20_000, 3000, 700, 40].into_iter().enumerate() {
            // Enough of the smallest to see that they are refused too, not all that the leaves have room for.
            for number in 0..1000 {
                let name = format!("trusted.{round}-{number:04}").into_bytes();
                match file_system.set_xattr(&file, &name, &vec![round as u8; length], SetMode::Create) {
                    Ok(()) => {
                        model.insert(name, vec![round as u8; length]);
                    }
                    Err(Error::Operation(OperationError::NoSpace)) => {
                        assert!(file_system.get_xattr(&file, &name).is_err());
                        refused += 1;
                        break;
                    }
                    Err(error) => panic!("{error}"),
                }
            }
        }
        assert!(refused >= 3, "{refused}");
        for (name, value) in &model {
            assert!(file_system.get_xattr(&file, name).unwrap() == *value);
        }
        let names: Vec<Vec<u8>> = model.keys().cloned().collect();
        for (index, name) in names.iter().enumerate() {
            if index % 3 != 0 {
                file_system.remove_xattr(&file, name).unwrap();
                model.remove(name);
            }
        }
        drop(file);
        unmount(file_system, &image, end);
        let model: Model = [("empty".to_owned(), model)].into();
        image.judge(&model);
    }
}
