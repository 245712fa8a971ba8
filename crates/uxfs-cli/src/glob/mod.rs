//! Patterns in paths, as shells have them: `*`, `?`, `[…]` and `**` in an argument stand for the files in the image that fit.
//!
//! An argument that is the name of a file is that file, whatever signs it has. `\` in front of a sign makes it plain. Hidden
//! names need their dot in the pattern; `**` passes them over, and does not go through symbolic links. What fits is sorted by
//! its bytes. Where nothing fits, the argument is reported and passed over.
//!
//! | module | holds |
//! |---|---|
//! | [`pattern`] | one name against one pattern |
//! | [`expand`] | the paths of an image that fit |

pub mod expand;
pub mod pattern;

use std::{ffi::OsString, os::unix::ffi::OsStrExt, sync::Arc};

use uxfs_volume::{
    error::{Error, OperationError},
    inode::Inode,
    volume::Volume,
};

use self::expand::{Complain, Expansion};
use crate::{failure::Failure, kind::Kind, target::Target};

/// The help of commands that take patterns.
pub const HELP: &str = "Patterns in paths (*, ?, [a-z], ** for any depth) stand for the files in the image that fit, unless a file has that \
    very name; \\ makes a sign plain.";

/// The option that turns patterns off.
#[derive(Debug, Clone, Copy, Default, clap::Args)]
pub struct GlobArguments {
    /// Take *, ? and [ in paths as they are
    #[arg(long, visible_alias = "literal")]
    pub no_glob: bool,
}

/// Expands the paths of a command.
#[derive(Debug)]
pub struct Globs<'a> {
    /// The image.
    pub volume: &'a Volume,
    /// Where paths without a slash in front begin; the root without one.
    pub directory: Option<&'a [u8]>,
    /// Off where the option says so, or where a shell has done it.
    pub is_on: bool,
}

impl Globs<'_> {
    /// The paths that an argument stands for: one that it is itself, or all that fit. None where nothing does.
    ///
    /// # Errors
    /// Too many fit.
    pub fn paths<'c>(
        &'c self,
        argument: &OsString,
        complain: &'c mut Complain<'c>,
    ) -> Result<Vec<Target>, Failure> {
        let text = argument.as_bytes();
        let itself = || Ok(vec![Target::parse(argument)]);
        if !self.is_on || !text.iter().any(|byte| b"*?[\\".contains(byte)) {
            return itself();
        }
        let directory = match self.start() {
            Ok(directory) => directory,
            Err(error) => {
                complain(self.directory.unwrap_or(b"/"), &error);
                return Ok(Vec::new());
            }
        };
        match self.volume.resolve_from(&directory, text, false) {
            Err(Error::Operation(OperationError::NotFound | OperationError::NotADirectory)) => {}
            Err(Error::Operation(OperationError::NameTooLong)) => {}
            // Of damage, the command tells.
            Ok(_) | Err(_) => return itself(),
        }
        if !pattern::is_pattern(text) {
            return Ok(vec![Target::Path(unescaped(text))]);
        }
        let paths = Expansion::find(self.volume, directory, text, complain)?;
        Ok(paths.into_iter().map(Target::Path).collect())
    }

    fn start(&self) -> Result<Arc<Inode>, Error> {
        match self.directory {
            Some(directory) => self.volume.resolve(directory, true),
            None => self.volume.root(),
        }
    }
}

/// The name that a text without signs of a pattern stands for.
fn unescaped(text: &[u8]) -> Vec<u8> {
    let parts = text.split(|byte| *byte == b'/');
    let names: Vec<Vec<u8>> =
        parts.map(|part| pattern::Pattern::parse(part).literal().unwrap_or_default()).collect();
    names.join(&b'/')
}

/// The failure of an argument that nothing fits.
pub fn no_match(argument: &OsString) -> Failure {
    let failure = Failure::refused(Kind::NoMatch, "no match: no file in the image fits the pattern");
    failure.about_path(argument.as_bytes())
}
