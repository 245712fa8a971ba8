//! Whether a block device takes writes: it can be opened for writing all the same.
#![allow(unsafe_code)]

use std::{ffi::c_int, fs::File};

use rustix::ioctl::{Getter, ioctl};

#[doc(alias = "BLKROGET")]
const GET_READ_ONLY: rustix::ioctl::Opcode = 0x125e;

/// Whether writes to this block device would fail, as `blockdev --setro` makes them. What is no block device is not protected so.
pub(crate) fn is_write_protected(device: &File) -> bool {
    // SAFETY: BLKROGET fills one `int`.
    let answer = unsafe { ioctl(device, Getter::<GET_READ_ONLY, c_int>::new()) };
    answer.is_ok_and(|is_read_only| is_read_only != 0)
}
