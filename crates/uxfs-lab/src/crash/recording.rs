//! A device that remembers what it was told, in order, and what the workload said meanwhile.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use uxfs_block::device::{BlockDevice, DeviceError, WriteSegment, contiguous_runs};

use super::image::Image;

/// Marks that a workload puts among the writes that it causes. Operations are counted from 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mark {
    /// This operation begins: from here on it may be found done.
    Begun(usize),
    /// So many operations are durable, and all contents that they wrote: the call that promised it has returned.
    Synced(usize),
    /// So many operations are durable, and the contents of this file.
    FileSynced {
        /// How many.
        operations: usize,
        /// The file, as the model names it.
        file: u32,
    },
}

/// Something that happened to a device.
#[derive(Debug, Clone)]
pub enum Event {
    /// One request.
    Write {
        /// Where.
        offset_bytes: u64,
        /// What.
        bytes: Arc<[u8]>,
    },
    /// A discarded range: its contents are undefined from now on.
    Discard {
        /// Where.
        offset_bytes: u64,
        /// How much.
        length_bytes: u64,
    },
    /// All writes before this are durable behind it.
    Flush,
    /// The workload's word.
    Mark(Mark),
}

impl Event {
    /// Does to `image` what was done to the device.
    pub fn apply(&self, image: &mut Image) {
        // What was recorded lies within the device.
        let done = match self {
            Self::Write { offset_bytes, bytes } => image.write(*offset_bytes, bytes),
            Self::Discard { offset_bytes, length_bytes } => {
                image.fill(*offset_bytes, *length_bytes, super::DISCARDED)
            }
            Self::Flush | Self::Mark(_) => Ok(()),
        };
        assert!(done.is_ok());
    }

    /// Whether it changes contents.
    pub fn is_change(&self) -> bool {
        matches!(self, Self::Write { .. } | Self::Discard { .. })
    }
}

/// All that happened to a device, and what it held before.
#[derive(Debug, Clone)]
pub struct History {
    /// The contents at the beginning.
    pub base: Image,
    /// The events, in order.
    pub events: Vec<Event>,
}

impl History {
    /// Requests that change contents.
    pub fn changes(&self) -> usize {
        self.events.iter().filter(|event| event.is_change()).count()
    }

    /// Flushes.
    pub fn flushes(&self) -> usize {
        self.events.iter().filter(|event| matches!(event, Event::Flush)).count()
    }
}

/// A device in memory that records. Requests take effect at once and one after the other.
#[derive(Debug)]
pub struct RecordingDevice {
    recording: Mutex<Recording>,
}

#[derive(Debug)]
struct Recording {
    now: Image,
    history: History,
}

impl RecordingDevice {
    /// A device that holds `base`.
    pub fn new(base: Image) -> Self {
        let history = History { base: base.clone(), events: Vec::new() };
        Self { recording: Mutex::new(Recording { now: base, history }) }
    }

    fn lock(&self) -> MutexGuard<'_, Recording> {
        self.recording.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Puts the workload's word among the requests.
    pub fn mark(&self, mark: Mark) {
        self.lock().history.events.push(Event::Mark(mark));
    }

    /// Forgets what has happened so far: what the device holds now is what it held before everything. Only when nothing is
    /// under way and all is flushed.
    pub fn begin_again(&self) {
        let mut recording = self.lock();
        recording.history = History { base: recording.now.clone(), events: Vec::new() };
    }

    /// The contents now.
    pub fn image(&self) -> Image {
        self.lock().now.clone()
    }

    /// The events so far.
    pub fn history(&self) -> History {
        self.lock().history.clone()
    }

    fn happen(&self, event: Event) {
        let mut recording = self.lock();
        event.apply(&mut recording.now);
        recording.history.events.push(event);
    }
}

impl BlockDevice for RecordingDevice {
    fn size_bytes(&self) -> u64 {
        self.lock().now.size_bytes()
    }

    fn engine(&self) -> &'static str {
        "recording"
    }

    fn read(&self, offset_bytes: u64, buffer: &mut [u8]) -> Result<(), DeviceError> {
        self.image().read(offset_bytes, buffer)
    }

    fn write(&self, offset_bytes: u64, bytes: &[u8]) -> Result<(), DeviceError> {
        self.write_batch(&[WriteSegment { offset_bytes, bytes }])
    }

    /// Neighbours in the batch are one request, as engines make one of them.
    fn write_batch(&self, segments: &[WriteSegment<'_>]) -> Result<(), DeviceError> {
        let end = self.size_bytes();
        for segment in segments {
            let length = segment.bytes.len() as u64;
            if segment.offset_bytes.checked_add(length).is_none_or(|last| last > end) {
                let operation = uxfs_block::device::DeviceOperation::Write;
                return Err(DeviceError::outside(operation, segment.offset_bytes, length));
            }
        }
        for run in contiguous_runs(segments) {
            let run = &segments[run];
            let Some(first) = run.first() else { continue };
            let bytes: Vec<u8> = run.iter().flat_map(|segment| segment.bytes).copied().collect();
            self.happen(Event::Write { offset_bytes: first.offset_bytes, bytes: bytes.into() });
        }
        Ok(())
    }

    fn flush(&self) -> Result<(), DeviceError> {
        self.happen(Event::Flush);
        Ok(())
    }

    fn discard(&self, offset_bytes: u64, length_bytes: u64) -> Result<(), DeviceError> {
        let operation = uxfs_block::device::DeviceOperation::Discard;
        DeviceError::check_range(operation, offset_bytes, length_bytes, self.size_bytes())?;
        self.happen(Event::Discard { offset_bytes, length_bytes });
        Ok(())
    }
}
