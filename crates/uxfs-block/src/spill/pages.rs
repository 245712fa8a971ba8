//! Pages of one size that are read and changed at any place: in memory up to a bound, behind it in a temporary file.
//!
//! 1. A page has a place of its own in the file, at its number times its size. A page that was never changed holds zeros.
//! 2. A page that is changed is in memory; it is written when another one takes its place. The one to go is found by a clock: pages that
//!    were used since the hand passed them stay for one more round.

use std::collections::HashMap;

use super::{SpillError, TemporaryFile};

/// Pages in memory are never fewer.
const LEAST_PAGES: usize = 4;

/// Pages by number.
#[derive(Debug)]
pub struct SpillPages {
    page_bytes: usize,
    most_in_memory: usize,
    file: Option<TemporaryFile>,
    slots: Vec<Slot>,
    by_number: HashMap<u32, usize>,
    hand: usize,
}

#[derive(Debug)]
struct Slot {
    number: u32,
    bytes: Box<[u8]>,
    is_used: bool,
    is_changed: bool,
}

impl SpillPages {
    /// Pages of so many bytes, of which about `memory_limit` bytes stay in memory.
    pub fn new(page_bytes: usize, memory_limit: usize) -> Self {
        let most_in_memory = (memory_limit / page_bytes.max(1)).max(LEAST_PAGES);
        Self { page_bytes, most_in_memory, file: None, slots: Vec::new(), by_number: HashMap::new(), hand: 0 }
    }

    /// The bytes of a page.
    ///
    /// # Errors
    /// The temporary file cannot be made, read or written.
    pub fn read(&mut self, number: u32) -> Result<&[u8], SpillError> {
        let slot = self.load(number)?;
        Ok(self.slots.get(slot).map(|slot| &*slot.bytes).unwrap_or_default())
    }

    /// The bytes of a page, to be changed.
    ///
    /// # Errors
    /// The temporary file cannot be made, read or written.
    pub fn change(&mut self, number: u32) -> Result<&mut [u8], SpillError> {
        let slot = self.load(number)?;
        let slot = self.slots.get_mut(slot).ok_or_else(SpillError::damaged)?;
        slot.is_changed = true;
        Ok(&mut slot.bytes)
    }

    /// Brings a page into memory; gives its slot.
    fn load(&mut self, number: u32) -> Result<usize, SpillError> {
        if let Some(slot) = self.by_number.get(&number) {
            if let Some(slot) = self.slots.get_mut(*slot) {
                slot.is_used = true;
            }
            return Ok(*slot);
        }
        let index = self.empty_slot()?;
        let offset_bytes = u64::from(number) * self.page_bytes as u64;
        let Some(slot) = self.slots.get_mut(index) else { return Err(SpillError::damaged()) };
        let read_bytes = match &self.file {
            Some(file) => file.read(&mut slot.bytes, offset_bytes)?,
            None => 0,
        };
        slot.bytes.get_mut(read_bytes..).unwrap_or_default().fill(0);
        (slot.number, slot.is_used, slot.is_changed) = (number, true, false);
        self.by_number.insert(number, index);
        Ok(index)
    }

    fn empty_slot(&mut self) -> Result<usize, SpillError> {
        if self.slots.len() < self.most_in_memory {
            let bytes = vec![0; self.page_bytes].into();
            self.slots.push(Slot { number: 0, bytes, is_used: false, is_changed: false });
            return Ok(self.slots.len() - 1);
        }
        loop {
            self.hand = (self.hand + 1) % self.slots.len();
            let Some(slot) = self.slots.get_mut(self.hand) else { return Err(SpillError::damaged()) };
            if std::mem::take(&mut slot.is_used) {
                continue;
            }
            if slot.is_changed {
                if self.file.is_none() {
                    self.file = Some(TemporaryFile::create()?);
                }
                let file = self.file.as_ref().ok_or_else(SpillError::damaged)?;
                file.write(&slot.bytes, u64::from(slot.number) * self.page_bytes as u64)?;
                slot.is_changed = false;
            }
            // After a failed read the slot is of no page.
            if self.by_number.get(&slot.number) == Some(&self.hand) {
                self.by_number.remove(&slot.number);
            }
            return Ok(self.hand);
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::indexing_slicing)]

    use super::*;

    #[test]
    fn pages_come_back_as_they_were_left_whatever_fits_into_memory() {
        for most in [4_u32, 9, 1000] {
            let mut pages = SpillPages::new(64, 64 * most as usize);
            let mut expected = vec![[0_u8; 64]; 300];
            let mut number = 1_u32;
            for step in 0..5000_u32 {
                number = number.wrapping_mul(1_103_515_245).wrapping_add(12_345);
                let (page, at) = ((number >> 8) % 300, (number >> 20) as usize % 64);
                if step % 3 == 0 {
                    assert_eq!(pages.read(page).unwrap(), expected[page as usize]);
                } else {
                    pages.change(page).unwrap()[at] = step as u8;
                    expected[page as usize][at] = step as u8;
                }
            }
            for (page, expected) in (0..).zip(&expected) {
                assert_eq!(pages.read(page).unwrap(), expected);
            }
            assert!(pages.slots.len() <= most as usize);
            assert_eq!(pages.file.is_some(), most < 300);
        }
    }
}
