#![allow(clippy::unwrap_used)]

use std::{io::Write, os::unix::fs::MetadataExt, sync::Arc};

use uxfs_block::{device::BlockDevice, engine::OpenOptions, engine::memory::MemoryDevice};
use uxfs_format::{field_table::OnDisk, seal::seal};

use super::*;
use crate::{form::Form, stream::PackedStream};

fn packed(bytes: &[u8]) -> PackedStream {
    let packed = zstd::encode_all(bytes, 1).unwrap();
    PackedStream::new(Form::Zstd, Arc::new(MemoryDevice::new(packed)), Some(bytes.len() as u64))
}

fn all(device: &Arc<dyn BlockDevice>) -> Vec<u8> {
    let mut bytes = vec![0; device.size_bytes() as usize];
    device.read(0, &mut bytes).unwrap();
    bytes
}

/// The first sector of a file system, which says how long that is.
fn superblock() -> (Vec<u8>, u64) {
    let mut bytes = include_bytes!("../../../uxfs-format/testdata/superblock.bin").to_vec();
    let superblock = Superblock::prefix_of_mut(&mut bytes).unwrap();
    // One short group, and the log elsewhere.
    superblock.data_blocks.set(4096);
    superblock.ag_blocks.set(4096);
    superblock.ag_count.set(1);
    superblock.ag_block_log = 12;
    superblock.log_start.set(0);
    let geometry = Geometry::new(superblock);
    seal(&mut bytes, None, &geometry).unwrap();
    let size_bytes = size_of_file_system(&bytes).unwrap();
    assert_eq!(size_bytes, 16 << 20);
    (bytes, size_bytes)
}

#[test]
fn unpacks_the_file_system_with_holes_and_no_more() {
    let (first, size_bytes) = superblock();
    for (start_bytes, more_bytes) in [(0, 0), (0, 500_000), (8192, 4096), (1 << 20, 1)] {
        let mut image = vec![7; start_bytes];
        image.extend_from_slice(&first);
        image.resize(start_bytes + size_bytes as usize + more_bytes, 0);
        let (one, other) = (start_bytes + 700_000, start_bytes + size_bytes as usize - 1);
        (image[one], image[other]) = (2, 3);
        let stream = packed(&image);
        let whole = image.len() - start_bytes;
        for length in [None, Some(whole), Some(3 << 20)] {
            let part =
                Part { start_bytes: start_bytes as u64, length_bytes: length.map(|length| length as u64) };
            let device = stream.unpack(part, WithoutSuperblock::Everything, &OpenOptions::default()).unwrap();
            let bytes = all(&device);
            assert!(bytes.len() <= length.unwrap_or(whole) && bytes.len() < whole - more_bytes + PIECE_BYTES);
            assert!(bytes == image[start_bytes..start_bytes + bytes.len()]);
        }
        let mut target = Unpacked::new(Form::Zstd).unwrap();
        unpack(&mut image.as_slice(), Part::default(), WithoutSuperblock::Everything, &mut target).unwrap();
        if start_bytes == 0 {
            assert!(target.into_file().unwrap().metadata().unwrap().blocks() * 512 < 256 << 10);
        }
    }
}

#[test]
fn without_a_superblock_the_beginning_is_unpacked_or_all_of_it() {
    let (mut damaged, size_bytes) = superblock();
    damaged[30] ^= 1;
    for mut bytes in [damaged, b"ustar".to_vec()] {
        bytes.resize(size_bytes as usize, 1);
        let stream = packed(&bytes);
        let unpacked =
            |otherwise| all(&stream.unpack(Part::default(), otherwise, &OpenOptions::default()).unwrap());
        assert!(unpacked(WithoutSuperblock::Beginning) == bytes[..PIECE_BYTES]);
        assert!(unpacked(WithoutSuperblock::Everything) == bytes);
    }
}

/// Checksums come last: they are read although the file system ends before.
#[test]
fn what_is_packed_is_verified_to_its_end() {
    let (mut image, size_bytes) = superblock();
    image.resize(size_bytes as usize, 5);
    let gzip = |bytes: &[u8]| {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        encoder.write_all(bytes).unwrap();
        encoder.finish().unwrap()
    };
    let xz = |bytes: &[u8]| {
        let mut encoder = liblzma::write::XzEncoder::new(Vec::new(), 0);
        encoder.write_all(bytes).unwrap();
        encoder.finish().unwrap()
    };
    let (first, second) = image.split_at(9_000_000);
    for (form, packed) in [
        (Form::Gzip, gzip(&image)),
        (Form::Gzip, [gzip(first), gzip(second), vec![0; 512]].concat()),
        (Form::Xz, xz(&image)),
    ] {
        let unpack = |packed: Vec<u8>| {
            let stream = PackedStream::new(form, Arc::new(MemoryDevice::new(packed)), None);
            stream.unpack(Part::default(), WithoutSuperblock::Beginning, &OpenOptions::default())
        };
        assert!(all(&unpack(packed.clone()).unwrap()) == image);
        let mut damaged = packed;
        let sum = damaged.iter().rposition(|byte| *byte != 0).unwrap() - 4;
        damaged[sum] ^= 1;
        assert!(matches!(unpack(damaged), Err(ImageError::Unpack { .. })), "{form:?}");
    }
}

#[test]
fn room_is_left() {
    let file = SparseFile::with_room(2 * HOLE_BYTES as u64).unwrap();
    let mut unpacked = Unpacked { form: Form::Zstd, file };
    unpacked.add(&[0; 1 << 20]).unwrap();
    unpacked.add(&[1; 2 * HOLE_BYTES]).unwrap();
    let error = unpacked.add(&[1]).unwrap_err();
    assert!(matches!(error, ImageError::NoRoom(_)) && error.remedy().unwrap().contains("TMPDIR"));
}

#[test]
fn places_are_read_before_anything_is_unpacked() {
    let image: Vec<u8> = (0..5_000_000_u32).flat_map(|number| (number / 7).to_le_bytes()).collect();
    for is_known in [true, false] {
        let mut stream = packed(&image);
        stream.size_bytes = stream.size_bytes.filter(|_| is_known);
        let device = stream.forward();
        let mut buffer = [0; 5000];
        // Forwards, at the beginning again, a little back, over the borders of chunks.
        for at in
            [0, 512, 1 << 20, 7_000_001, 100, 6_500_000, 9_000_000, (10 << 20) - 9, 19_995_000, 19_900_000]
        {
            device.read(at, &mut buffer).unwrap();
            assert!(buffer == image[at as usize..at as usize + 5000], "{at}");
        }
        assert!(device.read(20_000_000 - 4999, &mut buffer).is_err());
        assert!(device.read(device.size_bytes() - 5000, &mut buffer).is_err() != is_known);
        // It does not begin again for ever.
        let mut reads =
            (0..40).map(|round| device.read(if round % 2 == 0 { 3 << 20 } else { 16 << 20 }, &mut buffer));
        assert!(reads.any(|read| read.is_err()));
    }
}
