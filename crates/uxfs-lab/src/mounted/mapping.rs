//! Writing through a shared mapping of a file.
#![allow(unsafe_code)]

use std::{fs::File, io, os::unix::fs::FileExt, ptr};

use rustix::{
    fd::AsFd,
    io::Errno,
    mm::{MapFlags, ProtFlags, mmap, munmap},
};

const PAGE_BYTES: u64 = 4096;

/// A shared mapping of a part of a file.
#[derive(Debug)]
pub struct Mapping {
    address: usize,
    length: usize,
    start: u64,
}

impl Mapping {
    /// Maps the pages that hold these bytes of a file.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn new(file: impl AsFd, offset: u64, length: u64) -> Result<Self, Errno> {
        let start = offset / PAGE_BYTES * PAGE_BYTES;
        let length = usize::try_from(offset + length - start).map_err(|_| Errno::INVAL)?;
        let access = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: the kernel chooses where; nothing in this process refers to the bytes there.
        let address = unsafe { mmap(ptr::null_mut(), length, access, MapFlags::SHARED, file, start) }?;
        Ok(Self { address: address as usize, length, start })
    }

    /// Writes as the process itself would, but a page that cannot be had is an error and no signal.
    ///
    /// # Errors
    /// A page cannot be had.
    pub fn write(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        let memory = File::options().write(true).open("/proc/self/mem")?;
        memory.write_all_at(bytes, self.address as u64 + (offset - self.start))
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the range is that of the mapping, and nothing refers to it.
        let _ = unsafe { munmap(self.address as *mut _, self.length) };
    }
}
