//! `uxfs truncate`: sizes.

use std::{ffi::OsString, os::unix::ffi::OsStrExt};

use uxfs_filesystem::operations::set_attributes::AttributeChanges;
use uxfs_volume::error::{Error, OperationError};

use crate::{
    commands::edit::Edit,
    edit::{
        contents::{self, Source},
        deposit::{Deposit, Kept, Kind},
        labels::LabelArguments,
        people::Owner,
        session::{Session, explained},
    },
    failure::Failure,
    glob::{self, GlobArguments},
    text::parse_size,
};

/// Arguments of `uxfs truncate`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = format!("Example: uxfs truncate -s 1G disk.img /var/swap.img\nSpace added to a file is a hole that reads as zeros.\n{}", glob::HELP)
)]
pub struct Arguments {
    /// Paths in the image; missing files are created
    #[arg(value_name = "PATH", required = true)]
    paths: Vec<OsString>,
    #[command(flatten)]
    globs: GlobArguments,
    /// Size in bytes, or with K, M, G, T; +grow by, -shrink by, <at most, >at least, /round down or %round up to a multiple
    #[arg(short, long, value_name = "SIZE", value_parser = Size::parse, allow_hyphen_values = true, required_unless_present = "reference")]
    size: Option<Size>,
    /// Use the size of this file in the image
    #[arg(short, long, value_name = "PATH", conflicts_with = "size")]
    reference: Option<OsString>,
    #[command(flatten)]
    labels: LabelArguments,
    /// Do not create files
    #[arg(short = 'c', long)]
    no_create: bool,
}

/// A size, or how to come from the present one to another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Size {
    relation: Relation,
    bytes: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Relation {
    Exactly,
    More,
    Less,
    AtMost,
    AtLeast,
    Down,
    Up,
}

impl Size {
    fn parse(text: &str) -> Result<Self, String> {
        let text = text.trim();
        let (relation, rest) = match text.chars().next() {
            Some('+') => (Relation::More, &text[1..]),
            Some('-') => (Relation::Less, &text[1..]),
            Some('<') => (Relation::AtMost, &text[1..]),
            Some('>') => (Relation::AtLeast, &text[1..]),
            Some('/') => (Relation::Down, &text[1..]),
            Some('%') => (Relation::Up, &text[1..]),
            _ => (Relation::Exactly, text),
        };
        let bytes = parse_size(rest)?;
        if bytes == 0 && matches!(relation, Relation::Down | Relation::Up) {
            return Err("cannot round to a multiple of 0".to_owned());
        }
        Ok(Self { relation, bytes })
    }

    /// From the present size; `None` where it would be larger than any file.
    fn apply(self, old: u64) -> Option<u64> {
        Some(match self.relation {
            Relation::Exactly => self.bytes,
            Relation::More => old.checked_add(self.bytes)?,
            Relation::Less => old.saturating_sub(self.bytes),
            Relation::AtMost => old.min(self.bytes),
            Relation::AtLeast => old.max(self.bytes),
            Relation::Down => old - old % self.bytes,
            Relation::Up => old.checked_next_multiple_of(self.bytes)?,
        })
    }
}

impl Edit for Arguments {
    fn run(&self, session: &mut Session) -> Result<(), Failure> {
        session.begin_labels(&self.labels)?;
        let size = match (&self.size, &self.reference) {
            (Some(size), _) => *size,
            (None, Some(reference)) => {
                let found = session.find(reference.as_bytes(), true)?;
                Size { relation: Relation::Exactly, bytes: session.status(&found)?.size_bytes }
            }
            (None, None) => return Err(Failure::usage("--size or --reference is missing")),
        };
        for path in &session.paths(&self.paths, self.globs)? {
            let changed = self.truncate(session, path, size);
            session.report.check(changed);
        }
        Ok(())
    }
}

impl Arguments {
    fn truncate(&self, session: &mut Session, path: &[u8], size: Size) -> Result<(), Failure> {
        let failed = |error: Error| explained(error).about_path(path);
        let too_large = || failed(OperationError::FileTooLarge.into());
        match session.find_if_there(path, true)? {
            Some(file) => {
                let old = session.status(&file)?.size_bytes;
                let new = size.apply(old).ok_or_else(too_large)?;
                let filesystem = session.filesystem();
                filesystem.set_size(&file, new, contents::now(filesystem)).map_err(failed)?;
                if new == old {
                    // POSIX: the times change even if the size does not.
                    let modification_time = Some(filesystem.now());
                    let changes = AttributeChanges { modification_time, ..AttributeChanges::default() };
                    filesystem.set_attributes(&file, &changes).map_err(failed)?;
                }
            }
            None if self.no_create => return Ok(()),
            None => {
                let place = session.target_of_links(session.place(path)?)?;
                let size_bytes = size.apply(0).ok_or_else(too_large)?;
                session.deposit(
                    &place,
                    Deposit {
                        kind: Kind::Regular(Source::Bytes(&[]), size_bytes),
                        permissions: 0o666,
                        owner: Owner::default(),
                        kept: Kept::default(),
                    },
                )?;
            }
        }
        session.report.done("changed size of", path);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_from_sizes() {
        for (text, old, new) in [
            ("10", 5, Some(10)),
            ("+1K", 5, Some(1029)),
            ("-10", 5, Some(0)),
            ("<3", 5, Some(3)),
            (">3", 5, Some(5)),
            ("/4", 7, Some(4)),
            ("%4", 7, Some(8)),
            ("+1", u64::MAX, None),
        ] {
            assert_eq!(Size::parse(text).unwrap().apply(old), new, "{text}");
        }
        assert!(Size::parse("/0").is_err() && Size::parse("x").is_err());
    }
}
