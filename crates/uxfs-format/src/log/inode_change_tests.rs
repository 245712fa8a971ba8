use super::*;
use crate::log::item::LogItem;

/// INODE items of real logs: as logged → on disk → as logged is the identity.
#[test]
fn logged_inodes_go_to_disk_and_back() {
    let mut count = 0;
    for line in include_str!("../../testdata/log/items.txt").lines() {
        let words = line.split(' ').skip(1);
        let regions: Vec<Vec<u8>> = words
            .map(|word| {
                (0..word.len())
                    .step_by(2)
                    .map(|at| u8::from_str_radix(&word[at..at + 2], 16).unwrap())
                    .collect()
            })
            .collect();
        let regions: Vec<&[u8]> = regions.iter().map(Vec::as_slice).collect();
        let Ok(LogItem::Inode(item)) = LogItem::decode(&regions) else { continue };
        count += 1;
        let mut inode = vec![0; 512];
        item.apply_to(&mut inode, Lsn::from_parts(3, 8)).unwrap();
        let core = InodeCore::prefix_of(&inode).unwrap();
        assert_eq!(core.lsn.get(), 3 << 32 | 8);
        let mut expected = *item.core;
        let again = LoggedInodeCore::of_disk(core);
        (expected.next_unlinked, expected.checksum, expected.lsn) =
            (again.next_unlinked, again.checksum, again.lsn);
        assert_eq!(again, expected, "{line}");
        let data_end = if core.fork_offset == 0 { 512 } else { 176 + usize::from(core.fork_offset) * 8 };
        if let (Some(logged), Some((field, bytes))) =
            (item.data_fork, logged_fork(core, Fork::Data, &inode[176..data_end]))
        {
            assert!(item.fields.contains(field), "{line}");
            // A root's header says nothing but level and count.
            let skip = if field == InodeItemFields::DATA_BTREE_ROOT { 72 } else { 0 };
            assert_eq!(bytes[skip..], logged[skip..], "{line}");
        }
    }
    assert!(count >= 3, "{count} inodes");
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
    assert_eq!(long_root(&fork).unwrap()[72..], long[72..]);
    // More than there is room for, none, no level, more than the region holds.
    assert_eq!(short_root(&long, &mut [0; 64]), None);
    for (at, value) in [(7, 0), (5, 0), (7, 6)] {
        let mut damaged = long.clone();
        damaged[at] = value;
        assert_eq!(short_root(&damaged, &mut fork), None);
    }
}
