//! `uxfs stat`: all metadata of an inode.

use std::{ffi::OsString, io::Write, os::unix::ffi::OsStrExt};

use uxfs_volume::inode::{FileType, Fork, ForkFormat, Inode, Timestamp};
use uxfs_volume::volume::Volume;

use crate::{
    commands::Context,
    document::{Beside, JsonFile, flag_names, format_name, type_name},
    failure::{Complaints, Failure, Outcome},
    glob::{self, GlobArguments},
    output::Output,
    target::Target,
    text,
};

/// Arguments of `uxfs stat`.
#[derive(Debug, clap::Args)]
#[command(after_help = format!("Example: uxfs stat disk.img /etc/passwd\n{}", glob::HELP))]
pub struct Arguments {
    /// Paths in the image, or inode numbers
    #[arg(value_name = "PATH", required = true)]
    targets: Vec<OsString>,
    #[command(flatten)]
    globs: GlobArguments,
    /// Follow a symbolic link at the end of the path
    #[arg(short = 'L', long)]
    dereference: bool,
}

/// Runs the command.
pub fn run(filesystem: &Volume, arguments: &Arguments, context: &Context) -> Outcome {
    let mut output = Output::new();
    let mut complaints = Complaints::default();
    for (name, target) in context.targets(filesystem, &arguments.targets, arguments.globs, &mut complaints)? {
        match target.find(filesystem, arguments.dereference) {
            Ok(inode) => {
                let link = match inode.file_type() {
                    Some(FileType::SymbolicLink) => filesystem.read_symlink(&inode).map(Some),
                    _ => Ok(None),
                };
                // The link that cannot be read has its metadata all the same.
                let link = link.unwrap_or_else(|error| {
                    complaints.add_target(&target, &error);
                    None
                });
                match context.json {
                    true => {
                        let beside = Beside { target: link.as_deref(), ..Beside::default() };
                        output.json(&JsonFile::new(name.as_bytes(), &inode, &beside))?;
                    }
                    false => print(&target, &inode, link.as_deref(), &mut output)?,
                }
            }
            Err(error) => complaints.add_target(&target, &error),
        }
    }
    output.finish()?;
    Ok(complaints.exit())
}

fn print(target: &Target, inode: &Inode, link: Option<&[u8]>, output: &mut Output) -> Result<(), Failure> {
    let mode = text::mode_string(inode.mode());
    write!(output, "  File: {target}")?;
    if let Some(link) = link {
        write!(output, " -> {}", text::escaped(link))?;
    }
    writeln!(
        output,
        "\n  Size: {:<15} Blocks: {:<10} {}",
        inode.size_bytes(),
        inode.blocks(),
        inode.file_type().map_or("free", type_name).replace('_', " ")
    )?;
    write!(
        output,
        " Inode: {:<15} Links: {:<11} Gen: {}",
        inode.number,
        inode.link_count(),
        inode.generation()
    )?;
    if matches!(inode.file_type(), Some(FileType::CharacterDevice | FileType::BlockDevice)) {
        let device = inode.device_number();
        write!(output, "   Device: {},{}", device.major, device.minor)?;
    }
    writeln!(
        output,
        "\n  Mode: ({:04o}/{})   Uid: {}   Gid: {}   Project: {}",
        inode.permissions(),
        String::from_utf8_lossy(&mode),
        inode.uid(),
        inode.gid(),
        inode.project_id()
    )?;
    for (name, time) in [
        ("Access", inode.access_time()),
        ("Modify", inode.modification_time()),
        ("Change", inode.change_time()),
        (" Birth", inode.creation_time()),
    ] {
        let Timestamp { seconds, nanoseconds } = time;
        writeln!(output, "{name}: {}", text::full_time(seconds, nanoseconds))?;
    }
    let format = |fork| inode.fork_format(fork).map_or("none", |format: ForkFormat| format_name(format));
    writeln!(
        output,
        "  Data: {}, {} extents   Attributes: {}, {} extents",
        format(Fork::Data),
        inode.extent_count(Fork::Data),
        format(Fork::Attribute),
        inode.extent_count(Fork::Attribute)
    )?;
    writeln!(output, " Flags: {}", flag_names(inode).join(" "))?;
    Ok(())
}
