//! Pages of an overlay: in memory up to a limit, then in a temporary file.

use std::{fs::File, io, ops::Range, os::unix::fs::FileExt};

use parking_lot::Mutex;

use crate::device::{DeviceError, DeviceOperation};

/// Bytes of a page: the unit in which an overlay remembers.
pub const PAGE_BYTES: usize = 4096;
/// Pages that are allocated together.
const CHUNK_PAGES: usize = 64;

/// Pages by number of their slot.
#[derive(Debug)]
pub struct PageStore {
    chunks: Vec<Box<[u8]>>,
    memory_pages: usize,
    pages: usize,
    /// Behind the pages in memory.
    file: Option<File>,
}

/// The part of a range that lies in one page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Part {
    pub page: u64,
    pub in_page: Range<usize>,
    pub in_buffer: Range<usize>,
}

/// Divides a range into pages.
pub fn parts(offset_bytes: u64, length: usize) -> impl Iterator<Item = Part> {
    let mut done = 0;
    std::iter::from_fn(move || {
        if done >= length {
            return None;
        }
        let at = offset_bytes + done as u64;
        let start = (at % PAGE_BYTES as u64) as usize;
        let count = (PAGE_BYTES - start).min(length - done);
        let part = Part {
            page: at / PAGE_BYTES as u64,
            in_page: start..start + count,
            in_buffer: done..done + count,
        };
        done += count;
        Some(part)
    })
}

/// Temporary files that were made ahead.
static PREPARED: Mutex<Vec<File>> = Mutex::new(Vec::new());

/// Makes temporary files for overlays to come, as many as may outgrow their memory: a process that is to be confined can make none later.
///
/// # Errors
/// They cannot be made.
pub fn prepare_files(count: usize) -> io::Result<()> {
    let files = (0..count).map(|_| tempfile::tempfile()).collect::<io::Result<Vec<_>>>()?;
    PREPARED.lock().extend(files);
    Ok(())
}

impl PageStore {
    pub fn new(memory_bytes: u64) -> Self {
        let memory_pages = usize::try_from(memory_bytes).unwrap_or(usize::MAX) / PAGE_BYTES;
        Self { chunks: Vec::new(), memory_pages, pages: 0, file: None }
    }

    /// Adds a page; gives its slot.
    pub fn add(&mut self, bytes: &[u8; PAGE_BYTES]) -> Result<u32, DeviceError> {
        let too_many = || failed(DeviceOperation::Write, 0, io::Error::other("too many pages in an overlay"));
        let slot = u32::try_from(self.pages).map_err(|_| too_many())?;
        if self.pages < self.memory_pages {
            if self.pages.is_multiple_of(CHUNK_PAGES) {
                self.chunks.push(vec![0; CHUNK_PAGES * PAGE_BYTES].into());
            }
        } else if self.file.is_none() {
            let prepared = PREPARED.lock().pop().map_or_else(tempfile::tempfile, Ok);
            self.file = Some(prepared.map_err(|source| failed(DeviceOperation::Write, 0, source))?);
        }
        self.pages += 1;
        self.write(slot, 0, bytes)?;
        Ok(slot)
    }

    /// Where a page lies in the chunks; `None` for one in the file.
    fn in_memory(&self, slot: u32, range: &Range<usize>) -> Option<(usize, Range<usize>)> {
        let slot = slot as usize;
        if slot >= self.memory_pages {
            return None;
        }
        let start = slot % CHUNK_PAGES * PAGE_BYTES;
        Some((slot / CHUNK_PAGES, start + range.start..start + range.end))
    }

    fn in_file(&self, slot: u32, start: usize) -> Option<(&File, u64)> {
        let page = (slot as usize).checked_sub(self.memory_pages)?;
        Some((self.file.as_ref()?, page as u64 * PAGE_BYTES as u64 + start as u64))
    }

    /// Reads a part of a page.
    pub fn read(&self, slot: u32, range: Range<usize>, buffer: &mut [u8]) -> Result<(), DeviceError> {
        if let Some((chunk, range)) = self.in_memory(slot, &range) {
            buffer.copy_from_slice(&self.chunks[chunk][range]);
        } else if let Some((file, offset)) = self.in_file(slot, range.start) {
            let result = file.read_exact_at(buffer, offset);
            result.map_err(|source| failed(DeviceOperation::Read, buffer.len(), source))?;
        }
        Ok(())
    }

    /// Writes a part of a page.
    pub fn write(&mut self, slot: u32, start: usize, bytes: &[u8]) -> Result<(), DeviceError> {
        if let Some((chunk, range)) = self.in_memory(slot, &(start..start + bytes.len())) {
            self.chunks[chunk][range].copy_from_slice(bytes);
        } else if let Some((file, offset)) = self.in_file(slot, start) {
            let result = file.write_all_at(bytes, offset);
            result.map_err(|source| failed(DeviceOperation::Write, bytes.len(), source))?;
        }
        Ok(())
    }
}

/// The temporary file failed: no place on the device is to blame.
fn failed(operation: DeviceOperation, length: usize, source: io::Error) -> DeviceError {
    let source = io::Error::new(source.kind(), format!("temporary file of an overlay: {source}"));
    DeviceError { operation, offset_bytes: 0, length_bytes: length as u64, source }
}
