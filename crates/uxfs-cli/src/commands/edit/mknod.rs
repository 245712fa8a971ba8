//! `uxfs mknod` and `uxfs mkfifo`: special files.

use std::{ffi::OsString, os::unix::ffi::OsStrExt};

use uxfs_volume::inode::{DeviceNumber, FileType};

use crate::{
    commands::edit::Edit,
    edit::{
        deposit::{Deposit, Kept, Kind},
        labels::LabelArguments,
        mode::ModeChange,
        people::Owner,
        session::Session,
    },
    failure::Failure,
};

/// Arguments of `uxfs mknod`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example: uxfs mknod -m 666 disk.img /dev/null c 1 3")]
pub struct Arguments {
    /// Path in the image
    #[arg(value_name = "PATH")]
    path: OsString,
    /// b for a block device, c (or u) for a character device, p for a pipe, s for a socket
    #[arg(value_name = "TYPE", value_parser = ["b", "c", "u", "p", "s"])]
    kind: String,
    /// Major number of a device: decimal, or with 0x or 0 in front
    #[arg(value_name = "MAJOR", value_parser = parse_number)]
    major: Option<u32>,
    /// Minor number of a device
    #[arg(value_name = "MINOR", value_parser = parse_number)]
    minor: Option<u32>,
    /// Set the permissions, as chmod does, instead of applying the umask
    #[arg(short, long, value_name = "MODE", value_parser = ModeChange::parse)]
    mode: Option<ModeChange>,
    #[command(flatten)]
    labels: LabelArguments,
}

/// Arguments of `uxfs mkfifo`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example: uxfs mkfifo disk.img /run/initctl")]
pub struct FifoArguments {
    /// Paths in the image
    #[arg(value_name = "PATH", required = true)]
    paths: Vec<OsString>,
    /// Set the permissions, as chmod does, instead of applying the umask
    #[arg(short, long, value_name = "MODE", value_parser = ModeChange::parse)]
    mode: Option<ModeChange>,
    #[command(flatten)]
    labels: LabelArguments,
}

fn parse_number(text: &str) -> Result<u32, String> {
    let number = match (text.strip_prefix("0x"), text.strip_prefix('0')) {
        (Some(digits), _) => u32::from_str_radix(digits, 16),
        (None, Some(digits)) if !digits.is_empty() => u32::from_str_radix(digits, 8),
        _ => text.parse(),
    };
    number.map_err(|_| format!("`{text}` is not a device number"))
}

impl Edit for Arguments {
    fn run(&self, session: &mut Session) -> Result<(), Failure> {
        session.begin_labels(&self.labels)?;
        let (file_type, is_device) = match self.kind.as_str() {
            "b" => (FileType::BlockDevice, true),
            "p" => (FileType::Fifo, false),
            "s" => (FileType::Socket, false),
            _ => (FileType::CharacterDevice, true),
        };
        let number = match (is_device, self.major, self.minor) {
            (true, Some(major), Some(minor)) => DeviceNumber { major, minor },
            (true, ..) => return Err(Failure::usage("a device needs MAJOR and MINOR")),
            (false, None, None) => DeviceNumber::default(),
            (false, ..) => return Err(Failure::usage("only devices have MAJOR and MINOR")),
        };
        make(session, self.path.as_bytes(), Kind::Special(file_type, number), self.mode.as_ref())
    }
}

impl Edit for FifoArguments {
    fn run(&self, session: &mut Session) -> Result<(), Failure> {
        session.begin_labels(&self.labels)?;
        for path in &self.paths {
            let kind = Kind::Special(FileType::Fifo, DeviceNumber::default());
            let made = make(session, path.as_bytes(), kind, self.mode.as_ref());
            session.report.check(made);
        }
        Ok(())
    }
}

fn make(
    session: &mut Session,
    path: &[u8],
    kind: Kind<'_>,
    mode: Option<&ModeChange>,
) -> Result<(), Failure> {
    let place = session.place(path)?;
    let permissions = mode.map(|mode| mode.apply(0o666, false, session.umask));
    let kept = Kept { permissions, ..Kept::default() };
    session.deposit(&place, Deposit { kind, permissions: 0o666, owner: Owner::default(), kept })?;
    session.report.done("created", path);
    Ok(())
}
