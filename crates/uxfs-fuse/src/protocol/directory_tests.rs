//! Records come back from the buffer.

use std::time::Duration;

use proptest::prelude::*;
use zerocopy::FromBytes;

use super::*;
use crate::protocol::reply::Attributes;

/// A record that was read back: node, inode, cookie, type, name.
type Record = (u64, u64, u64, u32, Vec<u8>);

fn read_back(mut bytes: &[u8], is_plus: bool) -> Vec<Record> {
    let mut records = Vec::new();
    while !bytes.is_empty() {
        let (plus, rest) = if is_plus {
            DirectoryPlusRecord::read_from_prefix(bytes).unwrap()
        } else {
            let (record, rest) = DirectoryRecord::read_from_prefix(bytes).unwrap();
            (DirectoryPlusRecord { record, ..Default::default() }, rest)
        };
        let DirectoryRecord { inode, next_offset, name_bytes, kind } = plus.record;
        let name = rest[..name_bytes as usize].to_vec();
        let size = bytes.len() - rest.len() + name.len();
        assert!(bytes[size..size.next_multiple_of(8)].iter().all(|byte| *byte == 0));
        records.push((plus.entry.node_id, inode, next_offset, kind, name));
        bytes = &bytes[size.next_multiple_of(8)..];
    }
    records
}

fn entry(name: &[u8]) -> DirectoryEntry<'_> {
    DirectoryEntry { name, inode: 1, file_type: Some(FileType::Regular), next_offset: 2 }
}

fn found(node_id: u64) -> EntryReply {
    let attributes = Attributes { inode: node_id, mode: 0o100_644, ..Attributes::default() };
    EntryReply { node_id, generation: 3, entry_valid: Duration::MAX, attributes, ..EntryReply::default() }
}

#[test]
fn types_are_those_of_a_directory() {
    let kinds = [
        (FileType::Fifo, 1),
        (FileType::CharacterDevice, 2),
        (FileType::Directory, 4),
        (FileType::BlockDevice, 6),
        (FileType::Regular, 8),
        (FileType::SymbolicLink, 10),
        (FileType::Socket, 12),
    ];
    for (file_type, number) in kinds {
        assert_eq!(
            encode(&DirectoryEntry { file_type: Some(file_type), ..entry(b"a") }).unwrap().kind,
            number
        );
    }
    assert_eq!(encode(&DirectoryEntry { file_type: None, ..entry(b"a") }).unwrap().kind, 0);
}

#[test]
fn dots_hold_no_node() {
    let mut bytes = [0xff; 1000];
    let mut buffer = DirectoryBuffer::new(&mut bytes);
    assert_eq!(buffer.push_plus(&entry(b"."), Some(&found(9))), Ok(false));
    assert_eq!(buffer.push_plus(&entry(b".."), Some(&found(9))), Ok(false));
    assert_eq!(buffer.push_plus(&entry(b"..."), Some(&found(9))), Ok(true));
    assert_eq!(buffer.push_plus(&entry(b"unknown"), None), Ok(false));
    assert_eq!(buffer.push_plus(&entry(b"missing"), Some(&found(0))), Ok(false));
    let nodes: Vec<u64> = read_back(buffer.filled(), true).iter().map(|record| record.0).collect();
    assert_eq!(nodes, [0, 0, 9, 0, 0]);
    let (first, _) = DirectoryPlusRecord::read_from_prefix(buffer.filled()).unwrap();
    assert_eq!(first.entry, EntryOut::default());
    let (_, rest) = buffer.filled().split_at(2 * 160);
    assert_eq!(DirectoryPlusRecord::read_from_prefix(rest).unwrap().0.entry, found(9).encode());
}

#[test]
fn a_record_that_does_not_fit_is_refused() {
    let mut bytes = [0; 63];
    let mut buffer = DirectoryBuffer::new(&mut bytes);
    assert!(buffer.is_empty());
    assert_eq!(buffer.push(&entry(b"12345678")), Ok(()));
    let full = RecordRefused::Full { needed_bytes: 32, left_bytes: 31 };
    assert_eq!(buffer.push(&entry(b"1234567")), Err(full));
    assert_eq!(buffer.used_bytes(), 32);
    let full = RecordRefused::Full { needed_bytes: 160, left_bytes: 31 };
    assert_eq!(buffer.push_plus(&entry(b"1"), Some(&found(1))), Err(full));
    assert_eq!(read_back(buffer.filled(), false).len(), 1);
    let mut bytes = [0; 160];
    let buffer = DirectoryBuffer::new(&mut bytes);
    assert!(buffer.has_room_plus(8) && !buffer.has_room_plus(9) && !buffer.has_room_plus(usize::MAX));
}

#[test]
fn what_the_kernel_refuses_is_refused() {
    let mut bytes = vec![0; 10_000];
    let mut buffer = DirectoryBuffer::new(&mut bytes);
    assert_eq!(buffer.push(&entry(b"")), Err(RecordRefused::BadName));
    assert_eq!(buffer.push(&entry(b"a/b")), Err(RecordRefused::BadName));
    assert_eq!(buffer.push(&entry(&[b'n'; 4096])), Err(RecordRefused::BadName));
    assert_eq!(buffer.push(&entry(&[b'n'; 4095])), Ok(()));
    let beyond = DirectoryEntry { next_offset: 1 << 63, ..entry(b"a") };
    assert_eq!(buffer.push(&beyond), Err(RecordRefused::BadOffset { next_offset: 1 << 63 }));
    assert_eq!(buffer.push_plus(&beyond, None), Err(RecordRefused::BadOffset { next_offset: 1 << 63 }));
}

fn names() -> impl Strategy<Value = Vec<u8>> {
    let letters = proptest::collection::vec(prop_oneof![1u8..=46, 48u8..=255], 1..40);
    prop_oneof![8 => letters, 1 => Just(b".".to_vec()), 1 => Just(b"..".to_vec())]
}

proptest! {
    #[test]
    fn records_come_back(
        entries in proptest::collection::vec((names(), any::<u64>(), 0..=i64::MAX as u64, any::<u64>()), 0..30),
        room_bytes in 0usize..3000,
        is_plus: bool,
    ) {
        let mut bytes = vec![0xff; room_bytes];
        let mut buffer = DirectoryBuffer::new(&mut bytes);
        let mut expected = Vec::new();
        for (name, inode, next_offset, node_id) in &entries {
            let (inode, next_offset) = (*inode, *next_offset);
            let entry = DirectoryEntry { name, inode, file_type: Some(FileType::Directory), next_offset };
            let has_room = !is_plus || buffer.has_room_plus(name.len());
            let pushed = if is_plus {
                buffer.push_plus(&entry, Some(&found(*node_id)))
            } else {
                buffer.push(&entry).map(|()| false)
            };
            match pushed {
                Ok(counts) => {
                    let is_dot = *name == b"." || *name == b"..";
                    let node_id = if is_plus && !is_dot { *node_id } else { 0 };
                    prop_assert_eq!(counts, node_id != 0);
                    prop_assert!(has_room);
                    expected.push((node_id, inode, next_offset, 4, name.clone()));
                }
                Err(refused) => {
                    let RecordRefused::Full { needed_bytes, left_bytes } = refused else {
                        panic!("{refused}")
                    };
                    prop_assert!(needed_bytes > left_bytes);
                    prop_assert!(!is_plus || !has_room);
                }
            }
        }
        prop_assert_eq!(buffer.used_bytes() % 8, 0);
        if is_plus {
            let nodes: Vec<u64> = expected.iter().map(|record| record.0).filter(|node| *node != 0).collect();
            prop_assert_eq!(nodes_of(buffer.filled()).collect::<Vec<_>>(), nodes);
        }
        prop_assert_eq!(read_back(buffer.filled(), is_plus), expected);
        let used_bytes = buffer.used_bytes();
        prop_assert!(bytes[used_bytes..].iter().all(|byte| *byte == 0xff));
    }
}
