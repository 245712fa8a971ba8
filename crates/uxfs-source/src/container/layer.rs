//! One layer as a stream, or an archive that was copied from a pipe.

use std::{
    io,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    thread::{self, JoinHandle},
};

use super::{
    digest::{Digest, Mismatch},
    layout::{Blob, Expected},
    region::Region,
};
use crate::{
    error::{Problem, SourceError},
    packing::Packing,
    stream::{StreamItem, StreamSource},
    tar::{TarOptions, TarSource},
    tree::Reading,
};

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

    /// Problems that were met before the layer is read.
    pub(super) fn with_problems(self, problems: Vec<Problem>) -> Self {
        Self { problems, ..self }
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
                TarSource::of_unpacked(name, stream, options, reading)
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
    is_abandoned: Arc<AtomicBool>,
    thread: Option<JoinHandle<Result<(), SourceError>>>,
}

impl Check {
    fn start(blob: &Blob) -> Result<Self, SourceError> {
        let is_abandoned = Arc::new(AtomicBool::new(false));
        let (seen, blob) = (Arc::clone(&is_abandoned), blob.clone());
        let failed = blob.region.failed("start a thread for");
        let thread =
            thread::Builder::new().name("uxfs-digest".to_owned()).spawn(move || compare(&blob, &seen));
        Ok(Self { is_abandoned, thread: Some(thread.map_err(failed)?) })
    }

    fn finish(mut self) -> Result<(), SourceError> {
        match self.thread.take().map(JoinHandle::join) {
            Some(Ok(result)) => result,
            Some(Err(panic)) => std::panic::resume_unwind(panic),
            None => Ok(()),
        }
    }
}

impl Drop for Check {
    fn drop(&mut self) {
        self.is_abandoned.store(true, Relaxed);
        // It ends soon, and what it says is no longer wanted.
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

fn compare(blob: &Blob, is_abandoned: &AtomicBool) -> Result<(), SourceError> {
    let region = &blob.region;
    let mut goes_on = || match is_abandoned.load(Relaxed) {
        true => Err(io::Error::other("abandoned")),
        false => Ok(()),
    };
    let (digest, compared): (&Digest, io::Result<Result<(), Mismatch>>) = match &blob.expected {
        Expected::Nothing => return Ok(()),
        Expected::Packed(digest) => (digest, digest.check(region.reader(), &mut goes_on)),
        Expected::Unpacked(digest) => {
            let unpacked = region.unpacked().map_err(region.failed("unpack"))?;
            (digest, digest.check(unpacked, &mut goes_on))
        }
    };
    if is_abandoned.load(Relaxed) {
        return Ok(());
    }
    let compared = compared.map_err(region.failed("read"))?;
    compared.map_err(|mismatch| SourceError::Container {
        image: region.name.clone(),
        fault: mismatch.fault(region.name.clone(), digest),
    })
}
