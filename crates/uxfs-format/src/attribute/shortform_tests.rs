use super::*;
use crate::{
    fault::Structure::AttributeShortform,
    name_tree::golden::{golden, patched},
};

#[test]
fn golden_attributes_read_as_xfs_db_prints_them() {
    let golden = golden(AttributeShortform);
    let attributes = Shortform::parse(&golden.bytes).unwrap();
    let all: Vec<_> = attributes.attributes().map(Result::unwrap).collect();
    let names: Vec<_> = all.iter().map(|attribute| (attribute.flags, attribute.name)).collect();
    let expected: [(_, &[u8]); 3] = [
        (AttributeFlags::PARENT, b"attr_short"),
        (AttributeFlags::empty(), b"one"),
        (AttributeFlags::ROOT, b"two"),
    ];
    assert_eq!(names, expected);
    assert_eq!((all[1].value, all[2].value), (&b"1"[..], &b"22"[..]));
    assert_eq!(all[0].value, [0, 0, 0, 0, 0, 0, 0, 0x40, 0, 0, 0, 0]);
}

#[test]
fn each_check_rejects_its_damage() {
    use AttributeShortformFault as F;
    let cases: &[(&str, usize, &[u8], F)] = &[
        ("size", 0, &[1, 0], F::TotalSize { total_bytes: 256, available_bytes: 144 }),
        ("no header", 0, &[0, 3], F::TotalSize { total_bytes: 3, available_bytes: 144 }),
        ("count", 2, &[2], F::TrailingBytes { count: 2, walked_bytes: 36, end_bytes: 44 }),
        ("more", 2, &[4], F::EntryPastEnd { index: 3, offset_bytes: 44, end_bytes: 44 }),
        ("value length", 30, &[39], F::EntryPastEnd { index: 1, offset_bytes: 29, end_bytes: 44 }),
        ("no name", 29, &[0], F::NameLength { index: 1 }),
        ("zero byte", 32, &[0], F::NameCharacter { index: 1 }),
        ("slash in a parent pointer", 7, b"/", F::NameCharacter { index: 0 }),
        ("two namespaces", 31, &[6], F::Flags { index: 1, flags: 6 }),
        ("not here", 31, &[1], F::Flags { index: 1, flags: 1 }),
        ("half made", 31, &[0x80], F::Flags { index: 1, flags: 0x80 }),
    ];
    for (name, offset, value, fault) in cases {
        assert_eq!(patched(AttributeShortform, &[(*offset, value)]), Err((*fault).into()), "{name}");
    }
}
