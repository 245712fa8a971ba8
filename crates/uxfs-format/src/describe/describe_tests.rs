use super::{leaves::leaves, value::*, *};
use crate::superblock::Superblock;

/// First sector of a 512 MiB image made by mkfs.xfs 7.2.0, and what `xfs_db -r -c 'sb 0' -c print` says of it.
const SUPERBLOCK: &[u8] = include_bytes!("../../testdata/superblock.bin");
const SUPERBLOCK_PRINT: &str = include_str!("../../testdata/superblock.xfs_db.txt");

fn geometry() -> Geometry {
    Geometry::new(Superblock::prefix_of(SUPERBLOCK).unwrap())
}

fn printed(structure: Structure, bytes: &[u8]) -> String {
    let mut out = String::new();
    text::write(&describe(structure, bytes, &geometry()), bytes, &mut out).unwrap();
    out
}

#[test]
fn superblock_prints_as_xfs_db_prints_it() {
    assert_eq!(printed(Structure::Superblock, SUPERBLOCK), SUPERBLOCK_PRINT);
}

#[test]
fn a_broken_checksum_is_said_so() {
    let mut bytes = SUPERBLOCK.to_vec();
    bytes[400] ^= 1;
    assert!(printed(Structure::Superblock, &bytes).contains(" (bad)\n"));
}

#[test]
fn short_bytes_give_the_fields_that_they_hold() {
    for length in [0, 3, 4, 5, 303] {
        let bytes = &SUPERBLOCK[..length];
        let description = describe(Structure::Superblock, bytes, &geometry());
        let fits = |leaf: &leaves::Leaf| read(bytes, &leaf.place).is_some();
        assert!(leaves(&description).iter().all(fits), "{length} bytes");
    }
}

#[test]
fn leaves_cover_every_bit_of_the_superblock() {
    let description = describe(Structure::Superblock, SUPERBLOCK, &geometry());
    let covered: u32 = leaves(&description).iter().map(|leaf| leaf.place.bit_length).sum();
    assert_eq!(covered, bits(Superblock::SIZE_BYTES));
}

#[test]
fn bits_are_read_and_written_at_any_position() {
    let mut bytes = [0xa5u8; 12];
    assert_eq!(read_bits(&bytes, 1, 7), Some(0x25));
    assert_eq!(read_bits(&bytes, 4, 8), Some(0x5a));
    assert_eq!(read_bits(&bytes, 3, 64), Some(0x2d2d_2d2d_2d2d_2d2d));
    assert_eq!(read_bits(&bytes, 33, 64), None, "ends outside");
    assert!(write_bits(&mut bytes, 3, 54, 0x2a_aaaa_aaaa_aaaa));
    assert_eq!(read_bits(&bytes, 3, 54), Some(0x2a_aaaa_aaaa_aaaa));
    assert_eq!(read_bits(&bytes, 0, 3), Some(5), "bits before stay");
    assert_eq!(read_bits(&bytes, 57, 39), Some(0x25_a5a5_a5a5), "bits after stay");
    assert!(!write_bits(&mut bytes, 90, 7, 0));
}

#[test]
fn values_are_written_as_c_writes_them() {
    let written = |number, format| {
        Written(Value::Unsigned { number, is_null: false }, Format::Table(format)).to_string()
    };
    assert_eq!(written(0, FieldFormat::Hexadecimal), "0");
    assert_eq!(written(0o40755, FieldFormat::Octal), "040755");
    assert_eq!(written(2, FieldFormat::InodeFormat), "2 (extents)");
    assert_eq!(written(9, FieldFormat::InodeFormat), "9");
    let text = Written(Value::Bytes(b"a\"\\\n\x01\xff ~?"), Format::Table(FieldFormat::Text)).to_string();
    assert_eq!(text, r#""a\"\\\n\001\377 ~\?""#);
}

#[test]
fn dates_are_those_of_ctime_in_utc() {
    // From `date -u -d @N '+%a %b %e %H:%M:%S %Y'`.
    let cases = [
        (0, "Thu Jan  1 00:00:00 1970"),
        (-1, "Wed Dec 31 23:59:59 1969"),
        (951_782_400, "Tue Feb 29 00:00:00 2000"),
        (-2_147_483_648, "Fri Dec 13 20:45:52 1901"),
        (16_299_260_424, "Tue Jul  2 20:20:24 2486"),
        (4_107_542_399, "Sun Feb 28 23:59:59 2100"),
        (4_107_542_400, "Mon Mar  1 00:00:00 2100"),
    ];
    for (seconds, date) in cases {
        let value = Value::Time { seconds, nanoseconds: 0 };
        assert_eq!(Written(value, Format::Time { bigtime: true }).to_string(), date);
    }
}

#[test]
fn inode_times_follow_the_flag() {
    let place = |bigtime| Place {
        bit_offset: 0,
        bit_length: 64,
        format: Format::Time { bigtime },
        little_endian: false,
    };
    let old = [0xff, 0xff, 0xff, 0xff, 0, 0, 0, 7];
    assert_eq!(read(&old, &place(false)), Some(Value::Time { seconds: -1, nanoseconds: 7 }));
    let new = ((1u64 << 31) * 1_000_000_000 + 5).to_be_bytes();
    assert_eq!(read(&new, &place(true)), Some(Value::Time { seconds: 0, nanoseconds: 5 }));
}

/// One structure each of a 64 MiB image with 1 KiB blocks that mkfs.xfs 7.2.0 made and Linux 6.18 filled, taken with
/// `dd` from where `xfs_db -c daddr` said; beside it what `TZ=UTC xfs_db -r -c … -c print` says of it.
macro_rules! golden {
    ($($name:literal $structure:ident,)*) => {
        &[$((
            $name,
            Structure::$structure,
            include_bytes!(concat!("../../testdata/describe/", $name, ".bin")).as_slice(),
            include_str!(concat!("../../testdata/describe/", $name, ".txt")),
        )),*]
    };
}

const GOLDEN: &[(&str, Structure, &[u8], &str)] = golden! {
    "superblock" Superblock,
    "agf" FreeSpaceHeader,
    "agi" InodeHeader,
    "agfl" FreeList,
    "bnobt-node" FreeSpaceByBlock,
    "bnobt-leaf" FreeSpaceByBlock,
    "cntbt-node" FreeSpaceByLength,
    "cntbt-leaf" FreeSpaceByLength,
    "inobt-node" InodeIndex,
    "inobt-leaf" InodeIndex,
    "finobt-leaf" FreeInodeIndex,
    "rmapbt-node" ReverseMap,
    "rmapbt-leaf" ReverseMap,
    "refcntbt-node" ReferenceCount,
    "refcntbt-leaf" ReferenceCount,
    "bmbt-node" ExtentMap,
    "bmbt-leaf" ExtentMap,
    "inode-sf" Inode,
    "inode-block" Inode,
    "inode-leaf" Inode,
    "inode-sl_local" Inode,
    "inode-sl_remote" Inode,
    "inode-chr" Inode,
    "inode-at_sf" Inode,
    "inode-at_leaf" Inode,
    "inode-at_btree" Inode,
    "inode-ext_few" Inode,
    "inode-ext_btree2" Inode,
    "inode-unwritten" Inode,
    "inode-hint_ext" Inode,
    "inode-free" Inode,
    "symlink" Symlink,
    "dir-block" DirectoryBlock,
    "dir-data" DirectoryData,
    "dir-leaf" DirectoryLeaf,
    "dir-leafn" DirectoryLeafNode,
    "dir-node" DirectoryNode,
    "dir-free" DirectoryFreeIndex,
    "attr-leaf" AttributeLeaf,
    "attr-node" AttributeNode,
    "attr-remote" AttributeRemoteValue,
    "quota-0" Quota,
    "quota-7" Quota,
};

fn golden_geometry() -> Geometry {
    Geometry::new(Superblock::prefix_of(GOLDEN[0].2).unwrap())
}

/// The lines of a print without the file type that `xfs_db` invents for free regions of directories.
fn comparable(print: &str) -> Vec<&str> {
    let mut free_region = "";
    let mut kept = Vec::new();
    for line in print.lines() {
        let entry = line.split_once("].").map_or("", |(entry, _)| entry);
        if line.contains("].freetag = ") {
            free_region = entry;
        }
        if entry.is_empty() || entry != free_region || !line.contains("].filetype = ") {
            kept.push(line);
        }
    }
    kept
}

#[test]
fn every_structure_prints_as_xfs_db_prints_it() {
    for (name, structure, bytes, expected) in GOLDEN {
        let mut print = String::new();
        text::write(&describe(*structure, bytes, &golden_geometry()), bytes, &mut print).unwrap();
        // It judges the checksum of a whole block of quota records, of which only one was there.
        let expected =
            if *structure == Structure::Quota { &*expected.replace("(bad)", "(correct)") } else { expected };
        let (ours, theirs) = (comparable(&print), comparable(expected));
        let pairs = ours.iter().zip(&theirs).enumerate();
        for (line, (ours, theirs)) in pairs {
            assert_eq!(ours, theirs, "{name}, line {line}");
        }
        assert_eq!(ours.len(), theirs.len(), "{name}");
    }
}

#[test]
fn leaves_lie_within_damaged_bytes_and_stay_few() {
    let geometry = golden_geometry();
    for (name, structure, sound, _) in GOLDEN {
        for fill in [0x00, 0xff, 0x41] {
            for start in (0..sound.len().min(512)).step_by(2) {
                let mut bytes = sound.to_vec();
                bytes[start..(start + 8).min(sound.len())].fill(fill);
                let all = leaves(&describe(*structure, &bytes, &geometry));
                assert!(all.iter().all(|leaf| read(&bytes, &leaf.place).is_some()), "{name} {start} {fill}");
                // Attribute entries may all point to the same name.
                assert!(all.len() <= bytes.len() * 4, "{name} {start} {fill}: {} fields", all.len());
            }
        }
    }
}
