#![allow(clippy::unwrap_used)]

use std::io::Write;

use proptest::prelude::*;
use uxfs_block::engine::memory::MemoryDevice;

use super::*;

const CACHE_BYTES: u64 = 1 << 20;

fn file(bytes: Vec<u8>) -> Arc<dyn BlockDevice> {
    Arc::new(MemoryDevice::new(bytes))
}

fn open(form: Form, bytes: Vec<u8>) -> Result<PieceDevice, Option<u64>> {
    let file = file(bytes);
    match Layout::find(form, &file).unwrap() {
        Layout::Pieces(pieces) => Ok(PieceDevice::new(file, pieces, CACHE_BYTES)),
        Layout::Whole { size_bytes } => Err(size_bytes),
    }
}

/// Bytes that can be compressed, with long zeros.
fn image() -> Vec<u8> {
    let mut bytes: Vec<u8> = (0..300_000_u32).flat_map(|number| (number / 3).to_le_bytes()).collect();
    bytes[200_000..600_000].fill(0);
    bytes.truncate(1_199_999);
    bytes
}

fn zstd_frames(image: &[u8], chunk_bytes: usize) -> Vec<Vec<u8>> {
    image.chunks(chunk_bytes).map(|chunk| ::zstd::bulk::compress(chunk, 3).unwrap()).collect()
}

/// As the seekable format of zstd's contributions describes it. Its frames do not say how long they are.
fn seekable(image: &[u8], has_checksums: bool) -> Vec<u8> {
    let (mut bytes, mut table) = (Vec::new(), Vec::new());
    let chunks = image.chunks(100_000);
    for chunk in chunks.clone() {
        let mut encoder = ::zstd::stream::write::Encoder::new(Vec::new(), 3).unwrap();
        encoder.include_contentsize(false).unwrap();
        encoder.write_all(chunk).unwrap();
        let frame = encoder.finish().unwrap();
        table.extend_from_slice(&(frame.len() as u32).to_le_bytes());
        table.extend_from_slice(&(chunk.len() as u32).to_le_bytes());
        if has_checksums {
            table.extend_from_slice(&[9; 4]);
        }
        bytes.extend_from_slice(&frame);
    }
    table.extend_from_slice(&(chunks.count() as u32).to_le_bytes());
    table.push(if has_checksums { 0x80 } else { 0 });
    table.extend_from_slice(&0x8f92_eab1_u32.to_le_bytes());
    bytes.extend_from_slice(&0x184d_2a5e_u32.to_le_bytes());
    bytes.extend_from_slice(&(table.len() as u32).to_le_bytes());
    bytes.extend_from_slice(&table);
    bytes
}

/// As pzstd does it: frames without their length, each behind a frame to be skipped.
fn pzstd(image: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for chunk in image.chunks(70_000) {
        let mut encoder = ::zstd::stream::write::Encoder::new(Vec::new(), 3).unwrap();
        encoder.include_checksum(true).unwrap();
        encoder.write_all(chunk).unwrap();
        let frame = encoder.finish().unwrap();
        bytes.extend_from_slice(&0x184d_2a50_u32.to_le_bytes());
        bytes.extend_from_slice(&4_u32.to_le_bytes());
        bytes.extend_from_slice(&(frame.len() as u32).to_le_bytes());
        bytes.extend_from_slice(&frame);
    }
    bytes
}

/// Blocks of streams of their own, with one index for all.
fn xz(image: &[u8], block_bytes: usize) -> Vec<u8> {
    let chunks = image.chunks(block_bytes);
    let (mut bytes, mut index) = (Vec::new(), vec![0]);
    xz::push_number(&mut index, chunks.len() as u64);
    let mut all_flags = [0; 2];
    for chunk in chunks {
        let mut encoder = liblzma::write::XzEncoder::new(Vec::new(), 1);
        encoder.write_all(chunk).unwrap();
        let stream = encoder.finish().unwrap();
        let footer_start = stream.len() - 12;
        let (backward, flags) = xz::parse_footer(&stream[footer_start..]).unwrap();
        let index_start = footer_start - (backward as usize + 1) * 4;
        let (table, _) = xz::read_index(&stream[index_start..footer_start]).unwrap();
        let (_, piece) = table.find(0).unwrap();
        xz::push_number(&mut index, piece.packed_bytes());
        xz::push_number(&mut index, piece.size_bytes());
        bytes.extend_from_slice(&stream[12..index_start]);
        all_flags = flags;
    }
    index.resize(index.len().next_multiple_of(4), 0);
    index.extend_from_slice(&crc32fast::hash(&index).to_le_bytes());
    let footer = xz::stream_footer(index.len() as u32 / 4 - 1, all_flags);
    [xz::stream_header(all_flags), bytes, index, footer].concat()
}

fn bgzf(image: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for chunk in image.chunks(60_000).chain([&[][..]]) {
        let builder = flate2::GzBuilder::new().extra(vec![b'B', b'C', 2, 0, 0, 0]);
        let mut encoder = builder.write(Vec::new(), flate2::Compression::fast());
        encoder.write_all(chunk).unwrap();
        let mut member = encoder.finish().unwrap();
        let last = (member.len() - 1) as u16;
        member[16..18].copy_from_slice(&last.to_le_bytes());
        bytes.extend_from_slice(&member);
    }
    bytes
}

/// One file of each kind.
fn files(image: &[u8]) -> Vec<(Form, &'static str, Vec<u8>)> {
    let padded = [xz(&image[..500_000], 64 << 10), vec![0; 8], xz(&image[500_000..], 1 << 20)].concat();
    vec![
        (Form::Zstd, "frames", zstd_frames(image, 90_000).concat()),
        (Form::Zstd, "one frame", zstd_frames(image, image.len()).concat()),
        (Form::Zstd, "seekable", seekable(image, false)),
        (Form::Zstd, "seekable with checksums", seekable(image, true)),
        (Form::Zstd, "pzstd", pzstd(image)),
        (Form::Xz, "blocks", xz(image, 128 << 10)),
        (Form::Xz, "streams", padded),
        (Form::Gzip, "bgzip", bgzf(image)),
    ]
}

#[test]
fn random_reads_are_the_bytes_of_the_image() {
    let image = image();
    for (form, name, packed) in files(&image) {
        let device = open(form, packed).unwrap_or_else(|_| panic!("{name} cannot be read from any place"));
        assert_eq!(device.size_bytes(), image.len() as u64, "{name}");
        proptest!(ProptestConfig::with_cases(200), |(start in 0..image.len(), length in 0..200_000_usize)| {
            let end = (start + length).min(image.len());
            let mut buffer = vec![9; end - start];
            device.read(start as u64, &mut buffer).unwrap();
            prop_assert!(buffer == image[start..end], "{}", name);
        });
        assert!(device.cache.taken_bytes() <= CACHE_BYTES.max(image.len() as u64), "{name}");
        let mut beyond = [0; 2];
        assert!(device.read(image.len() as u64 - 1, &mut beyond).is_err());
        assert!(device.is_read_only() && device.write(0, &[1]).is_err() && device.discard(0, 1).is_err());
    }
}

#[test]
fn files_without_pieces_are_streams() {
    let image = image();
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gzip.write_all(&image).unwrap();
    assert_eq!(open(Form::Gzip, gzip.finish().unwrap()).unwrap_err(), None);
    // A piece that is too large: its length is known all the same.
    let large = vec![0; MOST_PIECE_BYTES as usize + 1];
    let size_bytes = Some(large.len() as u64);
    assert_eq!(open(Form::Zstd, ::zstd::bulk::compress(&large, 1).unwrap()).unwrap_err(), size_bytes);
    let mut encoder = liblzma::write::XzEncoder::new(Vec::new(), 1);
    encoder.write_all(&large).unwrap();
    assert_eq!(open(Form::Xz, encoder.finish().unwrap()).unwrap_err(), size_bytes);
    let streamed = ::zstd::encode_all(&large[..], 1).unwrap();
    assert_eq!(open(Form::Zstd, streamed).unwrap_err(), None);
    for form in [Form::Zstd, Form::Xz, Form::Gzip] {
        assert_eq!(open(form, Vec::new()).unwrap_err(), Some(0).filter(|_| form != Form::Qcow2), "{form:?}");
    }
}

#[test]
fn lies_about_lengths_are_errors_where_they_are_read() {
    let image = image();
    let mut packed = seekable(&image, false);
    // The second entry of the table claims a byte less, the third one more.
    let table = packed.len() - 9 - 12 * 8;
    packed[table + 12] -= 1;
    packed[table + 20] += 1;
    let device = open(Form::Zstd, packed).unwrap();
    let mut buffer = [0; 100];
    device.read(99_900, &mut buffer).unwrap();
    for _ in 0..2 {
        let error = device.read(150_000, &mut buffer).unwrap_err();
        assert!(error.to_string().contains("damaged"), "{error}");
    }
    device.read(400_000, &mut buffer).unwrap();
    // Damage in the middle of a block.
    for (form, name, mut packed) in files(&image) {
        let middle = packed.len() / 2;
        packed[middle..middle + 20].fill(0x55);
        let Ok(device) = open(form, packed) else { continue };
        let mut found = 0;
        for start in (0..image.len() - 5000).step_by(5000) {
            let mut buffer = vec![0; 5000];
            match device.read(start as u64, &mut buffer) {
                Ok(()) => assert!(form == Form::Zstd || buffer == image[start..start + 5000], "{name}"),
                Err(_) => found += 1,
            }
        }
        // Frames of zstd have checksums only where that was asked for.
        assert!(found > 0 || form == Form::Zstd && name != "pzstd", "{name}");
    }
}

/// Files with changed bytes, or cut off: no panic, no hang, bounded memory.
#[test]
fn mutants_are_read_or_refused() {
    let image = image();
    for (form, name, packed) in files(&image) {
        // The header and the tables at the end are changed more often than what is compressed.
        let places = prop_oneof![0..packed.len(), 0..40_usize, packed.len() - 150..packed.len()];
        let changes = prop::collection::vec((places, any::<u8>()), 0..6);
        let cut = prop_oneof![3 => Just(packed.len()), 1 => 0..packed.len()];
        proptest!(ProptestConfig::with_cases(150), |(changes in changes, cut in cut, start in any::<u64>())| {
            let mut mutant = packed.clone();
            changes.iter().for_each(|(place, byte)| mutant[*place] = *byte);
            mutant.truncate(cut);
            if let Ok(device) = open(form, mutant) {
                let size_bytes = device.size_bytes();
                let mut buffer = vec![0; 100_000.min(size_bytes as usize)];
                for start in [0, start % (size_bytes + 1), size_bytes.saturating_sub(buffer.len() as u64)] {
                    let _ = device.read(start, &mut buffer);
                }
                prop_assert!(device.cache.taken_bytes() <= CACHE_BYTES.max(MOST_PIECE_BYTES), "{}", name);
            }
        });
    }
}

/// As many pieces as a file can claim, each of them as large as can be.
#[test]
fn claims_without_end_take_no_memory() {
    let mut table = PieceTable::default();
    for _ in 0..MOST_PIECES + 10 {
        table.add(0..10, 1).unwrap();
    }
    assert!(!table.is_usable() && table.size_bytes() == MOST_PIECES as u64 + 10 && table.count() == 0);
    assert!(table.add(0..1, i64::MAX as u64).is_none());
    // A frame that claims 8 EiB, and one that claims all memory.
    for size_bytes in [u64::MAX, 1 << 40, 1 << 62] {
        let mut frame = 0xfd2f_b528_u32.to_le_bytes().to_vec();
        frame.push(0b1110_0000);
        frame.extend_from_slice(&size_bytes.to_le_bytes());
        frame.extend_from_slice(&[1, 0, 0]);
        assert!(open(Form::Zstd, frame).is_err());
    }
}
