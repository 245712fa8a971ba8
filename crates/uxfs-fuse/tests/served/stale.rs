//! Replies that are taken after later changes.

use std::{
    collections::BTreeMap,
    fs::{self, File},
    mem::MaybeUninit,
    os::unix::{ffi::OsStrExt, fs::MetadataExt},
    path::Path,
    sync::Arc,
    thread,
};

use rustix::fs::{AtFlags, CWD, RawDir, RenameFlags, StatxFlags, XattrFlags, renameat_with, setxattr, statx};
use uxfs_fuse::protocol::request::{Operation, Request};

use super::{
    Judge, Served, all_ways, require,
    slow::{DELAY, Slow},
};

/// A list that lets user 5 read, whatever the mode is: the group's bits become its mask.
const LIST: [u8; 44] = [
    2, 0, 0, 0, // version
    1, 0, 6, 0, 255, 255, 255, 255, // the owner
    2, 0, 4, 0, 5, 0, 0, 0, // user 5
    4, 0, 0, 0, 255, 255, 255, 255, // the group
    16, 0, 4, 0, 255, 255, 255, 255, // the mask
    32, 0, 0, 0, 255, 255, 255, 255, // others
];

fn gives_attributes(request: &Request<'_>) -> bool {
    matches!(request.operation, Operation::GetAttributes(_) | Operation::ReadDirectoryPlus(_))
}

fn looks_past_the_cache(path: &Path) {
    statx(CWD, path, AtFlags::STATX_FORCE_SYNC, StatxFlags::BASIC_STATS).unwrap();
}

/// Changes something while the reply to a look is under way, and gives what a look sees afterwards.
fn looked_at_after(path: &Path, change: impl FnOnce()) -> fs::Metadata {
    thread::scope(|scope| {
        scope.spawn(|| looks_past_the_cache(path));
        thread::sleep(DELAY / 3);
        change();
    });
    fs::metadata(path).unwrap()
}

/// The kernel keeps what it hears last, and for ever: a reply that was made before a change must not be what it hears last.
#[test]
fn attributes_of_before_a_change_do_not_come_back() {
    require!(Judge::Mkfs, Judge::XfsRepair, Judge::Kernel);
    for options in ["nouring", "nouring,no_writeback_cache"] {
        let slow = |server| Slow { server, is_slow: gives_attributes, lent: Arc::default() };
        let served = Served::new("stale", 300);
        let closed = served.used_and_closed(options, slow, |root| {
            let (directory, file) = (root.join("directory"), root.join("file"));
            fs::create_dir(&directory).unwrap();
            File::create_new(&file).unwrap();
            fs::set_permissions(&file, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
            let links =
                looked_at_after(&directory, || fs::create_dir(directory.join("new")).unwrap()).nlink();
            assert_eq!(links, 3, "{options}: a new directory");
            let links = looked_at_after(&directory, || {
                fs::rename(directory.join("new"), root.join("moved")).unwrap()
            });
            assert_eq!(links.nlink(), 2, "{options}: a directory that has gone elsewhere");
            let links = looked_at_after(root, || fs::remove_dir(root.join("moved")).unwrap()).nlink();
            assert_eq!(links, 3, "{options}: a removed directory");
            let mode = looked_at_after(&file, || {
                setxattr(&file, "system.posix_acl_access", &LIST, XattrFlags::empty()).unwrap();
            });
            assert_eq!(mode.mode() & 0o777, 0o640, "{options}: an access list");
        });
        closed.unwrap();
        served.image.must_be_sound();
    }
}

/// Names and inode numbers, as so many calls read them; all where the calls are enough.
fn listed(directory: &File, calls: usize, found: &mut BTreeMap<Vec<u8>, u64>) {
    let mut buffer = [const { MaybeUninit::uninit() }; 2048];
    for _ in 0..calls {
        let mut entries = RawDir::new(directory, &mut buffer);
        while let Some(entry) = entries.next() {
            let entry = entry.unwrap();
            found.insert(entry.file_name().to_bytes().to_vec(), entry.ino());
            if entries.is_buffer_empty() {
                break;
            }
        }
    }
}

/// What a listing shows of a change that was made before it began, whatever listings others have begun before the change.
#[test]
fn a_listing_shows_what_was_changed_before_it_began() {
    require!(Judge::Mkfs, Judge::XfsRepair, Judge::Kernel);
    const NAMES: usize = 300;
    const ALL: usize = NAMES;
    all_ways(|options| {
        let served = Served::new("listings", 300);
        served.used(options, |root| {
            for directory in [root.join("directory"), root.to_owned()] {
                let _ = fs::create_dir(&directory);
                let at = |index: usize| directory.join(format!("{index:040}"));
                (0..NAMES).for_each(|index| drop(File::create_new(at(index)).unwrap()));
                // How much others have read before, and how much the listing reads before they end theirs.
                for (before, first) in [(1, 1), (3, 1), (10, 1), (10, 3), (NAMES / 2, 2)] {
                    let other = File::open(&directory).unwrap();
                    listed(&other, before, &mut BTreeMap::new());
                    for (one, two) in [(0, 1), (20, 21), (100, 5), (NAMES - 1, 2)] {
                        renameat_with(CWD, at(one), CWD, at(two), RenameFlags::EXCHANGE).unwrap();
                    }
                    fs::remove_file(at(30)).unwrap();
                    let (own, mut found) = (File::open(&directory).unwrap(), BTreeMap::new());
                    listed(&own, first, &mut found);
                    listed(&other, ALL, &mut BTreeMap::new());
                    listed(&own, ALL, &mut found);
                    for index in (0..NAMES).filter(|index| *index != 30) {
                        let path = at(index);
                        let name = path.file_name().unwrap().as_bytes();
                        let inode = fs::metadata(&path).unwrap().ino();
                        assert_eq!(found.get(name), Some(&inode), "{options}, {before}, {first}: {index}");
                    }
                    assert!(!found.contains_key(at(30).file_name().unwrap().as_bytes()), "{options}");
                    File::create_new(at(30)).unwrap();
                }
            }
        });
        served.image.must_be_sound();
    });
}
