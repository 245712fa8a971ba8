//! `SOURCE... TARGET`, as cp, mv, ln and put have it.

use std::{ffi::OsString, os::unix::ffi::OsStrExt};

use crate::{
    edit::session::{Place, Session, join, last_name},
    failure::Failure,
    kind::Kind,
};

/// Sources and a target.
#[derive(Debug, clap::Args)]
pub struct Operands {
    /// Files, then the target directory or name; with -t only files
    #[arg(value_name = "SOURCE... TARGET", required = true)]
    pub paths: Vec<OsString>,
    /// Put all files into this directory
    #[arg(short = 't', long, value_name = "DIR", conflicts_with = "no_target_directory")]
    pub target_directory: Option<OsString>,
    /// Treat TARGET as the new name even if it is a directory
    #[arg(short = 'T', long)]
    pub no_target_directory: bool,
}

/// Where things go.
#[derive(Debug)]
pub enum Goal {
    /// Into this directory, under their own names.
    Into(Vec<u8>),
    /// This is the name.
    As(Vec<u8>),
}

impl Operands {
    /// Sources, and where they go.
    ///
    /// # Errors
    /// Several sources and a target that is no directory; too few operands.
    pub fn split(&self, session: &Session) -> Result<(&[OsString], Goal), Failure> {
        if let Some(directory) = &self.target_directory {
            let directory = directory.as_bytes();
            if session.directory_at(directory)?.is_none() {
                return Err(Failure::refused(Kind::NotADirectory, "not a directory").about_path(directory));
            }
            return Ok((&self.paths, Goal::Into(directory.to_vec())));
        }
        let Some((target, sources)) = self.paths.split_last().filter(|(_, sources)| !sources.is_empty())
        else {
            return Err(Failure::usage("SOURCE or TARGET is missing"));
        };
        let target = target.as_bytes();
        if !self.no_target_directory && session.directory_at(target)?.is_some() {
            return Ok((sources, Goal::Into(target.to_vec())));
        }
        if sources.len() > 1 {
            let failure = Failure::refused(Kind::NotADirectory, "several files need an existing directory");
            return Err(failure.about_path(target));
        }
        Ok((sources, Goal::As(target.to_vec())))
    }
}

impl Goal {
    /// The place of one source.
    ///
    /// # Errors
    /// There is no such directory.
    pub fn place(&self, session: &Session, source: &[u8]) -> Result<Place, Failure> {
        match self {
            Self::As(target) => session.place(target),
            Self::Into(directory) => match last_name(source) {
                // The contents of a directory: they go into the target directory itself.
                b"" | b"." | b".." => session.place(directory),
                name => session.place(&join(directory, name)),
            },
        }
    }
}
