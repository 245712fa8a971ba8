//! `uxfs mv`: other names.

use std::os::unix::ffi::OsStrExt;

use uxfs_filesystem::operations::rename::RenameOptions;
use uxfs_volume::{error::OperationError, inode::FileType};

use crate::{
    commands::edit::{
        Edit,
        operands::{Goal, Operands},
    },
    edit::session::Session,
    failure::Failure,
    kind::Kind,
};

/// Arguments of `uxfs mv`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples: uxfs mv disk.img /etc/motd /etc/motd.old\n          \
                  uxfs mv -T --exchange disk.img /srv/current /srv/next")]
pub struct Arguments {
    #[command(flatten)]
    operands: Operands,
    /// Do not overwrite existing files
    #[arg(short, long)]
    no_clobber: bool,
    /// Overwrite existing files (the default)
    #[arg(short, long, conflicts_with = "no_clobber")]
    force: bool,
    /// Exchange the two files: each gets the other's name
    #[arg(long, conflicts_with = "no_clobber")]
    exchange: bool,
    /// Report each file
    #[arg(short, long)]
    verbose: bool,
}

impl Edit for Arguments {
    fn run(&self, session: &mut Session) -> Result<(), Failure> {
        session.report.is_verbose = self.verbose;
        let (sources, goal) = self.operands.split(session)?;
        session.just_made.begin(sources.len());
        for source in sources {
            let moved = self.rename(session, source.as_bytes(), &goal);
            session.report.check(moved);
        }
        Ok(())
    }
}

impl Arguments {
    fn rename(&self, session: &mut Session, source: &[u8], goal: &Goal) -> Result<(), Failure> {
        let from = session.place(source)?;
        let Some(moved) = session.at(&from)? else { return Err(from.failure(OperationError::NotFound)) };
        let is_directory = session.status(&moved)?.file_type == FileType::Directory;
        let to = goal.place(session, source)?;
        let has_slash = from.is_directory_wanted || to.is_directory_wanted;
        if has_slash && !is_directory && !self.exchange {
            let place = if from.is_directory_wanted { &from } else { &to };
            return Err(place.failure(OperationError::NotADirectory));
        }
        let other = session.at(&to)?;
        if self.no_clobber && other.is_some() {
            return Ok(());
        }
        let is_one_file = other.as_ref().is_some_and(|other| other.is_same(&moved));
        if is_one_file {
            if from.directory.is_same(&to.directory) && from.name == to.name {
                return Err(Failure::refused(Kind::SameFile, "both are the same name").about_path(&to.path));
            }
            if !self.exchange {
                return Err(Failure::refused(Kind::SameFile, "both are the same file").about_path(&to.path));
            }
        }
        if let Some(other) = &other {
            session.just_made.refuse(other, &to)?;
        }
        session.just_made.add(&moved);
        drop((moved, other));
        let options = RenameOptions { exchange: self.exchange, ..RenameOptions::default() };
        session
            .filesystem()
            .rename(&from.directory, &from.name, &to.directory, &to.name, &options)
            .map_err(|error| to.failure(error).about_path(&from.path))?;
        let action = if self.exchange { "exchanged" } else { "renamed" };
        session.report.done_with(action, &from.path, Some(("->", &to.path)));
        Ok(())
    }
}
