//! Replies that are taken after later changes.

use std::{
    fs::{self, File},
    os::unix::fs::MetadataExt,
    path::Path,
    sync::Arc,
    thread,
};

use rustix::fs::{AtFlags, CWD, StatxFlags, XattrFlags, setxattr, statx};
use uxfs_fuse::protocol::request::{Operation, Request};

use super::{
    Judge, Served, require,
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
