use super::*;

fn extent(offset_bytes: u64, disk_bytes: u64, length_bytes: u64) -> Extent {
    Extent { offset_bytes, disk_bytes, length_bytes, unwritten: false }
}

#[test]
fn merges_what_continues() {
    let unwritten = Extent { unwritten: true, ..extent(40, 140, 10) };
    let merged = merge_extents([extent(0, 100, 10), extent(10, 110, 10), extent(30, 130, 10), unwritten]);
    assert_eq!(merged, [extent(0, 100, 20), extent(30, 130, 10), unwritten]);
}

#[test]
fn hexadecimal_round_trip() {
    let bytes: Vec<u8> = (0..=255).collect();
    assert_eq!(from_hex(&to_hex(&bytes)), Some(bytes));
    assert_eq!(from_hex("0"), None);
    assert_eq!(from_hex("0g"), None);
}

#[test]
fn bytes_that_are_not_text_survive() {
    for bytes in [&b"plain"[..], b"\xff\xfe", "ümlaut\n\"".as_bytes()] {
        let json = serde_json::to_string(&Bytes::from(bytes)).unwrap();
        assert_eq!(serde_json::from_str::<Bytes>(&json).unwrap().0, bytes, "{json}");
    }
}

#[test]
fn manifest_round_trip() {
    let header = Header { image: "i".into(), judge: "j".into(), made_by: "m".into() };
    let entry =
        Entry { path: Bytes::from(&b"/"[..]), inode: Some(128), kind: FileKind::Directory, details: None };
    let manifest = Manifest { header, entries: vec![entry] };
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("m.zst");
    manifest.write(&path, 1).unwrap();
    assert_eq!(Manifest::read(&path).unwrap(), manifest);
}
