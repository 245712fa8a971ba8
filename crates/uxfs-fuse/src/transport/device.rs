//! `/dev/fuse`: a request is what one read gives, a reply is one write.

use std::{
    io::IoSlice,
    os::fd::{AsFd, OwnedFd},
    sync::atomic::{AtomicBool, Ordering},
};

use rustix::io::Errno;

use super::{Answer, ReplyBuffer, Service};

/// Bytes of a request in front of its data: headers, names.
const REQUEST_ROOM_BYTES: usize = 4096;
/// The longest value of an extended attribute travels in one request, whatever writes are limited to.
const LEAST_DATA_BYTES: usize = 64 << 10;
/// Header of a reply.
const REPLY_HEADER_BYTES: usize = 16;
/// Of a request: where its number lies.
const UNIQUE_BYTES: usize = 8;

/// One thread's end of `/dev/fuse`.
#[derive(Debug)]
pub struct DeviceChannel {
    device: OwnedFd,
    request: Vec<u8>,
    reply: Vec<u8>,
}

/// Why a thread stopped to serve.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// The file system was unmounted.
    Unmounted,
    /// The service asked for it.
    Stopped,
}

impl DeviceChannel {
    /// Over an open `/dev/fuse`. `most_bytes`: of data in a request or a reply.
    #[must_use]
    pub fn new(device: OwnedFd, most_bytes: usize) -> Self {
        let data_bytes = most_bytes.max(LEAST_DATA_BYTES);
        Self { device, request: vec![0; data_bytes + REQUEST_ROOM_BYTES], reply: vec![0; data_bytes] }
    }

    /// Answers requests until the file system is unmounted, or `stop` is set and a request has been answered.
    ///
    /// # Errors
    /// The device.
    pub fn serve(&mut self, service: &dyn Service, stop: &AtomicBool) -> Result<End, Errno> {
        while !stop.load(Ordering::Relaxed) {
            if !self.serve_one(service)? {
                return Ok(End::Unmounted);
            }
        }
        Ok(End::Stopped)
    }

    /// Answers one request. Gives whether the file system is still mounted.
    ///
    /// # Errors
    /// The device.
    pub fn serve_one(&mut self, service: &dyn Service) -> Result<bool, Errno> {
        let length = match rustix::io::read(self.device.as_fd(), &mut self.request[..]) {
            Ok(length) => length,
            // Interrupted, or the request was aborted while it was read.
            Err(Errno::INTR | Errno::AGAIN | Errno::NOENT) => return Ok(true),
            Err(Errno::NODEV | Errno::CONNABORTED) => return Ok(false),
            Err(error) => return Err(error),
        };
        let request = self.request.get(..length).unwrap_or_default();
        let mut reply = ReplyBuffer::new(&mut self.reply);
        let (error, payload) = match service.answer(request, &mut reply) {
            Answer::Nothing => return Ok(true),
            Answer::Reply => (0, reply.filled()),
            Answer::Error(error) => (-error.raw_os_error(), &[][..]),
        };
        let header = reply_header(request, error, payload.len());
        match rustix::io::writev(self.device.as_fd(), &[IoSlice::new(&header), IoSlice::new(payload)]) {
            // The kernel gave the request up.
            Err(Errno::NOENT) => {
                service.not_taken(payload, request);
                Ok(true)
            }
            Err(Errno::NODEV | Errno::CONNABORTED) => Ok(false),
            Err(Errno::INTR) | Ok(_) => Ok(true),
            Err(error) => Err(error),
        }
    }
}

fn reply_header(request: &[u8], error: i32, payload_bytes: usize) -> [u8; REPLY_HEADER_BYTES] {
    let length = u32::try_from(REPLY_HEADER_BYTES.saturating_add(payload_bytes)).unwrap_or(u32::MAX);
    let unique = request.get(UNIQUE_BYTES..).and_then(<[u8]>::first_chunk::<8>).copied().unwrap_or_default();
    let mut header = [0; REPLY_HEADER_BYTES];
    let parts = length.to_ne_bytes().into_iter().chain(error.to_ne_bytes()).chain(unique);
    header.iter_mut().zip(parts).for_each(|(place, byte)| *place = byte);
    header
}
