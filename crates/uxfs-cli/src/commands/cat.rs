//! `uxfs cat`: the contents of files.

use std::{
    ffi::OsString,
    io::{self, Write},
};

use uxfs_volume::volume::Volume;
use uxfs_volume::{
    error::{Error, OperationError},
    file_data::reader::FilePiece,
    inode::{FileType, Inode},
};

use crate::{
    commands::Context,
    failure::{Complaints, Failure, Outcome},
    glob::{self, GlobArguments},
    output::{self, Output},
};

/// Arguments of `uxfs cat`.
#[derive(Debug, clap::Args)]
#[command(after_help = format!("Example: uxfs cat disk.img /etc/os-release\nHoles are written as zeros.\n{}", glob::HELP))]
pub struct Arguments {
    /// Paths in the image, or inode numbers
    #[arg(value_name = "PATH", required = true)]
    targets: Vec<OsString>,
    #[command(flatten)]
    globs: GlobArguments,
}

/// Runs the command.
pub fn run(filesystem: &Volume, arguments: &Arguments, context: &Context) -> Outcome {
    copy_all(filesystem, &arguments.targets, arguments.globs, context)
}

/// Writes files to standard output, one after the other.
pub fn copy_all(
    filesystem: &Volume,
    targets: &[OsString],
    globs: GlobArguments,
    context: &Context,
) -> Outcome {
    if context.json {
        return Err(Failure::usage("the bytes of the file are written as they are: there is no --json"));
    }
    output::must_be_open()?;
    let mut output = Output::new();
    let mut complaints = Complaints::default();
    for (_, target) in context.targets(filesystem, targets, globs, &mut complaints)? {
        match target.find(filesystem, true) {
            Ok(inode) => {
                // Files that cannot be read do not keep the others back; an output that fails ends it.
                if let Err(error) = copy(filesystem, &inode, &mut output)? {
                    complaints.add_target(&target, &error);
                }
            }
            Err(error) => complaints.add_target(&target, &error),
        }
    }
    output.finish()?;
    Ok(complaints.exit())
}

/// Writes the contents of a file. Within: the file cannot be read.
pub(super) fn copy(
    filesystem: &Volume,
    inode: &Inode,
    output: &mut impl Write,
) -> io::Result<Result<(), Error>> {
    if inode.file_type() == Some(FileType::Directory) {
        return Ok(Err(OperationError::IsADirectory.into()));
    }
    let zeros = [0; 64 << 10];
    let mut reader = match filesystem.file_reader(inode) {
        Ok(reader) => reader,
        Err(error) => return Ok(Err(error)),
    };
    loop {
        match reader.next_piece() {
            Ok(None) => return Ok(Ok(())),
            Ok(Some(FilePiece::Data { bytes, .. })) => output.write_all(bytes)?,
            Ok(Some(FilePiece::Hole { mut length_bytes, .. })) => {
                while length_bytes > 0 {
                    let length = length_bytes.min(zeros.len() as u64);
                    output.write_all(&zeros[..length as usize])?;
                    length_bytes -= length;
                }
            }
            Err(error) => return Ok(Err(error)),
        }
    }
}
