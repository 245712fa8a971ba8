//! Actions, and where they print.

use std::io::Write;

use uxfs_format::units::SECTOR_SIZE_BYTES;
use uxfs_volume::inode::{FileType, Inode, Timestamp};

use super::{Actor, Halt, format::Format, lookup::Names};
use crate::{
    calendar,
    document::{Beside, JsonFile},
    output::Output,
    search::subject::Subject,
    text,
};

/// An action.
#[derive(Debug)]
pub enum Action {
    /// Prints the path and a line break.
    Print,
    /// Prints the path and a zero byte.
    PrintZero,
    /// Prints a line as `ls -dils` does.
    List(Names),
    /// Prints by a format.
    Format(Format),
    /// Does not descend into the directory.
    Prune,
    /// Ends the walk.
    Quit,
    /// True.
    True,
    /// False.
    False,
}

/// Prints for files, and keeps what actions ask of the walk.
#[derive(Debug)]
pub struct Printer {
    /// Where it prints.
    pub output: Output,
    /// Every action that prints gives a document, with these names of people.
    pub documents: Option<Names>,
    /// The moment that decides how `-ls` shows times.
    pub now: Timestamp,
    /// `-prune` was met for the file at hand.
    pub is_pruned: bool,
}

impl Actor for Printer {
    fn perform(&mut self, action: &Action, subject: &Subject<'_>) -> Result<bool, Halt> {
        match action {
            Action::True => {}
            Action::False => return Ok(false),
            Action::Prune => self.is_pruned = true,
            Action::Quit => return Err(Halt::Quit),
            Action::Print | Action::PrintZero | Action::List(_) if self.documents.is_some() => {
                let (inode, target) = (subject.inode()?, subject.target()?);
                let names = self.documents.as_deref();
                let beside = Beside {
                    user: names.and_then(|names| names.user(inode.uid())),
                    group: names.and_then(|names| names.group(inode.gid())),
                    target: target.as_deref(),
                    ..Beside::default()
                };
                self.output.json(&JsonFile::new(subject.path, inode, &beside))?;
            }
            Action::Print => {
                self.output.name(subject.path)?;
                self.output.write_all(b"\n")?;
            }
            Action::PrintZero => {
                self.output.write_all(subject.path)?;
                self.output.write_all(b"\0")?;
            }
            Action::List(names) => self.list(subject, names)?,
            Action::Format(format) => format.print(subject, &mut self.output)?,
        }
        Ok(true)
    }

    fn needs_inode(&self, action: &Action) -> bool {
        match action {
            Action::Print | Action::PrintZero => self.documents.is_some(),
            Action::List(_) => true,
            Action::Format(format) => format.needs_inode(),
            Action::Prune | Action::Quit | Action::True | Action::False => false,
        }
    }
}

/// The blocks of 512 bytes that a file takes, as `stat` tells.
pub fn sectors_of(subject: &Subject<'_>, inode: &Inode) -> u64 {
    let per_block = u64::from(subject.volume.geometry().block_size_bytes) / SECTOR_SIZE_BYTES;
    inode.blocks().saturating_mul(per_block)
}

impl Printer {
    fn list(&mut self, subject: &Subject<'_>, names: &Names) -> Result<(), Halt> {
        let inode = subject.inode()?;
        let target = subject.target()?;
        let output = &mut self.output;
        let kibibytes = sectors_of(subject, inode).div_ceil(2);
        write!(output, "{:>9} {kibibytes:>6} ", inode.number)?;
        output.write_all(&text::mode_string(inode.mode()))?;
        write!(output, " {:>3} ", inode.link_count())?;
        for (name, number) in
            [(names.user(inode.uid()), inode.uid()), (names.group(inode.gid()), inode.gid())]
        {
            match name {
                Some(name) => write!(output, "{:<8} ", text::escaped(name.as_bytes()))?,
                None => write!(output, "{number:<8} ")?,
            }
        }
        match inode.file_type() {
            Some(FileType::CharacterDevice | FileType::BlockDevice) => {
                let device = inode.device_number();
                write!(output, "{:>3}, {:>3} ", device.major, device.minor)?;
            }
            _ => write!(output, "{:>8} ", inode.size_bytes())?,
        }
        calendar::write_short(output, inode.modification_time(), self.now)?;
        output.write_all(b" ")?;
        write_quoted(output, subject.path)?;
        if let Some(target) = target {
            output.write_all(b" -> ")?;
            write_quoted(output, &target)?;
        }
        output.write_all(b"\n")?;
        Ok(())
    }
}

/// A name on one line: blanks, quotes and everything that is not printable ASCII behind backslashes.
fn write_quoted(output: &mut Output, name: &[u8]) -> std::io::Result<()> {
    for &byte in name {
        match byte {
            b'\n' => output.write_all(b"\\n")?,
            b'\t' => output.write_all(b"\\t")?,
            b'\r' => output.write_all(b"\\r")?,
            0x07 => output.write_all(b"\\a")?,
            0x08 => output.write_all(b"\\b")?,
            0x0b => output.write_all(b"\\v")?,
            0x0c => output.write_all(b"\\f")?,
            b' ' | b'"' | b'\\' => output.write_all(&[b'\\', byte])?,
            b'!'..=b'~' => output.write_all(&[byte])?,
            _ => write!(output, "\\{byte:03o}")?,
        }
    }
    Ok(())
}
