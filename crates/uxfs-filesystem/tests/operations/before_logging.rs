//! A buffer that its own verifier refuses is never logged: the checkpoint that holds it is discarded as a whole, and the
//! image can be changed again.

use uxfs_engine::{bulk::create::NewKind, options::LogOptions, transaction::Transaction};
use uxfs_filesystem::{filesystem::FileSystem, operations::create::NewFile};
use uxfs_format::{fault::Structure, units::AgNumber};
use uxfs_testkit::{image::TestImage, judges::Judge, require, verdict::repair_is_silent};

/// Writes a group number into a free space header that the header's verifier refuses.
fn write_wrong_group_number(file_system: &FileSystem) {
    let sector = file_system.geometry().sector_of_group_header(AgNumber::new(2), 1).unwrap();
    let mut transaction = Transaction::begin(file_system).unwrap();
    let mut header = transaction.buffers().edit(Structure::FreeSpaceHeader, sector, 512).unwrap();
    // The group number follows the magic number and the version.
    header.edit().put(8, &77_u32.to_be_bytes());
    drop(header);
    transaction.commit().unwrap();
}

#[test]
fn a_checkpoint_with_a_faulty_buffer_is_discarded() {
    require!(Judge::Mkfs, Judge::XfsRepair);
    let image = TestImage::new("faulty buffer", 64, &[], 3);
    let log = LogOptions { has_background: false, ..LogOptions::default() };
    let file_system = image.mount_logged(log);
    let root = file_system.open_root().unwrap();
    file_system.create(&root, b"stable", &NewFile::new(NewKind::Regular, 0o600)).unwrap();
    file_system.force().unwrap();
    file_system.create(&root, b"in the same checkpoint", &NewFile::new(NewKind::Regular, 0o600)).unwrap();

    write_wrong_group_number(&file_system);

    let error = file_system.force().unwrap_err();
    assert!(error.to_string().contains("77"), "{error}");
    file_system.create(&root, b"after the fault", &NewFile::new(NewKind::Regular, 0o600)).unwrap_err();
    drop((root, file_system));

    let file_system = image.mount_logged(LogOptions::default());
    let root = file_system.open_root().unwrap();
    file_system.find(&root, b"stable").unwrap();
    file_system.find(&root, b"in the same checkpoint").unwrap_err();
    file_system.create(&root, b"after recovery", &NewFile::new(NewKind::Regular, 0o600)).unwrap();
    drop(root);
    file_system.close().unwrap();
    repair_is_silent(&image.path).unwrap();
}
