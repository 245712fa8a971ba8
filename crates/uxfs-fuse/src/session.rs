//! A mount from its first request to its end.
//!
//! ```text
//! rings ─▶ mount ─▶ first thread: INIT ─▶ further threads, kernel limits ─▶ requests … ─▶ unmounted ─▶ the image is made whole
//! ```
//!
//! A thread that cannot take requests any more asks for the end of the mount ([`Trouble::has_failed`](crate::server::trouble::Trouble::has_failed)): the other threads wait in the kernel
//! until there are no users.
//!
//! With rings the threads of `/dev/fuse` stay: what the kernel does not send through rings comes there, and everything, should it take no
//! ring.

use std::{
    io,
    num::NonZeroU16,
    os::fd::{AsFd, OwnedFd},
    sync::atomic::{AtomicBool, Ordering},
    thread::{self, Scope, ScopedJoinHandle},
};

use parking_lot::{Condvar, Mutex};
use rustix::io::Errno;
use thiserror::Error;

use crate::{
    link::MOST_DESCRIPTORS,
    mounting::{
        device::{DeviceError, FuseDevice},
        kernel_limits::KernelLimits,
        mounted::Mounted,
    },
    protocol::initialization::{Capabilities, Negotiated},
    server::{Server, settings::Settings},
    transport::{
        device::DeviceChannel,
        ring::{RingChannel, availability},
    },
};

/// Threads that answer requests, where the mount does not say how many.
const USUAL_THREADS: usize = 4;
/// Threads with a ring, where the mount does not say how many.
const USUAL_RING_THREADS: u16 = 8;
/// Entries of one queue, at most.
const MOST_RING_ENTRIES: u16 = 8;
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
    /// A descriptor cannot be had twice.
    #[error("too many descriptors: {0}")]
    Descriptor(io::Error),
    /// A thread cannot be started.
    #[error("a thread cannot be started: {0}")]
    Thread(io::Error),
}

/// Serves a mount until it is unmounted. `devices`: see [`devices`]; `rings`: see [`rings`]. `on_ready` is called once the kernel has its
/// first answer. The image is left to [`Server::close`].
///
/// # Errors
/// The device. What was acknowledged is kept.
pub fn serve(
    server: &Server,
    devices: Vec<FuseDevice>,
    mut rings: Vec<RingChannel>,
    on_ready: impl FnOnce(),
) -> Result<(), SessionError> {
    let most_bytes = server.settings().most_bytes();
    let mut devices = devices.into_iter();
    let first = devices.next().ok_or(SessionError::NoDevice)?;
    let others = devices.map(|device| DeviceChannel::new(OwnedFd::from(device), most_bytes)).collect();
    if !server.settings().has_rings {
        rings.clear();
    }
    for ring in &mut rings {
        let device = first.as_fd().try_clone_to_owned().map_err(SessionError::Descriptor)?;
        ring.attach(device);
    }
    // Once the kernel has been told of rings it waits for them: they are there before.
    if !rings.is_empty() {
        server.offer_rings();
    }
    let mut first = DeviceChannel::new(OwnedFd::from(first), most_bytes);
    let (stop, gate) = (AtomicBool::new(false), Gate::default());
    let outcome = thread::scope(|scope| {
        let (stop, gate) = (&stop, &gate);
        let mut running = Vec::new();
        // They are started before the kernel gets its first answer: where that fails, nothing is mounted yet.
        let started = start(scope, &mut running, (others, rings), (server, stop, gate));
        let negotiated = started.and_then(|()| negotiate(&mut first, server));
        let has_rings =
            |negotiated: Negotiated| negotiated.capabilities.contains(Capabilities::OVER_IO_URING);
        let serve = |first: &mut DeviceChannel| {
            first.serve(server, stop).map(drop).inspect_err(|_| server.trouble.fail())
        };
        let mut outcome = match negotiated {
            Ok(Some(negotiated)) => {
                gate.open(Go { has_rings: has_rings(negotiated), is_mounted: true });
                on_ready();
                serve(&mut first).map_err(SessionError::Transport)
            }
            other => {
                gate.open(Go { has_rings: false, is_mounted: false });
                other.map(drop)
            }
        };
        stop.store(true, Ordering::Relaxed);
        for thread in running {
            let ended = thread.join().unwrap_or(Err(Errno::IO));
            outcome = outcome.and(ended.map_err(SessionError::Transport));
        }
        outcome
    });
    drop(first);
    outcome
}

/// Answers requests until the first one has been answered; `None` where it was unmounted before.
fn negotiate(first: &mut DeviceChannel, server: &Server) -> Result<Option<Negotiated>, SessionError> {
    loop {
        if let Some(negotiated) = server.negotiated() {
            return Ok(Some(negotiated));
        }
        if !first.serve_one(server).map_err(SessionError::Transport)? {
            return Ok(None);
        }
    }
}

/// What threads wait for.
#[derive(Debug, Clone, Copy)]
struct Go {
    has_rings: bool,
    is_mounted: bool,
}

/// Where threads wait until the kernel has its first answer.
#[derive(Debug, Default)]
struct Gate {
    go: Mutex<Option<Go>>,
    opened: Condvar,
}

impl Gate {
    fn open(&self, go: Go) {
        *self.go.lock() = Some(go);
        self.opened.notify_all();
    }

    fn wait(&self) -> Go {
        let mut go = self.go.lock();
        loop {
            match *go {
                Some(go) => return go,
                None => self.opened.wait(&mut go),
            }
        }
    }
}

/// Starts the threads that answer requests. They wait at the gate.
fn start<'s>(
    scope: &'s Scope<'s, '_>,
    running: &mut Vec<Running<'s>>,
    (others, rings): (Vec<DeviceChannel>, Vec<RingChannel>),
    (server, stop, gate): (&'s Server, &'s AtomicBool, &'s Gate),
) -> Result<(), SessionError> {
    for (index, mut channel) in (1..).zip(others) {
        let serve = move || match gate.wait().is_mounted {
            true => channel.serve(server, stop).map(drop).inspect_err(|_| server.trouble.fail()),
            false => Ok(()),
        };
        running.push(spawn(scope, format!("fuse-{index}"), serve)?);
    }
    for (index, mut channel) in (0..).zip(rings) {
        let serve = move || match gate.wait().has_rings {
            true => {
                channel.stay_beside_callers();
                channel.serve(server, stop).map(drop).inspect_err(|_| server.trouble.fail())
            }
            false => Ok(()),
        };
        running.push(spawn(scope, format!("fuse-ring-{index}"), serve)?);
    }
    Ok(())
}

type Running<'s> = ScopedJoinHandle<'s, Result<(), Errno>>;

fn spawn<'s>(
    scope: &'s Scope<'s, '_>,
    name: String,
    serve: impl FnOnce() -> Result<(), Errno> + Send + 's,
) -> Result<Running<'s>, SessionError> {
    thread::Builder::new().name(name).spawn_scoped(scope, serve).map_err(SessionError::Thread)
}

/// Rings with the same number of entries for each queue; none where the kernel or the system has none. They can be made before there is a
/// mount.
#[must_use]
pub fn rings(settings: &Settings, threads: Option<NonZeroU16>) -> Vec<RingChannel> {
    let Ok(queues) = availability::queues() else { return Vec::new() };
    if !settings.has_rings {
        return Vec::new();
    }
    let all = threads.map_or(USUAL_RING_THREADS, NonZeroU16::get);
    let entries = all.div_ceil(queues).clamp(1, MOST_RING_ENTRIES);
    let channels = (0..entries).flat_map(|_| 0..queues);
    let channels = channels.map(|queue| RingChannel::new(queue, settings.most_bytes()));
    channels.collect::<Result<_, Errno>>().unwrap_or_default()
}

/// The descriptors of a mount, one for each thread that reads requests.
///
/// # Errors
/// The device was taken before, or cannot be opened again.
pub fn devices(mounted: &mut Mounted, threads: Option<NonZeroU16>) -> Result<Vec<FuseDevice>, SessionError> {
    let first = mounted.take_device().ok_or(SessionError::NoDevice)?;
    let usual = thread::available_parallelism().map_or(1, usize::from).min(USUAL_THREADS) + 1;
    let threads = threads.map_or(usual, |threads| threads.get().into()).min(MOST_DESCRIPTORS);
    let others: Vec<_> = (1..threads).map(|_| first.connect_another()).collect::<Result<_, _>>()?;
    Ok(std::iter::once(first).chain(others).collect())
}

/// The kernel reads far ahead and lets many pages be written, where this process may say so. Without it all works, more slowly. The kernel
/// must have its first answer.
pub fn set_kernel_limits(mounted: &Mounted) {
    let limits = KernelLimits {
        read_ahead_kibibytes: Some(READ_AHEAD_KIBIBYTES),
        written_pages_percent: Some(WRITTEN_PAGES_PERCENT),
        is_strict: Some(false),
    };
    drop(limits.set(mounted.device_number(), mounted.is_block_device()));
}
