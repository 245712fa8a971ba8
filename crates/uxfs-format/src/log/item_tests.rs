use proptest::prelude::*;

use super::*;
use crate::{
    field_table::bits,
    log::{
        attribute::AttributeOperation,
        buffer_item::{BufferContents, BufferFlags},
        extent_map, reference_count, reverse_map,
    },
    superblock::Superblock,
};

/// Items from real logs by name; see `testdata/log/README.md`.
fn golden() -> Vec<(String, Vec<Vec<u8>>)> {
    let unhex = |text: &str| -> Vec<u8> {
        (0..text.len()).step_by(2).map(|at| u8::from_str_radix(&text[at..at + 2], 16).unwrap()).collect()
    };
    let lines = include_str!("../../testdata/log/items.txt").lines().map(|line| {
        let mut words = line.split(' ');
        (words.next().unwrap().to_owned(), words.map(unhex).collect())
    });
    lines.collect()
}

/// Items that the kernel at hand cannot write, for lack of quota: the layout as documented, not from a disk.
fn handmade() -> Vec<(String, Vec<Vec<u8>>)> {
    let mut quota = vec![0; 24];
    quota[..4].copy_from_slice(&[0x3d, 0x12, 2, 0]);
    quota[8] = 128;
    quota[16] = 1;
    let mut end = vec![0; 20];
    end[..4].copy_from_slice(&[0x3e, 0x12, 1, 0]);
    vec![("DQUOT".to_owned(), vec![quota, vec![0; 104]]), ("QUOTAOFF".to_owned(), vec![end])]
}

fn item(name: &str) -> Vec<Vec<u8>> {
    let mut all = golden().into_iter().chain(handmade());
    all.find(|(found, _)| found == name).unwrap_or_else(|| panic!("no {name}")).1
}

fn decode<T>(regions: &[Vec<u8>], look: impl FnOnce(Result<LogItem<'_>, LogItemFault>) -> T) -> T {
    let regions: Vec<&[u8]> = regions.iter().map(Vec::as_slice).collect();
    look(LogItem::decode(&regions))
}

fn geometry() -> Geometry {
    Geometry::new(Superblock::prefix_of(include_bytes!("../../testdata/log/superblock.bin")).unwrap())
}

/// Changes bytes of one region of an item and gives what its decoder, then its verifier, says.
fn patched(name: &str, region: usize, offset: usize, value: &[u8]) -> Option<LogItemFault> {
    let mut regions = item(name);
    regions[region][offset..offset + value.len()].copy_from_slice(value);
    decode(&regions, |item| item.and_then(|item| item.verify(&geometry())).err())
}

#[test]
fn items_of_the_kernel_decode_and_name_their_kind() {
    let mut kinds = std::collections::BTreeSet::new();
    for (name, regions) in golden().into_iter().chain(handmade()) {
        decode(&regions, |item| {
            let item = item.unwrap_or_else(|fault| panic!("{name}: {fault}"));
            assert_eq!(item.verify(&geometry()), Ok(()), "{name}");
            assert_eq!(Some(item.item_type().name()), name.split('_').next());
            kinds.insert(item.item_type());
            for part in item.parts() {
                for field in part.fields {
                    assert!(field.bit_offset + field.bit_length * field.count <= bits(part.bytes.len()));
                }
            }
        });
    }
    let missing: Vec<_> = ItemType::ALL.iter().filter(|kind| !kinds.contains(kind)).collect();
    assert!(missing.iter().all(|kind| kind.is_realtime()), "{missing:?}");
    assert!(ItemType::ALL.iter().all(|kind| ItemType::from_raw(kind.raw()) == Some(*kind)));
}

#[test]
fn realtime_items_share_their_layout_and_no_number_of_theirs_is_judged() {
    for (name, realtime) in
        [("EFI", 0x4a), ("EFD", 0x4b), ("RUI", 0x4c), ("RUD", 0x4d), ("CUI", 0x4e), ("CUD", 0x4f)]
    {
        let mut regions = item(name);
        regions[0][0] = realtime;
        if regions[0].len() > 24 {
            regions[0][16..24].fill(0x7f);
        }
        decode(&regions, |item| {
            let item = item.unwrap();
            assert_eq!(item.item_type().name(), format!("{name}_RT"));
            assert_eq!(item.verify(&geometry()), Ok(()));
        });
    }
}

#[test]
fn what_real_items_say() {
    decode(&item("ICREATE"), |item| {
        let Ok(LogItem::InodeCreate(item)) = item else { panic!("{item:?}") };
        assert_eq!(
            (item.inode_count.get(), item.inode_size_bytes.get(), item.length_blocks.get()),
            (64, 512, 8)
        );
    });
    decode(&item("ATTRI_ReplaceParent"), |item| {
        let Ok(LogItem::AttributeIntent(item)) = item else { panic!("{item:?}") };
        assert_eq!(item.operation, AttributeOperation::ReplaceParent);
        assert_eq!((item.value.len(), item.new_value.map(<[u8]>::len)), (12, Some(12)));
        assert!(item.name.starts_with(b"name") && item.new_name.unwrap().starts_with(b"name"), "{item:?}");
    });
    decode(&item("BUF_PLAIN_2"), |item| {
        let Ok(LogItem::Buffer(item)) = item else { panic!("{item:?}") };
        assert_eq!(item.format.contents(), Some(BufferContents::Btree));
        let offsets: Vec<_> = item.changes().map(|(offset, bytes)| (offset, bytes.len())).collect();
        assert_eq!(offsets.len(), 2);
        assert!(offsets.iter().all(|(offset, length)| offset % 128 == 0 && length % 128 == 0));
        assert!(offsets[0].0 < offsets[1].0);
    });
    decode(&item("BUF_CANCEL_0"), |item| {
        let Ok(LogItem::Buffer(item)) = item else { panic!("{item:?}") };
        assert!(item.format.buffer_flags().contains(BufferFlags::CANCEL));
        assert_eq!(item.changes().count(), 0);
    });
    decode(&item("INODE_43"), |item| {
        let Ok(LogItem::Inode(item)) = item else { panic!("{item:?}") };
        let format = item.format();
        assert_eq!(item.data_fork.unwrap().len(), usize::from(format.data_bytes.get()));
        assert_eq!(item.attribute_fork.unwrap().len(), usize::from(format.attribute_bytes.get()));
        assert_eq!(item.core.mode.get() & 0o170_000, 0o040_000, "a shortform directory");
        assert_eq!(item.core.uuid, geometry().metadata_uuid);
    });
    decode(&item("RUI"), |item| {
        let Ok(LogItem::ReverseMapIntent(item)) = item else { panic!("{item:?}") };
        assert!(reverse_map::operation(item.extents[0].flags.get()).is_some());
    });
    decode(&item("CUI"), |item| {
        let Ok(LogItem::ReferenceCountIntent(item)) = item else { panic!("{item:?}") };
        assert!(reference_count::operation(item.extents[0].flags.get()).is_some());
    });
    decode(&item("BUI"), |item| {
        let Ok(LogItem::ExtentMapIntent(item)) = item else { panic!("{item:?}") };
        assert!(extent_map::operation(item.extent.flags.get()).is_some());
        assert_eq!(item.extent.owner.get(), 132);
    });
}

#[test]
fn forms_of_32_bit_machines_are_read() {
    let mut inode = item("INODE_3");
    inode[0].drain(12..16);
    let padded = item("INODE_3");
    decode(&inode, |packed| {
        let Ok(LogItem::Inode(packed)) = packed else { panic!("{packed:?}") };
        decode(&padded, |padded| {
            let Ok(LogItem::Inode(padded)) = padded else { panic!("{padded:?}") };
            assert_eq!(packed.format(), padded.format());
        });
    });
    let mut free = item("EFI");
    free[0].truncate(28);
    decode(&free, |packed| {
        let Ok(LogItem::FreeExtent(packed)) = packed else { panic!("{packed:?}") };
        assert_eq!(packed.extents.iter().count(), 1);
    });
}

#[test]
fn each_check_rejects_its_damage() {
    use ItemType as T;
    use LogItemFault as F;
    let flags = |item, flags| F::Flags { item, flags };
    let length = |item, region, length_bytes, needed_bytes| F::RegionLength {
        item,
        region,
        length_bytes,
        needed_bytes,
    };
    let one_sector_chunk_31 = [1, 0, 0x20, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0x80];
    let cases: &[(&str, usize, usize, &[u8], F)] = &[
        ("EFI", 0, 0, &[0x38], F::UnknownType { kind: 0x1238 }),
        ("EFI", 0, 2, &[2], F::RegionCount { item: T::FreeExtentIntent, found: 1, expected: 2 }),
        ("EFI", 0, 4, &[9], F::ExtentCount { item: T::FreeExtentIntent, count: 9, length_bytes: 32 }),
        (
            "RUI",
            0,
            4,
            &[0xff; 4],
            F::ExtentCount { item: T::ReverseMapIntent, count: u32::MAX, length_bytes: 48 },
        ),
        ("RUI", 0, 44, &[9, 0, 0, 0], flags(T::ReverseMapIntent, 9)),
        ("CUI", 0, 28, &[5], flags(T::ReferenceCountIntent, 5)),
        ("BUI", 0, 44, &[1, 0, 0, 0x10], flags(T::ExtentMapIntent, 0x1000_0001)),
        ("BUI", 0, 16, &[1, 0, 0, 0], F::NoSuchInode { item: T::ExtentMapIntent, inode: 1 }),
        ("XMI", 0, 64, &[0x80], flags(T::ExchangeIntent, 0x80)),
        ("XMI", 0, 16, &[2], F::NoSuchInode { item: T::ExchangeIntent, inode: 2 }),
        ("ATTRI_RemoveParent", 0, 24, &[9], flags(T::AttributeIntent, 9)),
        ("ATTRI_RemoveParent", 0, 36, &[1], flags(T::AttributeIntent, 1)),
        ("ATTRI_RemoveParent", 0, 28, &[0, 1], F::AttributeLengths { name_bytes: 256, value_bytes: 12 }),
        ("ATTRI_RemoveParent", 0, 32, &[20], length(T::AttributeIntent, 2, 12, 20)),
        ("ATTRI_RemoveParent", 0, 16, &[5, 0, 0], F::NoSuchInode { item: T::AttributeIntent, inode: 5 }),
        ("BUF_PLAIN_1", 0, 16, &[2], length(T::Buffer, 0, 24, 28)),
        ("BUF_PLAIN_1", 0, 4, &[0x80], flags(T::Buffer, 0x2080)),
        ("BUF_PLAIN_1", 0, 5, &[0xa8], flags(T::Buffer, 0xa800)),
        ("BUF_PLAIN_1", 0, 20, &[0, 0, 0, 0], F::ChunkRun { region: 1, length_bytes: 128, run_bytes: 0 }),
        ("BUF_PLAIN_1", 0, 6, &one_sector_chunk_31, F::ChunkOutside { chunk: 31, chunks: 4 }),
        ("BUF_PLAIN_1", 0, 20, &[3, 0, 0, 0], F::ChunkMissing { chunk: 1 }),
        ("BUF_PLAIN_1", 0, 15, &[0x80], F::OutsideFileSystem { item: T::Buffer, start: u64::MAX, length: 8 }),
        ("INODE_3", 0, 4, &[0x7], flags(T::Inode, 0x7)),
        ("INODE_3", 0, 5, &[0x40], flags(T::Inode, 0x4003)),
        ("INODE_3", 0, 10, &[200], length(T::Inode, 2, 16, 200)),
        ("INODE_3", 0, 4, &[0x43], F::RegionCount { item: T::Inode, found: 3, expected: 4 }),
        ("INODE_3", 0, 4, &[0x1], F::RegionCount { item: T::Inode, found: 3, expected: 2 }),
        ("INODE_3", 1, 0, &[0], F::InodeCore { magic: 0x4900, version: 3 }),
        ("INODE_3", 1, 4, &[2], F::InodeCore { magic: 0x494e, version: 2 }),
        ("INODE_3", 0, 16, &[0x81], F::InodeNumber { inode: 0x81, core: 0x80 }),
        ("INODE_3", 0, 53, &[0x80], F::OutsideFileSystem { item: T::Inode, start: 128, length: 32 }),
        (
            "ICREATE",
            0,
            8,
            &[0, 1, 0, 0],
            F::OutsideFileSystem { item: T::InodeCreate, start: 65536, length: 8 },
        ),
        ("ICREATE", 0, 15, &[63], F::InodeChunk { count: 63, size_bytes: 512, length_blocks: 8 }),
        ("ICREATE", 0, 18, &[4], F::InodeChunk { count: 64, size_bytes: 1024, length_blocks: 8 }),
        ("DQUOT", 0, 20, &[0xff; 4], F::OutsideFileSystem { item: T::Quota, start: 128, length: 8 }),
    ];
    let mut wrong = Vec::new();
    for (name, region, offset, value, fault) in cases {
        let found = patched(name, *region, *offset, value);
        if found != Some(*fault) {
            wrong.push(format!("{name} {region}+{offset}: {found:?}, not {fault:?}"));
        }
    }
    assert_eq!(wrong, Vec::<String>::new());
}

proptest! {
    #[test]
    fn any_regions_give_an_answer(
        regions in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..300), 0..6),
        kind in 0x1236u16..0x1251,
    ) {
        let mut regions = regions;
        let count = regions.len() as u16;
        if let Some(first) = regions.first_mut().filter(|first| first.len() >= 4) {
            first[..2].copy_from_slice(&kind.to_le_bytes());
            first[2..4].copy_from_slice(&count.to_le_bytes());
        }
        decode(&regions, |item| {
            if let Ok(item) = item {
                let _ = item.verify(&geometry());
                let _ = item.parts();
            }
        });
    }

    #[test]
    fn damaged_items_give_an_answer(
        which in any::<proptest::sample::Index>(),
        changes in proptest::collection::vec((any::<proptest::sample::Index>(), any::<proptest::sample::Index>(), any::<u8>()), 1..6),
        cut in any::<proptest::sample::Index>(),
        shorten in any::<bool>(),
    ) {
        let all = golden();
        let mut regions = which.get(&all).1.clone();
        for (region, offset, value) in changes {
            let at = region.index(regions.len());
            let region = &mut regions[at];
            let offset = offset.index(region.len());
            region[offset] = value;
        }
        if shorten {
            let length = cut.index(regions[0].len());
            regions[0].truncate(length);
        }
        decode(&regions, |item| {
            if let Ok(item) = item {
                let _ = item.verify(&geometry());
                let _ = item.parts();
                if let LogItem::Buffer(buffer) = item {
                    prop_assert!(buffer.changes().count() <= buffer.contents.len());
                }
            }
            Ok(())
        })?;
    }
}
