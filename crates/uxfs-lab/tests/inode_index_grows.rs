//! An inode index grows by a block from a free extent that nothing was allocated from yet: the owners of that extent are compared while
//! the blocks of the index are held.

use uxfs_lab::field_fuzz::small;
use uxfs_testkit::{
    golden::GoldenImage, image::memory_folder, judges::Judge, require, verdict::repair_findings,
    xfs_db::XfsDb,
};

/// More than a block of the index has room for.
const FILES: usize = 17_000;

#[test]
fn thousands_of_names_become_files_of_their_own() {
    require!(Judge::XfsRepair);
    let folder = tempfile::tempdir_in(memory_folder()).unwrap();
    let golden = GoldenImage::named("directory-levels").unwrap();
    let made = small::make_until(&golden, folder.path(), FILES).unwrap();
    let levels = XfsDb::new(&made).run(&["agi 1", "print level"]).unwrap();
    assert!(levels.contains("level = 2"), "{levels}");
    assert_eq!(repair_findings(&made).unwrap(), Vec::<String>::new());
}
