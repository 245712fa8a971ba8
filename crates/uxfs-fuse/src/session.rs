//! A mount from its first request to its end.
//!
//! ```text
//! mount ─▶ first thread: INIT ─▶ kernel limits, further threads ─▶ requests … ─▶ unmounted ─▶ the image is made whole
//! ```

use std::{
    io,
    num::NonZeroU16,
    os::fd::OwnedFd,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
};

use rustix::io::Errno;
use thiserror::Error;

use crate::{
    mounting::{
        device::{DeviceError, FuseDevice},
        kernel_limits::KernelLimits,
        mounted::Mounted,
    },
    server::Server,
    transport::device::DeviceChannel,
};

/// Threads that answer requests, where the mount does not say how many.
const USUAL_THREADS: usize = 4;
/// Sequential reads come in requests of so many bytes, a few at a time.
const READ_AHEAD_KIBIBYTES: u32 = 4096;
/// The share of memory that written pages of the mount may take.
const WRITTEN_PAGES_PERCENT: u8 = 100;

/// Why a mount cannot be served any more.
#[derive(Debug, Error)]
pub enum SessionError {
    /// The device was given to another one.
    #[error("the mount has no device to serve")]
    NoDevice,
    /// `/dev/fuse` cannot be opened again.
    #[error(transparent)]
    Device(#[from] DeviceError),
    /// Requests cannot be read.
    #[error("requests of the kernel cannot be read: {0}")]
    Transport(Errno),
    /// A thread cannot be started.
    #[error("a thread cannot be started: {0}")]
    Thread(io::Error),
}

/// Serves a mount until it is unmounted. `on_ready` is called once the kernel has its first answer. The image is left to
/// [`Server::close`].
///
/// # Errors
/// The device. What was acknowledged is kept.
pub fn serve(
    server: &Arc<Server>,
    mounted: &mut Mounted,
    threads: Option<NonZeroU16>,
    on_ready: impl FnOnce(&Mounted),
) -> Result<(), SessionError> {
    let device = mounted.take_device().ok_or(SessionError::NoDevice)?;
    let most_bytes = server.settings().most_bytes();
    let others = channels(&device, threads, most_bytes)?;
    let mut first = DeviceChannel::new(OwnedFd::from(device), most_bytes);
    while server.negotiated().is_none() {
        if !first.serve_one(server.as_ref()).map_err(SessionError::Transport)? {
            return Ok(());
        }
    }
    set_kernel_limits(mounted);
    let stop = AtomicBool::new(false);
    let outcome = thread::scope(|scope| {
        let mut running = Vec::new();
        for (index, mut channel) in others.into_iter().enumerate() {
            let serving = thread::Builder::new()
                .name(format!("fuse-{}", index + 1))
                .spawn_scoped(scope, {
                    let (server, stop) = (server.as_ref(), &stop);
                    move || channel.serve(server, stop).map(drop)
                })
                .map_err(SessionError::Thread)?;
            running.push(serving);
        }
        on_ready(mounted);
        let mut outcome = first.serve(server.as_ref(), &stop).map(drop);
        stop.store(true, Ordering::Relaxed);
        for thread in running {
            outcome = outcome.and(thread.join().unwrap_or(Err(Errno::IO)));
        }
        outcome.map_err(SessionError::Transport)
    });
    drop(first);
    outcome
}

/// Descriptors of further threads.
fn channels(
    device: &FuseDevice,
    threads: Option<NonZeroU16>,
    most_bytes: usize,
) -> Result<Vec<DeviceChannel>, SessionError> {
    let usual = thread::available_parallelism().map_or(1, usize::from).min(USUAL_THREADS) + 1;
    let threads = threads.map_or(usual, |threads| threads.get().into());
    let others = (1..threads).map(|_| {
        let other = device.connect_another()?;
        Ok(DeviceChannel::new(OwnedFd::from(other), most_bytes))
    });
    others.collect()
}

/// The kernel reads far ahead and lets many pages be written, where this process may say so. Without it all works, more slowly.
fn set_kernel_limits(mounted: &Mounted) {
    let limits = KernelLimits {
        read_ahead_kibibytes: Some(READ_AHEAD_KIBIBYTES),
        written_pages_percent: Some(WRITTEN_PAGES_PERCENT),
        is_strict: Some(false),
    };
    drop(limits.set(mounted.device_number(), mounted.is_block_device()));
}
