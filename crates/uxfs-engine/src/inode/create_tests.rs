#![allow(clippy::unwrap_used)]

use uxfs_format::{
    checksum,
    features::RoCompatible,
    inode::{Fork, core::CHECKSUM_OFFSET_BYTES, file_type::MODE_TYPE_MASK, verify_inode},
    superblock::{Copy, Superblock},
};
use zerocopy::IntoBytes;

use super::*;

const NOW: Timestamp = Timestamp { seconds: 1_700_000_000, nanoseconds: 5 };

/// Of a default image.
fn geometry() -> Geometry {
    let bytes = include_bytes!("../../../uxfs-format/testdata/superblock.bin");
    let (superblock, sector) = Superblock::parse(bytes).unwrap();
    superblock.verify(sector, Copy::Primary).unwrap();
    Geometry::new(superblock)
}

fn made(new: &NewInode, geometry: &Geometry) -> EditInode {
    EditInode::new(InodeNumber::new(131), 7, new, geometry).unwrap()
}

#[test]
fn new_inodes_of_every_kind_pass_the_verifier() {
    let mut geometry = geometry();
    for has_parents in [false, true] {
        geometry.features.incompatible.set(Incompatible::PARENT_POINTERS, has_parents);
        for kind in [0o010_000, 0o020_000, 0o060_000, 0o100_000, 0o140_000] {
            let mut inode = made(&NewInode::new(kind | 0o644, NOW), &geometry);
            assert_eq!(inode.attribute.is_some(), has_parents);
            let bytes = inode.encoded(&geometry).unwrap();
            let core = verify_inode(&bytes, inode.number, &geometry).unwrap();
            assert_eq!(core.mode.get() & MODE_TYPE_MASK, kind);
            assert_eq!(core.link_count.get(), 1);
            assert_eq!(core.time(core.creation_time), NOW);
            assert_eq!(core.extent_count(Fork::Data), 0);
        }
    }
}

#[test]
fn unused_inodes_pass_the_verifier() {
    let geometry = geometry();
    let mut bytes = vec![0; geometry.inode_size()];
    let core = unused_core(InodeNumber::new(140), 9, &geometry);
    bytes.get_mut(..size_of::<InodeCore>()).unwrap().copy_from_slice(core.as_bytes());
    checksum::seal(&mut bytes, CHECKSUM_OFFSET_BYTES);
    let core = verify_inode(&bytes, InodeNumber::new(140), &geometry).unwrap();
    assert!(core.was_never_used());
}

#[test]
fn flags_follow_the_features() {
    let mut geometry = geometry();
    let new = NewInode::new(0o100_644, NOW);
    assert_eq!(made(&new, &geometry).core.flags2.get(), 0x18);
    geometry.features.incompatible.remove(Incompatible::BIG_TIME | Incompatible::LARGE_EXTENT_COUNTS);
    geometry.features.ro_compatible.remove(RoCompatible::REFLINK);
    assert_eq!(made(&new, &geometry).core.flags2.get(), 0);
}

#[test]
fn files_take_over_what_linux_lets_them_take_over() {
    let geometry = geometry();
    let mut parent = made(&NewInode::new(0o040_755, NOW), &geometry).core;
    parent.project_id_low = U16::new(0x1234);
    parent.project_id_high = U16::new(1);
    parent.flags = U16::new(
        (InodeFlags::PROJECT_INHERIT
            | InodeFlags::EXTENT_SIZE_INHERIT
            | InodeFlags::NO_DUMP
            | InodeFlags::NO_SYMLINKS
            | InodeFlags::IMMUTABLE
            | InodeFlags::REALTIME_INHERIT)
            .bits(),
    );
    parent.extent_size_blocks = U32::new(16);
    parent.flags2 = U64::new((InodeFlags2::COPY_ON_WRITE_EXTENT_SIZE | InodeFlags2::BIG_TIME).bits());
    parent.cow_extent_size_blocks = U32::new(8);

    let file = NewInode::new(0o100_600, NOW).inherit(&parent, &geometry);
    assert_eq!(file.project_id, 0x1_1234);
    assert_eq!(file.flags, InodeFlags::EXTENT_SIZE | InodeFlags::NO_DUMP);
    assert_eq!((file.extent_size_blocks, file.cow_extent_size_blocks), (16, 8));

    let directory = NewInode::new(0o040_700, NOW).inherit(&parent, &geometry);
    let expected = InodeFlags::PROJECT_INHERIT
        | InodeFlags::EXTENT_SIZE_INHERIT
        | InodeFlags::REALTIME_INHERIT
        | InodeFlags::NO_DUMP;
    assert_eq!(directory.flags, expected);

    let link = NewInode::new(0o120_777, NOW).inherit(&parent, &geometry);
    assert_eq!(
        (link.project_id, link.flags, link.flags2),
        (0x1_1234, InodeFlags::empty(), InodeFlags2::empty())
    );

    // A hint that no inode may have is not taken over.
    parent.extent_size_blocks = U32::new(geometry.ag_blocks);
    let file = NewInode::new(0o100_600, NOW).inherit(&parent, &geometry);
    assert_eq!((file.flags, file.extent_size_blocks), (InodeFlags::NO_DUMP, 0));
}

#[test]
fn device_numbers_have_limits() {
    let device = DeviceNumber { major: 1 << 14, minor: 0 };
    let new = NewInode { device, ..NewInode::new(0o020_600, NOW) };
    assert!(EditInode::new(InodeNumber::new(131), 7, &new, &geometry()).is_err());
    assert!(EditInode::new(InodeNumber::new(131), 7, &NewInode::new(0o644, NOW), &geometry()).is_err());
}
