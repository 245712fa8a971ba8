//! An image as a value: copying one costs nothing, changing one costs the pages that change.
//!
//! Pages hang in a tree of two levels behind counted references. A crash state is then the copy of an earlier image with a
//! few writes on top, and a recovery under test writes into a copy of its own. Each image knows a digest of what it holds,
//! kept up to date page by page, so that equal images are recognised however they came about.

use std::{
    fmt,
    fs::File,
    os::unix::fs::FileExt,
    path::Path,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use anyhow::{Context, Result};
use uxfs_block::{
    device::{BlockDevice, DeviceError, DeviceOperation},
    zeros::is_zero,
};

/// The grain in which contents are kept.
pub const PAGE_BYTES: usize = 4096;
/// Pages below one inner node.
const FANOUT: usize = 256;

#[derive(Clone)]
struct Page {
    hash: u64,
    bytes: [u8; PAGE_BYTES],
}

type Leaf = [Option<Arc<Page>>; FANOUT];

/// Contents of a device at one moment.
#[derive(Clone)]
pub struct Image {
    size_bytes: u64,
    /// The contents of pages that were never written.
    fill: Arc<Page>,
    root: Arc<Vec<Option<Arc<Leaf>>>>,
    digest: u64,
}

impl fmt::Debug for Image {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Image").field("size_bytes", &self.size_bytes).finish_non_exhaustive()
    }
}

impl Image {
    /// An image whose bytes are all `fill`.
    pub fn filled(size_bytes: u64, fill: u8) -> Self {
        let fill = Arc::new(Page::new([fill; PAGE_BYTES]));
        let leaves = size_bytes.div_ceil((PAGE_BYTES * FANOUT) as u64);
        Self { size_bytes, fill, root: Arc::new(vec![None; leaves as usize]), digest: 0 }
    }

    /// Reads an image file.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn load(path: &Path) -> Result<Self> {
        let file = File::open(path).with_context(|| format!("cannot open {}", path.display()))?;
        let mut image = Self::filled(file.metadata()?.len(), 0);
        let mut page = vec![0; PAGE_BYTES];
        for (start, length) in uxfs_testkit::sparse::data_runs(&file)? {
            let mut offset = start;
            while offset < start + length {
                let part = (start + length - offset).min(PAGE_BYTES as u64) as usize;
                file.read_exact_at(&mut page[..part], offset)?;
                image.write(offset, &page[..part])?;
                offset += part as u64;
            }
        }
        Ok(image)
    }

    /// Writes an image file; pages of zeros become holes.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn save(&self, path: &Path) -> Result<()> {
        let file = File::create(path).with_context(|| format!("cannot make {}", path.display()))?;
        file.set_len(self.size_bytes)?;
        let pages = self.size_bytes.div_ceil(PAGE_BYTES as u64) as usize;
        for index in 0..pages {
            let offset = (index * PAGE_BYTES) as u64;
            let length = (self.size_bytes - offset).min(PAGE_BYTES as u64) as usize;
            let bytes = &self.page(index).bytes[..length];
            if !is_zero(bytes) {
                file.write_all_at(bytes, offset)?;
            }
        }
        Ok(())
    }

    /// As [`save`](Self::save), but leaves holes for pages that were never written, which is fast.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn save_written(&self, path: &Path) -> Result<()> {
        let file = File::create(path).with_context(|| format!("cannot make {}", path.display()))?;
        file.set_len(self.size_bytes)?;
        for (node, leaf) in self.root.iter().enumerate() {
            for (slot, page) in leaf.iter().flat_map(|leaf| leaf.iter().enumerate()) {
                let Some(page) = page.as_ref().filter(|page| page.hash != self.fill.hash) else { continue };
                let offset = ((node * FANOUT + slot) * PAGE_BYTES) as u64;
                let length = (self.size_bytes - offset).min(PAGE_BYTES as u64) as usize;
                if !is_zero(&page.bytes[..length]) {
                    file.write_all_at(&page.bytes[..length], offset)?;
                }
            }
        }
        Ok(())
    }

    /// Size in bytes.
    pub fn size_bytes(&self) -> u64 {
        self.size_bytes
    }

    /// Equal for images that hold the same.
    pub fn digest(&self) -> u64 {
        self.digest
    }

    /// As [`digest`](Self::digest), but for what lies within `range`, which begins and ends at pages.
    pub fn digest_without(&self, range: std::ops::Range<u64>) -> u64 {
        let pages =
            (range.start / PAGE_BYTES as u64) as usize..range.end.div_ceil(PAGE_BYTES as u64) as usize;
        let mut digest = self.digest;
        for index in pages {
            if let Some(Some(leaf)) = self.root.get(index / FANOUT)
                && let Some(page) = &leaf[index % FANOUT]
            {
                digest = digest.wrapping_sub(self.contribution(index, page.hash));
            }
        }
        digest
    }

    /// Where two images of one size begin to differ, but for the pages of `ignored`.
    pub fn first_difference(&self, other: &Self, ignored: &std::ops::Range<u64>) -> Option<u64> {
        let pages = self.size_bytes.div_ceil(PAGE_BYTES as u64) as usize;
        let looked_at = (0..pages).filter(|index| !ignored.contains(&((index * PAGE_BYTES) as u64)));
        looked_at.into_iter().find_map(|index| {
            let (one, two) = (self.page(index), other.page(index));
            if one.hash == two.hash {
                return None;
            }
            let at = one.bytes.iter().zip(&two.bytes).position(|(one, two)| one != two)?;
            Some((index * PAGE_BYTES + at) as u64)
        })
    }

    fn page(&self, index: usize) -> &Page {
        let leaf = self.root.get(index / FANOUT).and_then(Option::as_ref);
        leaf.and_then(|leaf| leaf[index % FANOUT].as_ref()).unwrap_or(&self.fill)
    }

    /// None for a page that holds what it held at first.
    fn contribution(&self, index: usize, hash: u64) -> u64 {
        mix(hash ^ mix(index as u64)).wrapping_sub(mix(self.fill.hash ^ mix(index as u64)))
    }

    fn check(&self, operation: DeviceOperation, offset_bytes: u64, length: u64) -> Result<(), DeviceError> {
        let end = offset_bytes.checked_add(length).filter(|end| *end <= self.size_bytes);
        end.map(drop).ok_or_else(|| DeviceError::outside(operation, offset_bytes, length))
    }

    /// Fills `buffer`.
    ///
    /// # Errors
    /// Outside the image.
    pub fn read(&self, offset_bytes: u64, buffer: &mut [u8]) -> Result<(), DeviceError> {
        self.check(DeviceOperation::Read, offset_bytes, buffer.len() as u64)?;
        for (page, within, part) in pieces(offset_bytes, buffer.len()) {
            let length = part.len();
            buffer[part].copy_from_slice(&self.page(page).bytes[within..within + length]);
        }
        Ok(())
    }

    /// Changes this image, and no copy of it.
    ///
    /// # Errors
    /// Outside the image.
    pub fn write(&mut self, offset_bytes: u64, bytes: &[u8]) -> Result<(), DeviceError> {
        self.check(DeviceOperation::Write, offset_bytes, bytes.len() as u64)?;
        for (page, within, part) in pieces(offset_bytes, bytes.len()) {
            self.change(page, |held| held[within..within + part.len()].copy_from_slice(&bytes[part]));
        }
        Ok(())
    }

    /// Gives every byte of a range the same value.
    ///
    /// # Errors
    /// Outside the image.
    pub fn fill(&mut self, offset_bytes: u64, length_bytes: u64, value: u8) -> Result<(), DeviceError> {
        self.check(DeviceOperation::Discard, offset_bytes, length_bytes)?;
        let whole = Arc::new(Page::new([value; PAGE_BYTES]));
        for (page, within, part) in pieces(offset_bytes, length_bytes as usize) {
            if part.len() == PAGE_BYTES {
                self.replace(page, &whole);
            } else {
                self.change(page, |held| held[within..within + part.len()].fill(value));
            }
        }
        Ok(())
    }

    /// Puts a page in that others may share.
    fn replace(&mut self, index: usize, page: &Arc<Page>) {
        let old = self.page(index).hash;
        let Some(slot) = Arc::make_mut(&mut self.root).get_mut(index / FANOUT) else { return };
        let leaf = Arc::make_mut(slot.get_or_insert_with(|| Arc::new([const { None }; FANOUT])));
        leaf[index % FANOUT] = Some(Arc::clone(page));
        self.digest = self
            .digest
            .wrapping_sub(self.contribution(index, old))
            .wrapping_add(self.contribution(index, page.hash));
    }

    fn change(&mut self, index: usize, change: impl FnOnce(&mut [u8; PAGE_BYTES])) {
        let old = self.page(index).hash;
        let Some(slot) = Arc::make_mut(&mut self.root).get_mut(index / FANOUT) else { return };
        let leaf = Arc::make_mut(slot.get_or_insert_with(|| Arc::new([const { None }; FANOUT])));
        let page = Arc::make_mut(leaf[index % FANOUT].get_or_insert_with(|| Arc::clone(&self.fill)));
        change(&mut page.bytes);
        page.hash = hash(&page.bytes);
        let new = page.hash;
        self.digest = self
            .digest
            .wrapping_sub(self.contribution(index, old))
            .wrapping_add(self.contribution(index, new));
    }
}

/// A range by pages: the page, where in it, and which part of the range.
fn pieces(offset_bytes: u64, length: usize) -> impl Iterator<Item = (usize, usize, std::ops::Range<usize>)> {
    let mut done = 0;
    std::iter::from_fn(move || {
        (done < length).then(|| {
            let position = offset_bytes as usize + done;
            let within = position % PAGE_BYTES;
            let part = done..length.min(done + PAGE_BYTES - within);
            done = part.end;
            (position / PAGE_BYTES, within, part)
        })
    })
}

impl Page {
    fn new(bytes: [u8; PAGE_BYTES]) -> Self {
        Self { hash: hash(&bytes), bytes }
    }
}

/// Spreads every bit of a number over all of them.
pub fn mix(mut value: u64) -> u64 {
    value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 31)
}

/// A number for some bytes; equal bytes give equal numbers, and hardly any others do.
pub fn hash(bytes: &[u8]) -> u64 {
    // Four lanes, so that the multiplications of one need not wait for those of another.
    let mut lanes =
        [0x9e37_79b9_7f4a_7c15_u64, 0xc2b2_ae3d_27d4_eb4f, 0x1656_67b1_9e37_79f9, bytes.len() as u64];
    let mut chunks = bytes.chunks_exact(32);
    for chunk in &mut chunks {
        for (lane, word) in lanes.iter_mut().zip(chunk.chunks_exact(8)) {
            let word = u64::from_le_bytes(word.try_into().unwrap_or_default());
            *lane = (lane.rotate_left(23) ^ word).wrapping_mul(0xff51_afd7_ed55_8ccd);
        }
    }
    for byte in chunks.remainder() {
        lanes[0] = (lanes[0].rotate_left(9) ^ u64::from(*byte)).wrapping_mul(0xff51_afd7_ed55_8ccd);
    }
    lanes.into_iter().fold(0, |all, lane| mix(all ^ lane))
}

/// A device whose contents can be taken as an [`Image`] at any moment.
#[derive(Debug)]
pub struct ImageDevice {
    image: Mutex<Image>,
    is_read_only: bool,
}

impl ImageDevice {
    /// A device that holds this.
    pub fn new(image: Image) -> Self {
        Self { image: Mutex::new(image), is_read_only: false }
    }

    /// The same for reading only.
    pub fn read_only(image: Image) -> Self {
        Self { image: Mutex::new(image), is_read_only: true }
    }

    /// The contents now.
    pub fn image(&self) -> Image {
        self.lock().clone()
    }

    fn lock(&self) -> MutexGuard<'_, Image> {
        self.image.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl BlockDevice for ImageDevice {
    fn size_bytes(&self) -> u64 {
        self.lock().size_bytes
    }

    fn engine(&self) -> &'static str {
        "image in memory"
    }

    fn is_read_only(&self) -> bool {
        self.is_read_only
    }

    fn read(&self, offset_bytes: u64, buffer: &mut [u8]) -> Result<(), DeviceError> {
        self.image().read(offset_bytes, buffer)
    }

    fn write(&self, offset_bytes: u64, bytes: &[u8]) -> Result<(), DeviceError> {
        if self.is_read_only {
            return Err(DeviceError::read_only(DeviceOperation::Write, offset_bytes, bytes.len() as u64));
        }
        self.lock().write(offset_bytes, bytes)
    }

    fn flush(&self) -> Result<(), DeviceError> {
        Ok(())
    }

    fn discard(&self, offset_bytes: u64, length_bytes: u64) -> Result<(), DeviceError> {
        if self.is_read_only {
            return Err(DeviceError::read_only(DeviceOperation::Discard, offset_bytes, length_bytes));
        }
        self.lock().fill(offset_bytes, length_bytes, super::DISCARDED)
    }
}

#[cfg(test)]
#[path = "image_tests.rs"]
mod tests;
