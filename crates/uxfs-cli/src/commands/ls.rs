//! `uxfs ls`: the entries of directories.

use std::{ffi::OsString, io::Write, os::unix::ffi::OsStrExt, sync::Arc};

use serde::Serialize;
use uxfs_volume::inode::{FileType, Inode, set::InodeSet};
use uxfs_volume::volume::Volume;

use crate::{
    commands::Context,
    document::{JsonFile, type_name},
    failure::{About, Complaints, Exit, Failure, Outcome},
    listing::{Listed, Listing, ListingOptions, PATH_BYTES_MAX, PREFETCHED_ENTRIES},
    output::{JsonName, Output},
    text::{self, Moment},
};

/// Arguments of `uxfs ls`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example: uxfs ls -lR disk.img /etc\n\
    Names that begin with a dot are always shown. Times are UTC. Directories of more than 50,000 entries \
    are listed in their own order.")]
pub struct Arguments {
    /// Paths in the image, or inode numbers
    #[arg(value_name = "PATH")]
    targets: Vec<OsString>,
    /// Show mode, links, owner, group, size and modification time
    #[arg(short, long)]
    long: bool,
    /// List subdirectories recursively
    #[arg(short = 'R', long)]
    recursive: bool,
    /// Show "." and ".." too
    #[arg(short, long)]
    all: bool,
    /// Show inode numbers
    #[arg(short, long)]
    inode: bool,
    /// List directories themselves, not their contents
    #[arg(short, long)]
    directory: bool,
    /// Do not sort
    #[arg(short = 'U', long)]
    unsorted: bool,
    /// With -l: sizes such as 1.5K
    #[arg(short = 'H', long)]
    human_readable: bool,
    /// With -l: times to the nanosecond
    #[arg(long)]
    full_time: bool,
}

/// Runs the command.
pub fn run(filesystem: &Volume, arguments: &Arguments, context: &Context) -> Outcome {
    let mut lister = Lister {
        filesystem,
        arguments,
        json: context.json,
        output: Output::new(),
        complaints: Complaints::default(),
        visited: InodeSet::default(),
        has_output: false,
    };
    let everything = [context.default_path().to_owned()];
    let targets = if arguments.targets.is_empty() { &everything[..] } else { &arguments.targets };
    for argument in targets {
        let target = context.target(argument);
        // As ls does: a symbolic link to a directory is followed unless its own line was asked for.
        match target.find(filesystem, !arguments.long && !arguments.directory) {
            Ok(inode) => lister.list_target(argument.as_bytes(), &inode)?,
            Err(error) => lister.complaints.add(&target, &error),
        }
    }
    lister.output.finish()?;
    Ok(lister.complaints.exit())
}

/// One line of JSON.
#[derive(Serialize)]
struct JsonEntry<'a> {
    path: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    path_hex: Option<&'a str>,
    inode: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    r#type: Option<&'static str>,
}

struct Lister<'a> {
    filesystem: &'a Volume,
    arguments: &'a Arguments,
    json: bool,
    output: Output,
    complaints: Complaints,
    /// Directories listed: on a damaged image one could hold itself, or be reached in millions of ways.
    visited: InodeSet,
    has_output: bool,
}

/// A directory whose subdirectories are being listed.
struct Level<'a> {
    listing: Listing<'a>,
    path_length: usize,
}

impl<'a> Lister<'a> {
    fn list_target(&mut self, path: &[u8], inode: &Arc<Inode>) -> Result<(), Failure> {
        if inode.file_type() != Some(FileType::Directory) || self.arguments.directory {
            let listed = Listed { inode: inode.number, file_type: inode.file_type() };
            return self.print_entry(path, path, listed, Some(inode));
        }
        let mut path = path.to_vec();
        let mut levels = Vec::new();
        levels.extend(self.list_directory(inode, &path)?);
        let mut name = Vec::new();
        while let Some(level) = levels.last_mut() {
            path.truncate(level.path_length);
            match level.listing.next(&mut name) {
                Ok(Some(listed)) => {
                    push_name(&mut path, &name);
                    if let Some(inode) = self.subdirectory(&path, &name, listed) {
                        levels.extend(self.list_directory(&inode, &path)?);
                    }
                }
                Ok(None) => drop(levels.pop()),
                Err(error) => {
                    self.complaints.add(text::escaped(&path), &error);
                    levels.pop();
                }
            }
        }
        Ok(())
    }

    /// The inode of an entry, if it is a directory to go into.
    fn subdirectory(&mut self, path: &[u8], name: &[u8], listed: Listed) -> Option<Arc<Inode>> {
        let may_be = listed.file_type.is_none_or(|file_type| file_type == FileType::Directory);
        if !may_be || matches!(name, b"." | b"..") {
            return None;
        }
        if path.len() > PATH_BYTES_MAX {
            let message = format!("{}: path too long: not descending", text::escaped(&path[..256]));
            self.complaints.say("path too long", Exit::Failed, message);
            return None;
        }
        match self.filesystem.inode(listed.inode) {
            Ok(inode) if inode.file_type() == Some(FileType::Directory) => Some(inode),
            Ok(_) => None,
            Err(error) => {
                self.complaints.add(text::escaped(path), &error);
                None
            }
        }
    }

    /// Lists one directory; gives it back to go on with its subdirectories, if they are wanted.
    fn list_directory(&mut self, inode: &Arc<Inode>, path: &[u8]) -> Result<Option<Level<'a>>, Failure> {
        if !self.visited.insert(inode.number) {
            let path = text::escaped(path);
            let message = format!("{path}: directory inode {} was reached a second time", inode.number);
            self.complaints.say("directory in two places", Exit::Corruption, message);
            return Ok(None);
        }
        if !self.json && (self.arguments.recursive || self.arguments.targets.len() > 1) {
            if self.has_output {
                self.output.write_all(b"\n")?;
            }
            self.output.name(path)?;
            self.output.write_all(b":\n")?;
            self.has_output = true;
        }
        let options = ListingOptions { with_dots: self.arguments.all, unsorted: self.arguments.unsorted };
        let mut listing = match Listing::new(self.filesystem, inode, options) {
            Ok(listing) => listing,
            Err(error) => {
                self.complaints.add(text::escaped(path), &error);
                return Ok(None);
            }
        };
        let (mut name, mut entry_path) = (Vec::new(), path.to_vec());
        for index in 0usize.. {
            if self.arguments.long && index.is_multiple_of(PREFETCHED_ENTRIES) {
                listing.prefetch_inodes();
            }
            match listing.next(&mut name) {
                Ok(Some(listed)) => {
                    entry_path.truncate(path.len());
                    push_name(&mut entry_path, &name);
                    self.print_entry(&name, &entry_path, listed, None)?;
                }
                Ok(None) => break,
                Err(error) => {
                    self.complaints.add(text::escaped(path), &error);
                    break;
                }
            }
        }
        if !self.arguments.recursive {
            return Ok(None);
        }
        listing.rewind().about(text::escaped(path))?;
        Ok(Some(Level { listing, path_length: path.len() }))
    }

    fn print_entry(
        &mut self,
        name: &[u8],
        path: &[u8],
        listed: Listed,
        inode: Option<&Arc<Inode>>,
    ) -> Result<(), Failure> {
        if !self.arguments.long {
            return self.print_short(name, path, listed);
        }
        let read;
        let inode = match inode {
            Some(inode) => inode,
            None => match self.filesystem.inode(listed.inode) {
                Ok(inode) => {
                    read = inode;
                    &read
                }
                Err(error) => {
                    self.complaints.add(text::escaped(path), &error);
                    if !self.json {
                        write!(self.output, "??????????   ?      ?      ?            ? ")?;
                        write!(self.output, "               ? ")?;
                        self.output.name(name)?;
                        self.output.write_all(b"\n")?;
                    }
                    return Ok(());
                }
            },
        };
        let target = match inode.file_type() {
            Some(FileType::SymbolicLink) => match self.filesystem.read_symlink(inode) {
                Ok(target) => Some(target),
                Err(error) => {
                    self.complaints.add(text::escaped(path), &error);
                    None
                }
            },
            _ => None,
        };
        if self.json {
            self.output.json(&JsonFile::new(path, inode, target.as_deref()))?;
            return Ok(());
        }
        self.print_long(name, inode, target.as_deref())
    }

    fn print_short(&mut self, name: &[u8], path: &[u8], listed: Listed) -> Result<(), Failure> {
        if self.json {
            let path = JsonName::new(path);
            self.output.json(&JsonEntry {
                path: path.text(),
                path_hex: path.hex(),
                inode: listed.inode.get(),
                r#type: listed.file_type.map(type_name),
            })?;
            return Ok(());
        }
        if self.arguments.inode {
            write!(self.output, "{:>10} ", listed.inode)?;
        }
        self.output.name(name)?;
        self.output.write_all(b"\n")?;
        Ok(())
    }

    fn print_long(&mut self, name: &[u8], inode: &Inode, target: Option<&[u8]>) -> Result<(), Failure> {
        if self.arguments.inode {
            write!(self.output, "{:>10} ", inode.number)?;
        }
        self.output.write_all(&text::mode_string(inode.mode()))?;
        write!(self.output, " {:>3} {:>6} {:>6} ", inode.link_count(), inode.uid(), inode.gid())?;
        if matches!(inode.file_type(), Some(FileType::CharacterDevice | FileType::BlockDevice)) {
            let device = inode.device_number();
            write!(self.output, "{:>5}, {:>5} ", device.major, device.minor)?;
        } else if self.arguments.human_readable {
            write!(self.output, "{:>12} ", text::human_size(inode.size_bytes()))?;
        } else {
            write!(self.output, "{:>12} ", inode.size_bytes())?;
        }
        let time = inode.modification_time();
        if self.arguments.full_time {
            write!(self.output, "{} ", text::full_time(time.seconds, time.nanoseconds))?;
        } else {
            let Moment { year, month, day, hour, minute, .. } = Moment::from_unix_seconds(time.seconds);
            write!(self.output, "{year:04}-{month:02}-{day:02} {hour:02}:{minute:02} ")?;
        }
        self.output.name(name)?;
        if let Some(target) = target {
            self.output.write_all(b" -> ")?;
            self.output.name(target)?;
        }
        self.output.write_all(b"\n")?;
        Ok(())
    }
}

fn push_name(path: &mut Vec<u8>, name: &[u8]) {
    if path.last() != Some(&b'/') {
        path.push(b'/');
    }
    path.extend_from_slice(name);
}
