//! Copying and packing images without their holes, and unpacking them with their holes.
//!
//! A packed image is plain zstd, so that `zstd -d` unpacks it too. Images over [`PLAIN_LIMIT_BYTES`] would make anybody wait for
//! their zeros: theirs is a zstd stream of [`SPARSE_MAGIC`] and records of offset, length (both little-endian 64-bit)
//! and that many bytes; a record of length 0 ends it and gives the image's size.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    fs::File,
    io::{self, Read, Seek, SeekFrom, Write},
    ops::Range,
    os::unix::fs::FileExt,
    path::Path,
};

use anyhow::{Context, Result, ensure};
use rustix::fs::{SeekFrom as RawSeek, seek};
use uxfs_block::zeros::is_zero;

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

/// Copies `image` to the fresh file `copy`, with its holes, and with holes where chunks are zero.
///
/// # Errors
/// Reading or writing fails.
pub fn copy(image: impl AsRef<Path>, copy: impl AsRef<Path>) -> Result<()> {
    let image = image.as_ref();
    let file = File::open(image).with_context(|| format!("cannot open {}", image.display()))?;
    let out = File::create(copy)?;
    let size = file.metadata()?.len();
    copy_part(&file, 0..size, &out, 0)?;
    Ok(out.set_len(size)?)
}

/// Copies a part of `file` to `at` of `out`, which has holes there.
///
/// # Errors
/// Reading or writing fails.
pub fn copy_part(file: &File, part: Range<u64>, out: &File, at: u64) -> Result<()> {
    for (start, length) in data_runs(file)? {
        let (start, end) = (start.max(part.start), (start + length).min(part.end));
        if start < end {
            let mut reader = file;
            reader.seek(SeekFrom::Start(start))?;
            copy_without_zeros(&mut reader.take(end - start), out, at + (start - part.start))?;
        }
    }
    Ok(())
}

/// The contents of an image: equal where all bytes are. Holes and zeros cost nothing.
#[derive(Clone, PartialEq, Eq)]
pub struct Contents {
    size_bytes: u64,
    /// Chunks that are not zero, by their number.
    chunks: BTreeMap<u64, Vec<u8>>,
}

impl Contents {
    /// Reads a file.
    ///
    /// # Errors
    /// Reading fails.
    pub fn read(image: impl AsRef<Path>) -> Result<Self> {
        let image = image.as_ref();
        let file = File::open(image).with_context(|| format!("cannot open {}", image.display()))?;
        let size_bytes = file.metadata()?.len();
        let (mut chunks, mut chunk) = (BTreeMap::new(), vec![0; CHUNK_BYTES]);
        for (start, length) in data_runs(&file)? {
            let numbers = start / CHUNK_BYTES as u64..(start + length).div_ceil(CHUNK_BYTES as u64);
            for number in numbers {
                let at = number * CHUNK_BYTES as u64;
                let want = usize::try_from((size_bytes - at).min(CHUNK_BYTES as u64))?;
                file.read_exact_at(&mut chunk[..want], at)?;
                if !is_zero(&chunk[..want]) {
                    chunks.insert(number, chunk[..want].to_vec());
                }
            }
        }
        Ok(Self { size_bytes, chunks })
    }

    /// Makes the file hold these bytes and no others.
    ///
    /// # Errors
    /// Writing fails.
    pub fn write(&self, image: impl AsRef<Path>) -> Result<()> {
        let file = File::create(image)?;
        file.set_len(self.size_bytes)?;
        for (number, bytes) in &self.chunks {
            file.write_all_at(bytes, number * CHUNK_BYTES as u64)?;
        }
        Ok(())
    }

    /// All bytes, of an image that memory has room for.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = vec![0; self.size_bytes as usize];
        for (number, chunk) in &self.chunks {
            let at = *number as usize * CHUNK_BYTES;
            bytes[at..at + chunk.len()].copy_from_slice(chunk);
        }
        bytes
    }

    /// Where two contents differ first, and how many chunks do.
    pub fn difference(&self, other: &Self) -> Option<String> {
        let differs = |number: &&u64| self.chunks.get(number) != other.chunks.get(number);
        let numbers: BTreeSet<u64> = self.chunks.keys().chain(other.chunks.keys()).copied().collect();
        let numbers: Vec<&u64> = numbers.iter().filter(differs).collect();
        let first = numbers.first().map(|number| *number * CHUNK_BYTES as u64);
        (self != other).then(|| {
            let sizes = (self.size_bytes, other.size_bytes);
            format!("{} chunks of 64 KiB differ, the first at {first:?}; sizes {sizes:?}", numbers.len())
        })
    }
}

impl fmt::Debug for Contents {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{} bytes, {} chunks that are not zero", self.size_bytes, self.chunks.len())
    }
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
        if !is_zero(bytes) {
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
    fn contents_are_equal_where_all_bytes_are() {
        let folder = tempfile::tempdir().unwrap();
        let [one, other] = ["one", "other"].map(|name| folder.path().join(name));
        let make = |path: &Path, size: u64| {
            let file = File::create(path).unwrap();
            file.set_len(size).unwrap();
            file
        };
        let (first, second) = (make(&one, 1 << 30), make(&other, 1 << 30));
        first.write_all_at(b"x", 700_000).unwrap();
        // Zeros that are written are as holes.
        second.write_all_at(&[0; 100_000], 5_000_000).unwrap();
        let contents = |path: &Path| Contents::read(path).unwrap();
        let difference = contents(&one).difference(&contents(&other)).unwrap();
        assert!(difference.contains("1 chunks") && difference.contains("655360"), "{difference}");
        second.write_all_at(b"x", 700_000).unwrap();
        assert!(contents(&one) == contents(&other));
        assert_eq!(contents(&one).difference(&contents(&other)), None);
        second.set_len((1 << 30) + 1).unwrap();
        assert!(contents(&one) != contents(&other));
        contents(&other).write(&one).unwrap();
        assert!(contents(&one) == contents(&other));
    }

    #[test]
    fn keeps_contents_and_holes() {
        round_trip(64 << 20, &[(0, b"start"), (33 << 20, b"middle"), ((64 << 20) - 3, b"end")]);
        round_trip(PLAIN_LIMIT_BYTES * 200, &[(0, b"start"), (PLAIN_LIMIT_BYTES * 150 + 5, b"far")]);
    }
}
