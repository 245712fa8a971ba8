//! `uxfs ln`: further names, and symbolic links.

use std::{ffi::OsString, os::unix::ffi::OsStrExt};

use uxfs_filesystem::inode::table::InodeHandle;
use uxfs_volume::{error::OperationError, inode::FileType};

use crate::{
    commands::edit::{Edit, operands::Goal},
    edit::{
        deposit::{Deposit, Kept, Kind},
        labels::LabelArguments,
        people::Owner,
        session::{Place, Session, last_name},
    },
    failure::Failure,
    kind,
};

/// Arguments of `uxfs ln`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example: uxfs ln -s disk.img ../run/resolv.conf /etc/resolv.conf")]
pub struct Arguments {
    /// Targets of the links, then the directory or name of the link; a single target is linked in the root directory
    #[arg(value_name = "TARGET... LINK", required = true)]
    paths: Vec<OsString>,
    /// Make symbolic links
    #[arg(short, long)]
    symbolic: bool,
    /// Replace existing files
    #[arg(short, long)]
    force: bool,
    /// Treat LINK as a name if it is a symbolic link to a directory
    #[arg(short, long)]
    no_dereference: bool,
    /// Treat LINK as the new name even if it is a directory
    #[arg(short = 'T', long)]
    no_target_directory: bool,
    /// If TARGET is a symbolic link, link the file that it points to
    #[arg(short = 'L', long)]
    logical: bool,
    /// If TARGET is a symbolic link, link it itself (the default)
    #[arg(short = 'P', long, conflicts_with = "logical")]
    physical: bool,
    #[command(flatten)]
    labels: LabelArguments,
    /// Report each link
    #[arg(short, long)]
    verbose: bool,
}

impl Edit for Arguments {
    fn run(&self, session: &mut Session) -> Result<(), Failure> {
        session.begin_labels(&self.labels)?;
        session.report.is_verbose = self.verbose;
        let (targets, goal) = self.split(session)?;
        for target in targets {
            let linked = self.link(session, target.as_bytes(), &goal);
            session.report.check(linked);
        }
        Ok(())
    }
}

impl Arguments {
    fn split(&self, session: &Session) -> Result<(&[OsString], Goal), Failure> {
        let (link, targets) = match self.paths.as_slice() {
            [_] => return Ok((&self.paths, Goal::Into(b".".to_vec()))),
            paths => paths.split_last().ok_or_else(|| Failure::usage("TARGET is missing"))?,
        };
        let link = link.as_bytes();
        let is_directory = !self.no_target_directory
            && match session.directory_at(link)? {
                None => false,
                Some(_) if !self.no_dereference => true,
                Some(directory) => {
                    session.find_if_there(link, false)?.is_some_and(|found| found.is_same(&directory))
                }
            };
        if is_directory {
            return Ok((targets, Goal::Into(link.to_vec())));
        }
        if targets.len() > 1 {
            return Err(Failure::refused(
                kind::Kind::NotADirectory,
                "several links need an existing directory",
            )
            .about_path(link));
        }
        Ok((targets, Goal::As(link.to_vec())))
    }

    fn link(&self, session: &mut Session, target: &[u8], goal: &Goal) -> Result<(), Failure> {
        let place = match goal {
            Goal::Into(directory) if last_name(target).is_empty() => {
                return Err(
                    Failure::refused(kind::Kind::InvalidName, "the link needs a name").about_path(directory)
                );
            }
            goal => goal.place(session, target)?,
        };
        match session.at(&place)? {
            None => self.make(session, target, &place)?,
            Some(_) if !self.force => return Err(place.failure(OperationError::Exists)),
            Some(existing) => {
                if session.status(&existing)?.file_type == FileType::Directory {
                    return Err(place.failure(OperationError::IsADirectory));
                }
                if self.is_one_file(session, target, &existing)? {
                    let is_only_name = session.status(&existing)?.link_count == 1;
                    let from = session.place(target)?;
                    if is_only_name || (from.directory.is_same(&place.directory) && from.name == place.name) {
                        return Err(Failure::refused(kind::Kind::SameFile, "both are the same file")
                            .about_path(&place.path));
                    }
                    if !self.symbolic {
                        return Ok(());
                    }
                }
                // Under another name first, so that there is always one or the other.
                let beside = session.unused_place(&place)?;
                self.make(session, target, &beside)?;
                session.rename_over(&beside, &place)?;
            }
        }
        session.report.done_with("linked", &place.path, Some(("->", target)));
        Ok(())
    }

    /// Whether replacing this would take away what the link is to lead to.
    fn is_one_file(&self, session: &Session, target: &[u8], existing: &InodeHandle) -> Result<bool, Failure> {
        let found = match session.find_if_there(target, self.symbolic || self.logical) {
            // Symbolic links may lead nowhere, and in circles.
            Err(_) if self.symbolic => None,
            found => found?,
        };
        Ok(found.is_some_and(|found| found.is_same(existing)))
    }

    fn make(&self, session: &mut Session, target: &[u8], place: &Place) -> Result<(), Failure> {
        if place.is_directory_wanted {
            return Err(place.failure(OperationError::NotFound));
        }
        if self.symbolic {
            if target.is_empty() {
                let words = "the target of a symbolic link cannot be empty";
                return Err(Failure::refused(kind::Kind::InvalidName, words).about_path(&place.path));
            }
            let (kind, owner) = (Kind::Symlink(target), Owner::default());
            let deposit = Deposit { kind, permissions: 0o777, owner, kept: Kept::default() };
            return session.deposit(place, deposit).map(drop);
        }
        let file = session.find(target, self.logical)?;
        if session.status(&file)?.file_type == FileType::Directory {
            return Err(Failure::refused(kind::Kind::Permission, "a directory cannot have hard links")
                .about_path(target));
        }
        let linked = session.filesystem().link(&file, &place.directory, &place.name);
        linked.map_err(|error| place.failure(error))
    }
}
