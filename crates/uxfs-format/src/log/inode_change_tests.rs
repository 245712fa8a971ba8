use super::*;
use crate::log::item::LogItem;

/// INODE items of real logs: what they say is on disk afterwards, in the byte order of the disk.
#[test]
fn logged_inodes_go_to_disk() {
    let mut count = 0;
    for line in include_str!("../../testdata/log/items.txt").lines() {
        let unhex = |word: &str| -> Vec<u8> {
            (0..word.len()).step_by(2).map(|at| u8::from_str_radix(&word[at..at + 2], 16).unwrap()).collect()
        };
        let regions: Vec<Vec<u8>> = line.split(' ').skip(1).map(unhex).collect();
        let regions: Vec<&[u8]> = regions.iter().map(Vec::as_slice).collect();
        let Ok(LogItem::Inode(item)) = LogItem::decode(&regions) else { continue };
        count += 1;
        let mut inode = vec![0; 512];
        item.apply_to(&mut inode, Lsn::from_parts(3, 8)).unwrap();
        assert!(checksum::check(&inode, CHECKSUM_OFFSET_BYTES).is_ok());
        let core = *InodeCore::prefix_of(&inode).unwrap();
        assert_eq!(core.lsn.get(), 3 << 32 | 8);
        let logged = item.core;
        let sizes =
            [core.size_bytes.get(), core.blocks.get(), core.large_extent_count.get(), core.flags2.get()];
        let expected = [&logged.size_bytes, &logged.blocks, &logged.large_data_extents, &logged.flags2];
        assert_eq!(sizes, expected.map(|number| number.get()), "{line}");
        let words = [core.uid.get(), core.gid.get(), core.link_count.get(), core.generation.get()];
        let expected = [&logged.user_id, &logged.group_id, &logged.link_count, &logged.generation];
        assert_eq!(words, expected.map(|number| number.get()), "{line}");
        assert_eq!((core.mode.get(), core.flags.get()), (logged.mode.get(), logged.flags.get()));
        assert_eq!((core.uuid, core.number.get()), (logged.uuid, logged.inode.get()));
        // Those of "big time" are one number.
        assert_eq!(core.change_time.0.get(), logged.change_time.get(), "{line}");
        if let Some(fork) = item.data_fork.filter(|_| !item.fields.contains(InodeItemFields::DATA_BTREE_ROOT))
        {
            assert_eq!(inode[176..176 + fork.len()], *fork, "{line}");
        }
    }
    assert!(count >= 3, "{count} inodes");
}

#[test]
fn small_times_are_two_numbers() {
    assert_eq!(disk_time(U64::new(7 << 32 | 5), false).0.get(), 5 << 32 | 7);
    assert_eq!(disk_time(U64::new(7 << 32 | 5), true).0.get(), 7 << 32 | 5);
}

#[test]
fn roots_keep_their_entries_in_both_forms() {
    let mut long = vec![0; 72 + 5 * 16];
    long[5] = 2;
    long[7] = 5;
    for (index, byte) in long[72..].iter_mut().enumerate() {
        *byte = index as u8;
    }
    let mut fork = vec![0; 192];
    short_root(&long, &mut fork).unwrap();
    assert_eq!(fork[4..44], long[72..112]);
    // Eleven entries fit 192 bytes.
    assert_eq!(fork[4 + 88..4 + 88 + 40], long[112..]);
    // More than there is room for, none, no level, more than the region holds.
    assert_eq!(short_root(&long, &mut [0; 64]), None);
    for (at, value) in [(7, 0), (5, 0), (7, 6)] {
        let mut damaged = long.clone();
        damaged[at] = value;
        assert_eq!(short_root(&damaged, &mut fork), None);
    }
}

/// Roots of btrees of the realtime section may be leaves, also empty ones; of the reverse map a node has two keys for each pointer.
#[test]
fn roots_of_the_realtime_section_keep_their_entries() {
    for (metadata_type, key_bytes, record_bytes) in [(7, 40, 24), (8, 4, 12)] {
        let shape = RootShape::of_metadata(metadata_type).unwrap();
        let long = |level: u8, count: u8, bytes: usize| {
            let mut long: Vec<u8> = (0..72 + bytes).map(|index| index as u8).collect();
            long[4..8].copy_from_slice(&[0, level, 0, count]);
            long
        };
        let leaf = long(0, 2, 2 * record_bytes);
        let mut fork = vec![0; 192];
        shape.shorten(&leaf, &mut fork).unwrap();
        assert_eq!((&fork[..4], &fork[4..4 + 2 * record_bytes]), (&leaf[4..8], &leaf[72..]));
        shape.shorten(&long(0, 0, 0), &mut fork).unwrap();
        // Room for three entries in the log, and for as many as fit on disk.
        let node = long(1, 2, 3 * (key_bytes + 8));
        shape.shorten(&node, &mut fork).unwrap();
        let capacity = 188 / (key_bytes + 8);
        assert_eq!(fork[4..4 + 2 * key_bytes], node[72..72 + 2 * key_bytes]);
        let pointers = 4 + capacity * key_bytes;
        assert_eq!(fork[pointers..pointers + 16], node[72 + 3 * key_bytes..72 + 3 * key_bytes + 16]);
        assert_eq!(shape.shorten(&long(0, 20, 20 * record_bytes), &mut [0; 64]), None);
        assert_eq!(shape.shorten(&long(0, 3, 2 * record_bytes), &mut fork), None);
        assert_eq!(shape.shorten(&long(1, 0, key_bytes + 8), &mut fork), None);
    }
    assert!(RootShape::of_metadata(5).is_none());
}
