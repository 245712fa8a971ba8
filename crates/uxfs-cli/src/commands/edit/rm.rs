//! `uxfs rm` and `uxfs rmdir`: taking names away.

use std::ffi::OsString;

use crate::{
    commands::edit::Edit,
    edit::session::Session,
    failure::Failure,
    glob::{self, GlobArguments},
};

/// Arguments of `uxfs rm`.
#[derive(Debug, clap::Args)]
#[command(after_help = format!("Examples: uxfs rm -r disk.img /var/cache/apt\n          uxfs rm disk.img '/var/log/*.gz'\n{}", glob::HELP))]
pub struct Arguments {
    /// Paths in the image
    #[arg(value_name = "PATH")]
    paths: Vec<OsString>,
    #[command(flatten)]
    globs: GlobArguments,
    /// Directories with all that they hold
    #[arg(short, long, visible_short_alias = 'R')]
    recursive: bool,
    /// Ignore missing files
    #[arg(short, long)]
    force: bool,
    /// Report each file
    #[arg(short, long)]
    verbose: bool,
}

impl Edit for Arguments {
    fn run(&self, session: &mut Session) -> Result<(), Failure> {
        session.report.is_verbose = self.verbose;
        if self.paths.is_empty() && !self.force {
            return Err(Failure::usage("PATH is missing"));
        }
        for path in &session.paths(&self.paths, self.globs)? {
            let removed = self.remove(session, path);
            session.report.check(removed);
        }
        Ok(())
    }
}

impl Arguments {
    fn remove(&self, session: &mut Session, path: &[u8]) -> Result<(), Failure> {
        if self.force && !session.is_there(path)? {
            return Ok(());
        }
        let place = session.place(path)?;
        session.remove(&place, self.recursive).map(drop)
    }
}

/// Arguments of `uxfs rmdir`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example: uxfs rmdir disk.img /mnt/old")]
pub struct RmdirArguments {
    /// Paths of empty directories in the image
    #[arg(value_name = "PATH", required = true)]
    paths: Vec<OsString>,
    #[command(flatten)]
    globs: GlobArguments,
    /// Remove parent directories as well, as far as they become empty
    #[arg(short, long)]
    parents: bool,
    /// Ignore directories that are not empty
    #[arg(long)]
    ignore_fail_on_non_empty: bool,
    /// Report each directory
    #[arg(short, long)]
    verbose: bool,
}

impl Edit for RmdirArguments {
    fn run(&self, session: &mut Session) -> Result<(), Failure> {
        session.report.is_verbose = self.verbose;
        for path in &session.paths(&self.paths, self.globs)? {
            let removed = self.remove(session, path);
            session.report.check(removed);
        }
        Ok(())
    }
}

impl RmdirArguments {
    fn remove(&self, session: &mut Session, path: &[u8]) -> Result<(), Failure> {
        let mut path = path;
        loop {
            let place = session.place(path)?;
            if self.ignore_fail_on_non_empty && !is_empty(session, path)? {
                return Ok(());
            }
            session.remove_name(&place, true)?;
            let stem = path.iter().rposition(|byte| *byte != b'/').map_or(0, |last| last + 1);
            let slash = path.get(..stem).and_then(|stem| stem.iter().rposition(|byte| *byte == b'/'));
            match slash.and_then(|slash| path.get(..slash)) {
                Some(above) if self.parents && above.iter().any(|byte| *byte != b'/') => path = above,
                _ => return Ok(()),
            }
        }
    }
}

/// Whether a directory has no names; something else counts as empty.
fn is_empty(session: &Session, path: &[u8]) -> Result<bool, Failure> {
    let Some(directory) = session.directory_at(path)? else { return Ok(true) };
    let mut level = crate::edit::walk::Level::new(directory, path.len());
    Ok(level.next(session.filesystem(), path)?.is_none())
}
