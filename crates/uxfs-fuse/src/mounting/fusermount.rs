//! Mounting by fusermount3: the set-user-id program that mounts for ordinary users.
//!
//! It mounts, and hands back `/dev/fuse` over a socket. The socket is its standard input: any descriptor will do, and this one
//! cannot leak into other programs that this process starts at the same moment. Its messages go to a file in memory, so
//! that it never waits for a reader.

use std::{
    ffi::OsStr,
    fs::File,
    io::{self, IoSliceMut, Read, Seek},
    mem::MaybeUninit,
    os::{fd::OwnedFd, unix::process::CommandExt},
    path::{Path, PathBuf},
    process::{Command, ExitStatus, Stdio},
};

use rustix::{
    fs::{MemfdFlags, memfd_create},
    io::{Errno, retry_on_intr},
    net::{
        AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SocketFlags, SocketType,
        recvmsg, socketpair,
    },
};
use thiserror::Error;
use uxfs_block::words::in_words;

use super::{
    device::{self, DeviceError, FuseDevice},
    programs,
};

/// The name of the program.
pub const NAME: &str = "fusermount3";
/// Names the descriptor over which `/dev/fuse` is handed back.
const SOCKET_VARIABLE: &str = "_FUSE_COMMFD";
/// The messages that are passed on, at most.
const MESSAGE_LIMIT_BYTES: u64 = 4096;

/// Why fusermount3 does not mount or unmount.
#[derive(Debug, Error)]
pub enum FusermountError {
    /// It is not installed.
    #[error("{NAME} is not installed (Debian, Ubuntu, Fedora, Arch: package fuse3)")]
    Missing,
    /// It cannot be run.
    #[error("{} cannot be run: {}", .program.display(), in_words(.source))]
    Run {
        /// Where it was found.
        program: PathBuf,
        /// The kernel's error.
        source: io::Error,
    },
    /// It says why not, in its own words.
    #[error("{message}")]
    Refused {
        /// What it wrote.
        message: String,
    },
    /// It ended without a word.
    #[error("{NAME} failed without a message ({0})")]
    Silent(ExitStatus),
    /// The user may not open `/dev/fuse`, which fusermount3 opens in the user's name.
    #[error("{message}; {device}")]
    Device {
        /// What it wrote.
        message: String,
        /// Why this process cannot open the device either, with the remedy.
        device: DeviceError,
    },
}

/// What fusermount3 has mounted.
#[derive(Debug)]
pub struct Handed {
    /// The server's end.
    pub device: FuseDevice,
    /// What it complained of though it mounted; empty if of nothing.
    pub warnings: String,
}

/// Where fusermount3 is.
///
/// # Errors
/// It is not installed.
pub fn find() -> Result<PathBuf, FusermountError> {
    programs::find(NAME).ok_or(FusermountError::Missing)
}

/// Mounts on a canonical path. `list`: options as [`FuseMountOptions::fusermount_list`] gives them.
///
/// # Errors
/// fusermount3 is missing, or refuses.
///
/// [`FuseMountOptions::fusermount_list`]: super::options::FuseMountOptions::fusermount_list
pub fn mount(mount_point: &Path, list: &OsStr) -> Result<Handed, FusermountError> {
    let program = find()?;
    let error = |source: io::Error| FusermountError::Run { program: program.clone(), source };
    let (own, other) = socketpair(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)
        .map_err(|source| error(source.into()))?;
    let mut messages = message_file().map_err(error)?;
    let mut command = named(&program);
    command.arg("-o").arg(list).arg("--").arg(mount_point).env(SOCKET_VARIABLE, "0");
    command.stdin(other).stdout(Stdio::null()).stderr(messages.try_clone().map_err(error)?);
    let mut child = command.spawn().map_err(error)?;
    // The command holds the other end of the socket: without it, the end of fusermount3 is the end of the socket.
    drop(command);
    let received = receive(&own);
    drop(own);
    let status = child.wait().map_err(error)?;
    let device = received.map_err(|source| error(source.into()))?;
    match device {
        Some(device) => Ok(Handed { device: device.into(), warnings: text_of(&mut messages) }),
        None => Err(refusal(text_of(&mut messages), status)),
    }
}

/// Unmounts. Lazily: the mount vanishes now, and ends when it is no longer used.
///
/// # Errors
/// fusermount3 is missing, or refuses: the mount is busy or another user's.
pub fn unmount(mount_point: &Path, is_lazy: bool) -> Result<(), FusermountError> {
    let program = find()?;
    let error = |source: io::Error| FusermountError::Run { program: program.clone(), source };
    let mut messages = message_file().map_err(error)?;
    let mut command = named(&program);
    command.arg("-u").args(is_lazy.then_some("-z")).arg("--").arg(mount_point);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(messages.try_clone().map_err(error)?);
    let status = command.status().map_err(error)?;
    if status.success() { Ok(()) } else { Err(refusal(text_of(&mut messages), status)) }
}

/// A command under its short name, with which its messages begin.
fn named(program: &Path) -> Command {
    let mut command = Command::new(program);
    command.arg0(NAME);
    command
}

/// The descriptor that the other end of the socket sends; `None` where it is closed instead.
fn receive(socket: &OwnedFd) -> Result<Option<OwnedFd>, Errno> {
    let mut byte = [0];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    retry_on_intr(|| {
        recvmsg(socket, &mut [IoSliceMut::new(&mut byte)], &mut control, RecvFlags::CMSG_CLOEXEC)
    })?;
    let descriptors = control.drain().filter_map(|message| match message {
        RecvAncillaryMessage::ScmRights(descriptors) => Some(descriptors),
        _ => None,
    });
    Ok(descriptors.flatten().next())
}

fn message_file() -> io::Result<File> {
    Ok(memfd_create(NAME, MemfdFlags::CLOEXEC)?.into())
}

fn text_of(messages: &mut File) -> String {
    let mut bytes = Vec::new();
    // What cannot be read is not told: the mount itself is not in question.
    let _ = messages.rewind().and_then(|()| messages.take(MESSAGE_LIMIT_BYTES).read_to_end(&mut bytes));
    String::from_utf8_lossy(&bytes).trim().to_owned()
}

fn refusal(message: String, status: ExitStatus) -> FusermountError {
    if message.is_empty() {
        return FusermountError::Silent(status);
    }
    // fusermount3 opens the device with the rights of its user; the remedy is known here.
    match FuseDevice::open() {
        Err(device) if message.contains(device::PATH) => FusermountError::Device { message, device },
        _ => FusermountError::Refused { message },
    }
}

#[cfg(test)]
mod tests {
    use std::os::{fd::AsFd, unix::process::ExitStatusExt};

    use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};

    use super::*;

    fn pair() -> (OwnedFd, OwnedFd) {
        socketpair(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None).unwrap()
    }

    #[test]
    fn a_descriptor_comes_over_the_socket() {
        let (own, other) = pair();
        let file = tempfile::tempfile().unwrap();
        let descriptors = [file.as_fd()];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        assert!(control.push(SendAncillaryMessage::ScmRights(&descriptors)));
        sendmsg(&other, &[io::IoSlice::new(&[0])], &mut control, SendFlags::empty()).unwrap();
        let received = receive(&own).unwrap().unwrap();
        assert_eq!(rustix::fs::fstat(&received).unwrap().st_ino, rustix::fs::fstat(&file).unwrap().st_ino);
        assert!(rustix::io::fcntl_getfd(&received).unwrap().contains(rustix::io::FdFlags::CLOEXEC));
    }

    #[test]
    fn a_closed_socket_brings_none() {
        let (own, other) = pair();
        drop(other);
        assert!(receive(&own).unwrap().is_none());
        let (own, other) = pair();
        rustix::io::write(&other, &[0]).unwrap();
        assert!(receive(&own).unwrap().is_none());
    }

    #[test]
    fn refusals_keep_their_words() {
        let status = ExitStatus::from_raw(1 << 8);
        let words = "fusermount3: entry for /m not found in /etc/mtab";
        assert_eq!(refusal(words.to_owned(), status).to_string(), words);
        let silent = refusal(String::new(), status).to_string();
        assert_eq!(silent, "fusermount3 failed without a message (exit status: 1)");
    }
}
