//! Files that are open and have no names: their lists, however long they are.

use uxfs_engine::bulk::create::NewKind;
use uxfs_filesystem::{filesystem::FileSystem, inode::table::InodeHandle, operations::create::NewFile};
use uxfs_lab::crash::geometry::Shape;
use uxfs_testkit::{judges, seeds::Random};

use super::images::{How, Volume};

const FILES: usize = 100_000;
const FEW: usize = 1_000;

fn unlinked(fs: &FileSystem, directory: &InodeHandle) -> InodeHandle {
    fs.create_temporary(directory, &NewFile::new(NewKind::Regular, 0o600), true).unwrap()
}

fn look_ups(fs: &FileSystem) -> u64 {
    let counters = fs.cache().counters();
    counters.hits + counters.joined + counters.misses
}

/// Looks into the cache that closing one file takes, of so many.
fn look_ups_per_close(fs: &FileSystem, files: usize) -> u64 {
    let root = fs.open_root().unwrap();
    let open: Vec<InodeHandle> = (0..files).map(|_| unlinked(fs, &root)).collect();
    let before = look_ups(fs);
    // New ones come to the head of their list: the oldest is the last.
    for handle in open {
        drop(handle);
        fs.inactivate_pending().unwrap();
    }
    (look_ups(fs) - before) / files as u64
}

#[test]
fn files_without_names_leave_long_lists_as_fast_as_short_ones() {
    let volume = Volume::new(&Shape::named("largest-log").unwrap(), How::Logged);
    let fs = &*volume.file_system;
    let few = look_ups_per_close(fs, FEW);
    let many = look_ups_per_close(fs, FILES);
    // Trees have become higher.
    assert!(many <= 2 * few + 8, "{few} look-ups where there are few, {many} where there are many");
    assert_eq!(volume.judge("long_lists"), 1);
    judges::judged("counters", &format!("{FILES} unlinked files: {many} look-ups for each; of {FEW}: {few}"));
}

/// Some get names, others go, in any order and from several threads at once.
#[test]
fn lists_of_unlinked_files_hold_under_threads() {
    let volume = Volume::new(&Shape::named("default").unwrap(), How::Logged);
    let fs = &*volume.file_system;
    let root = fs.open_root().unwrap();
    std::thread::scope(|scope| {
        for thread in 0..4_u64 {
            let root = root.clone();
            scope.spawn(move || {
                let mut random = Random::new(thread);
                let mut open = Vec::new();
                for number in 0..2000 {
                    open.push(unlinked(fs, &root));
                    if random.below(2) == 0 {
                        let chosen = open.swap_remove(random.below(open.len() as u64) as usize);
                        if random.below(8) == 0 {
                            fs.link(&chosen, &root, format!("{thread}-{number}").as_bytes()).unwrap();
                        }
                        drop(chosen);
                        fs.inactivate_pending().unwrap();
                    }
                }
            });
        }
    });
    drop(root);
    fs.inactivate_pending().unwrap();
    let files = volume.judge("lists_under_threads");
    assert!(files > 300, "{files}");
    judges::judged(
        "xfs_repair and the kernel",
        &format!("lists of unlinked files, 4 threads: {files} got names"),
    );
}
