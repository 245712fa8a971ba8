//! A file mapped to memory, shared with all its readers and writers.
#![allow(unsafe_code)]

use std::{fs::File, ptr};

use anyhow::{Result, ensure};
use rustix::mm::{MapFlags, MsyncFlags, ProtFlags, mmap, msync, munmap};

/// Part of a file in memory. Bytes go in and out by copying: other processes may change them at any time.
pub struct MemoryMap {
    start: *mut u8,
    length: usize,
}

impl MemoryMap {
    /// Maps bytes from a place that is a multiple of a page.
    ///
    /// # Errors
    /// The kernel says no.
    pub fn of(file: &File, offset: u64, length: usize) -> Result<Self> {
        ensure!(length > 0, "nothing to map");
        let access = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: the kernel chooses the addresses, so no memory of this program is replaced.
        let start = unsafe { mmap(ptr::null_mut(), length, access, MapFlags::SHARED, file, offset)? };
        Ok(Self { start: start.cast(), length })
    }

    /// Copies bytes out.
    ///
    /// # Errors
    /// They are not within the map.
    pub fn read(&self, at: usize, bytes: &mut [u8]) -> Result<()> {
        self.must_hold(at, bytes.len())?;
        // SAFETY: the range is within the map, which lives as long as `self`, and `bytes` is memory of its own.
        unsafe { ptr::copy_nonoverlapping(self.start.add(at), bytes.as_mut_ptr(), bytes.len()) };
        Ok(())
    }

    /// Copies bytes in.
    ///
    /// # Errors
    /// They are not within the map.
    pub fn write(&self, at: usize, bytes: &[u8]) -> Result<()> {
        self.must_hold(at, bytes.len())?;
        // SAFETY: as in `read`; no reference to the mapped bytes exists.
        unsafe { ptr::copy_nonoverlapping(bytes.as_ptr(), self.start.add(at), bytes.len()) };
        Ok(())
    }

    /// Makes it durable.
    ///
    /// # Errors
    /// The kernel says no.
    pub fn sync(&self) -> Result<()> {
        // SAFETY: these are the bounds of the map.
        unsafe { msync(self.start.cast(), self.length, MsyncFlags::SYNC)? };
        Ok(())
    }

    fn must_hold(&self, at: usize, length: usize) -> Result<()> {
        let end = at.checked_add(length);
        ensure!(end.is_some_and(|end| end <= self.length), "outside the map");
        Ok(())
    }
}

impl Drop for MemoryMap {
    fn drop(&mut self) {
        // SAFETY: these are the bounds of the map, and nothing refers to it any more.
        let _ = unsafe { munmap(self.start.cast(), self.length) };
    }
}
