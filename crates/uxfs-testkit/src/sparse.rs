//! Copying and packing images without their holes, and unpacking them with their holes.
//!
//! A packed image is plain zstd, so that `zstd -d` unpacks it too. Images over [`PLAIN_LIMIT_BYTES`] would make anybody wait for
//! their zeros: theirs is a zstd stream of [`SPARSE_MAGIC`] and records of offset, length (both little-endian 64-bit)
//! and that many bytes; a record of length 0 ends it and gives the image's size.

use std::{
    fs::File,
    io::{self, Read, Seek, SeekFrom, Write},
    os::unix::fs::FileExt,
    path::Path,
};

use anyhow::{Context, Result, ensure};
use rustix::fs::{SeekFrom as RawSeek, seek};

/// Larger images are packed with their holes left out.
pub const PLAIN_LIMIT_BYTES: u64 = 4 << 30;
/// First bytes of a packed image whose holes are left out.
pub const SPARSE_MAGIC: &[u8; 8] = b"uxfssprs";

const CHUNK_BYTES: usize = 64 << 10;
/// zstd's window: 128 MiB, the most that `zstd -d` accepts unasked.
const WINDOW_LOG: u32 = 27;

/// Where `file` holds data: `(offset, length)` of each run, in order.
///
/// # Errors
/// The file system cannot tell.
pub fn data_runs(file: &File) -> Result<Vec<(u64, u64)>> {
    let size = file.metadata()?.len();
    let mut runs = Vec::new();
    let mut at = 0;
    while at < size {
        let start = match seek(file, RawSeek::Data(at)) {
            Ok(start) => start,
            Err(rustix::io::Errno::NXIO) => break,
            Err(error) => return Err(error.into()),
        };
        at = seek(file, RawSeek::Hole(start))?;
        runs.push((start, at - start));
    }
    Ok(runs)
}

/// Copies `image` to the fresh file `copy`, with its holes.
///
/// # Errors
/// Reading or writing fails.
pub fn copy(image: &Path, copy: &Path) -> Result<()> {
    let file = File::open(image).with_context(|| format!("cannot open {}", image.display()))?;
    let out = File::create(copy)?;
    let mut chunk = vec![0; 1 << 20];
    for (start, length) in data_runs(&file)? {
        let (mut at, end) = (start, start + length);
        while at < end {
            let want = usize::try_from((end - at).min(chunk.len() as u64))?;
            file.read_exact_at(&mut chunk[..want], at)?;
            out.write_all_at(&chunk[..want], at)?;
            at += want as u64;
        }
    }
    Ok(out.set_len(file.metadata()?.len())?)
}

/// Packs `image` to `packed`.
///
/// # Errors
/// Reading or writing fails.
pub fn pack(image: &Path, packed: &Path) -> Result<()> {
    let file = File::open(image).with_context(|| format!("cannot open {}", image.display()))?;
    let size = file.metadata()?.len();
    let mut encoder = zstd::Encoder::new(File::create(packed)?, 19)?;
    encoder.long_distance_matching(true)?;
    encoder.window_log(WINDOW_LOG)?;
    encoder.include_checksum(true)?;
    if size > PLAIN_LIMIT_BYTES {
        write_records(&file, size, &mut encoder)?;
    } else {
        io::copy(&mut &file, &mut encoder)?;
    }
    encoder.finish()?;
    Ok(())
}

fn write_records(file: &File, size: u64, out: &mut impl Write) -> Result<()> {
    out.write_all(SPARSE_MAGIC)?;
    for (offset, length) in data_runs(file)? {
        out.write_all(&offset.to_le_bytes())?;
        out.write_all(&length.to_le_bytes())?;
        let mut reader = file;
        reader.seek(SeekFrom::Start(offset))?;
        let copied = io::copy(&mut reader.take(length), out)?;
        ensure!(copied == length, "the image shrank while it was packed");
    }
    out.write_all(&size.to_le_bytes())?;
    out.write_all(&0u64.to_le_bytes())?;
    Ok(())
}

/// Unpacks what [`pack`] made to a fresh sparse file.
///
/// # Errors
/// Not a packed image, or writing fails.
pub fn unpack(packed: &Path, image: &Path) -> Result<()> {
    let file = File::open(packed).with_context(|| format!("cannot open {}", packed.display()))?;
    let mut decoder = zstd::Decoder::new(file)?;
    decoder.window_log_max(WINDOW_LOG)?;
    let out = File::create(image)?;
    let mut start = [0; 8];
    decoder.read_exact(&mut start)?;
    if &start == SPARSE_MAGIC {
        return read_records(&mut decoder, &out);
    }
    let size = copy_without_zeros(&mut start.chain(decoder), &out, 0)?;
    out.set_len(size)?;
    Ok(())
}

fn read_records(decoder: &mut impl Read, out: &File) -> Result<()> {
    loop {
        let mut header = [0; 16];
        decoder.read_exact(&mut header)?;
        let (first, second) = header.split_at(8);
        let (offset, length) =
            (u64::from_le_bytes(first.try_into()?), u64::from_le_bytes(second.try_into()?));
        if length == 0 {
            return Ok(out.set_len(offset)?);
        }
        let end = copy_without_zeros(&mut decoder.take(length), out, offset)?;
        ensure!(end == offset + length, "the packed image ends early");
    }
}

/// Copies to `out` from `offset` on, leaving holes where whole chunks are zero. Gives where it ended.
fn copy_without_zeros(reader: &mut impl Read, out: &File, mut offset: u64) -> Result<u64> {
    let mut chunk = vec![0; CHUNK_BYTES];
    loop {
        let length = read_full(reader, &mut chunk)?;
        if length == 0 {
            return Ok(offset);
        }
        let bytes = &chunk[..length];
        if bytes.iter().any(|byte| *byte != 0) {
            out.write_all_at(bytes, offset)?;
        }
        offset += length as u64;
    }
}

fn read_full(reader: &mut impl Read, buffer: &mut [u8]) -> io::Result<usize> {
    let mut filled = 0;
    while filled < buffer.len() {
        match reader.read(&mut buffer[filled..]) {
            Ok(0) => break,
            Ok(length) => filled += length,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(filled)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn round_trip(size: u64, pieces: &[(u64, &[u8])]) {
        let folder = tempfile::tempdir().unwrap();
        let [image, packed, again] = ["image", "packed", "again"].map(|name| folder.path().join(name));
        let file = File::create(&image).unwrap();
        file.set_len(size).unwrap();
        for (offset, bytes) in pieces {
            file.write_all_at(bytes, *offset).unwrap();
        }
        pack(&image, &packed).unwrap();
        unpack(&packed, &again).unwrap();
        let unpacked = File::open(&again).unwrap();
        assert_eq!(unpacked.metadata().unwrap().len(), size);
        for (offset, bytes) in pieces {
            let mut found = vec![0; bytes.len()];
            unpacked.read_exact_at(&mut found, *offset).unwrap();
            assert_eq!(&found, bytes);
        }
        let held: u64 = data_runs(&unpacked).unwrap().iter().map(|(_, length)| length).sum();
        assert!(held < 1 << 20, "{held} bytes held");
    }

    #[test]
    fn keeps_contents_and_holes() {
        round_trip(64 << 20, &[(0, b"start"), (33 << 20, b"middle"), ((64 << 20) - 3, b"end")]);
        round_trip(PLAIN_LIMIT_BYTES * 200, &[(0, b"start"), (PLAIN_LIMIT_BYTES * 150 + 5, b"far")]);
    }
}
