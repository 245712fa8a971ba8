//! `uxfs touch`: times, and empty files.

use std::{ffi::OsString, os::unix::ffi::OsStrExt};

use uxfs_filesystem::operations::set_attributes::AttributeChanges;
use uxfs_volume::{
    error::OperationError,
    inode::{FileType, Timestamp},
};

use crate::{
    commands::edit::Edit,
    edit::{
        contents::Source,
        deposit::{Deposit, Kept, Kind},
        labels::LabelArguments,
        people::Owner,
        session::{Session, explained},
        time::{parse_date, parse_stamp},
    },
    failure::Failure,
    glob::{self, GlobArguments},
};

/// Arguments of `uxfs touch`.
#[derive(Debug, clap::Args)]
#[command(
    disable_help_flag = true,
    after_help = format!("Example: uxfs touch -d 2026-11-20T13:00:14Z disk.img /etc/os-release\n\
                  Times without a zone are UTC.\n{}", glob::HELP)
)]
pub struct Arguments {
    /// Paths in the image; missing files are created empty
    #[arg(value_name = "PATH", required = true)]
    paths: Vec<OsString>,
    #[command(flatten)]
    globs: GlobArguments,
    /// Change the access time only
    #[arg(short, long)]
    access: bool,
    /// Change the modification time only
    #[arg(short, long)]
    modification: bool,
    /// Set this time: 2026-11-20, "2026-11-20 13:00:14.5 +0100", @SECONDS, now
    #[arg(short, long, value_name = "TIME", allow_hyphen_values = true)]
    date: Option<String>,
    /// Set this time: `[[CC]YY]MMDDhhmm[.ss]`
    #[arg(short = 't', value_name = "STAMP", conflicts_with = "date")]
    stamp: Option<String>,
    /// Use the times of this file in the image
    #[arg(short, long, value_name = "PATH", conflicts_with_all = ["date", "stamp"])]
    reference: Option<OsString>,
    #[command(flatten)]
    labels: LabelArguments,
    /// Do not create files
    #[arg(short = 'c', long)]
    no_create: bool,
    /// Change symbolic links themselves, not their targets
    #[arg(short = 'h', long)]
    no_dereference: bool,
    /// Print help
    #[arg(long, action = clap::ArgAction::Help)]
    help: Option<bool>,
}

impl Edit for Arguments {
    fn run(&self, session: &mut Session) -> Result<(), Failure> {
        session.begin_labels(&self.labels)?;
        let times = self.times(session)?;
        for path in &session.paths(&self.paths, self.globs)? {
            let touched = self.touch(session, path, times);
            session.report.check(touched);
        }
        Ok(())
    }
}

impl Arguments {
    /// Of access and of modification.
    fn times(&self, session: &Session) -> Result<[Option<Timestamp>; 2], Failure> {
        let now = session.filesystem().now();
        let [access, modification] = if let Some(reference) = &self.reference {
            let found = session.find(reference.as_bytes(), !self.no_dereference)?;
            let status = session.status(&found)?;
            [status.access_time, status.modification_time]
        } else {
            let time = match (&self.date, &self.stamp) {
                (Some(date), _) => parse_date(date, now).map_err(Failure::usage)?,
                (_, Some(stamp)) => parse_stamp(stamp, now).map_err(Failure::usage)?,
                _ => now,
            };
            [time; 2]
        };
        let both = self.access == self.modification;
        Ok([(both || self.access).then_some(access), (both || self.modification).then_some(modification)])
    }

    fn touch(
        &self,
        session: &mut Session,
        path: &[u8],
        times: [Option<Timestamp>; 2],
    ) -> Result<(), Failure> {
        let [access, modification] = times;
        if let Some(handle) = session.find_if_there(path, !self.no_dereference)? {
            let is_directory = session.status(&handle)?.file_type == FileType::Directory;
            if path.ends_with(b"/") && !is_directory {
                return Err(explained(OperationError::NotADirectory.into()).about_path(path));
            }
            let changes = AttributeChanges {
                access_time: access,
                modification_time: modification,
                ..AttributeChanges::default()
            };
            let changed = session.filesystem().set_attributes(&handle, &changes);
            return changed.map_err(|error| explained(error).about_path(path));
        }
        if self.no_create || self.no_dereference {
            return Ok(());
        }
        let place = session.target_of_links(session.place(path)?)?;
        if place.is_directory_wanted {
            return Err(place.failure(OperationError::NotFound));
        }
        let handle = session.deposit(
            &place,
            Deposit {
                kind: Kind::Regular(Source::Bytes(&[]), 0),
                permissions: 0o666,
                owner: Owner::default(),
                kept: Kept { access, modification, ..Kept::default() },
            },
        )?;
        drop(handle);
        session.report.done("created", path);
        Ok(())
    }
}
