//! `uxfs chown`: owners and groups.

use std::{ffi::OsString, os::unix::ffi::OsStrExt};

use uxfs_filesystem::operations::set_attributes::{AttributeChanges, Writer, mode_without_set_id};
use uxfs_volume::{
    error::{Error, OperationError},
    inode::FileType,
};

use crate::{
    commands::edit::Edit,
    edit::{
        people::Owner,
        session::{Session, explained},
        walk::{Found, Met},
    },
    failure::Failure,
    glob::{self, GlobArguments},
    kind::Kind,
};

/// Arguments of `uxfs chown`.
#[derive(Debug, clap::Args)]
#[command(
    disable_help_flag = true,
    after_help = format!("Example: uxfs chown -R disk.img www-data: /srv/www\n\
                  Names are looked up in the image's own /etc/passwd and /etc/group, then in the host's. As in Linux, a \
                  change of owner clears set-id bits and capabilities.\n{}", glob::HELP)
)]
pub struct Arguments {
    /// USER, USER:GROUP, USER: (with the user's own group) or :GROUP; names or numbers
    #[arg(value_name = "OWNER")]
    owner: OsString,
    /// Paths in the image
    #[arg(value_name = "PATH", required = true)]
    paths: Vec<OsString>,
    #[command(flatten)]
    globs: GlobArguments,
    /// Change directories recursively; symbolic links are changed themselves
    #[arg(short = 'R', long)]
    recursive: bool,
    /// Change symbolic links themselves, not their targets
    #[arg(short = 'h', long)]
    no_dereference: bool,
    /// Report each file
    #[arg(short, long)]
    verbose: bool,
    /// Print help
    #[arg(long, action = clap::ArgAction::Help)]
    help: Option<bool>,
}

impl Edit for Arguments {
    fn run(&self, session: &mut Session) -> Result<(), Failure> {
        session.report.is_verbose = self.verbose;
        let owner = session
            .people()
            .owner(self.owner.as_bytes())
            .map_err(|words| Failure::refused(Kind::Invalid, words))?;
        for path in &session.paths(&self.paths, self.globs)? {
            let found = session.find(path, !self.no_dereference && !self.recursive).and_then(|handle| {
                let file_type = session.status(&handle)?.file_type;
                Ok(Found { handle, file_type })
            });
            let Some(found) = session.report.check(found) else { continue };
            if self.recursive {
                session.walk(found, path, |session, met| change(session, met, owner))?;
            } else {
                let Found { handle, file_type } = &found;
                let changed = change(session, Met { handle, file_type: *file_type, path }, owner);
                session.report.check(changed);
            }
        }
        Ok(())
    }
}

fn change(session: &mut Session, met: Met<'_>, owner: Owner) -> Result<(), Failure> {
    let old = session.status(met.handle)?;
    let (uid, gid) = (owner.uid.unwrap_or(old.uid), owner.gid.unwrap_or(old.gid));
    let is_directory = met.file_type == FileType::Directory;
    let kept_mode = if is_directory { old.mode } else { mode_without_set_id(old.mode, Writer::OfGroup) };
    let changes = AttributeChanges {
        uid: owner.uid,
        gid: owner.gid,
        permissions: (kept_mode != old.mode).then_some(kept_mode & 0o7777),
        ..AttributeChanges::default()
    };
    let filesystem = session.filesystem();
    let failed = |error: Error| explained(error).about_path(met.path);
    // As in Linux, the capability goes first: where the attributes are damaged, the owner stays.
    if !is_directory {
        match filesystem.remove_xattr(met.handle, b"security.capability") {
            Ok(()) | Err(Error::Operation(OperationError::NoSuchAttribute)) => {}
            Err(error) => return Err(failed(error)),
        }
    }
    filesystem.set_attributes(met.handle, &changes).map_err(failed)?;
    if (uid, gid) != (old.uid, old.gid) {
        let owner = format!("{uid}:{gid}");
        session.report.done_with("changed owner of", met.path, Some(("to", owner.as_bytes())));
    }
    Ok(())
}
