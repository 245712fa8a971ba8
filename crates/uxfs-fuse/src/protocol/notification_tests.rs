//! Bytes of notifications.

use zerocopy::IntoBytes;

use super::*;

/// Header and body of a notification.
fn message(notification: &Notification<'_>) -> (OutHeader, Vec<u8>) {
    use zerocopy::FromBytes;
    let encoded = notification.encode().unwrap();
    let bytes: Vec<u8> = encoded.slices().iter().flat_map(|slice| slice.iter().copied()).collect();
    assert_eq!(bytes.len(), encoded.size_bytes() as usize);
    let (header, body) = OutHeader::read_from_prefix(&bytes).unwrap();
    assert_eq!(header, OutHeader { size_bytes: bytes.len() as u32, error: notification.code(), unique: 0 });
    (header, body.to_vec())
}

#[test]
fn bodies_are_as_documented() {
    let poll = Notification::Poll { poll_handle: 5 };
    assert_eq!(message(&poll).1, [5u64].as_bytes());
    let name = b"abc".as_slice();
    let flags = InvalidateEntryFlags::EXPIRE_ONLY;
    let entry = message(&Notification::InvalidateEntry { parent: 7, name, flags }).1;
    assert_eq!(entry, [[7u64, 3 | 1 << 32].as_bytes(), b"abc\0"].concat());
    let store = message(&Notification::Store { node_id: 7, offset_bytes: 8, data: name }).1;
    assert_eq!(store, [[7u64, 8, 3].as_bytes(), b"abc"].concat());
    let retrieve = Notification::Retrieve { notify_unique: 6, node_id: 7, offset_bytes: 8, size_bytes: 9 };
    assert_eq!(message(&retrieve).1, [6u64, 7, 8, 9].as_bytes());
    let delete = message(&Notification::Delete { parent: 7, child: 8, name }).1;
    assert_eq!(delete, [[7u64, 8, 3].as_bytes(), b"abc\0"].concat());
    assert!(message(&Notification::Resend).1.is_empty());
    assert!(message(&Notification::IncrementEpoch).1.is_empty());
    let prune = message(&Notification::Prune { node_ids: &[10, 11] }).1;
    assert_eq!(prune, [2u64, 0, 10, 11].as_bytes());
}

#[test]
fn ranges_are_as_documented() {
    let body = |range| message(&Notification::InvalidateInode { node_id: 7, range }).1;
    assert_eq!(body(InvalidateRange::AttributesOnly), [7i64, -1, 0].as_bytes());
    assert_eq!(body(InvalidateRange::From(4096)), [7i64, 4096, 0].as_bytes());
    assert_eq!(body(InvalidateRange::Bytes { offset_bytes: 1, size_bytes: 2 }), [7i64, 1, 2].as_bytes());
    let outside = [
        InvalidateRange::From(1 << 63),
        InvalidateRange::Bytes { offset_bytes: 0, size_bytes: 0 },
        InvalidateRange::Bytes { offset_bytes: 0, size_bytes: 1 << 63 },
        InvalidateRange::Bytes { offset_bytes: 1, size_bytes: i64::MAX as u64 },
    ];
    for range in outside {
        let notification = Notification::InvalidateInode { node_id: 7, range };
        assert_eq!(notification.encode(), Err(NotificationError::BadRange));
    }
}
