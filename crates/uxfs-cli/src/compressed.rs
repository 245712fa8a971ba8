//! Images compressed with zstd, as golden images and downloads are: unpacked into an unlinked temporary file
//! with holes where the image is zero. It disappears when the command ends.
//!
//! A packed file of 100 KB may unpack to gigabytes. So the superblock is checked before anything else is unpacked, and
//! unpacking stops at the end of the file system that it describes. Where no sound superblock is at its beginning, only that is unpacked, or
//! for commands on damaged images all of it: other structures tell where the file system ends. Some space is left free in the directory.

use std::{
    fs::File,
    io::{self, Read, Seek, SeekFrom},
    os::unix::fs::FileExt,
    path::Path,
};

use uxfs_block::engine::open_plain;
use uxfs_format::{
    geometry::Geometry,
    superblock::{Copy, MAX_SECTOR_SIZE_BYTES, Superblock},
};

/// How a zstd stream begins.
const MAGIC: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];
/// Unpacked at once; also all that is unpacked of a file without a file system.
const PIECE_BYTES: usize = 64 << 10;
/// Zeros of this size, where they lie aligned, become holes.
const HOLE_BYTES: usize = 4 << 10;

const _: () = assert!(MAX_SECTOR_SIZE_BYTES <= PIECE_BYTES && PIECE_BYTES.is_multiple_of(HOLE_BYTES));

/// How much is unpacked where no sound superblock is at the beginning.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WithoutSuperblock {
    /// The beginning: nothing can be read without a superblock.
    Beginning,
    /// All of it: the file system is damaged.
    Everything,
}

/// Whether `path` is zstd-compressed.
pub fn is_packed(path: &Path) -> io::Result<bool> {
    begins_packed(&mut open_plain(path)?)
}

fn begins_packed(file: &mut File) -> io::Result<bool> {
    let mut magic = [0; MAGIC.len()];
    Ok(file.read(&mut magic)? == MAGIC.len() && magic == MAGIC)
}

/// Unpacks the file system at byte `start_bytes` of `path` if that is zstd-compressed; `None` if it is not.
pub fn unpack(path: &Path, start_bytes: u64, otherwise: WithoutSuperblock) -> io::Result<Option<File>> {
    let mut file = open_plain(path)?;
    if !begins_packed(&mut file)? {
        return Ok(None);
    }
    file.seek(SeekFrom::Start(0))?;
    let mut stream = zstd::Decoder::new(file)?;
    // What lies in front of the file system is not looked at.
    let skipped = io::copy(&mut stream.by_ref().take(start_bytes), &mut io::sink())?;
    let mut unpacked = Unpacked::new(skipped)?;
    let mut piece = vec![0; PIECE_BYTES];
    let mut length = read_piece(&mut stream, &mut piece)?;
    let size_bytes = piece.get(..length).and_then(size_of_file_system).unwrap_or(match otherwise {
        WithoutSuperblock::Beginning => PIECE_BYTES as u64,
        WithoutSuperblock::Everything => u64::MAX,
    });
    let end_bytes = start_bytes.saturating_add(size_bytes);
    while length > 0 && unpacked.end_bytes < end_bytes {
        unpacked.add(piece.get(..length).unwrap_or_default())?;
        length = read_piece(&mut stream, &mut piece)?;
    }
    unpacked.file.set_len(unpacked.end_bytes)?;
    Ok(Some(unpacked.file))
}

/// Bytes in the file system that begins with these bytes. `None` where they begin none that can be mounted.
fn size_of_file_system(start: &[u8]) -> Option<u64> {
    let (superblock, sector) = Superblock::parse(start).ok()?;
    superblock.verify(sector, Copy::Primary).ok()?;
    Some(Geometry::new(superblock).data_size_bytes())
}

/// Fills `piece` as far as the stream goes.
fn read_piece(stream: &mut impl Read, piece: &mut [u8]) -> io::Result<usize> {
    let mut length = 0;
    while length < piece.len() {
        match stream.read(&mut piece[length..]) {
            Ok(0) => break,
            Ok(count) => length += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(length)
}

/// The file that is unpacked into.
struct Unpacked {
    file: File,
    /// Bytes unpacked so far.
    end_bytes: u64,
    /// Bytes that may still be written: other programs need space for their temporary files as well.
    room_bytes: u64,
}

impl Unpacked {
    fn new(end_bytes: u64) -> io::Result<Self> {
        let file = tempfile::tempfile()?;
        let status = rustix::fs::fstatvfs(&file)?;
        let free_bytes = status.f_bavail.saturating_mul(status.f_frsize);
        Ok(Self { file, end_bytes, room_bytes: free_bytes - free_bytes / 16 })
    }

    /// Writes the parts that are not zero.
    fn add(&mut self, bytes: &[u8]) -> io::Result<()> {
        let is_zero = |block: &&[u8]| block.iter().all(|byte| *byte == 0);
        let mut offset_bytes = self.end_bytes;
        for blocks in bytes.chunks(HOLE_BYTES).collect::<Vec<_>>().chunk_by(|a, b| is_zero(a) == is_zero(b)) {
            let length_bytes: usize = blocks.iter().map(|block| block.len()).sum();
            if !blocks.first().is_some_and(is_zero) {
                let room_bytes = self.room_bytes.checked_sub(length_bytes as u64);
                self.room_bytes = room_bytes.ok_or_else(|| self.no_room())?;
                self.file.write_all_at(&blocks.concat(), offset_bytes)?;
            }
            offset_bytes += length_bytes as u64;
        }
        self.end_bytes = offset_bytes;
        Ok(())
    }

    fn no_room(&self) -> io::Error {
        let message = format!(
            "not enough space to unpack it in {} (set TMPDIR to another directory)",
            std::env::temp_dir().display()
        );
        io::Error::new(io::ErrorKind::StorageFull, message)
    }
}

#[cfg(test)]
mod tests {
    use std::{io::Write, os::unix::fs::MetadataExt};

    use uxfs_format::{field_table::OnDisk, seal::seal};

    use super::*;

    fn packed(bytes: &[u8]) -> tempfile::NamedTempFile {
        let mut packed = tempfile::NamedTempFile::new().unwrap();
        packed.write_all(&zstd::encode_all(bytes, 1).unwrap()).unwrap();
        packed
    }

    fn all(mut file: File) -> Vec<u8> {
        let mut bytes = Vec::new();
        file.seek(SeekFrom::Start(0)).unwrap();
        file.read_to_end(&mut bytes).unwrap();
        bytes
    }

    /// The first sector of a file system, which says how long that is.
    fn superblock() -> (Vec<u8>, u64) {
        let mut bytes = include_bytes!("../../uxfs-format/testdata/superblock.bin").to_vec();
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
            let file = packed(&image);
            let unpacked = unpack(file.path(), start_bytes as u64, WithoutSuperblock::Everything);
            let unpacked = unpacked.unwrap().unwrap();
            assert!(unpacked.metadata().unwrap().blocks() * 512 < 256 << 10);
            let bytes = all(unpacked);
            assert!(bytes.len() <= image.len() && bytes.len() < image.len() - more_bytes + PIECE_BYTES);
            assert!(bytes[start_bytes..] == image[start_bytes..bytes.len()]);
        }
    }

    #[test]
    fn without_a_superblock_the_beginning_is_unpacked_or_all_of_it() {
        let (mut damaged, size_bytes) = superblock();
        damaged[30] ^= 1;
        for mut bytes in [damaged, b"ustar".to_vec()] {
            bytes.resize(size_bytes as usize, 1);
            let file = packed(&bytes);
            let unpacked = |otherwise| all(unpack(file.path(), 0, otherwise).unwrap().unwrap());
            assert!(unpacked(WithoutSuperblock::Beginning) == bytes[..PIECE_BYTES]);
            assert!(unpacked(WithoutSuperblock::Everything) == bytes);
        }
        let plain = tempfile::NamedTempFile::new().unwrap();
        assert!(unpack(plain.path(), 0, WithoutSuperblock::Everything).unwrap().is_none());
    }

    #[test]
    fn room_is_left() {
        let mut unpacked = Unpacked::new(0).unwrap();
        unpacked.room_bytes = 2 * HOLE_BYTES as u64;
        unpacked.add(&[0; 1 << 20]).unwrap();
        unpacked.add(&[1; 2 * HOLE_BYTES]).unwrap();
        assert_eq!(unpacked.add(&[1]).unwrap_err().kind(), io::ErrorKind::StorageFull);
    }
}
