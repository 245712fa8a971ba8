//! Transactions that are dropped without a commit, and inodes that were half changed (invariant 4 of `transaction`, 7 of
//! `inode::table`).

use std::sync::{Arc, Barrier};

use uxfs_engine::{attribute::SetMode, options::LogOptions, transaction::Transaction};
use uxfs_filesystem::{filesystem::FileSystem, operations::set_attributes::AttributeChanges};
use uxfs_format::{
    directory::entry_fault::EntryFault,
    fault::{Corruption, Location, Structure},
    units::{AgNumber, InodeNumber},
};
use uxfs_journal::error::ShutdownCause;
use uxfs_testkit::{
    image::{TestImage, file},
    judges::Judge,
    require,
    verdict::repair_is_silent,
};
use uxfs_volume::error::{Error, OperationError};

fn mounted() -> (TestImage, Arc<FileSystem>) {
    let image = TestImage::new("given up", 64, &[], 3);
    let file_system = image.mount_logged(LogOptions { has_background: false, ..LogOptions::default() });
    (image, file_system)
}

fn is_shut_down(file_system: &FileSystem) -> bool {
    file_system.journal().unwrap().check().is_err()
}

/// Recovers, and is sound.
fn is_sound(image: &TestImage, file_system: Arc<FileSystem>) {
    drop(file_system);
    image.mount_logged(LogOptions::default()).close().unwrap();
    repair_is_silent(&image.path).unwrap();
}

#[test]
fn an_inode_is_read_anew_after_an_error() {
    require!(Judge::Mkfs, Judge::XfsRepair);
    let (image, file_system) = mounted();
    let handle = file_system.open(file(&file_system, 0)).unwrap();
    {
        let mut inode = handle.write();
        inode.set_size_bytes(12345);
        file_system.open(InodeNumber::new(u64::MAX)).unwrap_err();
    }
    assert_eq!(file_system.stat(&handle).unwrap().size_bytes, 0);
    // And goes on.
    file_system.write(&handle, 0, b"contents", uxfs_filesystem::file::Touch::NOTHING).unwrap();
    assert_eq!(file_system.stat(&handle).unwrap().size_bytes, 8);
    file_system.close().unwrap();
    repair_is_silent(&image.path).unwrap();
}

/// Without an error: code that returns early with a change in its hands leaves nothing of it behind.
#[test]
fn an_inode_that_was_changed_and_not_stored_is_read_anew() {
    require!(Judge::Mkfs, Judge::XfsRepair);
    let (image, file_system) = mounted();
    let [first, second] = [0, 1].map(|index| file_system.open(file(&file_system, index)).unwrap());
    first.write().set_size_bytes(12345);
    assert_eq!(file_system.stat(&first).unwrap().size_bytes, 0);
    // Stored, and then changed again.
    {
        let mut inode = first.write();
        let mut transaction = Transaction::begin(&file_system).unwrap();
        inode.core.uid = 7.into();
        transaction.store_inode(&mut inode).unwrap();
        inode.core.uid = 8.into();
        transaction.commit().unwrap();
    }
    assert_eq!(file_system.stat(&first).unwrap().uid, 7);
    // The inodes of two slots exchanged: each slot has its own again.
    {
        let (mut one, other) = file_system.write_two(&first, &second);
        std::mem::swap(&mut *one, &mut *other.unwrap());
    }
    let owners = [&first, &second].map(|handle| file_system.stat(handle).unwrap().uid);
    assert_eq!(owners, [7, 0]);
    drop([first, second]);
    file_system.close().unwrap();
    repair_is_silent(&image.path).unwrap();
}

/// The error of later changes tells damage from other causes.
#[test]
fn a_change_that_damage_stops_halfway_shuts_down_by_corruption() {
    require!(Judge::Mkfs);
    for is_corruption in [true, false] {
        let (image, file_system) = mounted();
        let handle = file_system.open(file(&file_system, 0)).unwrap();
        {
            let mut inode = handle.write();
            let mut transaction = Transaction::begin(&file_system).unwrap();
            inode.core.uid = 7.into();
            transaction.store_inode(&mut inode).unwrap();
            let _: Error = match is_corruption {
                true => {
                    let fault = EntryFault::ReservedName { inode: inode.number, is_parent: true };
                    Corruption::new(Structure::DirectoryAnyData, Location::of_inode(inode.number), fault)
                        .into()
                }
                false => OperationError::NoSpace.into(),
            };
        }
        let changes = AttributeChanges { uid: Some(8), ..AttributeChanges::default() };
        let error = file_system.set_attributes(&handle, &changes).unwrap_err();
        assert!(is_shut_down(&file_system));
        assert_eq!(error.is_corruption(), is_corruption, "{error}");
        drop(handle);
        is_sound(&image, file_system);
    }
}

/// Makes all blocks of the by-block and by-size trees of the first group zeros.
fn lose_free_space(path: &std::path::Path) {
    use std::os::unix::fs::FileExt;
    let image = std::fs::OpenOptions::new().read(true).write(true).open(path).unwrap();
    let mut roots = [0; 8];
    image.read_exact_at(&mut roots, 512 + 16).unwrap();
    for root in roots.chunks(4) {
        let root = u32::from_be_bytes(root.try_into().unwrap());
        image.write_all_at(&[0; 4096], u64::from(root) * 4096).unwrap();
    }
}

/// The attribute fork is made in memory, and then no block can be had for what is to lie in it. Nothing of the file system has
/// changed but the inode in memory: it must be as it was, since the next change of the file stores it.
#[test]
fn a_refused_attribute_leaves_no_attribute_fork() {
    require!(Judge::Mkfs, Judge::XfsDb);
    let image = TestImage::new("free space lost", 64, &["-d", "agcount=1", "-n", "parent=0"], 1);
    lose_free_space(&image.path);
    let file_system = image.mount_logged(LogOptions { has_background: false, ..LogOptions::default() });
    let number = file(&file_system, 0);
    let handle = file_system.open(number).unwrap();
    assert!(handle.read().attribute.is_none());
    file_system.set_xattr(&handle, b"user.large", &[7; 60_000], SetMode::Upsert).unwrap_err();
    assert!(handle.read().attribute.is_none(), "half a change stayed in memory");
    // The next change goes on from what is stored.
    assert!(!is_shut_down(&file_system));
    let changes = AttributeChanges { uid: Some(7), ..AttributeChanges::default() };
    file_system.set_attributes(&handle, &changes).unwrap();
    drop(handle);
    file_system.force().unwrap();
    drop(file_system);
    let mut judge = Judge::XfsDb.command();
    let inode = format!("inode {}", number.get());
    judge.args(["-r", "-c", &inode, "-c", "print core.forkoff core.uid"]).arg(&image.path);
    drop(image.mount_logged(LogOptions::default()));
    let words = String::from_utf8(judge.output().unwrap().stdout).unwrap();
    assert_eq!(words, "core.forkoff = 0\ncore.uid = 7\n");
}

#[test]
fn a_transaction_that_changed_nothing_may_be_dropped() {
    require!(Judge::Mkfs, Judge::XfsRepair);
    let (image, file_system) = mounted();
    let mut transaction = Transaction::begin(&file_system).unwrap();
    transaction.group(AgNumber::new(0)).unwrap();
    transaction.load_inode(file(&file_system, 0)).unwrap();
    drop(transaction);
    assert!(!is_shut_down(&file_system));
    file_system.close().unwrap();
    repair_is_silent(&image.path).unwrap();
}

#[test]
fn a_change_of_a_group_in_memory_has_no_way_back() {
    require!(Judge::Mkfs, Judge::XfsRepair);
    let (image, file_system) = mounted();
    let root = file_system.geometry().root_inode;
    let mut transaction = Transaction::begin(&file_system).unwrap();
    transaction.inodes().allocate_inode(root, false).unwrap();
    drop(transaction);
    assert!(is_shut_down(&file_system));
    file_system.force().unwrap_err();
    is_sound(&image, file_system);
}

/// The checkpoint has marked all that the second transaction changes: nothing but the change itself says so.
#[test]
fn a_second_change_in_a_checkpoint_has_no_way_back() {
    require!(Judge::Mkfs, Judge::XfsRepair);
    let (image, file_system) = mounted();
    let number = file(&file_system, 0);
    for (uid, commits) in [(7_u32, true), (8, false)] {
        let mut transaction = Transaction::begin(&file_system).unwrap();
        let mut inode = transaction.load_inode(number).unwrap();
        inode.core.uid = uid.into();
        transaction.store_inode(&mut inode).unwrap();
        if commits {
            transaction.commit().unwrap();
        }
    }
    assert!(is_shut_down(&file_system));
    file_system.force().unwrap_err();
    drop(file_system);
    let file_system = image.mount_logged(LogOptions::default());
    assert_eq!(file_system.stat(&file_system.open(number).unwrap()).unwrap().uid, 0);
    file_system.close().unwrap();
    repair_is_silent(&image.path).unwrap();
}

/// Invariant 2 of `transaction`: an inode of a higher group was taken before one of a lower group is freed (a rename that
/// leaves a whiteout and replaces a file), while another transaction goes the other way.
#[test]
fn a_lower_group_is_waited_for_without_a_higher_one() {
    require!(Judge::Mkfs, Judge::XfsRepair);
    let (image, file_system) = mounted();
    let barrier = Barrier::new(2);
    std::thread::scope(|scope| {
        for groups in [[0, 1], [1, 0]] {
            let (file_system, barrier) = (&file_system, &barrier);
            scope.spawn(move || {
                let [first, second] = groups.map(AgNumber::new);
                let mut transaction = Transaction::begin(file_system).unwrap();
                transaction.group(first).unwrap();
                barrier.wait();
                transaction.group(second).unwrap();
                transaction.commit().unwrap();
            });
        }
    });
    assert!(!is_shut_down(&file_system));
    file_system.close().unwrap();
    repair_is_silent(&image.path).unwrap();
}
