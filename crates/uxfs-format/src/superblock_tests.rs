use super::*;

/// First sector of a 512 MiB image made by mkfs.xfs 7.2.0 with default options.
const GOLDEN: &[u8; 512] = include_bytes!("../testdata/superblock.bin");

fn verify(bytes: &[u8]) -> Result<(), SuperblockError> {
    let (superblock, sector) = Superblock::parse(bytes)?;
    superblock.verify(sector, Copy::Primary)
}

/// Changes bytes of the golden sector, seals it again and gives what the verifier says.
fn patched(offset: usize, value: &[u8]) -> Result<(), SuperblockError> {
    let mut bytes = *GOLDEN;
    bytes[offset..offset + value.len()].copy_from_slice(value);
    assert!(checksum::seal(&mut bytes, CHECKSUM_OFFSET_BYTES));
    verify(&bytes)
}

#[test]
fn golden_superblock_is_accepted_and_resealing_changes_nothing() {
    assert_eq!(verify(GOLDEN), Ok(()));
    let mut bytes = *GOLDEN;
    checksum::seal(&mut bytes, CHECKSUM_OFFSET_BYTES);
    assert_eq!(&bytes, GOLDEN, "otherwise these tests aren't testing anything");
}

#[test]
fn each_check_rejects_its_damage() {
    use SuperblockFault as F;
    let cases: &[(&str, usize, &[u8], F)] = &[
        ("block size", 4, &[0, 0, 0x20, 0], F::BlockSize { size_bytes: 8192, log: 12 }),
        ("inode size", 104, &[4, 0], F::InodeSize { size_bytes: 1024, log: 9 }),
        ("inodes per block", 106, &[0, 9], F::InodesPerBlock { count: 9, log: 3 }),
        ("directory block log", 192, &[5], F::DirectoryBlockLog { log: 5 }),
        ("group size", 84, &[0, 0, 0, 16], F::AgBlocks { blocks: 16 }),
        ("group log", 124, &[16], F::AgBlockLog { log: 16, blocks: 32768 }),
        (
            "group count",
            88,
            &[0, 0, 0, 9],
            F::DataBlocks { data_blocks: 131_072, ag_count: 9, ag_blocks: 32768 },
        ),
        ("in progress", 126, &[1], F::InProgress { value: 1 }),
        ("version bits", 100, &[0xb4, 0x95], F::VersionBits { version: 0xb495, features2: 0x18a }),
        ("flags", 178, &[1], F::ReservedFlags { flags: 1, shared_version: 0 }),
        ("inode per cent", 127, &[101], F::InodeMaxPercent { percent: 101 }),
        ("log start", 48, &[0, 0, 0, 0, 0, 9, 0, 0], F::LogPlace { start: 0x90000, blocks: 16384 }),
        ("log sectors", 194, &[2, 0], F::LogSectorSize { size_bytes: 512, log: 0 }),
        ("log stripe", 196, &[0, 0, 0, 9], F::LogStripeUnit { bytes: 9 }),
        ("root inode", 56, &[0xff; 8], F::RootInode { inode: u64::MAX }),
        (
            "inode alignment",
            180,
            &[0, 0, 0, 2],
            F::InodeAlignment { inode_alignment: 2, sparse_alignment: 4 },
        ),
        (
            "sparse alignment",
            228,
            &[0, 0, 0, 5],
            F::InodeAlignment { inode_alignment: 8, sparse_alignment: 5 },
        ),
    ];
    for (name, offset, value, fault) in cases {
        assert_eq!(patched(*offset, value), Err((*fault).into()), "{name}");
    }
}

#[test]
fn feature_bits_are_judged_before_contents() {
    let result = patched(216, &[0, 0, 0x10, 0xeb]);
    assert_eq!(result, Err(Unsupported::UnknownIncompatible { bits: 0x1000 }.into()));
    assert_eq!(patched(216, &[0, 0, 0, 0xfb]), Err(Unsupported::NeedsRepair.into()));
}

#[test]
fn parse_refuses_what_is_no_v5_superblock() {
    assert!(matches!(
        verify(&[0; 512]),
        Err(SuperblockError::Header(HeaderFault::BadMagic { found: 0, expected: MAGIC }))
    ));
    assert!(matches!(verify(&GOLDEN[..100]), Err(SuperblockError::Header(HeaderFault::Truncated { .. }))));
    assert_eq!(patched(100, &[0xb4, 0xb4]), Err(Unsupported::OldVersion { version: 4 }.into()));
    let fault = SuperblockFault::SectorSize { size_bytes: 1024, log: 9 };
    assert_eq!(patched(102, &[4, 0]), Err(fault.into()));
}

#[test]
fn a_changed_byte_breaks_the_checksum() {
    let mut bytes = *GOLDEN;
    bytes[300] ^= 1;
    assert!(matches!(verify(&bytes), Err(SuperblockError::Header(HeaderFault::BadChecksum { .. }))));
}

#[test]
fn secondary_copies_may_be_in_progress() {
    let mut bytes = *GOLDEN;
    bytes[126] = 1;
    checksum::seal(&mut bytes, CHECKSUM_OFFSET_BYTES);
    let (superblock, sector) = Superblock::parse(&bytes).unwrap();
    assert_eq!(superblock.verify(sector, Copy::Secondary), Ok(()));
}
