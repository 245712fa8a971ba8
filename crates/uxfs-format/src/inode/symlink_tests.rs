use proptest::prelude::*;

use super::*;
use crate::checksum;
use crate::fault::Fault;
use crate::{inode::golden, units::Sector};

const BLOCK: &[u8; 4096] = include_bytes!("../../testdata/inode/symlink_block.bin");
const BLOCK_SECTOR: u64 = 1264;
/// A target of 1023 bytes in one extent of two 1 KiB blocks: one header, one checksum.
const BLOCKS: &[u8; 2048] = include_bytes!("../../testdata/inode/old_symlink_blocks.bin");
const BLOCKS_SECTOR: u64 = 56;

fn patched(patches: &[(usize, &[u8])]) -> Result<(), Fault> {
    let mut bytes = BLOCK.to_vec();
    for (offset, value) in patches {
        bytes[*offset..offset + value.len()].copy_from_slice(value);
    }
    checksum::seal(&mut bytes, CHECKSUM_OFFSET_BYTES);
    let geometry = golden::LONG_SYMLINK.geometry();
    Ok(verify_symlink(&bytes, &VerifyContext::new(&geometry, Sector::new(BLOCK_SECTOR)))?)
}

#[test]
fn golden_links_are_accepted() {
    assert_eq!(patched(&[]), Ok(()));
    let owner = golden::LONG_SYMLINK.number();
    assert_eq!(piece_of(BLOCK, owner, 0, 900).unwrap(), [b'x'; 900]);

    let geometry = golden::OLD_SYMLINK.geometry();
    let context = VerifyContext::new(&geometry, Sector::new(BLOCKS_SECTOR));
    assert_eq!(verify_symlink(BLOCKS, &context), Ok(()));
    let owner = golden::OLD_SYMLINK.number();
    assert_eq!(piece_of(BLOCKS, owner, 0, 1023).unwrap(), [b'y'; 1023]);
    assert_eq!(target_blocks(1023, &geometry), 2);
    assert_eq!(target_blocks(968, &geometry), 1);
    assert!(verify_symlink(&BLOCKS[..1024], &context).is_err(), "the checksum covers the whole extent");
}

#[test]
fn each_check_rejects_its_damage() {
    assert_eq!(
        patched(&[(0, &[0])]),
        Err(HeaderFault::BadMagic { found: 0x0053_4c4d, expected: MAGIC }.into())
    );
    assert!(matches!(patched(&[(16, &[9])]), Err(Fault::Header(HeaderFault::WrongUuid { .. }))));
    assert!(matches!(patched(&[(47, &[9])]), Err(Fault::Header(HeaderFault::WrongSector { .. }))));
    let fault = SymlinkFault::PieceOutsideTarget { offset_bytes: 124, length_bytes: 900 };
    assert_eq!(patched(&[(7, &[124])]), Err(fault.into()));
    assert_eq!(patched(&[(7, &[123])]), Ok(()));
    assert_eq!(patched(&[(32, &[0; 8])]), Err(SymlinkFault::NoOwner.into()));
    let mut bytes = *BLOCK;
    bytes[4000] ^= 1;
    let geometry = golden::LONG_SYMLINK.geometry();
    let context = VerifyContext::new(&geometry, Sector::new(BLOCK_SECTOR));
    let fault = verify_symlink(&bytes, &context).unwrap_err();
    assert!(matches!(Fault::from(fault), Fault::Header(HeaderFault::BadChecksum { .. })));
    let short = &mut bytes[..512];
    checksum::seal(short, CHECKSUM_OFFSET_BYTES);
    let fault = SymlinkFault::PieceTooLong { length_bytes: 900, room_bytes: 456 };
    assert_eq!(verify_symlink(short, &context), Err(fault));
    assert!(verify_symlink(&short[..55], &context).is_err());
}

#[test]
fn pieces_must_follow_each_other() {
    let owner = golden::LONG_SYMLINK.number();
    let other = InodeNumber::new(owner.get() + 1);
    let fault = HeaderFault::WrongOwner { found: owner.get(), expected: other.get() };
    assert_eq!(piece_of(BLOCK, other, 0, 900), Err(fault.into()));
    let fault = SymlinkFault::PieceOffset { found: 0, expected: 10 };
    assert_eq!(piece_of(BLOCK, owner, 10, 900), Err(fault));
    let fault = SymlinkFault::PieceLength { found: 900, expected: 901 };
    assert_eq!(piece_of(BLOCK, owner, 0, 901), Err(fault));
}

#[test]
fn targets_have_a_length_and_no_zero_byte() {
    assert_eq!(verify_target(b"a/b"), Ok(()));
    assert_eq!(verify_target(b""), Err(SymlinkFault::TargetLength { length_bytes: 0 }));
    assert_eq!(verify_target(&[b'a'; 1024]), Err(SymlinkFault::TargetLength { length_bytes: 1024 }));
    assert_eq!(verify_target(b"a\0b"), Err(SymlinkFault::ZeroByte { offset_bytes: 1 }));
    let fault = SymlinkFault::TargetLength { length_bytes: u64::MAX };
    assert_eq!(verify_target_length(u64::MAX), Err(fault));
}

proptest! {
    #[test]
    fn any_sealed_block_is_judged(patches in prop::collection::vec((0usize..56, any::<u8>()), 0..8)) {
        let patches: Vec<(usize, [u8; 1])> =
            patches.into_iter().map(|(offset, value)| (offset, [value])).collect();
        let patches: Vec<(usize, &[u8])> =
            patches.iter().map(|(offset, value)| (*offset, value.as_slice())).collect();
        let _ = patched(&patches);
    }
}

#[test]
fn pieces_are_written_as_the_kernel_wrote_them() {
    let cases = [
        (&BLOCK[..], BLOCK_SECTOR, &golden::LONG_SYMLINK, vec![b'x'; 900]),
        (&BLOCKS[..], BLOCKS_SECTOR, &golden::OLD_SYMLINK, vec![b'y'; 1023]),
    ];
    for (golden, sector, inode, target) in cases {
        let (mut written, mut dirty) = (vec![0xff; golden.len()], crate::edit::DirtyMap::clean());
        let uuid = inode.geometry().metadata_uuid;
        let place = BlockIdentity { owner: inode.number(), sector: Sector::new(sector), uuid };
        let length = write_piece(Edit::new(&mut written, &mut dirty), &place, 0, &target);
        assert_eq!(length, target.len());
        // Log sequence number and checksum are stamped when it goes home.
        written[48..56].copy_from_slice(&golden[48..56]);
        checksum::seal(&mut written, CHECKSUM_OFFSET_BYTES);
        assert_eq!(written[..56 + length], golden[..56 + length]);
    }
}
