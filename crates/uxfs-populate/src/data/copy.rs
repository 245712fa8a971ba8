//! Writing the bytes of a batch of jobs.

use std::{os::fd::AsFd, sync::Arc, sync::atomic::Ordering::Relaxed};

use uxfs_block::device::WriteSegment;
use uxfs_source::content::{FileContent, OpenFile};

use super::{Job, JobContent, Run, Shared};
use crate::error::PopulateError;

/// Bytes copied at a time: stays in the processor's cache between reading and writing.
const CHUNK_BYTES: usize = 512 << 10;

/// Fills the last block behind a file's end.
static ZEROS: [u8; 64 << 10] = [0; 64 << 10];

/// One thread's means.
pub(super) struct Copier<'a> {
    shared: &'a Shared,
    chunk: Vec<u8>,
}

impl<'a> Copier<'a> {
    pub fn new(shared: &'a Shared) -> Self {
        Self { shared, chunk: Vec::new() }
    }

    /// Writes all jobs: those in memory together, the others one by one.
    pub fn write(&mut self, batch: &[Job]) -> Result<(), PopulateError> {
        self.write_from_memory(batch)?;
        for job in batch {
            if let JobContent::File(content) = &job.content {
                self.copy_file(job, content)?;
            }
        }
        Ok(())
    }

    fn write_from_memory(&self, batch: &[Job]) -> Result<(), PopulateError> {
        let mut segments = Vec::with_capacity(batch.len() * 2);
        for job in batch {
            let JobContent::Memory { bytes, start } = &job.content else { continue };
            for run in job.runs() {
                add_segments(&mut segments, bytes, *start, run);
            }
        }
        if segments.is_empty() {
            return Ok(());
        }
        self.shared.device.write_batch(&segments)?;
        self.count(segments.iter().map(|segment| segment.bytes.len() as u64).sum());
        Ok(())
    }

    fn copy_file(&mut self, job: &Job, content: &Arc<FileContent>) -> Result<(), PopulateError> {
        let file = content.open()?;
        let mut missing_bytes = 0;
        for run in job.runs() {
            missing_bytes += self.copy_run(job, &file, run)?;
        }
        if missing_bytes > 0 {
            self.shared.counters.add_shrunk(content, missing_bytes);
        }
        Ok(())
    }

    /// Gives how many bytes the file no longer has.
    fn copy_run(&mut self, job: &Job, file: &OpenFile, run: Run) -> Result<u64, PopulateError> {
        let mut missing_bytes = 0;
        let data_bytes = job.size_bytes.saturating_sub(run.file_bytes).min(run.length_bytes);
        let mut done = self.share(file, run, data_bytes)?;
        self.chunk.resize(CHUNK_BYTES, 0);
        while done < run.length_bytes {
            let length = (run.length_bytes - done).min(CHUNK_BYTES as u64);
            let chunk = self.chunk.get_mut(..length as usize).unwrap_or_default();
            let data = data_bytes.saturating_sub(done).min(length) as usize;
            let (data, behind) = chunk.split_at_mut(data);
            missing_bytes += file.read_at(data, run.file_bytes + done)? as u64;
            behind.fill(0);
            self.shared.device.write(run.device_bytes + done, chunk)?;
            done += length;
            self.count(length);
        }
        Ok(missing_bytes)
    }

    /// Lets the image share the whole blocks of a run with the file, where both lie on one file system that can.
    /// Gives how many bytes of it are done.
    fn share(&self, file: &OpenFile, run: Run, data_bytes: u64) -> Result<u64, PopulateError> {
        // A request for little is not worth its call.
        const LEAST_BYTES: u64 = 64 << 10;
        if !self.shared.may_share() || data_bytes < LEAST_BYTES {
            return Ok(0);
        }
        let Some(range) = file.next_data(run.file_bytes)? else { return Ok(0) };
        if range.offset_bytes != run.file_bytes {
            return Ok(0);
        }
        let length = data_bytes.min(range.length_bytes);
        let device = &self.shared.device;
        match device.share_from_file(file.descriptor().as_fd(), range.source_bytes, run.device_bytes, length)
        {
            Some(shared) => {
                self.shared.counters.shared_bytes.fetch_add(shared, Relaxed);
                self.count(shared);
                Ok(shared)
            }
            None => {
                self.shared.may_share.store(false, Relaxed);
                Ok(0)
            }
        }
    }

    fn count(&self, bytes: u64) {
        self.shared.counters.bytes.fetch_add(bytes, Relaxed);
    }
}

/// The bytes of a run, and zeros behind the file's end.
fn add_segments<'a>(segments: &mut Vec<WriteSegment<'a>>, bytes: &'a [u8], start: u64, run: Run) {
    let begin = run.file_bytes.saturating_sub(start).min(bytes.len() as u64) as usize;
    let rest = bytes.get(begin..).unwrap_or_default();
    let data = rest.get(..rest.len().min(run.length_bytes as usize)).unwrap_or_default();
    if !data.is_empty() {
        segments.push(WriteSegment { offset_bytes: run.device_bytes, bytes: data });
    }
    let mut written = data.len() as u64;
    while written < run.length_bytes {
        let length = (run.length_bytes - written).min(ZEROS.len() as u64);
        let zeros = ZEROS.get(..length as usize).unwrap_or_default();
        segments.push(WriteSegment { offset_bytes: run.device_bytes + written, bytes: zeros });
        written += length;
    }
}
