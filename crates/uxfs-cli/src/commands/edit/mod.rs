//! Commands that change files in an image, one file each. Each is durable when it returns; in the shell all of them share
//! one mount.

use clap::Args;

use crate::{
    commands::Context,
    edit::session::{EditArguments, Session},
    failure::{About, Failure, Outcome},
};

pub mod chmod;
pub mod chown;
pub mod cp;
pub mod ln;
pub mod mkdir;
pub mod mknod;
pub mod mv;
pub mod operands;
pub mod put;
pub mod rm;
pub mod setfattr;
pub mod touch;
pub mod truncate;

/// A command that changes files.
pub trait Edit: Args {
    /// Does it. Complaints about single files are in the session's report.
    ///
    /// # Errors
    /// Errors that end the command.
    fn run(&self, session: &mut Session) -> Result<(), Failure>;
}

/// A command with the image that it changes.
#[derive(Debug, Args)]
pub struct InImage<T: Edit> {
    #[command(flatten)]
    image: EditArguments,
    #[command(flatten)]
    arguments: T,
}

impl<T: Edit> InImage<T> {
    /// Opens the image, runs the command and closes the image, so that all is durable.
    pub fn run(&self, context: &Context) -> Outcome {
        let mut session = self.image.open(context.json)?;
        let done = self.arguments.run(&mut session);
        let told = session.report.finish();
        let closed = session.close().about_image(&self.image.image);
        // The first that went wrong is what the others come from.
        done?;
        closed?;
        Ok(told)
    }
}
