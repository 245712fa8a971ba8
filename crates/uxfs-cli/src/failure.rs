//! From an error to a message for people and an exit code for programs.

use std::{io, process::ExitCode};

use serde_json::json;
use uxfs_block::words::without_error_numbers;
use uxfs_journal::error::ShutdownCause;
use uxfs_volume::error::Error;

use crate::output::{message, notice};

pub use crate::complaints::Complaints;
use crate::complaints::kind_of;

/// Exit codes of `uxfs`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Exit {
    /// Done.
    Success = 0,
    /// The operation failed.
    Failed = 1,
    /// The command line was wrong.
    Usage = 2,
    /// The image is damaged.
    Corruption = 3,
    /// The image needs a feature that uxfs does not have.
    Unsupported = 4,
}

/// Why a command ended before its work was done.
#[derive(Debug)]
pub struct Failure {
    exit: Exit,
    message: String,
    /// The kind under which it is counted among many.
    kind: &'static str,
    is_quiet: bool,
}

/// Result of a command.
pub type Outcome = Result<Exit, Failure>;

impl Failure {
    /// The command line asks for something impossible.
    pub fn usage(message: impl Into<String>) -> Self {
        Self { exit: Exit::Usage, message: message.into(), kind: "usage", is_quiet: false }
    }

    /// The operation failed.
    pub fn failed(message: impl Into<String>) -> Self {
        Self { exit: Exit::Failed, message: message.into(), kind: "failed", is_quiet: false }
    }

    /// What was read is damaged.
    pub fn corruption(message: impl Into<String>) -> Self {
        Self { exit: Exit::Corruption, message: message.into(), kind: "damage", is_quiet: false }
    }

    /// It needs a feature that uxfs does not have.
    pub fn unsupported(message: impl Into<String>) -> Self {
        Self { exit: Exit::Unsupported, message: message.into(), kind: "not supported", is_quiet: false }
    }

    /// As a failure of a command whose exit code 1 says something else.
    #[must_use]
    pub(crate) fn into_trouble(mut self) -> Self {
        if self.exit == Exit::Failed {
            self.exit = Exit::Usage;
        }
        self
    }

    /// Adds the object or the operation to the message.
    #[must_use]
    pub fn about(mut self, subject: impl std::fmt::Display) -> Self {
        self.message = format!("{subject}: {}", self.message);
        self
    }

    /// As [`about`](Self::about) a path in an image.
    #[must_use]
    pub fn about_path(self, path: &[u8]) -> Self {
        self.about(crate::edit::report::shown(path))
    }

    /// Names an option as another command has it.
    #[must_use]
    pub fn with_option(mut self, option: &str, instead: &str) -> Self {
        self.message = self.message.replace(option, instead);
        self
    }

    /// Adds a remedy.
    #[must_use]
    pub fn with_remedy(mut self, remedy: &str) -> Self {
        self.message = format!("{} ({remedy})", self.message);
        self
    }

    /// Kind, exit code and message, unless it is to be kept quiet.
    pub(crate) fn parts(&self) -> Option<(&'static str, Exit, &str)> {
        (!self.is_quiet).then_some((self.kind, self.exit, &self.message))
    }

    /// Prints the message, unless the reader of our output has gone, and gives the exit code.
    pub fn report(&self, json: bool) -> ExitCode {
        ExitCode::from(self.tell(json) as u8)
    }

    /// As [`report`](Self::report), for commands that continue.
    pub fn tell(&self, json: bool) -> Exit {
        if self.is_quiet {
            return Exit::Success;
        }
        if json {
            let words = without_error_numbers(&self.message);
            message!("{}", json!({"error": {"message": words, "exit_code": self.exit as u8}}));
        } else {
            notice!("{}", self.message);
        }
        self.exit
    }
}

/// The exit code that an error of the core stands for.
pub fn exit_of(error: &Error) -> Exit {
    match error {
        Error::Corrupt(_) => Exit::Corruption,
        Error::Unsupported(_) => Exit::Unsupported,
        // Damage in the middle of a change shut the journal down.
        error if error.is_corruption() => Exit::Corruption,
        _ => Exit::Failed,
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self { exit: exit_of(&error), message: error.to_string(), kind: kind_of(&error), is_quiet: false }
    }
}

impl From<io::Error> for Failure {
    /// Errors of our own output. A closed pipe ends the command quietly: the reader has all it wanted.
    fn from(error: io::Error) -> Self {
        Self {
            exit: Exit::Failed,
            message: format!("cannot write output: {error}"),
            kind: "output",
            is_quiet: error.kind() == io::ErrorKind::BrokenPipe,
        }
    }
}

impl From<serde_json::Error> for Failure {
    fn from(error: serde_json::Error) -> Self {
        io::Error::from(error).into()
    }
}

/// Adds the subject to an error on its way up.
pub trait About<T> {
    /// Names what the failed operation was about: a path, an inode, an image.
    fn about(self, subject: impl std::fmt::Display) -> Result<T, Failure>;
}

impl<T, E: Into<Failure>> About<T> for Result<T, E> {
    fn about(self, subject: impl std::fmt::Display) -> Result<T, Failure> {
        self.map_err(|error| error.into().about(subject))
    }
}
