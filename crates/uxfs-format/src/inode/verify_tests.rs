use proptest::prelude::*;

use super::*;
use crate::fault::Fault;
use crate::{
    features::{FeatureWords, RoCompatible},
    inode::{
        golden::{self, Golden},
        timestamp::Timestamp,
    },
    units::Sector,
};

/// A damage: its name, the inode, the bytes, and the fault that the verifier must find.
type Case<'a> = (&'a str, &'a Golden, &'a [(usize, &'a [u8])], InodeFault);

const CLUSTER: &[u8; 16384] = include_bytes!("../../testdata/inode/cluster.bin");

/// The result for a patched inode of a file system without some feature.
fn without(golden: &Golden, remove: impl Fn(&mut FeatureWords), patches: &[(usize, &[u8])]) -> Fault {
    let mut geometry = golden.geometry();
    remove(&mut geometry.features);
    golden.patched_in(&geometry, patches).unwrap_err()
}

#[test]
fn golden_inodes_are_accepted_and_resealing_changes_nothing() {
    for golden in golden::ALL {
        golden.verify().unwrap_or_else(|fault| panic!("{}: {fault}", golden.name));
        assert_eq!(golden.patched(&[]), Ok(()), "{}", golden.name);
        let mut bytes = golden.bytes.to_vec();
        checksum::seal(&mut bytes, CHECKSUM_OFFSET_BYTES);
        assert_eq!(bytes, golden.bytes, "{}: otherwise these tests aren't testing anything", golden.name);
    }
}

#[test]
fn golden_inodes_mean_what_the_kernel_meant() {
    let core = |golden: &Golden| *golden.verify().unwrap();
    assert_eq!(core(&golden::ROOT).file_type(), Some(FileType::Directory));
    assert_eq!(core(&golden::ROOT).fork_offset_bytes(), 37 * 8);
    assert_eq!(core(&golden::BTREE).fork_format(Fork::Data), Some(ForkFormat::Btree));
    assert_eq!(core(&golden::BTREE).extent_count(Fork::Data), 92);
    assert!(core(&golden::SHARED).flags2().contains(InodeFlags2::REFLINK));
    assert_eq!(core(&golden::LONG_SYMLINK).size_bytes.get(), 900);
    assert!(core(&golden::GONE).is_free() && !core(&golden::GONE).was_never_used());
    assert!(core(&golden::NEVER_USED).was_never_used());
    let old = core(&golden::OLD_EXTENTS);
    assert_eq!(old.extent_count(Fork::Attribute), 2);
    let time = Timestamp { seconds: -631_054_555, nanoseconds: 678_901_234 };
    assert_eq!(old.time(old.modification_time), time);
    let device = super::super::fork::fork_bytes(golden::BLOCK.bytes, Fork::Data).unwrap();
    assert_eq!(device, [0, 0x20, 0, 17, 0, 0, 0, 0]);
}

#[test]
fn identity_is_checked() {
    let geometry = golden::EXTENTS.geometry();
    let number = golden::EXTENTS.number();
    let bytes = golden::EXTENTS.bytes;
    let other = InodeNumber::new(number.get() + 1);
    assert_eq!(
        verify_inode(bytes, other, &geometry).unwrap_err(),
        InodeFault::Number { found: number.get(), expected: other.get() }
    );
    let mut changed = bytes.to_vec();
    changed[400] ^= 1;
    assert!(matches!(
        verify_inode(&changed, number, &geometry).map_err(Fault::from),
        Err(Fault::Header(HeaderFault::BadChecksum { .. }))
    ));
    assert_eq!(
        verify_inode(&bytes[..511], number, &geometry).unwrap_err(),
        HeaderFault::Truncated { length_bytes: 511, needed_bytes: 512 }.into()
    );
    assert_eq!(
        golden::EXTENTS.patched(&[(0, &[0, 0])]),
        Err(HeaderFault::BadMagic { found: 0, expected: 0x494e }.into())
    );
    assert!(matches!(
        golden::EXTENTS.patched(&[(160, &[9; 16])]),
        Err(Fault::Header(HeaderFault::WrongUuid { .. }))
    ));
    assert_eq!(golden::EXTENTS.patched(&[(4, &[2])]), Err(InodeFault::Version { found: 2 }.into()));
}

#[test]
fn each_check_rejects_its_damage() {
    use InodeFault as F;
    let file = &golden::EXTENTS;
    let directory = &golden::DIRECTORY;
    let cases: &[Case<'_>] = &[
        ("old link count", file, &[(6, &[0, 1])], F::OldLinkCount { value: 1 }),
        ("size", file, &[(56, &[0x80])], F::NegativeSize { size_bytes: (1 << 63) + 20000 }),
        ("mode", file, &[(2, &[0xf0, 0])], F::Mode { mode: 0xf000 }),
        ("empty", directory, &[(56, &[0; 8])], F::ZeroSize { mode: 0o40755, link_count: 2 }),
        ("counter pad", file, &[(80, &[0, 1])], F::LargeCountsPadding { value: 1 }),
        ("old pad", &golden::OLD_EXTENTS, &[(31, &[1])], F::SmallCountsPadding { value: 1 }),
        (
            "too few blocks",
            file,
            &[(71, &[0])],
            F::MoreExtentsThanBlocks { extents: 1, attribute_extents: 0, blocks: 0 },
        ),
        ("no extents", file, &[(31, &[0])], F::BlocksWithoutExtents { blocks: 5 }),
        (
            "directory extents",
            directory,
            &[(24, &[0, 0, 0, 0, 1, 0x80, 0, 1]), (64, &[0, 0, 0, 0, 2])],
            F::DirectoryExtents { extents: 0x0180_0001, extents_max: 3 << 23 },
        ),
        ("realtime", file, &[(91, &[1])], F::RealtimeWithoutDevice),
        ("fork offset", file, &[(82, &[42])], F::ForkOffset { fork_offset: 42, literal_size_bytes: 336 }),
        ("device offset", &golden::FIFO, &[(82, &[2])], F::DeviceForkOffset { fork_offset: 2 }),
        ("format", file, &[(5, &[9])], F::UnknownFormat { fork: Fork::Data, format: 9 }),
        ("attribute format", file, &[(83, &[9])], F::UnknownFormat { fork: Fork::Attribute, format: 9 }),
        ("attribute device", file, &[(83, &[0])], F::Format { fork: Fork::Attribute, format: 0 }),
        ("fifo format", &golden::FIFO, &[(5, &[2])], F::SpecialFileFormat { mode: 0o10644, format: 2 }),
        (
            "directory in extents",
            directory,
            &[(5, &[2])],
            F::DirectoryNotLocal { size_bytes: 15, fork_size_bytes: 192 },
        ),
        ("link in btree", &golden::SYMLINK, &[(5, &[3])], F::SymlinkFormat { size_bytes: 6, format: 3 }),
        (
            "local too large",
            directory,
            &[(63, &[193])],
            F::LocalTooLarge { size_bytes: 193, fork_size_bytes: 192 },
        ),
        ("local file", file, &[(5, &[1]), (56, &[0; 8])], F::LocalRegularFile),
        (
            "local extents",
            directory,
            &[(31, &[1]), (71, &[1])],
            F::LocalWithExtents { fork: Fork::Data, extents: 1 },
        ),
        (
            "inline extents",
            file,
            &[(31, &[13]), (71, &[13])],
            F::TooManyInlineExtents { fork: Fork::Data, extents: 13, extents_max: 12 },
        ),
        (
            "counter too large",
            &golden::BTREE,
            &[(24, &[0, 1, 0, 0, 0, 0, 0, 0]), (64, &[1])],
            F::TooManyExtents { fork: Fork::Data, extents: 1 << 48, extents_max: (1 << 48) - 1 },
        ),
        (
            "btree not needed",
            &golden::BTREE,
            &[(31, &[12])],
            F::BtreeNotNeeded { fork: Fork::Data, extents: 12, inline_extents_max: 12 },
        ),
        ("no fork, but a format", file, &[(82, &[0])], F::AttributeFormatWithoutFork { format: 1 }),
        (
            "no fork, but extents",
            file,
            &[(82, &[0, 2]), (79, &[1])],
            F::AttributeExtentsWithoutFork { extents: 1 },
        ),
        (
            "metadata btree",
            file,
            &[(5, &[5]), (82, &[0, 2])],
            F::MetadataBtreeWithoutFeature { fork: Fork::Data },
        ),
        ("metadata btree beside a fork", file, &[(5, &[5])], F::MetadataBtreeForkOffset { fork_offset: 24 }),
        (
            "hint on a link",
            &golden::SYMLINK,
            &[(90, &[8])],
            F::ExtentSizeFileType { mode: 0o120_777, flags: 0x800 },
        ),
        ("hint of 0", file, &[(90, &[8])], F::ExtentSizeZero),
        ("hint not in use", file, &[(75, &[16])], F::ExtentSizeUnflagged { blocks: 16 }),
        (
            "hint too large",
            &golden::HINT,
            &[(72, &[0, 1, 0, 0])],
            F::ExtentSizeTooLarge { blocks: 0x10000, blocks_max: 9600 },
        ),
        ("shared link", &golden::SYMLINK, &[(127, &[0x1a])], F::ReflinkFileType { mode: 0o120_777 }),
        (
            "copy hint on a link",
            &golden::SYMLINK,
            &[(127, &[0x1c])],
            F::CowExtentSizeFileType { mode: 0o120_777 },
        ),
        ("copy hint of 0", file, &[(127, &[0x1c])], F::CowExtentSizeZero),
        ("copy hint not in use", file, &[(131, &[16])], F::CowExtentSizeUnflagged { blocks: 16 }),
        (
            "copy hint too large",
            &golden::HINT,
            &[(128, &[0, 1, 0, 0])],
            F::CowExtentSizeTooLarge { blocks: 0x10000, blocks_max: 9600 },
        ),
        ("metadata", file, &[(127, &[0x38])], F::MetadataWithoutFeature),
    ];
    for (name, golden, patches, fault) in cases {
        assert_eq!(golden.patched(patches), Err((*fault).into()), "{name}");
    }
}

#[test]
fn features_must_be_on() {
    let remove = |bits: Incompatible| move |words: &mut FeatureWords| words.incompatible.remove(bits);
    assert_eq!(
        without(&golden::EXTENTS, remove(Incompatible::LARGE_EXTENT_COUNTS), &[]),
        InodeFault::LargeCountsWithoutFeature.into()
    );
    assert_eq!(
        without(&golden::EXTENTS, remove(Incompatible::BIG_TIME), &[]),
        InodeFault::BigTimeWithoutFeature.into()
    );
    assert_eq!(
        without(&golden::SHARED, |words| words.ro_compatible.remove(RoCompatible::REFLINK), &[]),
        InodeFault::ReflinkWithoutFeature { flags2: 0x1a }.into()
    );
}

#[test]
fn realtime_files_have_their_own_rules() {
    let mut geometry = golden::HINT.geometry();
    geometry.realtime_blocks = 1000;
    geometry.realtime_extent_size_blocks = 3;
    let flags = (90, [8, 1].as_slice());
    assert_eq!(
        golden::HINT.patched_in(&geometry, &[flags]),
        Err(InodeFault::ExtentSizeAlignment { blocks: 16, unit_blocks: 3 }.into())
    );
    let aligned = (75, [15].as_slice());
    assert_eq!(
        golden::HINT.patched_in(&geometry, &[flags, aligned]),
        Err(InodeFault::CowExtentSizeAlignment { blocks: 32, unit_blocks: 3 }.into())
    );
    assert_eq!(golden::SHARED.patched_in(&geometry, &[(91, &[1])]), Err(InodeFault::ReflinkRealtime.into()));
}

#[test]
fn metadata_files_have_their_own_rules() {
    use InodeFault as F;
    let (root, btree) = (&golden::META_ROOT, &golden::META_BTREE);
    let cases: &[Case<'_>] = &[
        ("type", root, &[(7, &[9])], F::MetadataType { metadata_type: 9 }),
        (
            "file type",
            btree,
            &[(2, &[0x10, 0]), (5, &[0]), (82, &[1])],
            F::MetadataFileType { mode: 0o10000 },
        ),
        ("permissions", root, &[(3, &[0o100])], F::MetadataPermissions { mode: 0o40100 }),
        ("events", root, &[(87, &[1])], F::MetadataDmapi { event_mask: 1, state: 0 }),
        ("owner", root, &[(11, &[1])], F::MetadataOwner { uid: 1, gid: 0 }),
        ("flags", root, &[(90, &[0, 0])], F::MetadataFlags { flags: 0, needed: 0x24e8 }),
        ("direct access", root, &[(127, &[0x39])], F::MetadataDax),
        (
            "btree of another type",
            btree,
            &[(7, &[5])],
            F::MetadataBtreeType { fork: Fork::Data, metadata_type: 5 },
        ),
        (
            "btree of no metadata file",
            btree,
            &[(6, &[0, 0]), (127, &[0x18])],
            F::MetadataBtreeFlag { fork: Fork::Data },
        ),
    ];
    for (name, golden, patches, fault) in cases {
        assert_eq!(golden.patched(patches), Err((*fault).into()), "{name}");
    }
    let mut geometry = btree.geometry();
    geometry.features.incompatible |= Incompatible::ZONED;
    let blocks_max = geometry.realtime_group_extents;
    assert_eq!(btree.patched_in(&geometry, &[]), Ok(()));
    assert_eq!(
        btree.patched_in(&geometry, &[(128, &[0xff; 4])]),
        Err(InodeFault::ZoneUsedBlocks { blocks: u32::MAX, blocks_max }.into())
    );
}

fn cluster(patches: &[(usize, &[u8])]) -> Result<(), Fault> {
    let mut bytes = CLUSTER.to_vec();
    for (offset, value) in patches {
        bytes[*offset..offset + value.len()].copy_from_slice(value);
    }
    let geometry = golden::ROOT.geometry();
    Ok(verify_inode_cluster(&bytes, &VerifyContext::new(&geometry, Sector::new(128)))?)
}

#[test]
fn clusters_are_inodes_with_possible_lists() {
    assert_eq!(cluster(&[]), Ok(()));
    assert_eq!(cluster(&[(1024, &[0])]), Err(InodeFault::ClusterMagic { index: 2, found: 0x4e }.into()));
    assert_eq!(cluster(&[(1028, &[2])]), Err(InodeFault::ClusterVersion { index: 2, found: 2 }.into()));
    for found in [0u32, 7, 76800 * 8, u32::MAX - 1] {
        let next = (512 + 96, found.to_be_bytes());
        let fault = InodeFault::NextUnlinked { index: 1, found };
        assert_eq!(cluster(&[(next.0, &next.1)]), Err(fault.into()));
    }
    assert_eq!(cluster(&[(512 + 96, &131u32.to_be_bytes())]), Ok(()));
    let geometry = golden::ROOT.geometry();
    let context = VerifyContext::new(&geometry, Sector::new(128));
    assert!(verify_inode_cluster(&CLUSTER[..1000], &context).is_err());
    assert!(verify_inode_cluster(&[], &context).is_err());
}

#[test]
fn the_number_of_an_inode_follows_from_its_place() {
    let geometry = golden::ROOT.geometry();
    for index in 0..32u64 {
        let bytes = &CLUSTER[index as usize * 512..][..512];
        let sector = Sector::new(128 + index);
        verify_inode_in_place(bytes, &VerifyContext::new(&geometry, sector)).unwrap();
    }
    let sector = Sector::new(129);
    assert!(verify_inode_in_place(CLUSTER, &VerifyContext::new(&geometry, sector)).is_err());
}

proptest! {
    /// Whatever the bytes are, the verifier answers, and what it accepts can be decoded.
    #[test]
    fn any_sealed_inode_is_judged(
        which in 0..golden::ALL.len(),
        patches in prop::collection::vec((0usize..512, any::<u8>()), 0..12),
    ) {
        let golden = &golden::ALL[which];
        let mut bytes = golden.bytes.to_vec();
        for (offset, value) in patches {
            bytes[offset] = value;
        }
        checksum::seal(&mut bytes, CHECKSUM_OFFSET_BYTES);
        if let Ok(core) = verify_inode(&bytes, golden.number(), &golden.geometry()) {
            for fork in [Fork::Data, Fork::Attribute] {
                let length = super::super::fork::fork_bytes(&bytes, fork).unwrap_or_default().len();
                prop_assert_eq!(length as u32, core.fork_size_bytes(fork, bytes.len() as u32));
            }
            core.time(core.access_time);
        }
    }

    #[test]
    fn random_bytes_are_judged(mut bytes in prop::collection::vec(any::<u8>(), 0..600)) {
        let geometry = golden::ROOT.geometry();
        let context = VerifyContext::new(&geometry, Sector::new(128));
        let _ = verify_inode_cluster(&bytes, &context);
        if bytes.len() >= 512 {
            bytes[..5].copy_from_slice(&golden::ROOT.bytes[..5]);
            bytes[152..176].copy_from_slice(&golden::ROOT.bytes[152..176]);
            checksum::seal(&mut bytes[..512], CHECKSUM_OFFSET_BYTES);
        }
        let _ = verify_inode(&bytes, golden::ROOT.number(), &geometry);
    }
}
