//! Printing inodes in a thread of its own, while the scan reads on.
//!
//! 1. The scan copies inodes into batches. At most [`BATCHES_AHEAD`] batches wait for the printing thread; then the scan
//!    waits.
//! 2. Batches are printed in the order in which they were handed over: a scan on one thread is listed in order.
//! 3. Printed batches are filled again: their memory is allocated once.

use std::{
    io::Write,
    ops::ControlFlow,
    sync::mpsc::{Receiver, SyncSender, sync_channel},
};

use parking_lot::Mutex;
use uxfs_format::{field_table::OnDisk, geometry::Geometry, inode::InodeCore};
use uxfs_volume::inode::Inode;

use crate::{document::JsonInode, failure::Failure, output::Output, text};

/// Inodes of a batch: copied in some 100 µs, printed in less than a millisecond.
const BATCH_INODES: usize = 512;
const BATCHES_AHEAD: usize = 8;

/// Sound inodes as they lie on disk, one behind the other.
#[derive(Debug, Default)]
pub struct Batch(Vec<u8>);

/// The scan's side.
#[derive(Debug)]
pub struct Sender<'a> {
    batches: SyncSender<Batch>,
    printed: &'a Mutex<Vec<Batch>>,
    batch_bytes: usize,
}

/// The printing thread's side.
#[derive(Debug)]
pub struct Printer<'a> {
    batches: Receiver<Batch>,
    printed: &'a Mutex<Vec<Batch>>,
    geometry: &'a Geometry,
    json: bool,
}

/// Both sides. Batches come back through `printed`.
pub fn channel<'a>(
    geometry: &'a Geometry,
    json: bool,
    printed: &'a Mutex<Vec<Batch>>,
) -> (Sender<'a>, Printer<'a>) {
    let (sender, batches) = sync_channel(BATCHES_AHEAD);
    let batch_bytes = BATCH_INODES * geometry.inode_size();
    (Sender { batches: sender, printed, batch_bytes }, Printer { batches, printed, geometry, json })
}

impl Sender<'_> {
    /// Adds an inode to a batch, which is handed over when it is full. Breaks where printing has ended.
    pub fn add(&self, batch: &mut Batch, inode: &[u8]) -> ControlFlow<()> {
        batch.0.extend_from_slice(inode);
        if batch.0.len() < self.batch_bytes {
            return ControlFlow::Continue(());
        }
        let next = self.printed.lock().pop().unwrap_or_default();
        self.hand_over(std::mem::replace(batch, next))
    }

    /// Hands over a batch that is not full.
    pub fn hand_over(&self, batch: Batch) -> ControlFlow<()> {
        match self.batches.send(batch) {
            Ok(()) => ControlFlow::Continue(()),
            Err(_) => ControlFlow::Break(()),
        }
    }
}

impl Printer<'_> {
    /// Prints until no more batches come; an error of standard output ends it before.
    pub fn run(self, output: &mut Output) -> Result<(), Failure> {
        for mut batch in &self.batches {
            for inode in batch.0.chunks_exact(self.geometry.inode_size().max(1)) {
                self.print(inode, output)?;
            }
            batch.0.clear();
            self.printed.lock().push(batch);
        }
        Ok(())
    }

    fn print(&self, bytes: &[u8], output: &mut Output) -> Result<(), Failure> {
        let core = InodeCore::prefix_of(bytes);
        let Some(inode) = core.and_then(|core| Inode::decode(bytes, core, self.geometry)) else {
            return Ok(());
        };
        if self.json {
            output.json(&JsonInode::new(&inode))?;
            return Ok(());
        }
        let mode = text::mode_string(inode.mode());
        write!(output, "{:>12} ", inode.number)?;
        output.write_all(&mode)?;
        writeln!(
            output,
            " {:>5} {:>6} {:>6} {:>14} {:>10}",
            inode.link_count(),
            inode.uid(),
            inode.gid(),
            inode.size_bytes(),
            inode.generation()
        )?;
        Ok(())
    }
}
