//! Images compressed with zstd, as golden images and downloads are: unpacked into a temporary file without a name,
//! with holes where the image is zero, and gone when the command ends.

use std::{
    fs::File,
    io::{self, Read, Seek, SeekFrom, Write},
    path::Path,
};

/// How a zstd stream begins.
const MAGIC: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];
/// Runs of zeros of this size become holes.
const PIECE_BYTES: usize = 64 << 10;

/// Whether `path` is zstd-compressed.
pub fn is_packed(path: &Path) -> io::Result<bool> {
    let mut magic = [0; MAGIC.len()];
    Ok(File::open(path)?.read(&mut magic)? == MAGIC.len() && magic == MAGIC)
}

/// Unpacks `path` if it is zstd-compressed; `None` if it is not.
pub fn unpack(path: &Path) -> io::Result<Option<File>> {
    let mut file = File::open(path)?;
    let mut magic = [0; MAGIC.len()];
    if file.read(&mut magic)? < MAGIC.len() || magic != MAGIC {
        return Ok(None);
    }
    file.seek(SeekFrom::Start(0))?;
    let mut stream = zstd::Decoder::new(file)?;
    let mut unpacked = tempfile::tempfile()?;
    let mut piece = vec![0; PIECE_BYTES];
    let mut size_bytes = 0u64;
    loop {
        let length = read_piece(&mut stream, &mut piece)?;
        if length == 0 {
            break;
        }
        let bytes = &piece[..length];
        size_bytes += length as u64;
        if bytes.iter().all(|byte| *byte == 0) {
            unpacked.seek(SeekFrom::Start(size_bytes))?;
        } else {
            unpacked.write_all(bytes)?;
        }
    }
    unpacked.set_len(size_bytes)?;
    Ok(Some(unpacked))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unpacks_what_was_packed_and_leaves_the_rest_alone() {
        let mut image = vec![0; 1 << 20];
        image[0] = 1;
        image[700_000] = 2;
        let mut packed = tempfile::NamedTempFile::new().unwrap();
        packed.write_all(&zstd::encode_all(image.as_slice(), 1).unwrap()).unwrap();
        let mut unpacked = unpack(packed.path()).unwrap().unwrap();
        let mut bytes = Vec::new();
        unpacked.seek(SeekFrom::Start(0)).unwrap();
        unpacked.read_to_end(&mut bytes).unwrap();
        assert!(bytes == image);

        let plain = tempfile::NamedTempFile::new().unwrap();
        assert!(unpack(plain.path()).unwrap().is_none());
    }
}
