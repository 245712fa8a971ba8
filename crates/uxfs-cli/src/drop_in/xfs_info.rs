//! `xfs_info`: the geometry of a file system.

use std::{
    ffi::OsString,
    io::Write,
    path::{Path, PathBuf},
};

use clap::Parser;
use uxfs_block::{
    claim::Lock,
    engine::{self, OpenOptions},
};
use uxfs_filesystem::identity::superblock_of;
use uxfs_fuse::mounting::mount_table::MountTable;
use uxfs_image::open::Opened;
use uxfs_mkfs::summary::Summary;
use uxfs_volume::error::Error;

use crate::{
    failure::{About, Exit, Failure, Outcome},
    forms,
    image::no_file_system,
    kind::Kind,
    output::Output,
};

/// The command line was wrong.
const USAGE: u8 = 2;
/// It cannot be read.
const FAILED: u8 = 1;

/// Show the geometry of an XFS file system, as xfs_info does
#[derive(Debug, Parser)]
#[command(
    name = "xfs_info",
    disable_version_flag = true,
    args_override_self = true,
    max_term_width = 100,
    after_help = "This is uxfs, called as xfs_info: uxfs info tells more. The superblock is read, also of a file system that is mounted or damaged \
    elsewhere.\nExit codes: 0 shown, 1 it cannot be read, 2 wrong command line.\nExample: xfs_info disk.img"
)]
pub struct Arguments {
    /// Image file, block device, or a directory on which one is mounted
    #[arg(value_name = "DEVICE", required_unless_present = "version")]
    device: Option<PathBuf>,
    /// Print the version and exit
    #[arg(short = 'V', id = "version")]
    version: bool,
    /// A table of mounts: accepted, without effect, since the kernel's is read
    #[arg(short = 't', value_name = "FILE")]
    table: Option<PathBuf>,
}

/// Runs the tool and gives its exit code.
pub(crate) fn run(arguments: &[OsString]) -> u8 {
    match super::parse::<Arguments>(arguments, USAGE) {
        Ok(arguments) if arguments.version => super::print_version(),
        Ok(arguments) => {
            let device = arguments.device.unwrap_or_default();
            super::code_of(show(&device).about_host(&device), USAGE, FAILED)
        }
        Err(exit) => exit,
    }
}

fn show(path: &Path) -> Outcome {
    let device = if path.is_dir() { mounted_on(path)? } else { path.to_path_buf() };
    // One superblock is one sector, which is written as a whole: whatever uses the file system may go on.
    let options = OpenOptions { lock: Lock::None, ..OpenOptions::default() };
    let opened = match forms::of(&device).filter(|form| form.is_read()) {
        None => engine::open(&device, &options).map_err(Error::from)?,
        Some(form) => match forms::open(form, &device, &options, false)? {
            Opened::Device(device) => device,
            // The superblock is at the beginning: no more is unpacked.
            Opened::Stream(stream) => stream.forward(),
        },
    };
    let superblock = superblock_of(&*opened).map_err(no_file_system)?;
    let mut output = Output::new();
    write!(output, "{}", Summary { superblock: &superblock, name: &device.display().to_string() })?;
    output.finish()?;
    Ok(Exit::Success)
}

/// The device or image that is mounted on a directory.
fn mounted_on(directory: &Path) -> Result<PathBuf, Failure> {
    let failed = |error: std::io::Error| Failure::caused_by(&error);
    let directory = std::fs::canonicalize(directory).map_err(failed)?;
    let table = MountTable::read().map_err(failed)?;
    let entry =
        table.at(&directory).ok_or_else(|| Failure::refused(Kind::NotFound, "nothing is mounted here"))?;
    let is_xfs = entry.file_system_type == "xfs" || entry.is_fuse();
    match is_xfs && Path::new(&entry.source).exists() {
        true => Ok(PathBuf::from(&entry.source)),
        false => {
            Err(Failure::failed(format!("no XFS file system, but one of type {}", entry.file_system_type)))
        }
    }
}
