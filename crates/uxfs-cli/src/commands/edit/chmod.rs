//! `uxfs chmod`: permissions.

use std::ffi::OsString;

use uxfs_filesystem::operations::set_attributes::AttributeChanges;
use uxfs_volume::inode::FileType;

use crate::{
    commands::edit::Edit,
    edit::{
        mode::ModeChange,
        session::{Session, explained},
        walk::{Found, Met},
    },
    failure::Failure,
    glob::{self, GlobArguments},
};

/// Arguments of `uxfs chmod`.
#[derive(Debug, clap::Args)]
#[command(after_help = format!("Examples: uxfs chmod disk.img 644 /etc/passwd\n          \
                  uxfs chmod -R disk.img -- u+rwX,go-w /srv\n\
                  ACLs are updated with the mode, as in Linux. Files that have the mode already are left alone.\n{}", glob::HELP))]
pub struct Arguments {
    /// Octal (755) or symbolic (u+x,go-w)
    #[arg(value_name = "MODE", value_parser = ModeChange::parse, allow_hyphen_values = true)]
    mode: ModeChange,
    /// Paths in the image
    #[arg(value_name = "PATH", required = true)]
    paths: Vec<OsString>,
    #[command(flatten)]
    globs: GlobArguments,
    /// Change directories recursively; symbolic links are skipped
    #[arg(short = 'R', long)]
    recursive: bool,
    /// Report each file
    #[arg(short, long)]
    verbose: bool,
}

impl Edit for Arguments {
    fn run(&self, session: &mut Session) -> Result<(), Failure> {
        session.report.is_verbose = self.verbose;
        for path in &session.paths(&self.paths, self.globs)? {
            let found = session.find(path, true).and_then(|handle| {
                let file_type = session.status(&handle)?.file_type;
                Ok(Found { handle, file_type })
            });
            let Some(found) = session.report.check(found) else { continue };
            if self.recursive {
                session.walk(found, path, |session, met| self.change(session, met))?;
            } else {
                let Found { handle, file_type } = &found;
                let changed = self.change(session, Met { handle, file_type: *file_type, path });
                session.report.check(changed);
            }
        }
        Ok(())
    }
}

impl Arguments {
    fn change(&self, session: &mut Session, met: Met<'_>) -> Result<(), Failure> {
        if met.file_type == FileType::SymbolicLink {
            return Ok(());
        }
        let old = session.status(met.handle)?.mode;
        let new = self.mode.apply(old, met.file_type == FileType::Directory, session.umask);
        if new == old & 0o7777 {
            return Ok(());
        }
        let changes = AttributeChanges { permissions: Some(new), ..AttributeChanges::default() };
        session
            .filesystem()
            .set_attributes(met.handle, &changes)
            .map_err(|error| explained(error).about_path(met.path))?;
        let mode = format!("{new:04o}");
        session.report.done_with("changed mode of", met.path, Some(("to", mode.as_bytes())));
        Ok(())
    }
}
