//! `/dev/fuse`: a request is what one read gives, a reply is one write.

use std::{
    io::IoSlice,
    os::fd::{AsFd, OwnedFd},
    sync::atomic::{AtomicBool, Ordering},
};

use rustix::io::Errno;
use zerocopy::FromBytes;

use super::{Answer, End, ReplyBuffer, Service, Way};
use crate::protocol::{reply::header::ReplyHeader, wire::header::InHeader};

/// Bytes of a request in front of its data: headers, names.
const REQUEST_ROOM_BYTES: usize = 4096;
/// The longest value of an extended attribute travels in one request, whatever writes are limited to.
const LEAST_DATA_BYTES: usize = 64 << 10;

/// One thread's end of `/dev/fuse`.
#[derive(Debug)]
pub struct DeviceChannel {
    device: OwnedFd,
    request: Vec<u8>,
    reply: Vec<u8>,
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
        let unique = InHeader::read_from_prefix(request).map_or(0, |(header, _)| header.unique);
        let (header, payload) = match service.answer(request, &mut reply, Way::Device) {
            Answer::Nothing => return Ok(true),
            Answer::Reply => match ReplyHeader::success(unique, reply.filled().len()) {
                Ok(header) => (header, reply.filled()),
                Err(_) => (ReplyHeader::error(unique, Errno::IO), &[][..]),
            },
            Answer::Error(error) => (ReplyHeader::error(unique, error), &[][..]),
        };
        let slices = [IoSlice::new(header.as_bytes()), IoSlice::new(payload)];
        match rustix::io::writev(self.device.as_fd(), &slices) {
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
