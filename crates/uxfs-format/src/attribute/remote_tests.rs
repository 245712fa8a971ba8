use super::*;
use crate::fault::Fault;
use crate::{
    checksum,
    fault::Structure::AttributeRemoteValue,
    name_tree::golden::{geometry, golden, patched},
};

#[test]
fn golden_value_comes_in_three_blocks() {
    let (golden, geometry) = (golden(AttributeRemoteValue), geometry());
    assert_eq!(block_count(&geometry, 2560), 3);
    let mut value = Vec::new();
    let owner = InodeNumber::new(0x47);
    for block in golden.bytes.chunks(1024) {
        let remote = RemoteBlock::parse(block, &geometry).unwrap();
        let offset = u32::try_from(value.len()).unwrap();
        remote.verify_place(owner, offset, 2560 - offset, &geometry).unwrap();
        value.extend_from_slice(remote.part);
    }
    let expected: Vec<u8> = (0..2560u32).map(|index| index as u8).collect();
    assert_eq!(value, expected);
}

#[test]
fn each_check_rejects_its_damage() {
    use RemoteValueFault as F;
    let cases: &[(&str, usize, &[u8], F)] = &[
        ("empty", 8, &[0; 4], F::Length { length_bytes: 0, most: 968 }),
        ("too long", 8, &[0, 0, 3, 0xc9], F::Length { length_bytes: 969, most: 968 }),
        ("too far", 4, &[0, 0, 0xfc, 0x39], F::PastLargestValue { offset_bytes: 0xfc39, end_bytes: 0x10001 }),
    ];
    for (name, offset, value, fault) in cases {
        assert_eq!(patched(AttributeRemoteValue, &[(*offset, value)]), Err((*fault).into()), "{name}");
    }
}

#[test]
fn the_place_in_the_value_is_compared() {
    let (golden, geometry) = (golden(AttributeRemoteValue), geometry());
    let remote = RemoteBlock::parse(&golden.bytes[1024..], &geometry).unwrap();
    let owner = InodeNumber::new(0x47);
    assert_eq!(remote.verify_place(owner, 968, 2560 - 968, &geometry), Ok(()));
    assert_eq!(
        remote.verify_place(InodeNumber::new(9), 968, 2560 - 968, &geometry),
        Err(HeaderFault::WrongOwner { found: 0x47, expected: 9 }.into())
    );
    assert_eq!(
        remote.verify_place(owner, 0, 2560, &geometry),
        Err(RemoteValueFault::Offset { found: 968, expected: 0 })
    );
    assert_eq!(
        remote.verify_place(owner, 968, 100, &geometry),
        Err(RemoteValueFault::PartLength { found: 968, expected: 100 })
    );
}

#[test]
fn a_later_block_is_verified_with_its_own_sector() {
    let mut block = golden(AttributeRemoteValue);
    block.bytes[1024 + 200] ^= 1;
    assert!(matches!(block.verify_unsealed(), Err(Fault::Header(HeaderFault::BadChecksum { .. }))));
    let mut swapped = golden(AttributeRemoteValue);
    swapped.bytes.copy_within(2048..3072, 1024);
    assert!(matches!(swapped.verify_unsealed(), Err(Fault::Header(HeaderFault::WrongSector { .. }))));
}

#[test]
fn a_value_is_written_as_the_kernel_wrote_it() {
    let (golden, geometry) = (golden(AttributeRemoteValue), geometry());
    let value: Vec<u8> = (0..2560u32).map(|index| index as u8).collect();
    let mut written = vec![0xff; 3 * 1024];
    let first = RemoteBlock::parse(&golden.bytes, &geometry).unwrap().header.sector.get();
    let mut place = BlockIdentity {
        owner: InodeNumber::new(0x47),
        sector: crate::units::Sector::new(first),
        uuid: geometry.metadata_uuid,
    };
    for (block, (index, part)) in written.chunks_mut(1024).zip((0u32..).zip(value.chunks(968))) {
        place.sector = crate::units::Sector::new(first + u64::from(index) * 2);
        write_block(block, &place, index * 968, part);
        checksum::seal(block, CHECKSUM_OFFSET_BYTES);
    }
    assert_eq!(written, golden.bytes);
}
