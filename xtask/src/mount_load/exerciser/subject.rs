//! The file, and what it must hold.

use std::{
    fs::{File, FileTimes, OpenOptions},
    os::unix::fs::{FileExt, OpenOptionsExt},
    path::{Path, PathBuf},
    time::SystemTime,
};

use anyhow::{Context, Result, bail, ensure};
use rustix::{
    fs::{Advice, FallocateFlags, OFlags, SeekFrom, copy_file_range, fadvise, fallocate, seek},
    io::Errno,
};
use uxfs_testkit::seeds::Random;

use super::operation::{LONGEST_BYTES, Operation};
use crate::mount_load::memory_map::MemoryMap;

const PAGE_BYTES: u64 = 4096;

/// A file and its model.
pub struct Subject {
    path: PathBuf,
    /// Through the page cache.
    file: File,
    /// Past it.
    direct: File,
    model: Vec<u8>,
    /// Memory at an address that O_DIRECT takes.
    buffer: Vec<u8>,
}

impl Subject {
    /// An empty one.
    ///
    /// # Errors
    /// It cannot be made.
    pub fn new(path: &Path) -> Result<Self> {
        File::create(path).with_context(|| path.display().to_string())?;
        let (file, direct) = open(path)?;
        let buffer = vec![0; LONGEST_BYTES as usize + PAGE_BYTES as usize];
        Ok(Self { path: path.to_owned(), file, direct, model: Vec::new(), buffer })
    }

    /// Of the model.
    pub fn length(&self) -> u64 {
        self.model.len() as u64
    }

    /// Does an operation to both, and compares what it says.
    ///
    /// # Errors
    /// They differ; a call fails.
    pub fn apply(&mut self, operation: Operation, random: &mut Random) -> Result<()> {
        match operation {
            Operation::Read { at, length } => self.read(at, length, false)?,
            Operation::DirectRead { at, length } => self.read(at, length, true)?,
            Operation::Write { at, length } => self.write(at, length, random, false)?,
            Operation::Append { length } => self.write(self.length(), length, random, false)?,
            Operation::DirectWrite { at, length } => self.write(at, length, random, true)?,
            Operation::MappedRead { at, length } if length > 0 => self.mapped_read(at, length)?,
            Operation::MappedWrite { at, length, is_synced } if length > 0 => {
                self.mapped_write(at, length, is_synced, random)?;
            }
            Operation::MappedRead { .. } | Operation::MappedWrite { .. } => {}
            Operation::Truncate { to } => {
                self.file.set_len(to)?;
                self.model.resize(to as usize, 0);
            }
            Operation::Punch { at, length } => {
                self.range(FallocateFlags::PUNCH_HOLE, at, length, true, true)?;
            }
            Operation::Zero { at, length, keeps_size } => {
                self.range(FallocateFlags::ZERO_RANGE, at, length, keeps_size, true)?;
            }
            Operation::Allocate { at, length, keeps_size } => {
                self.range(FallocateFlags::empty(), at, length, keeps_size, false)?;
            }
            Operation::Copy { from, to, length } => self.copy(from, to, length)?,
            Operation::Fsync => self.file.sync_all()?,
            Operation::Fdatasync => self.file.sync_data()?,
            Operation::OpenAgain => (self.file, self.direct) = open(&self.path)?,
            Operation::DropCache => fadvise(&self.file, 0, None, Advice::DontNeed)?,
            Operation::Seek { at } => self.seek(at)?,
            Operation::SetTime => {
                self.file.set_times(FileTimes::new().set_modified(SystemTime::UNIX_EPOCH))?;
            }
        }
        let length = self.file.metadata()?.len();
        ensure!(length == self.length(), "the file has {length} bytes, and the model {}", self.length());
        Ok(())
    }

    /// Compares all bytes, through the page cache and past it.
    ///
    /// # Errors
    /// The first difference.
    pub fn compare(&mut self) -> Result<()> {
        self.read(0, LONGEST_BYTES, false)?;
        self.read(0, LONGEST_BYTES, true).context("past the page cache")
    }

    fn read(&mut self, at: u64, length: u64, is_direct: bool) -> Result<()> {
        let file = if is_direct { &self.direct } else { &self.file };
        let bytes = aligned(&mut self.buffer, length);
        let mut read = 0;
        // A read may be short only at the end of the file.
        while read < bytes.len() {
            let got = file.read_at(&mut bytes[read..], at + read as u64)?;
            read += got;
            if got == 0 || (is_direct && read % 512 != 0) {
                break;
            }
        }
        let expected = part(&self.model, at, length);
        ensure!(read == expected.len(), "{read} bytes were read, of {}", expected.len());
        same(&aligned(&mut self.buffer, length)[..read], expected, at)
    }

    fn write(&mut self, at: u64, length: u64, random: &mut Random, is_direct: bool) -> Result<()> {
        let bytes = aligned(&mut self.buffer, length);
        random.fill(bytes);
        let file = if is_direct { &self.direct } else { &self.file };
        file.write_all_at(bytes, at)?;
        put(&mut self.model, at, bytes);
        Ok(())
    }

    fn mapped_read(&mut self, at: u64, length: u64) -> Result<()> {
        let start = at - at % PAGE_BYTES;
        let map = MemoryMap::of(&self.file, start, (at + length - start) as usize)?;
        let bytes = aligned(&mut self.buffer, length);
        map.read((at - start) as usize, bytes)?;
        same(bytes, part(&self.model, at, length), at)?;
        // Behind the end of the file its last page has zeros.
        let end = at + length;
        let rest = (end.next_multiple_of(PAGE_BYTES) - end) as usize;
        if end != self.model.len() as u64 || rest == 0 {
            return Ok(());
        }
        let map = MemoryMap::of(&self.file, end - end % PAGE_BYTES, PAGE_BYTES as usize)?;
        let mut tail = vec![1; rest];
        map.read((end % PAGE_BYTES) as usize, &mut tail)?;
        ensure!(tail.iter().all(|byte| *byte == 0), "the last page has bytes behind the end of the file");
        Ok(())
    }

    fn mapped_write(&mut self, at: u64, length: u64, is_synced: bool, random: &mut Random) -> Result<()> {
        let start = at - at % PAGE_BYTES;
        let map = MemoryMap::of(&self.file, start, (at + length - start) as usize)?;
        let bytes = aligned(&mut self.buffer, length);
        random.fill(bytes);
        map.write((at - start) as usize, bytes)?;
        if is_synced {
            map.sync()?;
        }
        put(&mut self.model, at, bytes);
        Ok(())
    }

    fn range(&mut self, mode: FallocateFlags, at: u64, length: u64, keeps: bool, zeroes: bool) -> Result<()> {
        if length == 0 {
            return Ok(());
        }
        let keep = if keeps { FallocateFlags::KEEP_SIZE } else { FallocateFlags::empty() };
        fallocate(&self.file, mode | keep, at, length)?;
        let end = (at + length) as usize;
        if !keeps && end > self.model.len() {
            self.model.resize(end, 0);
        }
        if zeroes {
            let end = end.min(self.model.len());
            if let Some(bytes) = self.model.get_mut(at as usize..end) {
                bytes.fill(0);
            }
        }
        Ok(())
    }

    fn copy(&mut self, from: u64, to: u64, length: u64) -> Result<()> {
        let mut done = 0;
        while done < length {
            let (mut source, mut target) = (from + done, to + done);
            let left = (length - done) as usize;
            let copied =
                copy_file_range(&self.file, Some(&mut source), &self.file, Some(&mut target), left)? as u64;
            ensure!(copied > 0, "nothing was copied of {left} bytes");
            let bytes = part(&self.model, from + done, copied).to_vec();
            put(&mut self.model, to + done, &bytes);
            done += copied;
        }
        Ok(())
    }

    /// What lies in a hole is zero. Data may be told where none is.
    fn seek(&mut self, at: u64) -> Result<()> {
        let length = self.length();
        let hole = match seek(&self.file, SeekFrom::Hole(at)) {
            Err(Errno::NXIO) if at >= length => return Ok(()),
            other => other?,
        };
        ensure!((at..=length).contains(&hole), "a hole at {hole:#x}, asked for from {at:#x}");
        let data = match seek(&self.file, SeekFrom::Data(at)) {
            Err(Errno::NXIO) => length,
            other => other?,
        };
        ensure!(data >= at, "data at {data:#x}, asked for from {at:#x}");
        let skipped = part(&self.model, at, data.min(length) - at);
        match skipped.iter().position(|byte| *byte != 0) {
            None => Ok(()),
            Some(place) => bail!("bytes at {:#x} lie in a hole up to {data:#x}", at + place as u64),
        }
    }
}

fn open(path: &Path) -> Result<(File, File)> {
    let mut options = OpenOptions::new();
    options.read(true).write(true);
    let file = options.open(path)?;
    Ok((file, options.custom_flags(OFlags::DIRECT.bits() as i32).open(path)?))
}

fn aligned(buffer: &mut [u8], length: u64) -> &mut [u8] {
    let start = buffer.as_ptr().align_offset(PAGE_BYTES as usize);
    buffer.get_mut(start..start + length as usize).unwrap_or_default()
}

fn part(model: &[u8], at: u64, length: u64) -> &[u8] {
    let end = ((at + length) as usize).min(model.len());
    model.get(at as usize..end).unwrap_or_default()
}

fn put(model: &mut Vec<u8>, at: u64, bytes: &[u8]) {
    let (start, end) = (at as usize, at as usize + bytes.len());
    if bytes.is_empty() {
        return;
    }
    if model.len() < end {
        model.resize(end, 0);
    }
    if let Some(place) = model.get_mut(start..end) {
        place.copy_from_slice(bytes);
    }
}

fn same(found: &[u8], expected: &[u8], at: u64) -> Result<()> {
    let differing = || found.iter().zip(expected).filter(|(one, other)| one != other).count();
    match found.iter().zip(expected).position(|(one, other)| one != other) {
        None => Ok(()),
        Some(place) => bail!(
            "at {:#x} is {:#x} and not {:#x}; {} of {} bytes differ",
            at + place as u64,
            found.get(place).copied().unwrap_or_default(),
            expected.get(place).copied().unwrap_or_default(),
            differing(),
            found.len()
        ),
    }
}
