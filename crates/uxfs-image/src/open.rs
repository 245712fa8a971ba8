//! From a file of any form to a device.

use std::{path::Path, sync::Arc};

use uxfs_block::device::BlockDevice;

use crate::{
    error::{ImageError, Result},
    form::Form,
    pieces::{Layout, PieceDevice},
    qcow2::{self, BackingFiles},
    stream::PackedStream,
};

/// An image as it can be read.
#[derive(Debug)]
pub enum Opened {
    /// From any place.
    Device(Arc<dyn BlockDevice>),
    /// From its beginning only.
    Stream(PackedStream),
}

/// How an image is opened.
#[derive(Clone, Copy)]
pub struct Options<'a> {
    /// Whether a qcow2 disk may be based on other files.
    pub files: BackingFiles<'a>,
    /// Memory for what was decompressed last.
    pub cache_bytes: u64,
}

/// Opens an image of a form. `file` holds its bytes, and lies at `path`.
///
/// # Errors
/// It cannot be read, or is of a kind that is not read here.
pub fn open(form: Form, file: &Arc<dyn BlockDevice>, path: &Path, options: Options<'_>) -> Result<Opened> {
    if form == Form::Qcow2 {
        return Ok(Opened::Device(qcow2::open(file, path, options)?));
    }
    if !form.is_read() {
        return Err(ImageError::Unsupported { what: form.name().to_owned(), remedy: form.remedy() });
    }
    Ok(match Layout::find(form, file)? {
        Layout::Pieces(pieces) => {
            Opened::Device(Arc::new(PieceDevice::new(Arc::clone(file), pieces, options.cache_bytes)))
        }
        Layout::Whole { size_bytes } => Opened::Stream(PackedStream::new(form, Arc::clone(file), size_bytes)),
    })
}
