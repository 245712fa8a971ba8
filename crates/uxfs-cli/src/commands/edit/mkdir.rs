//! `uxfs mkdir`: new directories.

use std::{ffi::OsString, os::unix::ffi::OsStrExt};

use uxfs_volume::{error::OperationError, inode::FileType};

use crate::{
    commands::edit::Edit,
    edit::{
        deposit::{Deposit, Kept, Kind},
        labels::LabelArguments,
        mode::ModeChange,
        people::Owner,
        session::{Place, Session},
    },
    failure::Failure,
};

/// Arguments of `uxfs mkdir`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example: uxfs mkdir -p disk.img /srv/www/static")]
pub struct Arguments {
    /// Paths in the image
    #[arg(value_name = "PATH", required = true)]
    paths: Vec<OsString>,
    /// Make parent directories as needed, and ignore existing ones
    #[arg(short, long)]
    parents: bool,
    /// Set the permissions, as chmod does, instead of applying the umask
    #[arg(short, long, value_name = "MODE", value_parser = ModeChange::parse)]
    mode: Option<ModeChange>,
    #[command(flatten)]
    labels: LabelArguments,
    /// Report each directory
    #[arg(short, long)]
    verbose: bool,
}

impl Edit for Arguments {
    fn run(&self, session: &mut Session) -> Result<(), Failure> {
        session.begin_labels(&self.labels)?;
        session.report.is_verbose = self.verbose;
        for path in &self.paths {
            let made = self.make(session, path.as_bytes());
            session.report.check(made);
        }
        Ok(())
    }
}

impl Arguments {
    fn make(&self, session: &mut Session, path: &[u8]) -> Result<(), Failure> {
        if self.parents {
            let ends = path.iter().enumerate().filter(|(_, byte)| **byte == b'/').map(|(at, _)| at);
            for end in ends.filter(|end| *end > 0).collect::<Vec<_>>() {
                let (above, rest) = path.split_at(end);
                if rest.iter().all(|byte| *byte == b'/') {
                    break;
                }
                // The caller must be able to create what comes below.
                let place = session.place(above)?;
                self.make_one(session, &place, 0o777, Kept::default())?;
            }
        }
        let place = session.place(path)?;
        let mut kept = Kept::default();
        if let Some(mode) = &self.mode {
            // The directory above may hand its group down.
            let handed = session.status(&place.directory)?.mode & 0o2000;
            kept.permissions = Some(mode.apply(0o777 | handed, true, session.umask));
        }
        self.make_one(session, &place, 0o777, kept)
    }

    fn make_one(
        &self,
        session: &mut Session,
        place: &Place,
        permissions: u16,
        kept: Kept,
    ) -> Result<(), Failure> {
        if self.parents && session.at(place)?.is_some() {
            let found = session.find(&place.path, true)?;
            return match session.status(&found)?.file_type {
                FileType::Directory => Ok(()),
                _ => Err(place.failure(OperationError::Exists)),
            };
        }
        session
            .deposit(place, Deposit { kind: Kind::Directory, permissions, owner: Owner::default(), kept })?;
        session.report.done("created directory", &place.path);
        Ok(())
    }
}
