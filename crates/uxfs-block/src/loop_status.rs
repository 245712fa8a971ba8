//! The backing file of a loop device, by the kernel.
#![allow(unsafe_code)]

use std::{fs::File, path::Path};

use rustix::{
    fs::makedev,
    ioctl::{Getter, ioctl},
};

use crate::busy::Identity;

/// `struct loop_info64` of `linux/loop.h`.
#[repr(C)]
struct LoopInfo {
    device: u64,
    inode: u64,
    block_device: u64,
    offset: u64,
    size_limit: u64,
    number: u32,
    encrypt_type: u32,
    encrypt_key_size: u32,
    flags: u32,
    file_name: [u8; 64],
    crypt_name: [u8; 64],
    encrypt_key: [u8; 32],
    init: [u64; 2],
}

#[doc(alias = "LOOP_GET_STATUS64")]
const GET_STATUS: rustix::ioctl::Opcode = 0x4c05;

/// The file or device under a loop device, also where the path that sysfs tells leads elsewhere by now. `None` where this
/// process may not ask.
pub(crate) fn status(path: &Path) -> Option<Identity> {
    let file = File::open(path).ok()?;
    // SAFETY: LOOP_GET_STATUS64 fills one `struct loop_info64`, all of whose fields are plain numbers.
    let info = unsafe { ioctl(&file, Getter::<GET_STATUS, LoopInfo>::new()) }.ok()?;
    Some(match decode_device(info.block_device) {
        0 => Identity::File { device: decode_device(info.device), inode: info.inode },
        device => Identity::Block { device },
    })
}

/// A device number as the kernel tells it to programs: 12 bits of major number between 8 and 12 of the minor one.
#[doc(alias = "huge_encode_dev")]
fn decode_device(encoded: u64) -> u64 {
    let major = (encoded >> 8) & 0xfff;
    let minor = (encoded & 0xff) | ((encoded >> 12) & 0xf_ff00);
    makedev(major as u32, minor as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn device_numbers_come_back() {
        assert_eq!(size_of::<LoopInfo>(), 232);
        assert_eq!(decode_device(0x0070_0812), makedev(8, 0x712));
        assert_eq!(decode_device(7 << 8 | 3), makedev(7, 3));
    }
}
