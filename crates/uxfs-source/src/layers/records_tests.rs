//! Records against what they were made of.

use proptest::prelude::*;

use super::*;
use crate::content::FileContent;
use crate::entry::{Attribute, Timestamp};

fn time() -> impl Strategy<Value = Timestamp> {
    let seconds = prop_oneof![any::<i64>(), Just(0), Just(1_700_000_000)];
    (seconds, 0..1_000_000_000_u32).prop_map(|(seconds, nanoseconds)| Timestamp { seconds, nanoseconds })
}

fn metadata() -> impl Strategy<Value = Metadata> {
    let times = (time(), prop::option::of(time()), prop::option::of(time()), prop::option::of(time()));
    let bytes = || prop::collection::vec(any::<u8>(), 0..20);
    let attributes = prop::collection::vec((bytes(), bytes()), 0..3);
    (0..0o10000_u16, any::<u32>(), any::<u32>(), times, attributes).prop_map(
        |(mode, user, group, (modification, access, change, creation), attributes)| Metadata {
            mode,
            user,
            group,
            times: Times {
                modification,
                access: access.unwrap_or(modification),
                change: change.unwrap_or(modification),
                creation,
            },
            attributes: attributes
                .into_iter()
                .map(|(name, value)| Attribute { name: name.into(), value: value.into() })
                .collect(),
            link: None,
        },
    )
}

/// Ranges in order, and the size of their file.
fn ranges() -> impl Strategy<Value = (u64, Vec<ByteRange>)> {
    prop::collection::vec((0..1_u64 << 40, 1..1_u64 << 40), 1..5).prop_map(|gaps| {
        let mut end = 0;
        let mut ranges = Vec::new();
        for (gap, length_bytes) in gaps {
            ranges.push(ByteRange { offset_bytes: end + gap, length_bytes });
            end += gap + length_bytes;
        }
        (end, ranges)
    })
}

fn round(metadata: &Metadata, kind: Kind) -> Stored {
    let entry = StreamEntry { path: b"path".as_slice().into(), metadata: metadata.clone(), kind };
    let mut record = Vec::new();
    encode(&entry, 5, &mut Handles::default(), &mut record);
    // One that is cut short is none.
    for length in 0..record.len() {
        assert_eq!(decode(&record[..length]), None);
    }
    let stored = decode(&record).unwrap();
    assert_eq!((stored.layer, &stored.metadata), (5, metadata));
    let is_in_stream = matches!(&stored.what, What::Regular { content: StoredContent::Stream(_), .. });
    assert_eq!(&*stored.home, if is_in_stream { b"path".as_slice() } else { b"" });
    stored
}

proptest! {
    #[test]
    fn what_is_written_is_read(
        metadata in metadata(),
        (size_bytes, ranges) in ranges(),
        number in any::<u32>(),
        inode in any::<u64>(),
    ) {
        let content = |content: Content| match round(&metadata, Kind::Regular { size_bytes, content }).what {
            What::Regular { size_bytes: found, content } => {
                assert_eq!(found, size_bytes);
                content
            }
            what => panic!("{what:?}"),
        };
        prop_assert_eq!(content(Content::Hole), StoredContent::Hole);
        let bytes: Box<[u8]> = [1, 2, 3].into();
        prop_assert_eq!(content(Content::Inline(bytes.clone())), StoredContent::Inline(bytes));
        let stream = Content::Stream(ranges.clone().into());
        prop_assert_eq!(content(stream), StoredContent::Stream(ranges.clone().into()));
        let whole = [ByteRange { offset_bytes: 0, length_bytes: size_bytes }];
        prop_assert_eq!(content(Content::Stream(whole.into())), StoredContent::Stream(whole.into()));
        let mut source_bytes = u64::from(number);
        let placed: Box<[DataRange]> = ranges
            .iter()
            .map(|range| {
                let ByteRange { offset_bytes, length_bytes } = *range;
                source_bytes += length_bytes;
                DataRange { offset_bytes, length_bytes, source_bytes: source_bytes - length_bytes }
            })
            .collect();
        let archive = Arc::new(File::open("/dev/null").unwrap());
        let region = Content::of_archive(&archive, b"".as_slice().into(), size_bytes, placed.clone());
        prop_assert_eq!(content(region), StoredContent::Region(placed));
        let place = ContentLocation::Host("/some/path".into());
        let host = FileContent { place, size_bytes, may_have_holes: inode % 2 == 0 };
        let expected = StoredContent::Host { path: "/some/path".into(), may_have_holes: inode % 2 == 0 };
        prop_assert_eq!(content(Content::File(Arc::new(host))), expected);
        let device = DeviceNumber { major: number, minor: !number };
        prop_assert_eq!(round(&metadata, Kind::CharacterDevice(device)).what, What::CharacterDevice(device));
        prop_assert_eq!(round(&metadata, Kind::BlockDevice(device)).what, What::BlockDevice(device));
        let target: Box<[u8]> = inode.to_le_bytes().into();
        prop_assert_eq!(round(&metadata, Kind::Symlink { target: target.clone() }).what, What::Symlink(target));
        for (kind, what) in [
            (Kind::Directory(DirectoryId(inode)), What::Directory),
            (Kind::Fifo, What::Fifo),
            (Kind::Socket, What::Socket),
        ] {
            prop_assert_eq!(round(&metadata, kind).what, what);
        }
    }

    #[test]
    fn any_bytes_are_a_record_or_none(bytes in prop::collection::vec(any::<u8>(), 0..60)) {
        let _ = decode(&bytes);
    }
}
