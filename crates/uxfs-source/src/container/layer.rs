//! One layer as a stream, or an archive that was copied from a pipe.

use std::{
    io::{self, Read},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    },
    thread::{self, JoinHandle},
};

use super::{
    digest::{Digest, Mismatch},
    layout::{Blob, Expected},
    region::Region,
};
use crate::{
    error::{ContainerFault, Problem, SourceError},
    packing::Packing,
    stream::{StreamItem, StreamSource},
    tar::{TarOptions, TarSource},
    tree::Reading,
};

/// So much may follow the end of an archive in a layer of which the unpacked bytes have a digest.
const MAX_BEHIND_BYTES: u64 = 64 << 20;

/// A layer, opened when its first item is asked for and closed behind its last.
pub(crate) struct Layer {
    blob: Blob,
    options: TarOptions,
    reading: Reading,
    tar: Option<TarSource>,
    check: Option<Check>,
    /// The digest has been compared.
    is_checked: bool,
    is_over: bool,
    problems: Vec<Problem>,
}

impl Layer {
    pub(super) fn new(blob: Blob, options: TarOptions, reading: Reading) -> Self {
        let is_checked = matches!(blob.expected, Expected::Nothing);
        Self {
            blob,
            options,
            reading,
            tar: None,
            check: None,
            is_checked,
            is_over: false,
            problems: Vec::new(),
        }
    }

    /// An archive of which no digest is known.
    pub(crate) fn of_archive(region: Region, options: TarOptions, reading: Reading) -> Self {
        Self::new(Blob { region, expected: Expected::Nothing }, options, reading)
    }

    fn open(&mut self) -> Result<TarSource, SourceError> {
        if !self.is_checked && self.check.is_none() {
            self.check = Some(Check::start(&self.blob)?);
        }
        let region = &self.blob.region;
        let (name, options, reading) = (region.name.clone(), self.options.clone(), self.reading);
        match region.packing().map_err(region.failed("read"))? {
            Packing::None => {
                TarSource::of_bytes(name, Arc::clone(&region.file), region.bytes.clone(), options, reading)
            }
            _ => {
                let stream = region.unpacked().map_err(region.failed("unpack"))?;
                let signals = self.check.as_ref().map(|check| Arc::clone(&check.signals)).unwrap_or_default();
                TarSource::of_unpacked(name, Box::new(Counted { stream, signals }), options, reading)
            }
        }
    }

    fn next(&mut self) -> Result<Option<StreamItem>, SourceError> {
        let tar = match &mut self.tar {
            Some(tar) => tar,
            None => {
                let tar = self.open()?;
                self.tar.insert(tar)
            }
        };
        let item = tar.next_item()?;
        self.problems.extend(tar.take_problems());
        Ok(item)
    }

    /// Waits for the digest.
    fn checked(&mut self) -> Result<(), SourceError> {
        if let Some(check) = self.check.take() {
            check.finish()?;
            self.is_checked = true;
        }
        Ok(())
    }
}

impl StreamSource for Layer {
    fn next_item(&mut self) -> Result<Option<StreamItem>, SourceError> {
        if self.is_over {
            return Ok(None);
        }
        let next = self.next();
        if matches!(next, Ok(Some(_))) {
            return next;
        }
        self.is_over = true;
        self.tar = None;
        // A damaged layer has any other fault as well.
        self.checked()?;
        next
    }

    fn read_data(&mut self, buffer: &mut [u8]) -> Result<usize, SourceError> {
        self.tar.as_mut().map_or(Ok(0), |tar| tar.read_data(buffer))
    }

    fn restart(&mut self, reading: Reading) -> Result<(), SourceError> {
        (self.tar, self.reading, self.is_over) = (None, reading, false);
        self.problems.clear();
        Ok(())
    }

    fn take_problems(&mut self) -> Vec<Problem> {
        std::mem::take(&mut self.problems)
    }
}

/// A thread that compares the digest of a layer.
struct Check {
    signals: Arc<Signals>,
    thread: Option<JoinHandle<Result<(), SourceError>>>,
}

#[derive(Default)]
struct Signals {
    is_abandoned: AtomicBool,
    /// The archive in the layer has been read to its end.
    is_archive_over: AtomicBool,
    /// So much has been unpacked for that.
    unpacked_bytes: AtomicU64,
}

/// Counts what is unpacked.
struct Counted {
    stream: Box<dyn Read + Send>,
    signals: Arc<Signals>,
}

impl Read for Counted {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.stream.read(buffer)?;
        self.signals.unpacked_bytes.fetch_add(read as u64, Relaxed);
        Ok(read)
    }
}

impl Check {
    fn start(blob: &Blob) -> Result<Self, SourceError> {
        let signals = Arc::new(Signals::default());
        let (seen, blob) = (Arc::clone(&signals), blob.clone());
        let failed = blob.region.failed("start a thread for");
        let thread =
            thread::Builder::new().name("uxfs-digest".to_owned()).spawn(move || compare(&blob, &seen));
        Ok(Self { signals, thread: Some(thread.map_err(failed)?) })
    }

    fn finish(mut self) -> Result<(), SourceError> {
        self.signals.is_archive_over.store(true, Relaxed);
        match self.thread.take().map(JoinHandle::join) {
            Some(Ok(result)) => result,
            Some(Err(panic)) => std::panic::resume_unwind(panic),
            None => Ok(()),
        }
    }
}

impl Drop for Check {
    fn drop(&mut self) {
        self.signals.is_abandoned.store(true, Relaxed);
        // It ends soon, and what it says is no longer wanted.
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

/// Errors of the thread, which pass through the reader's.
enum Stop {
    Abandoned,
    Endless,
}

fn compare(blob: &Blob, signals: &Signals) -> Result<(), SourceError> {
    let region = &blob.region;
    let fault = |fault| SourceError::Container { image: region.name.clone(), fault };
    let mut stop = None;
    let mut goes_on = |bytes: u64| {
        let behind_bytes = bytes.saturating_sub(signals.unpacked_bytes.load(Relaxed));
        if signals.is_abandoned.load(Relaxed) {
            stop = Some(Stop::Abandoned);
        } else if signals.is_archive_over.load(Relaxed)
            && matches!(blob.expected, Expected::Unpacked(_))
            && behind_bytes > MAX_BEHIND_BYTES
        {
            stop = Some(Stop::Endless);
        }
        if stop.is_some() { Err(io::Error::other("stopped")) } else { Ok(()) }
    };
    let (digest, compared): (&Digest, io::Result<Result<(), Mismatch>>) = match &blob.expected {
        Expected::Nothing => return Ok(()),
        Expected::Packed(digest) => (digest, digest.check(region.reader(), &mut goes_on)),
        Expected::Unpacked(digest) => {
            let unpacked = region.unpacked().map_err(region.failed("unpack"))?;
            (digest, digest.check(unpacked, &mut goes_on))
        }
    };
    match stop {
        None => {}
        Some(Stop::Abandoned) => return Ok(()),
        Some(Stop::Endless) => return Err(fault(ContainerFault::Endless(region.name.clone()))),
    }
    let compared = compared.map_err(region.failed("read"))?;
    compared.map_err(|mismatch| fault(mismatch.fault(region.name.clone(), digest)))
}
