//! A base image in memory without its holes, and cheap damaged copies of it.

use std::{
    collections::{HashMap, hash_map::Entry},
    fs::File,
    os::unix::fs::FileExt,
    path::Path,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use anyhow::{Context, Result};
use uxfs_block::device::{BlockDevice, DeviceError, DeviceOperation};

const CHUNK_BYTES: u64 = 64 << 10;

/// An image whose chunks of zeros are not kept.
#[derive(Debug)]
pub struct SparseImage {
    size_bytes: u64,
    chunks: HashMap<u64, Box<[u8]>>,
}

impl SparseImage {
    /// Reads an image file.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn load(path: &Path) -> Result<Arc<Self>> {
        let file = File::open(path).with_context(|| format!("cannot open {}", path.display()))?;
        let size_bytes = file.metadata()?.len();
        let mut chunks = HashMap::new();
        for (start, length) in uxfs_testkit::sparse::data_runs(&file)? {
            for index in start / CHUNK_BYTES..(start + length).div_ceil(CHUNK_BYTES) {
                let offset = index * CHUNK_BYTES;
                let mut chunk = vec![0; CHUNK_BYTES.min(size_bytes - offset) as usize];
                file.read_exact_at(&mut chunk, offset)?;
                if chunk.iter().any(|byte| *byte != 0) {
                    chunk.resize(CHUNK_BYTES as usize, 0);
                    chunks.insert(index, chunk.into());
                }
            }
        }
        Ok(Arc::new(Self { size_bytes, chunks }))
    }

    /// Writes an image file.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn save(&self, path: &Path) -> Result<File> {
        let file = File::create(path).with_context(|| format!("cannot make {}", path.display()))?;
        file.set_len(self.size_bytes)?;
        for (index, chunk) in &self.chunks {
            let offset = index * CHUNK_BYTES;
            let length = CHUNK_BYTES.min(self.size_bytes - offset) as usize;
            file.write_all_at(&chunk[..length], offset)?;
        }
        Ok(file)
    }

    fn check(&self, operation: DeviceOperation, offset_bytes: u64, length: usize) -> Result<(), DeviceError> {
        let end = offset_bytes.checked_add(length as u64).filter(|end| *end <= self.size_bytes);
        end.map(drop).ok_or_else(|| DeviceError::outside(operation, offset_bytes, length as u64))
    }

    fn read(&self, offset_bytes: u64, buffer: &mut [u8]) -> Result<(), DeviceError> {
        self.check(DeviceOperation::Read, offset_bytes, buffer.len())?;
        let mut done = 0;
        while done < buffer.len() {
            let position = offset_bytes + done as u64;
            let within = (position % CHUNK_BYTES) as usize;
            let length = (CHUNK_BYTES as usize - within).min(buffer.len() - done);
            match self.chunks.get(&(position / CHUNK_BYTES)) {
                Some(chunk) => buffer[done..done + length].copy_from_slice(&chunk[within..within + length]),
                None => buffer[done..done + length].fill(0),
            }
            done += length;
        }
        Ok(())
    }
}

/// A base image with a few pieces replaced. Cannot be written.
#[derive(Debug, Clone)]
pub struct DamagedImage {
    base: Arc<SparseImage>,
    patches: Vec<(u64, Vec<u8>)>,
}

impl DamagedImage {
    /// The base as it is.
    pub fn sound(base: Arc<SparseImage>) -> Self {
        Self { base, patches: Vec::new() }
    }

    /// The base with `bytes` over `pieces` (offset and length), in order.
    pub fn new(base: Arc<SparseImage>, pieces: &[(u64, u32)], bytes: &[u8]) -> Self {
        Self::sound(base).with(pieces, bytes)
    }

    /// Ranges of the base that hold anything but zeros, in order.
    pub fn used(&self) -> Vec<std::ops::Range<u64>> {
        let mut starts: Vec<u64> = self.base.chunks.keys().map(|index| index * CHUNK_BYTES).collect();
        starts.sort_unstable();
        let end = |start: u64| (start + CHUNK_BYTES).min(self.base.size_bytes);
        starts.into_iter().map(|start| start..end(start)).collect()
    }

    /// What lies over the base, in order: where, and what.
    pub fn patches(&self) -> &[(u64, Vec<u8>)] {
        &self.patches
    }

    /// This image with `bytes` over `pieces`, over all earlier ones.
    #[must_use]
    pub fn with(mut self, pieces: &[(u64, u32)], bytes: &[u8]) -> Self {
        let mut rest = bytes;
        for (offset, length) in pieces {
            let (piece, after) = rest.split_at(*length as usize);
            self.patches.push((*offset, piece.to_vec()));
            rest = after;
        }
        self
    }
}

impl BlockDevice for DamagedImage {
    fn engine(&self) -> &'static str {
        "damaged image"
    }

    fn size_bytes(&self) -> u64 {
        self.base.size_bytes
    }

    fn read(&self, offset_bytes: u64, buffer: &mut [u8]) -> Result<(), DeviceError> {
        self.base.read(offset_bytes, buffer)?;
        let end = offset_bytes + buffer.len() as u64;
        for (start, patch) in &self.patches {
            let (from, to) = (offset_bytes.max(*start), end.min(start + patch.len() as u64));
            if from < to {
                let piece = &patch[(from - start) as usize..(to - start) as usize];
                buffer[(from - offset_bytes) as usize..(to - offset_bytes) as usize].copy_from_slice(piece);
            }
        }
        Ok(())
    }

    fn write(&self, offset_bytes: u64, bytes: &[u8]) -> Result<(), DeviceError> {
        Err(DeviceError::outside(DeviceOperation::Write, offset_bytes, bytes.len() as u64))
    }

    fn flush(&self) -> Result<(), DeviceError> {
        Ok(())
    }

    fn discard(&self, offset_bytes: u64, length_bytes: u64) -> Result<(), DeviceError> {
        Err(DeviceError::outside(DeviceOperation::Discard, offset_bytes, length_bytes))
    }
}

/// A copy of an image that can be written: what was written lies in memory.
#[derive(Debug)]
pub struct EditableImage {
    base: DamagedImage,
    written: Mutex<HashMap<u64, Box<[u8]>>>,
}

/// Written pieces are kept in such chunks.
const WRITTEN_BYTES: u64 = 4 << 10;

impl EditableImage {
    /// A copy of this image.
    pub fn new(base: DamagedImage) -> Self {
        Self { base, written: Mutex::default() }
    }

    fn written(&self) -> MutexGuard<'_, HashMap<u64, Box<[u8]>>> {
        self.written.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The chunks that a range touches: index, first byte in the chunk, first byte in the range, length.
fn chunks(offset_bytes: u64, length: usize) -> impl Iterator<Item = (u64, usize, usize, usize)> {
    let mut done = 0;
    std::iter::from_fn(move || {
        let position = offset_bytes + done as u64;
        let within = (position % WRITTEN_BYTES) as usize;
        let part = (WRITTEN_BYTES as usize - within).min(length - done);
        let chunk = (position / WRITTEN_BYTES, within, done, part);
        done += part;
        (part > 0).then_some(chunk)
    })
}

impl BlockDevice for EditableImage {
    fn engine(&self) -> &'static str {
        "editable image"
    }

    fn size_bytes(&self) -> u64 {
        self.base.size_bytes()
    }

    fn read(&self, offset_bytes: u64, buffer: &mut [u8]) -> Result<(), DeviceError> {
        self.base.read(offset_bytes, buffer)?;
        let written = self.written();
        for (index, within, from, length) in chunks(offset_bytes, buffer.len()) {
            if let Some(chunk) = written.get(&index) {
                buffer[from..from + length].copy_from_slice(&chunk[within..within + length]);
            }
        }
        Ok(())
    }

    fn write(&self, offset_bytes: u64, bytes: &[u8]) -> Result<(), DeviceError> {
        self.base.base.check(DeviceOperation::Write, offset_bytes, bytes.len())?;
        let mut written = self.written();
        for (index, within, from, length) in chunks(offset_bytes, bytes.len()) {
            let chunk = match written.entry(index) {
                Entry::Occupied(entry) => entry.into_mut(),
                Entry::Vacant(entry) => {
                    let mut chunk = vec![0; WRITTEN_BYTES as usize];
                    let start = index * WRITTEN_BYTES;
                    let length = WRITTEN_BYTES.min(self.size_bytes() - start) as usize;
                    self.base.read(start, &mut chunk[..length])?;
                    entry.insert(chunk.into())
                }
            };
            chunk[within..within + length].copy_from_slice(&bytes[from..from + length]);
        }
        Ok(())
    }

    fn flush(&self) -> Result<(), DeviceError> {
        Ok(())
    }

    fn discard(&self, offset_bytes: u64, length_bytes: u64) -> Result<(), DeviceError> {
        Err(DeviceError::outside(DeviceOperation::Discard, offset_bytes, length_bytes))
    }
}
