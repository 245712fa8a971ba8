//! Entries of the tables that map the disk's clusters to the file's.

/// Bytes 9 to 55 of an entry: where in the file something lies.
const OFFSET_MASK: u64 = 0x00ff_ffff_ffff_fe00;
const COMPRESSED: u64 = 1 << 62;
const ZERO: u64 = 1;
/// What is compressed is counted in these.
const SECTOR_BYTES: u64 = 512;
/// Parts of a cluster that extended entries tell of.
pub(super) const PARTS_BITS: u32 = 5;

/// Where a stretch of the disk lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Mapping {
    /// In the backing file; zeros where there is none.
    Backing,
    /// It is zero.
    Zero,
    /// At this byte of the file: the first byte of the cluster.
    Data { cluster_offset: u64 },
    /// Compressed, in these many bytes of the file or fewer.
    Compressed { offset: u64, most_bytes: u64 },
}

/// Where a second table lies, by an entry of the first; `None` for a part of the disk that has none.
pub(super) fn table_of(l1_entry: u64) -> Option<u64> {
    Some(l1_entry & OFFSET_MASK).filter(|offset| *offset != 0)
}

/// The cluster of an entry. `parts`: of an extended entry which parts are there, and which are zero; and the part that is meant.
pub(super) fn mapping(
    entry: u64,
    parts: Option<(u64, u32)>,
    cluster_bits: u32,
    has_zero_bit: bool,
) -> Mapping {
    if entry & COMPRESSED != 0 {
        let offset_bits = 62 - (cluster_bits - 8);
        let offset = entry & ((1 << offset_bits) - 1);
        let more_sectors = (entry & (COMPRESSED - 1)) >> offset_bits;
        let most_bytes = (more_sectors + 1) * SECTOR_BYTES - offset % SECTOR_BYTES;
        return Mapping::Compressed { offset, most_bytes };
    }
    let cluster_offset = entry & OFFSET_MASK;
    match parts {
        Some((bitmap, part)) => {
            let (is_there, is_zero) = ((bitmap >> part) & 1 != 0, (bitmap >> (part + 32)) & 1 != 0);
            match (is_zero, is_there) {
                (true, _) => Mapping::Zero,
                (_, true) => Mapping::Data { cluster_offset },
                _ => Mapping::Backing,
            }
        }
        None if has_zero_bit && entry & ZERO != 0 => Mapping::Zero,
        None if cluster_offset == 0 => Mapping::Backing,
        None => Mapping::Data { cluster_offset },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_are_as_the_specification_has_them() {
        let plain = |entry| mapping(entry, None, 16, true);
        assert_eq!(plain(0), Mapping::Backing);
        assert_eq!(plain(1), Mapping::Zero);
        assert_eq!(plain(0x8000_0000_0005_0001), Mapping::Zero);
        assert_eq!(mapping(0x50001, None, 16, false), Mapping::Data { cluster_offset: 0x50000 });
        assert_eq!(plain(0x8000_0000_0005_0000), Mapping::Data { cluster_offset: 0x50000 });
        // 54 bits of offset, 8 of sectors.
        let packed = COMPRESSED | (3 << 54) | 0x12345;
        let expected = Mapping::Compressed { offset: 0x12345, most_bytes: 4 * 512 - 0x145 };
        assert_eq!(plain(packed), expected);
        let part = |bitmap, part| mapping(0x50000, Some((bitmap, part)), 16, true);
        assert_eq!(part(0b10, 1), Mapping::Data { cluster_offset: 0x50000 });
        assert_eq!(part(0b10, 0), Mapping::Backing);
        assert_eq!(part(1 << 63, 31), Mapping::Zero);
        assert_eq!(mapping(packed, Some((0, 5)), 16, true), expected);
        assert_eq!(table_of(1 << 63), None);
        assert_eq!(table_of((1 << 63) | 0x30000), Some(0x30000));
    }
}
