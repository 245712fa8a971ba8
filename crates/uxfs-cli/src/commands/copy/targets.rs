//! Targets of a copy, each written by a thread of its own. One that fails is given up, and the others go on.

use std::{
    path::Path,
    sync::{
        Arc,
        mpsc::{Receiver, SyncSender, sync_channel},
    },
    thread::{self, Scope, ScopedJoinHandle},
};

use uxfs_metadump::restore::{RestoreError, Target};

use crate::{
    failure::{About, Failure},
    image_target::ImageTarget,
};

/// Pieces that wait for a target that is slower than the source.
const WAITING_PIECES: usize = 4;

/// Bytes and their place.
type Piece = (u64, Arc<[u8]>);

/// A target that is being written.
pub(super) struct Writing<'s, 'p> {
    pub path: &'p Path,
    /// `None` once it has been given up.
    pieces: Option<SyncSender<Piece>>,
    thread: ScopedJoinHandle<'s, Result<ImageTarget<'p>, RestoreError>>,
}

/// The message of a failed target.
pub(super) fn failed(path: &Path, error: &RestoreError) -> Failure {
    Failure::caused_by(error).about_host(path)
}

impl<'s, 'p: 's> Writing<'s, 'p> {
    /// Starts the thread of a target that has been prepared.
    ///
    /// # Errors
    /// The system starts no more threads.
    pub fn start<'e>(
        scope: &'s Scope<'s, 'e>,
        path: &'p Path,
        target: ImageTarget<'p>,
    ) -> Result<Self, Failure> {
        let (pieces, waiting) = sync_channel(WAITING_PIECES);
        let write = move || write(target, &waiting);
        let thread = thread::Builder::new().name("uxfs-copy".to_owned()).spawn_scoped(scope, write);
        let thread = thread.map_err(|error| Failure::caused_by(&error).about("no thread can be started"));
        Ok(Self { path, pieces: Some(pieces), thread: thread.about_host(path)? })
    }
}

impl<'p> Writing<'_, 'p> {
    /// Gives it a piece; `false` where it has been given up.
    pub fn give(&mut self, offset_bytes: u64, bytes: &Arc<[u8]>) -> bool {
        let is_given = self.pieces.as_ref().is_some_and(|pieces| {
            // It has failed where nothing receives.
            pieces.send((offset_bytes, Arc::clone(bytes))).is_ok()
        });
        if !is_given {
            self.pieces = None;
        }
        is_given
    }

    /// Waits until all is written and flushed, or it has been given up.
    pub fn finish(mut self) -> (&'p Path, Result<ImageTarget<'p>, Failure>) {
        self.pieces = None;
        match self.thread.join() {
            Ok(outcome) => (self.path, outcome.map_err(|error| failed(self.path, &error))),
            Err(panic) => std::panic::resume_unwind(panic),
        }
    }
}

fn write<'p>(
    mut target: ImageTarget<'p>,
    waiting: &Receiver<Piece>,
) -> Result<ImageTarget<'p>, RestoreError> {
    while let Ok((offset_bytes, bytes)) = waiting.recv() {
        target.write(offset_bytes, &bytes)?;
    }
    target.finish()?;
    Ok(target)
}
