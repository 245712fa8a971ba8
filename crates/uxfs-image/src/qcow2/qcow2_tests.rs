#![allow(clippy::unwrap_used)]

use std::{fs, io::Write};

use proptest::prelude::*;
use uxfs_block::engine::{self, OpenOptions, memory::MemoryDevice};

use super::*;
use crate::error::ImageError;

const CLUSTER_BYTES: usize = 1 << 12;
const NONE: Options<'static> = Options { files: BackingFiles::Refused, cache_bytes: 1 << 20 };

/// A disk made by hand: what qemu-img makes is in the tests of uxfs-cli.
#[derive(Clone)]
struct Disk {
    bytes: Vec<u8>,
    contents: Vec<u8>,
}

/// Clusters of 4 KiB in turn plain, zero, missing, compressed; with zstd or deflate, parts of clusters or not.
fn disk(clusters: usize, is_zstd: bool) -> Disk {
    let mut bytes = vec![0; 4 * CLUSTER_BYTES];
    let mut contents = Vec::new();
    let mut header = b"QFI\xfb\0\0\0\x03".to_vec();
    header.extend_from_slice(&[0; 12]);
    header.extend_from_slice(&12_u32.to_be_bytes());
    header.extend_from_slice(&((clusters * CLUSTER_BYTES) as u64).to_be_bytes());
    header.extend_from_slice(&0_u32.to_be_bytes());
    header.extend_from_slice(&1_u32.to_be_bytes());
    header.extend_from_slice(&(CLUSTER_BYTES as u64).to_be_bytes());
    header.resize(72, 0);
    header.extend_from_slice(&(if is_zstd { 8_u64 } else { 0 }).to_be_bytes());
    header.resize(96, 0);
    header.extend_from_slice(&4_u32.to_be_bytes());
    header.extend_from_slice(&112_u32.to_be_bytes());
    header.push(u8::from(is_zstd));
    bytes[..header.len()].copy_from_slice(&header);
    let table = 2 * CLUSTER_BYTES;
    bytes[CLUSTER_BYTES..CLUSTER_BYTES + 8].copy_from_slice(&(table as u64 | (1 << 63)).to_be_bytes());
    for number in 0..clusters {
        let data: Vec<u8> = (0..CLUSTER_BYTES).map(|at| (at / 9 + number * 3) as u8).collect();
        let entry = match number % 5 {
            0 | 1 => {
                bytes.resize(bytes.len().next_multiple_of(CLUSTER_BYTES), 0);
                bytes.extend_from_slice(&data);
                (bytes.len() - CLUSTER_BYTES) as u64 | (1 << 63)
            }
            2 => 1,
            3 => 0,
            _ => {
                let packed = if is_zstd {
                    zstd::bulk::compress(&data, 1).unwrap()
                } else {
                    let mut encoder =
                        flate2::write::DeflateEncoder::new(Vec::new(), flate2::Compression::fast());
                    encoder.write_all(&data).unwrap();
                    encoder.finish().unwrap()
                };
                let (start, end) = (bytes.len(), bytes.len() + packed.len());
                bytes.extend_from_slice(&packed);
                (1 << 62) | (((end - 1) / 512 - start / 512) as u64 * (1 << 58)) | start as u64
            }
        };
        contents.extend_from_slice(&if matches!(number % 5, 2 | 3) { vec![0; CLUSTER_BYTES] } else { data });
        bytes[table + number * 8..table + number * 8 + 8].copy_from_slice(&entry.to_be_bytes());
    }
    Disk { bytes, contents }
}

fn opened(bytes: Vec<u8>) -> Result<Arc<dyn BlockDevice>> {
    let file: Arc<dyn BlockDevice> = Arc::new(MemoryDevice::new(bytes));
    open(&file, Path::new("disk"), NONE)
}

#[test]
fn random_reads_are_the_bytes_of_the_disk() {
    for is_zstd in [false, true] {
        let disk = disk(200, is_zstd);
        let device = opened(disk.bytes).unwrap();
        let size_bytes = disk.contents.len();
        assert_eq!(device.size_bytes(), size_bytes as u64);
        proptest!(ProptestConfig::with_cases(300), |(start in 0..size_bytes, length in 0..60_000_usize)| {
            let end = (start + length).min(size_bytes);
            let mut buffer = vec![9; end - start];
            device.read(start as u64, &mut buffer).unwrap();
            prop_assert!(buffer == disk.contents[start..end]);
        });
        assert!(device.read(size_bytes as u64 - 1, &mut [0; 2]).is_err());
        assert!(device.write(0, &[1]).is_err() && device.is_read_only());
    }
}

#[test]
fn mutants_are_read_or_refused() {
    for is_zstd in [false, true] {
        let disk = disk(200, is_zstd);
        let length = disk.bytes.len();
        let places = prop_oneof![0..120_usize, 4096..4104_usize, 8192..8192 + 1600_usize, 0..length];
        let changes = prop::collection::vec((places, any::<u8>()), 0..6);
        let cut = prop_oneof![3 => Just(length), 1 => 0..length];
        proptest!(ProptestConfig::with_cases(1000), |(changes in changes, cut in cut, place in any::<u64>())| {
            let mut mutant = disk.bytes.clone();
            changes.iter().for_each(|(place, byte)| mutant[*place] = *byte);
            mutant.truncate(cut);
            if let Ok(device) = opened(mutant) {
                let size_bytes = device.size_bytes();
                let mut buffer = vec![0; 900_000.min(size_bytes as usize)];
                for start in [0, place % (size_bytes + 1), size_bytes.saturating_sub(buffer.len() as u64)] {
                    let _ = device.read(start, &mut buffer);
                }
            }
        });
    }
}

/// Each has a message of its own.
#[test]
fn disks_that_cannot_be_read_are_told() {
    let disk = disk(10, false);
    type Change = fn(&mut Vec<u8>);
    let cases: [(&str, Change); 17] = [
        ("cut off", |bytes| bytes.truncate(71)),
        ("unknown version 4", |bytes| bytes[7] = 4),
        ("clusters of 2^8 bytes", |bytes| bytes[23] = 8),
        ("clusters of 2^22 bytes", |bytes| bytes[23] = 22),
        ("a size of", |bytes| bytes[24] = 0xff),
        ("2 are needed", |bytes| bytes[29] = 0x30),
        ("an encrypted", |bytes| bytes[35] = 2),
        ("unknown way 9", |bytes| bytes[35] = 9),
        ("cannot be there", |bytes| bytes[46] = 0x11),
        ("cannot be there", |bytes| bytes[41] = 0x11),
        ("lie in another file", |bytes| bytes[79] = 4),
        ("unknown features 0x100", |bytes| bytes[78] = 1),
        ("contradicts its features", |bytes| bytes[79] = 8),
        ("a header of 80 bytes", |bytes| bytes[103] = 80),
        ("unknown kind 7", |bytes| (bytes[79], bytes[104]) = (8, 7)),
        ("the name of its backing file", |bytes| bytes[15] = 112),
        ("based on another file", |bytes| {
            (bytes[15], bytes[19]) = (112, 4);
            bytes[112..116].copy_from_slice(b"/etc");
        }),
    ];
    for (words, change) in cases {
        let mut bytes = disk.bytes.clone();
        change(&mut bytes);
        let error = opened(bytes).unwrap_err();
        assert!(error.to_string().contains(words), "{error}, not {words}");
        assert!(error.remedy().unwrap().contains("qemu-img"));
    }
    // Marks that only say that counts of references are wrong, or that QEMU found damage.
    let mut marked = disk.bytes.clone();
    marked[79] = 3;
    opened(marked).unwrap();
}

#[test]
fn tables_and_clusters_outside_of_the_file_are_errors() {
    let disk = disk(10, false);
    let mut buffer = [0; 100];
    for (entry, at, cluster) in
        [(0x7777_0000_u64, 4096, 0), (2 * 4096 + 512, 4096, 0), (0x7777_0000, 8192, 0), (512, 8192, 0)]
    {
        let mut bytes = disk.bytes.clone();
        bytes[at..at + 8].copy_from_slice(&entry.to_be_bytes());
        let device = opened(bytes).unwrap();
        let error = device.read(cluster, &mut buffer).unwrap_err();
        assert!(error.to_string().contains("damaged or cut off"), "{error}");
    }
    let mut bytes = disk.bytes.clone();
    bytes[8192 + 32..8192 + 40].copy_from_slice(&((1_u64 << 62) | 0x777_0000).to_be_bytes());
    let error = opened(bytes).unwrap().read(4 * 4096, &mut buffer).unwrap_err();
    assert!(error.to_string().contains("lies behind its end"), "{error}");
}

fn on_disk(bytes: &[u8], path: &Path) -> Arc<dyn BlockDevice> {
    fs::write(path, bytes).unwrap();
    engine::open(path, &OpenOptions::default()).unwrap()
}

/// A disk that says what it is based on.
fn based_on(disk: &Disk, name: &str, format: &str) -> Vec<u8> {
    let mut bytes = disk.bytes.clone();
    bytes[112..116].copy_from_slice(&0xe279_2aca_u32.to_be_bytes());
    bytes[116..120].copy_from_slice(&(format.len() as u32).to_be_bytes());
    bytes[120..120 + format.len()].copy_from_slice(format.as_bytes());
    let at = 512;
    bytes[14..16].copy_from_slice(&(at as u16).to_be_bytes());
    bytes[16..20].copy_from_slice(&(name.len() as u32).to_be_bytes());
    bytes[at..at + name.len()].copy_from_slice(name.as_bytes());
    bytes
}

#[test]
fn files_that_a_disk_is_based_on_are_read_where_that_is_allowed() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let disk = disk(20, false);
    // Shorter than the disk, and not a multiple of a cluster.
    fs::write(path("base"), vec![0xbb; 9 * CLUSTER_BYTES - 100]).unwrap();
    on_disk(&based_on(&disk, "base", "raw"), &path("middle"));
    let top = on_disk(&based_on(&disk, "middle", "qcow2"), &path("top"));
    let told = std::cell::RefCell::new(Vec::new());
    let tell = |path: &Path| told.borrow_mut().push(path.to_owned());
    let allowed = Options { files: BackingFiles::Allowed(&tell), ..NONE };
    let refused = open(&top, &path("top"), NONE).unwrap_err();
    assert!(matches!(refused, ImageError::Unsupported { remedy, .. } if remedy.contains("--backing-files")));
    let device = open(&top, &path("top"), allowed).unwrap();
    assert_eq!(*told.borrow(), [path("middle"), path("base")]);
    let mut bytes = vec![0; disk.contents.len()];
    device.read(0, &mut bytes).unwrap();
    let mut expected = disk.contents.clone();
    expected[3 * CLUSTER_BYTES..4 * CLUSTER_BYTES].fill(0xbb);
    expected[8 * CLUSTER_BYTES..9 * CLUSTER_BYTES - 100].fill(0xbb);
    assert!(bytes == expected);
    for (name, format, words) in [
        ("json:{}", "raw", "is no file"),
        ("nbd:host:1", "raw", "is no file"),
        ("missing", "raw", "cannot open it"),
        ("\x1b[31mred", "raw", "based on "),
        (".", "raw", "cannot open it"),
        ("base", "vmdk", "of the format vmdk"),
        ("base", "", "of the format "),
        ("base", "qcow2", "header is cut off"),
        ("loop", "qcow2", "is based on itself"),
        ("/dev/null", "raw", "is based on /dev/null"),
    ] {
        let file = on_disk(&based_on(&disk, name, format), &path("loop"));
        let error = open(&file, &path("loop"), allowed).unwrap_err();
        let told = error.to_string();
        assert!(told.contains(words) && !told.contains('\x1b'), "{name} {format}: {told:?}");
    }
    // A chain without end.
    for number in 0..20 {
        on_disk(&based_on(&disk, &format!("link-{}", number + 1), "qcow2"), &path(&format!("link-{number}")));
    }
    let file = engine::open(&path("link-0"), &OpenOptions::default()).unwrap();
    assert!(open(&file, &path("link-0"), allowed).unwrap_err().to_string().contains("more than 16 files"));
}
