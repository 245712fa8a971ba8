use proptest::prelude::*;

use super::*;
use crate::log::record::restore_payload;

/// Payload of the golden record, restored.
fn payload() -> Vec<u8> {
    let mut bytes = include_bytes!("../../testdata/log/record.bin").to_vec();
    let (headers, payload) = bytes.split_at_mut(512);
    restore_payload(headers, payload);
    payload.to_vec()
}

fn patched(offset: usize, value: u8) -> Option<LogOperationFault> {
    let mut payload = payload();
    payload[offset] = value;
    Operations::new(&payload, 13).find_map(Result::err)
}

#[test]
fn operations_of_a_kernel_record() {
    let payload = payload();
    let operations: Vec<_> = Operations::new(&payload, 13).map(Result::unwrap).collect();
    assert_eq!(operations.len(), 13);
    assert_eq!(operations[0].index, 0);
    // A commit record comes alone or last.
    let last = operations.last().unwrap();
    assert_eq!((last.kind, last.data.len()), (OperationKind::Commit, 0));
    let end = last.offset_bytes as usize + 12;
    assert!(payload[end..].iter().all(|byte| *byte == 0), "padding follows");
}

#[test]
fn each_check_rejects_its_damage() {
    use LogOperationFault as F;
    let rest_bytes = payload().len() as u32;
    assert_eq!(patched(8, 7), Some(F::Client { index: 0, client: 7 }));
    assert_eq!(patched(9, 0x40), Some(F::Flags { index: 0, flags: 0x40 }));
    assert_eq!(patched(9, 0x03), Some(F::Flags { index: 0, flags: 0x03 }));
    let length_bytes =
        u32::from_be_bytes([0x7f, 0, 0, 0]) | u32::from(payload()[7]) | u32::from(payload()[6]) << 8;
    assert_eq!(patched(4, 0x7f), Some(F::Length { index: 0, length_bytes, rest_bytes }));
    let payload = payload();
    let fault = Operations::new(&payload[..6], 1).next().unwrap().unwrap_err();
    assert_eq!(fault, F::NoRoomForHeader { index: 0, rest_bytes: 6 });
    assert_eq!(
        Operations::new(&payload, 1000).filter(Result::is_err).count(),
        1,
        "ends after the first fault"
    );
}

#[test]
fn flags_have_the_meaning_that_linux_gives_them() {
    let kind = |flags: u8| {
        let mut bytes = [0; 12];
        bytes[9] = flags;
        OperationHeader::prefix_of(&bytes).unwrap().kind()
    };
    use OperationKind as K;
    let expected = [
        (0x00, Some(K::Region)),
        (0x01, Some(K::Start)),
        (0x02, Some(K::Commit)),
        (0x04, Some(K::Region)),
        (0x08, Some(K::Continuation)),
        (0x0c, Some(K::Continuation)),
        (0x18, Some(K::Continuation)),
        (0x10, Some(K::Region)),
        (0x20, Some(K::Unmount)),
        (0x05, None),
        (0x80, None),
    ];
    for (flags, meaning) in expected {
        assert_eq!(kind(flags), meaning, "{flags:#x}");
    }
}

#[test]
fn the_unmount_record_of_mkfs() {
    let mut bytes = include_bytes!("../../testdata/log/record_mkfs.bin").to_vec();
    let (headers, payload) = bytes.split_at_mut(512);
    restore_payload(headers, payload);
    let operation = Operations::new(payload, 1).next().unwrap().unwrap();
    assert_eq!(operation.kind, OperationKind::Unmount);
    assert_eq!(operation.header.transaction.get(), 0xb0c0_d0d0);
    assert_eq!(UnmountRecord::prefix_of(operation.data).unwrap().magic.get(), UNMOUNT_MAGIC);
}

proptest! {
    #[test]
    fn any_bytes_give_an_answer_and_operations_never_overlap(
        bytes in proptest::collection::vec(any::<u8>(), 0..2000),
        changes in proptest::collection::vec((0usize..1536, any::<u8>()), 0..6),
        count in any::<u32>(),
    ) {
        prop_assert!(Operations::new(&bytes, count).count() <= bytes.len() / 12 + 1);
        let mut payload = payload();
        for (offset, value) in changes {
            payload[offset] = value;
        }
        let mut end = 0;
        for operation in Operations::new(&payload, count).flatten() {
            prop_assert_eq!(operation.offset_bytes, end);
            end += 12 + operation.data.len() as u32;
        }
    }
}
