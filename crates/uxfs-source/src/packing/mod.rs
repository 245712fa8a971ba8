//! Packed streams, known by how they begin.
//!
//! Damage is an error of the reader. Checksums come last in what they protect: only a stream that was read to its end has been
//! verified. Memory is bounded by what each format's window may be: 128 MiB for zstd (what it unpacks without being asked for
//! more), [`XZ_MEMORY_BYTES`] for xz.

mod frames;
mod members;

use std::{
    io::{self, BufRead, Read},
    sync::Arc,
};

use self::{
    frames::Frames,
    members::{Behind, Members},
};

/// Memory that unpacking xz may take: `xz -9` takes 65 MiB.
const XZ_MEMORY_BYTES: u64 = 192 << 20;

/// How a stream is packed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Packing {
    /// Not at all.
    None,
    /// gzip, also of several members.
    Gzip,
    /// zstd, also of several frames.
    Zstd,
    /// xz, also of several streams.
    Xz,
    /// Known, and not read.
    Unsupported(&'static str),
}

/// How many bytes of a stream say how it is packed.
pub const MAGIC_BYTES: usize = 6;

impl Packing {
    /// Judges the first [`MAGIC_BYTES`] of a stream, or all of one that is shorter.
    pub fn of(start: &[u8]) -> Self {
        match start {
            [0x1f, 0x8b, ..] => Self::Gzip,
            [0x28, 0xb5, 0x2f, 0xfd, ..] => Self::Zstd,
            // A frame that is to be skipped may come first.
            [low, 0x2a, 0x4d, 0x18, ..] if low & 0xf0 == 0x50 => Self::Zstd,
            [0xfd, b'7', b'z', b'X', b'Z', 0, ..] => Self::Xz,
            [b'B', b'Z', b'h', b'1'..=b'9', ..] => Self::Unsupported("bzip2"),
            [0x04, 0x22, 0x4d, 0x18, ..] => Self::Unsupported("lz4"),
            [b'L', b'Z', b'I', b'P', ..] => Self::Unsupported("lzip"),
            [0x5d, 0, 0, ..] => Self::Unsupported("lzma"),
            [0x1f, 0x9d, ..] => Self::Unsupported("compress"),
            [0x89, b'L', b'Z', b'O', ..] => Self::Unsupported("lzop"),
            _ => Self::None,
        }
    }
}

/// A stream as it was before it was packed.
pub struct Unpacked {
    stream: Box<dyn Read + Send>,
    is_packed: bool,
    /// Of gzip.
    behind: Option<Arc<Behind>>,
}

impl Unpacked {
    fn of(stream: impl Read + Send + 'static) -> Self {
        Self { stream: Box::new(stream), is_packed: true, behind: None }
    }

    /// A stream that is taken as it is.
    pub(crate) fn plain(stream: Box<dyn Read + Send>) -> Self {
        Self { stream, is_packed: false, behind: None }
    }

    /// Whether it was packed at all.
    pub fn is_packed(&self) -> bool {
        self.is_packed
    }

    /// Where in the packed stream something follows that is no part of it, and its length in bytes. Known at the end.
    pub fn behind(&self) -> Option<(u64, u64)> {
        self.behind.as_ref()?.found()
    }
}

impl Read for Unpacked {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.stream.read(buffer)
    }
}

/// Unpacks a stream as its first bytes tell.
///
/// # Errors
/// It cannot be read, or is packed in a way that is not supported.
pub fn unpack(mut stream: impl BufRead + Send + 'static) -> io::Result<Unpacked> {
    // A pipe may give less than a buffer at first; that many bytes it gives, or it ends.
    let mut start = [0; MAGIC_BYTES];
    let mut length = 0;
    while let Some(rest) = start.get_mut(length..).filter(|rest| !rest.is_empty()) {
        match stream.read(rest) {
            Ok(0) => break,
            Ok(read) => length += read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    let start = start.get(..length).unwrap_or_default().to_vec();
    let packing = Packing::of(&start);
    let stream = io::BufReader::with_capacity(BUFFER_BYTES, io::Cursor::new(start).chain(stream));
    Ok(match packing {
        Packing::None => Unpacked { is_packed: false, ..Unpacked::of(stream) },
        Packing::Gzip => {
            let members = Members::new(stream);
            Unpacked { behind: Some(members.behind()), ..Unpacked::of(members) }
        }
        Packing::Zstd => Unpacked::of(Frames::new(stream)?),
        Packing::Xz => {
            let decoder =
                liblzma::stream::Stream::new_stream_decoder(XZ_MEMORY_BYTES, liblzma::stream::CONCATENATED);
            let decoder = decoder.map_err(io::Error::other)?;
            Unpacked::of(liblzma::bufread::XzDecoder::new_stream(stream, decoder))
        }
        Packing::Unsupported(name) => {
            let words = format!("packed with {name}, which is not supported: unpack it into a pipe");
            return Err(io::Error::new(io::ErrorKind::Unsupported, words));
        }
    })
}

/// As `fill_buf`, whatever signals come.
fn fill<R: BufRead>(stream: &mut R) -> io::Result<&[u8]> {
    loop {
        match stream.fill_buf() {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
            // Asked again, because the borrow checker does not follow a borrow out of a loop.
            Ok(_) => return stream.fill_buf(),
        }
    }
}

/// Read from the host at once.
const BUFFER_BYTES: usize = 256 << 10;

#[cfg(test)]
mod tests {
    use std::io::{BufReader, Write};

    use super::*;

    /// Gives one byte at a time, as the slowest of pipes.
    struct Drip(io::Cursor<Vec<u8>>);

    impl Read for Drip {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            let length = buffer.len().min(1);
            self.0.read(&mut buffer[..length])
        }
    }

    fn unpacked(bytes: Vec<u8>) -> io::Result<Vec<u8>> {
        let mut all = Vec::new();
        unpack(BufReader::new(Drip(io::Cursor::new(bytes))))?.read_to_end(&mut all)?;
        Ok(all)
    }

    fn gzip(bytes: &[u8]) -> Vec<u8> {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        encoder.write_all(bytes).unwrap();
        encoder.finish().unwrap()
    }

    fn xz(bytes: &[u8]) -> Vec<u8> {
        let mut encoder = liblzma::write::XzEncoder::new(Vec::new(), 1);
        encoder.write_all(bytes).unwrap();
        encoder.finish().unwrap()
    }

    #[test]
    fn every_packing_also_in_pieces() {
        let text = b"some text, some text, some text".repeat(100);
        let zstd = zstd::encode_all(text.as_slice(), 1).unwrap();
        for packed in [gzip(&text), xz(&text), zstd] {
            assert!(packed.len() < text.len());
            assert_eq!(unpacked(packed.clone()).unwrap(), text);
            let twice = [packed.as_slice(), &packed].concat();
            assert_eq!(unpacked(twice).unwrap(), text.repeat(2));
            for length in [packed.len() - 1, packed.len() / 2] {
                assert!(unpacked(packed[..length].to_vec()).is_err());
            }
        }
        assert_eq!(unpacked(text.clone()).unwrap(), text);
        assert_eq!(unpacked(Vec::new()).unwrap(), b"");
        assert_eq!(unpacked(b"BZh91AY".to_vec()).unwrap_err().kind(), io::ErrorKind::Unsupported);
    }
}
