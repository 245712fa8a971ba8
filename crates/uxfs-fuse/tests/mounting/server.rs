//! The smallest server: it answers INIT and the attributes of the root, and ENOSYS to all else.

use std::{
    os::fd::OwnedFd,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
        mpsc::{Receiver, channel},
    },
    thread::{self, JoinHandle},
    time::Duration,
};

use rustix::io::Errno;
use uxfs_fuse::mounting::device::FuseDevice;

const FORGET: u32 = 2;
const GETATTR: u32 = 3;
const INIT: u32 = 26;
const INTERRUPT: u32 = 36;
const BATCH_FORGET: u32 = 42;
const MAX_WRITE_BYTES: u32 = 65_536;

/// A server in a thread of its own. It ends when its mount does.
pub struct Server {
    thread: JoinHandle<Errno>,
    initialised: Receiver<u32>,
    /// Set right before INIT is answered.
    is_answering: Arc<AtomicBool>,
}

impl Server {
    pub fn start(device: FuseDevice) -> Self {
        let (sender, initialised) = channel();
        let device = OwnedFd::from(device);
        let is_answering = Arc::new(AtomicBool::new(false));
        let is_answered = Arc::clone(&is_answering);
        let thread = thread::spawn(move || {
            let mut buffer = vec![0; MAX_WRITE_BYTES as usize + 4096];
            loop {
                let length = match rustix::io::read(&device, &mut buffer) {
                    Ok(length) => length,
                    Err(Errno::INTR | Errno::AGAIN | Errno::NOENT) => continue,
                    Err(error) => return error,
                };
                let request = &buffer[..length];
                let opcode = number(request, 4);
                let minor_version = (opcode == INIT).then(|| number(request, 44));
                if minor_version.is_some() {
                    // Long enough for a mount(2) that does not wait to return before.
                    thread::sleep(Duration::from_millis(20));
                    is_answered.store(true, Ordering::SeqCst);
                }
                if let Some(reply) = reply(opcode, request) {
                    // A request that was aborted meanwhile takes no reply.
                    let _ = rustix::io::write(&device, &reply);
                }
                if let Some(minor_version) = minor_version {
                    sender.send(minor_version).unwrap();
                }
            }
        });
        Self { thread, initialised, is_answering }
    }

    /// Waits for INIT. Gives the protocol's minor version that the kernel speaks.
    pub fn wait_for_init(&self) -> u32 {
        self.initialised.recv_timeout(Duration::from_secs(20)).expect("the kernel sends INIT")
    }

    /// Whether INIT has been answered.
    pub fn has_answered_init(&self) -> bool {
        self.is_answering.load(Ordering::SeqCst)
    }

    /// Waits for the end of the mount: the error of the last read.
    pub fn end(self) -> Errno {
        self.thread.join().unwrap()
    }
}

fn number(request: &[u8], offset: usize) -> u32 {
    u32::from_ne_bytes(request[offset..offset + 4].try_into().unwrap())
}

fn reply(opcode: u32, request: &[u8]) -> Option<Vec<u8>> {
    let (error, body) = match opcode {
        FORGET | BATCH_FORGET | INTERRUPT => return None,
        INIT => (0, init_body()),
        GETATTR => (0, root_attributes()),
        _ => (Errno::NOSYS.raw_os_error(), Vec::new()),
    };
    let mut reply = Vec::new();
    reply.extend((16 + body.len() as u32).to_ne_bytes());
    reply.extend((-error).to_ne_bytes());
    reply.extend(&request[8..16]);
    reply.extend(body);
    Some(reply)
}

/// Version 7.45, no flags.
fn init_body() -> Vec<u8> {
    let mut body = vec![0; 64];
    for (offset, value) in [(0, 7_u32), (4, 45), (8, 131_072), (20, MAX_WRITE_BYTES), (24, 1)] {
        body[offset..offset + 4].copy_from_slice(&value.to_ne_bytes());
    }
    body
}

/// A directory that all may read.
fn root_attributes() -> Vec<u8> {
    let mut body = vec![0; 104];
    for (offset, value) in [(16, 1_u32), (16 + 60, 0o040_755), (16 + 64, 2), (16 + 80, 4096)] {
        body[offset..offset + 4].copy_from_slice(&value.to_ne_bytes());
    }
    body
}
