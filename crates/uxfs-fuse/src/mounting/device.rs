//! `/dev/fuse`: opening it, and further descriptors for more threads.
#![allow(unsafe_code)]

use std::{
    fs::{File, OpenOptions},
    io,
    os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd},
};

use rustix::{
    fs::{OFlags, fcntl_getfl, fcntl_setfl},
    io::Errno,
    ioctl::{NoArg, Setter, ioctl},
};
use thiserror::Error;
use uxfs_block::words::in_words;

use crate::protocol::device_ioctl;

/// Where the device is.
pub const PATH: &str = "/dev/fuse";

/// Why `/dev/fuse` cannot be used.
#[derive(Debug, Error)]
pub enum DeviceError {
    /// There is no such file.
    #[error(
        "{PATH} does not exist (load the kernel module: modprobe fuse; a container must be given the device: --device \
         {PATH})"
    )]
    Missing,
    /// There is the file, but no driver.
    #[error("{PATH}: the kernel has no driver for it (load the kernel module: modprobe fuse)")]
    NoDriver,
    /// This user may not open it.
    #[error(
        "{PATH}: permission denied (as root: chmod 666 {PATH}; a container must be given the device: --device {PATH})"
    )]
    NotPermitted,
    /// Anything else.
    #[error("{PATH} cannot be opened: {}", in_words(.0))]
    Open(io::Error),
    /// The kernel connects no further descriptor.
    #[error("{PATH}: a further descriptor cannot be connected to the mount: {}", in_words(.0))]
    Connect(io::Error),
    /// The kernel refuses to let the mount wait.
    #[error("{PATH}: mounting cannot be made to wait for the server: {}", in_words(.0))]
    WaitForInit(io::Error),
}

impl DeviceError {
    fn of_opening(error: io::Error) -> Self {
        match Errno::from_io_error(&error) {
            Some(Errno::NOENT) => Self::Missing,
            Some(Errno::NODEV | Errno::NXIO) => Self::NoDriver,
            Some(Errno::ACCESS | Errno::PERM) => Self::NotPermitted,
            _ => Self::Open(error),
        }
    }
}

/// An open `/dev/fuse`. It belongs to one mount from mount(2) on. The mount ends when the last descriptor is closed.
#[derive(Debug)]
pub struct FuseDevice(OwnedFd);

impl FuseDevice {
    /// Opens the device, for a mount that is still to be made. Programs started later do not inherit it.
    ///
    /// # Errors
    /// It is missing, or this user may not open it.
    pub fn open() -> Result<Self, DeviceError> {
        // The standard library sets O_CLOEXEC.
        let file: File =
            OpenOptions::new().read(true).write(true).open(PATH).map_err(DeviceError::of_opening)?;
        Ok(Self(file.into()))
    }

    /// A further descriptor of the same mount. A reply must go to the descriptor that its request was read from.
    ///
    /// # Errors
    /// The device cannot be opened, or this one belongs to no mount yet.
    #[doc(alias = "FUSE_DEV_IOC_CLONE")]
    pub fn connect_another(&self) -> Result<Self, DeviceError> {
        let another = Self::open()?;
        let number = self.0.as_raw_fd().cast_unsigned();
        // SAFETY: FUSE_DEV_IOC_CLONE reads one u32: the number of a descriptor, which `self` holds open.
        let connected = unsafe { ioctl(&another.0, Setter::<{ device_ioctl::CLONE }, u32>::new(number)) };
        connected.map_err(|error| DeviceError::Connect(error.into()))?;
        Ok(another)
    }

    /// Reading gives an error while there is no request, instead of waiting for one.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn set_nonblocking(&self) -> Result<(), DeviceError> {
        let refused = |error: Errno| DeviceError::Connect(error.into());
        let flags = fcntl_getfl(&self.0).map_err(refused)?;
        fcntl_setfl(&self.0, flags | OFlags::NONBLOCK).map_err(refused)
    }

    /// Lets the mount(2) to come wait until the server has answered INIT, and fail if it does not. Gives whether the kernel
    /// can do so: it can since Linux 6.18.
    ///
    /// Another thread must read from the device before mount(2) is called. Its read blocks until there is a mount: if
    /// mounting fails, it blocks for ever.
    ///
    /// # Errors
    /// The device belongs to a mount already.
    #[doc(alias = "FUSE_DEV_IOC_SYNC_INIT")]
    pub fn wait_for_init(&self) -> Result<bool, DeviceError> {
        // SAFETY: FUSE_DEV_IOC_SYNC_INIT has no argument.
        match unsafe { ioctl(&self.0, NoArg::<{ device_ioctl::SYNC_INIT }>::new()) } {
            Ok(()) => Ok(true),
            Err(Errno::NOTTY | Errno::NOSYS) => Ok(false),
            Err(error) => Err(DeviceError::WaitForInit(error.into())),
        }
    }
}

impl AsFd for FuseDevice {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl From<OwnedFd> for FuseDevice {
    fn from(descriptor: OwnedFd) -> Self {
        Self(descriptor)
    }
}

impl From<FuseDevice> for OwnedFd {
    fn from(device: FuseDevice) -> Self {
        device.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_error_has_its_remedy() {
        let error = |number: Errno| DeviceError::of_opening(number.into());
        for (number, remedy) in [
            (Errno::NOENT, "does not exist (load the kernel module: modprobe fuse"),
            (Errno::NODEV, "no driver for it (load the kernel module: modprobe fuse)"),
            (Errno::NXIO, "no driver for it"),
            (Errno::ACCESS, "permission denied (as root: chmod 666 /dev/fuse"),
            (Errno::PERM, "a container must be given the device: --device /dev/fuse)"),
            (Errno::MFILE, "cannot be opened: Too many open files"),
        ] {
            let text = error(number).to_string();
            assert!(text.contains(remedy) && !text.contains("os error"), "{text}");
        }
    }
}
