//! `uxfs tree`: a directory tree, drawn.

use std::{ffi::OsString, io::Write, os::unix::ffi::OsStrExt, sync::Arc};

use serde_json::json;
use uxfs_volume::inode::{FileType, Inode, set::InodeSet};
use uxfs_volume::volume::Volume;

use crate::{
    commands::Context,
    document::type_name,
    failure::{About, Complaints, Failure, Outcome},
    listing::{Listed, Listing, ListingOptions},
    output::Output,
    output::put_name,
    search::walk::in_two_places,
    search::walk::push_name,
};

/// Deepest level that is drawn: a line of it begins with four times as many columns.
const DEPTH_MAX: usize = 1000;

/// Arguments of `uxfs tree`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example: uxfs tree -L 2 disk.img /etc")]
pub struct Arguments {
    /// Path in the image, or inode number
    #[arg(value_name = "PATH")]
    target: Option<OsString>,
    /// Show directories only
    #[arg(short, long)]
    directories: bool,
    /// Descend at most this many levels
    #[arg(short = 'L', long, value_name = "LEVELS", default_value_t = DEPTH_MAX)]
    level: usize,
}

/// Runs the command.
pub fn run(filesystem: &Volume, arguments: &Arguments, context: &Context) -> Outcome {
    let path = arguments.target.as_deref().unwrap_or_else(|| context.default_path());
    let target = context.target(path);
    let root = target.find(filesystem, true).about_target(&target)?;
    let mut drawing = Drawing {
        filesystem,
        arguments,
        json: context.json,
        output: Output::new(),
        complaints: Complaints::default(),
        path: path.as_bytes().to_vec(),
        visited: InodeSet::default(),
        directories: 0,
        files: 0,
    };
    drawing.draw(path.as_bytes(), &root)?;
    if !context.json {
        let (directories, files) = (drawing.directories, drawing.files);
        writeln!(drawing.output, "\n{directories} directories, {files} files")?;
    }
    drawing.output.finish()?;
    Ok(drawing.complaints.exit())
}

struct Drawing<'a> {
    filesystem: &'a Volume,
    arguments: &'a Arguments,
    json: bool,
    output: Output,
    complaints: Complaints,
    /// The path of the entry being drawn. It begins as the command line has it.
    path: Vec<u8>,
    /// Directories drawn: on a damaged image one could hold itself.
    visited: InodeSet,
    directories: u64,
    files: u64,
}

/// A directory being drawn. One entry is looked ahead: the last has another sign.
struct Level<'a> {
    /// Length of the directory's path.
    path_length: usize,
    listing: Listing<'a>,
    next: Option<(Vec<u8>, Listed)>,
}

impl<'a> Drawing<'a> {
    fn draw(&mut self, name: &[u8], root: &Arc<Inode>) -> Result<(), Failure> {
        if self.json {
            self.print_json(0, name, Listed { inode: root.number, file_type: root.file_type() })?;
        } else {
            self.output.name(name)?;
            self.output.write_all(b"\n")?;
        }
        let mut levels = Vec::new();
        if root.file_type() == Some(FileType::Directory) {
            levels.extend(self.open(root));
        }
        while let Some(level) = levels.last_mut() {
            let Some((name, listed)) = level.next.take() else {
                levels.pop();
                continue;
            };
            self.path.truncate(level.path_length);
            level.next = self.look_ahead(&mut level.listing);
            push_name(&mut self.path, &name);
            if self.json {
                self.print_json(levels.len(), &name, listed)?;
            } else {
                self.print_line(&levels, &name)?;
            }
            let inode = self.directory(listed);
            match inode {
                Some(inode) => {
                    self.directories += 1;
                    if levels.len() < self.arguments.level.min(DEPTH_MAX) {
                        levels.extend(self.open(&inode));
                    }
                }
                None => self.files += 1,
            }
        }
        Ok(())
    }

    fn open(&mut self, inode: &Arc<Inode>) -> Option<Level<'a>> {
        if !self.visited.insert(inode.number) {
            self.complaints.tell(&in_two_places(inode.number).about_path(&self.path));
            return None;
        }
        match Listing::new(self.filesystem, inode, ListingOptions::default()) {
            Ok(mut listing) => {
                let next = self.look_ahead(&mut listing);
                Some(Level { path_length: self.path.len(), listing, next })
            }
            Err(error) => {
                self.complaints.add_path(&self.path, &error);
                None
            }
        }
    }

    fn look_ahead(&mut self, listing: &mut Listing<'a>) -> Option<(Vec<u8>, Listed)> {
        let mut name = Vec::new();
        loop {
            match listing.next(&mut name) {
                Ok(Some(listed)) => {
                    if self.arguments.directories && self.ahead(&name, listed).is_none() {
                        continue;
                    }
                    return Some((name, listed));
                }
                Ok(None) => return None,
                Err(error) => {
                    self.complaints.add_path(&self.path, &error);
                    return None;
                }
            }
        }
    }

    /// As [`directory`](Self::directory), of an entry of the directory whose path is the present one.
    fn ahead(&mut self, name: &[u8], listed: Listed) -> Option<Arc<Inode>> {
        let length = self.path.len();
        push_name(&mut self.path, name);
        let found = self.directory(listed);
        self.path.truncate(length);
        found
    }

    /// The inode of an entry, if it is a directory.
    fn directory(&mut self, listed: Listed) -> Option<Arc<Inode>> {
        if listed.file_type.is_some_and(|file_type| file_type != FileType::Directory) {
            return None;
        }
        match self.filesystem.inode(listed.inode) {
            Ok(inode) => (inode.file_type() == Some(FileType::Directory)).then_some(inode),
            Err(error) => {
                self.complaints.add_path(&self.path, &error);
                None
            }
        }
    }

    fn print_line(&mut self, levels: &[Level<'_>], name: &[u8]) -> Result<(), Failure> {
        for (depth, level) in levels.iter().enumerate() {
            let is_own = depth + 1 == levels.len();
            let sign = match (is_own, level.next.is_some()) {
                (true, true) => "├── ",
                (true, false) => "└── ",
                (false, true) => "│   ",
                (false, false) => "    ",
            };
            self.output.write_all(sign.as_bytes())?;
        }
        self.output.name(name)?;
        self.output.write_all(b"\n")?;
        Ok(())
    }

    fn print_json(&mut self, depth: usize, name: &[u8], listed: Listed) -> Result<(), Failure> {
        let mut document = json!({
            "depth": depth,
            "inode": listed.inode.get(),
            "type": listed.file_type.map(type_name),
        });
        put_name(&mut document, "name", name);
        put_name(&mut document, "path", &self.path);
        self.output.json(&document)?;
        Ok(())
    }
}
