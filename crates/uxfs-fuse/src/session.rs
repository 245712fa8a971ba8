//! A mount from its first request to its end.
//!
//! ```text
//! rings ─▶ mount ─▶ first thread: INIT ─▶ further threads, kernel limits ─▶ requests … ─▶ unmounted ─▶ the image is made whole
//! ```
//!
//! A thread that cannot take requests any more asks for the end of the mount, see
//! [`has_failed`](crate::server::trouble::Trouble::has_failed): the other threads wait in the kernel until there are no users.
//!
//! With rings the threads of `/dev/fuse` stay: what the kernel does not send through rings comes there, and everything, should it take no
//! ring.

use std::{
    io,
    num::NonZeroU16,
    os::fd::AsFd,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread::{self, Scope, ScopedJoinHandle},
};

use parking_lot::{Condvar, Mutex};
use rustix::{
    io::Errno,
    process::{Resource, getrlimit},
};
use thiserror::Error;

use crate::{
    link::MOST_DESCRIPTORS,
    mounting::{
        device::{DeviceError, FuseDevice},
        kernel_limits::KernelLimits,
        mounted::Mounted,
    },
    protocol::initialization::{Capabilities, Negotiated},
    server::{notifier::Notifier, settings::Settings},
    transport::{
        Service,
        device::DeviceChannel,
        lending::ReplyPipe,
        ring::{Callers, RingChannel, availability},
        turns::Turns,
    },
};

/// Threads that answer requests, where the mount does not say how many. One looks for requests; the others answer those that wait, as fsync
/// does: so many can be made durable together.
const USUAL_THREADS: usize = 9;
/// Threads with a ring, where the mount does not say how many.
const USUAL_RING_THREADS: u16 = 8;
/// Entries of one queue, at least.
const LEAST_RING_ENTRIES: u16 = 2;
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
    /// The system has no memory for the buffers of a thread.
    #[error("no memory for requests: {0}")]
    Memory(io::Error),
    /// A thread cannot be started.
    #[error("a thread cannot be started: {0}")]
    Thread(io::Error),
}

/// A service that can be mounted.
pub trait Served: Service {
    /// What the mount asks for.
    fn settings(&self) -> &Settings;
    /// What was agreed with the kernel, once its first request has been answered.
    fn negotiated(&self) -> Option<Negotiated>;
    /// Rings are there: the reply to the first request asks for them.
    fn offer_rings(&self);
    /// Where requests ask for the kernel's help.
    fn notifier(&self) -> &Notifier;
    /// A thread cannot take requests any more.
    fn failed(&self);
}

impl<S: Served> Served for Arc<S> {
    fn settings(&self) -> &Settings {
        (**self).settings()
    }

    fn negotiated(&self) -> Option<Negotiated> {
        (**self).negotiated()
    }

    fn offer_rings(&self) {
        (**self).offer_rings();
    }

    fn notifier(&self) -> &Notifier {
        (**self).notifier()
    }

    fn failed(&self) {
        (**self).failed();
    }
}

/// Serves a mount until it is unmounted. `devices`: see [`devices`]; `prepared`: see [`prepare`]. `on_ready` is called once the kernel has its
/// first answer. The image is left to [`Server::close`](crate::server::Server::close).
///
/// # Errors
/// The device. What was acknowledged is kept.
pub fn serve<S: Served>(
    server: &S,
    devices: Vec<FuseDevice>,
    prepared: Prepared,
    on_ready: impl FnOnce(),
) -> Result<(), SessionError> {
    let most_bytes = server.settings().most_bytes();
    let Prepared { mut rings, pipes } = prepared;
    let (mut devices, mut pipes) = (devices.into_iter(), pipes.into_iter());
    let first = devices.next().ok_or(SessionError::NoDevice)?;
    let turns = Arc::new(Turns::default());
    let mut channel = |device: FuseDevice| {
        let channel = DeviceChannel::new(device.into(), most_bytes, pipes.next(), Arc::clone(&turns));
        channel.map_err(SessionError::Memory)
    };
    let others: Vec<_> = devices.map(&mut channel).collect::<Result<_, _>>()?;
    if !server.settings().has_rings {
        rings.clear();
    }
    attach(&mut rings, &first)?;
    // Once the kernel has been told of rings it waits for them: they are there before.
    if !rings.is_empty() {
        server.offer_rings();
    }
    let worker = first.as_fd().try_clone_to_owned().map_err(SessionError::Descriptor)?;
    let worker = server.notifier().worker(worker, 1 + others.len() + rings.len());
    let mut first = channel(first)?;
    let (stop, gate) = (AtomicBool::new(false), Gate::default());
    let outcome = thread::scope(|scope| {
        let (stop, gate) = (&stop, &gate);
        let mut running = Vec::new();
        // They are started before the kernel gets its first answer: where that fails, nothing is mounted yet.
        let notify = move || {
            worker.work();
            Ok(())
        };
        let started = spawn(scope, "fuse-notify".into(), notify).and_then(|thread| {
            running.push(thread);
            start(scope, &mut running, (others, rings), (server, stop, gate))
        });
        let negotiated = started.and_then(|()| negotiate(&mut first, server));
        let serve =
            |first: &mut DeviceChannel| first.serve(server, stop).map(drop).inspect_err(|_| server.failed());
        let mut outcome = match negotiated {
            Ok(Some(negotiated)) => {
                gate.open(Go { has_rings: has_rings(negotiated), is_mounted: true });
                on_ready();
                if has_rings(negotiated) {
                    first.has_no_patience();
                }
                serve(&mut first).map_err(SessionError::Transport)
            }
            other => {
                gate.open(Go { has_rings: false, is_mounted: false });
                other.map(drop)
            }
        };
        stop.store(true, Ordering::Relaxed);
        server.notifier().end();
        for thread in running {
            let ended = thread.join().unwrap_or(Err(Errno::IO));
            outcome = outcome.and(ended.map_err(SessionError::Transport));
        }
        outcome
    });
    drop(first);
    outcome
}

fn attach(rings: &mut [RingChannel], device: &FuseDevice) -> Result<(), SessionError> {
    for ring in rings {
        let device = device.as_fd().try_clone_to_owned().map_err(SessionError::Descriptor)?;
        ring.attach(device);
    }
    Ok(())
}

/// Answers requests until the first one has been answered; `None` where it was unmounted before.
fn negotiate<S: Served>(first: &mut DeviceChannel, server: &S) -> Result<Option<Negotiated>, SessionError> {
    loop {
        if let Some(negotiated) = server.negotiated() {
            return Ok(Some(negotiated));
        }
        if !first.serve_one(server).map_err(SessionError::Transport)? {
            return Ok(None);
        }
    }
}

fn has_rings(negotiated: Negotiated) -> bool {
    negotiated.capabilities.contains(Capabilities::OVER_IO_URING)
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

/// Starts the threads that answer requests. They wait at the gate. Where the system starts no more threads, those of `/dev/fuse` that run
/// do the work of the others, the caller's at least; of rings the kernel has been told, and all must be served.
fn start<'s, S: Served>(
    scope: &'s Scope<'s, '_>,
    running: &mut Vec<Running<'s>>,
    (others, rings): (Vec<DeviceChannel>, Vec<RingChannel>),
    (server, stop, gate): (&'s S, &'s AtomicBool, &'s Gate),
) -> Result<(), SessionError> {
    for (index, mut channel) in (0..).zip(rings) {
        let serve = move || match gate.wait().has_rings {
            true => {
                channel.stay_beside_callers();
                channel.serve(server, stop).map(drop).inspect_err(|_| server.failed())
            }
            false => Ok(()),
        };
        running.push(spawn(scope, format!("fuse-ring-{index}"), serve)?);
    }
    for (index, mut channel) in (1..).zip(others) {
        let serve = move || {
            let go = gate.wait();
            if go.has_rings {
                channel.has_no_patience();
            }
            match go.is_mounted {
                true => channel.serve(server, stop).map(drop).inspect_err(|_| server.failed()),
                false => Ok(()),
            }
        };
        match spawn(scope, format!("fuse-{index}"), serve) {
            Ok(thread) => running.push(thread),
            Err(_) => break,
        }
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

/// What a confined process cannot make, and what can be made before there is a mount.
#[derive(Debug, Default)]
pub struct Prepared {
    rings: Vec<RingChannel>,
    pipes: Vec<ReplyPipe>,
}

/// What a mount with so many threads takes.
#[must_use]
pub fn prepare(settings: &Settings, threads: Option<NonZeroU16>) -> Prepared {
    // Without a pipe a thread copies. Without descriptors there is no mount: pipes, of two each, take a quarter of them at most.
    let most = getrlimit(Resource::Nofile).current.map_or(usize::MAX, |most| most as usize) / 8;
    let count = device_threads(threads);
    let pipes = (0..count).take_while(|_| count <= most).map_while(|_| ReplyPipe::new().ok()).collect();
    Prepared { rings: rings(settings, threads), pipes }
}

/// Threads that read requests from `/dev/fuse`.
fn device_threads(threads: Option<NonZeroU16>) -> usize {
    threads.map_or(USUAL_THREADS, |threads| threads.get().into()).min(MOST_DESCRIPTORS)
}

/// Rings with the same number of entries for each queue; none where the kernel or the system has none.
fn rings(settings: &Settings, threads: Option<NonZeroU16>) -> Vec<RingChannel> {
    let Ok(queues) = availability::queues() else { return Vec::new() };
    if !settings.has_rings {
        return Vec::new();
    }
    let all = threads.map_or(USUAL_RING_THREADS, NonZeroU16::get);
    // A request that waits for writeback holds one entry; the WRITE requests need another.
    let entries = all.div_ceil(queues).clamp(LEAST_RING_ENTRIES, MOST_RING_ENTRIES);
    let callers: Vec<Arc<Callers>> = (0..queues).map(|_| Arc::default()).collect();
    let of_all = (0..entries).flat_map(|_| (0..queues).zip(&callers));
    let channels =
        of_all.map(|(queue, callers)| RingChannel::new(queue, settings.most_bytes(), Arc::clone(callers)));
    channels.collect::<Result<_, Errno>>().unwrap_or_default()
}

/// The descriptors of a mount, one for each thread that reads requests.
///
/// # Errors
/// The device was taken before, or cannot be opened again.
pub fn devices(mounted: &mut Mounted, threads: Option<NonZeroU16>) -> Result<Vec<FuseDevice>, SessionError> {
    let first = mounted.take_device().ok_or(SessionError::NoDevice)?;
    let others: Vec<_> =
        (1..device_threads(threads)).map(|_| first.connect_another()).collect::<Result<_, _>>()?;
    let devices: Vec<_> = std::iter::once(first).chain(others).collect();
    // The process that serves may not do it itself.
    devices.iter().try_for_each(FuseDevice::set_nonblocking)?;
    Ok(devices)
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
