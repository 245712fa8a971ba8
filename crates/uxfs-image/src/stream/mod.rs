//! Compressed files that are read from their beginning, and unpacked.
//!
//! | module | holds |
//! |---|---|
//! | `forward` | what is asked of their unpacked bytes before they are unpacked: the partition table |
//! | `unpack` | into an unlinked temporary file with holes |

mod forward;
mod unpack;

use std::{
    io::{self, BufRead, BufReader, Read},
    sync::Arc,
};

use flate2::bufread::GzDecoder;
use uxfs_block::{
    claim::{Claimed, Lock},
    device::BlockDevice,
    engine::{self, OpenOptions},
    window::Part,
};

pub use self::unpack::WithoutSuperblock;
use self::{
    forward::ForwardDevice,
    unpack::{Unpacked, unpack},
};
use crate::{
    error::{ImageError, Result},
    form::Form,
    packed_reader::PackedReader,
    pieces::XZ_MEMORY_BYTES,
};

/// Read from the file at once.
const BUFFER_BYTES: usize = 128 << 10;
/// First byte of a member of a gzip file.
const MEMBER_BYTE: u8 = 0x1f;

/// A compressed file that can be read from its beginning only.
#[derive(Debug, Clone)]
pub struct PackedStream {
    form: Form,
    file: Arc<dyn BlockDevice>,
    /// How long it is unpacked, where it says so.
    size_bytes: Option<u64>,
}

impl PackedStream {
    pub(crate) fn new(form: Form, file: Arc<dyn BlockDevice>, size_bytes: Option<u64>) -> Self {
        Self { form, file, size_bytes }
    }

    /// The image, to look for partitions in it: nothing is kept of what is unpacked, so that reads of places further back begin again. Where
    /// the file does not say how long it is unpacked the device ends far behind it.
    pub fn forward(&self) -> Arc<dyn BlockDevice> {
        Arc::new(ForwardDevice::new(self.clone()))
    }

    /// Unpacks a part of the image, as far as the file system in it goes.
    ///
    /// # Errors
    /// It is damaged; there is no room for it.
    pub fn unpack(
        &self,
        part: Part,
        otherwise: WithoutSuperblock,
        options: &OpenOptions,
    ) -> Result<Arc<dyn BlockDevice>> {
        let form = self.form;
        let mut stream = self.unpacked().map_err(|source| ImageError::Unpack { form, source })?;
        let mut target = Unpacked::new(form)?;
        unpack(&mut stream, part, otherwise, &mut target)?;
        let claimed = Claimed::of(target.into_file()?, Lock::None)
            .map_err(|error| ImageError::Unpack { form, source: error.into() })?;
        let options = OpenOptions { engine: options.engine, ..OpenOptions::default() };
        Ok(engine::open_claimed(claimed, &options)?)
    }

    /// The unpacked bytes, from the first.
    fn unpacked(&self) -> io::Result<Box<dyn Read + Send>> {
        let packed = BufReader::with_capacity(BUFFER_BYTES, PackedReader::whole(&self.file));
        Ok(match self.form {
            Form::Gzip => Box::new(Members(Some(GzDecoder::new(packed)))),
            Form::Xz => {
                let flags = liblzma::stream::CONCATENATED;
                let decoder = liblzma::stream::Stream::new_stream_decoder(XZ_MEMORY_BYTES, flags)?;
                Box::new(liblzma::bufread::XzDecoder::new_stream(packed, decoder))
            }
            _ => Box::new(zstd::stream::read::Decoder::with_buffer(packed)?),
        })
    }
}

/// The members of a gzip file. Padding may follow the last one, as gzip(1) has it.
struct Members<R>(Option<GzDecoder<R>>);

impl<R: BufRead> Read for Members<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while let Some(decoder) = self.0.as_mut().filter(|_| !buffer.is_empty()) {
            let read = decoder.read(buffer)?;
            if read > 0 {
                return Ok(read);
            }
            let mut packed = self.0.take().map(GzDecoder::into_inner);
            let begins_member = match &mut packed {
                Some(packed) => packed.fill_buf()?.first() == Some(&MEMBER_BYTE),
                None => false,
            };
            self.0 = packed.filter(|_| begins_member).map(GzDecoder::new);
        }
        Ok(0)
    }
}

/// Fills `piece` as far as the stream goes.
fn read_piece(stream: &mut impl Read, piece: &mut [u8]) -> io::Result<usize> {
    let mut length = 0;
    while let Some(rest) = piece.get_mut(length..).filter(|rest| !rest.is_empty()) {
        match stream.read(rest) {
            Ok(0) => break,
            Ok(count) => length += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(length)
}
