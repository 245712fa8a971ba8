//! Ending the connection between the kernel and a server: all that wait for an answer get an error, which no signal can do for all of them.

use std::{fs::File, io, io::Write};

use super::mount_table::DeviceNumber;

/// Where the kernel has a folder for each connection, named by the number of the device.
#[doc(alias = "fusectl")]
const FOLDER: &str = "/sys/fs/fuse/connections";
/// The minor number's part of the number of a device, as the kernel has it.
#[doc(alias = "MINORBITS")]
const MINOR_BITS: u32 = 20;

/// Ends the connection of the FUSE mount with this device number. The user that mounted it may.
///
/// # Errors
/// There is no such connection, the folder is not mounted, another user mounted it.
pub fn abort(device: DeviceNumber) -> io::Result<()> {
    let number = (u64::from(device.major) << MINOR_BITS) | u64::from(device.minor);
    File::options().write(true).open(format!("{FOLDER}/{number}/abort"))?.write_all(b"1")
}
