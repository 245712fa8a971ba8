//! Commands that change files in an image, one file each. Each is durable when it returns; in the shell all of them share
//! one mount.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering::Relaxed},
};

use clap::Args;

use crate::{
    commands::Context,
    edit::{
        report::Report,
        session::{EditArguments, Session},
    },
    failure::{About, Failure, Outcome},
    output::set_image,
    progress::{
        self, Bar, Measure, Progress,
        closing::{Closing, free_space},
    },
    remains::Remains,
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

/// What a signal leaves in the image.
const LEFT: &str = "the image has what was done up to some moment, each file whole; the next command that changes it replays its log";

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
        set_image(&self.image.image);
        let mut session = self.image.open(context.json)?;
        let remains = Remains::begin(LEFT);
        let watched = Watched::begin(&session.report, self.image.quiet);
        let done = self.arguments.run(&mut session);
        session.end_labels();
        let told = session.report.finish();
        let free = free_space(session.filesystem().statistics());
        let closed = session.close().about_image(&self.image.image);
        // The first that went wrong is what the others come from.
        done?;
        closed?;
        drop(remains);
        watched.end(free);
        Ok(told)
    }
}

/// A command that is watched: the line while it works, and the sentence at its end where that took a while.
struct Watched {
    done: Arc<AtomicU64>,
    closing: Closing,
    is_quiet: bool,
    progress: Progress,
}

impl Watched {
    fn begin(report: &Report, is_quiet: bool) -> Self {
        let done = report.done_count();
        let shown = Arc::clone(&done);
        let poll = move |bar: &Bar| bar.set(shown.load(Relaxed), progress::moved_bytes());
        let progress = Progress::polled("working", Measure::Things("files", None), is_quiet, poll);
        Self { done, closing: Closing::begin("changed"), is_quiet, progress }
    }

    fn end(mut self, free: (u64, u64)) {
        drop(self.progress);
        self.closing.things.0 = self.done.load(Relaxed);
        self.closing.bytes = progress::moved_bytes();
        self.closing.free = Some(free);
        if self.closing.is_long() {
            self.closing.tell(self.is_quiet);
        }
    }
}
