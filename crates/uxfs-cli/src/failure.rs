//! From an error to a message for people, a word and an exit code for programs.

use std::{borrow::Cow, io, os::unix::ffi::OsStrExt, path::Path, process::ExitCode};

use serde_json::{Value, json};
use uxfs_block::words::without_error_numbers;
use uxfs_format::units::InodeNumber;
use uxfs_journal::error::ShutdownCause;
use uxfs_volume::error::Error;

pub use crate::complaints::Complaints;
use crate::{
    cause::{cause_of, errno_name, errno_of, path_of},
    kind::Kind,
    output::{self, message, put_name, say},
    target::Target,
    text::{escaped, shown_path},
};

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

/// What a failure is about.
#[derive(Debug, Clone, Default)]
struct Objects {
    /// The image, as the command line has it.
    image: Option<Vec<u8>>,
    /// A path in the image.
    path: Option<Vec<u8>>,
    /// A path of the host.
    host_path: Option<Vec<u8>>,
    /// An inode of the image that was named by its number.
    inode: Option<u64>,
}

/// Why a command ended before its work was done, or what is wrong with one of several objects.
#[derive(Debug)]
pub struct Failure {
    exit: Exit,
    message: String,
    kind: Kind,
    /// Linux's number.
    errno: Option<i32>,
    /// In words, what it is counted as among many.
    counted_as: &'static str,
    /// The structure that is damaged.
    structure: Option<&'static str>,
    /// Boxed: the rare case must not widen every result.
    objects: Box<Objects>,
    /// The message names the image.
    names_image: bool,
    /// The message ends with a remedy.
    has_remedy: bool,
    /// It is about a file of the host that the caller knows.
    is_of_host_tree: bool,
    is_quiet: bool,
}

/// Result of a command.
pub type Outcome = Result<Exit, Failure>;

impl Failure {
    /// Of this kind.
    pub fn new(kind: Kind, exit: Exit, message: impl Into<String>) -> Self {
        Self {
            exit,
            message: message.into(),
            kind,
            errno: None,
            counted_as: kind.words(),
            structure: None,
            objects: Box::default(),
            names_image: false,
            has_remedy: false,
            is_of_host_tree: false,
            is_quiet: false,
        }
    }

    /// The command line asks for something impossible.
    pub fn usage(message: impl Into<String>) -> Self {
        Self::new(Kind::Usage, Exit::Usage, message)
    }

    /// The operation failed, for a reason that no other kind has.
    pub fn failed(message: impl Into<String>) -> Self {
        Self::new(Kind::Failed, Exit::Failed, message)
    }

    /// The operation is refused.
    pub fn refused(kind: Kind, message: impl Into<String>) -> Self {
        Self::new(kind, Exit::Failed, message)
    }

    /// The operation failed because of this error, whose first known cause says of which kind it is.
    pub fn caused_by(error: &(dyn std::error::Error + 'static)) -> Self {
        let (kind, errno) = cause_of(error).unwrap_or((Kind::Failed, None));
        let failure = Self { errno, ..Self::new(kind, Exit::Failed, error.to_string()) };
        match path_of(error) {
            Some(path) => failure.at_host(path),
            None => failure,
        }
    }

    /// What was read is damaged.
    pub fn corruption(message: impl Into<String>) -> Self {
        Self::new(Kind::Damage, Exit::Corruption, message)
    }

    /// It needs a feature that uxfs does not have.
    pub fn unsupported(message: impl Into<String>) -> Self {
        Self::new(Kind::UnsupportedFeature, Exit::Unsupported, message)
    }

    /// As a failure of a command whose exit code 1 says something else.
    #[must_use]
    pub(crate) fn into_trouble(mut self) -> Self {
        if self.exit == Exit::Failed {
            self.exit = Exit::Usage;
        }
        self
    }

    /// With another exit code.
    #[must_use]
    pub(crate) fn with_exit(mut self, exit: Exit) -> Self {
        self.exit = exit;
        self
    }

    /// In words, what it is counted as among many.
    #[must_use]
    pub(crate) fn counted_as(mut self, words: &'static str) -> Self {
        self.counted_as = words;
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
        self.at_path(path).about(shown_path(path))
    }

    /// As [`about`](Self::about) a file that the command line names.
    #[must_use]
    pub fn about_target(self, target: &Target) -> Self {
        match target {
            Target::Path(path) => self.about_path(path),
            Target::Inode(number) => self.with_inode(*number).about(target),
        }
    }

    /// As [`about`](Self::about) the image.
    #[must_use]
    pub fn about_image(self, image: &Path) -> Self {
        let name = image.as_os_str().as_bytes();
        if self.names_image && self.objects.image.as_deref() == Some(name) {
            return self;
        }
        Self { names_image: true, ..self.in_image(image).about(escaped(name)) }
    }

    /// As [`about`](Self::about) a file of the host.
    #[must_use]
    pub fn about_host(self, path: &Path) -> Self {
        self.at_host(path).about(shown_path(path.as_os_str().as_bytes()))
    }

    /// Says for programs in which image, unless that is known.
    #[must_use]
    pub(crate) fn in_image(mut self, image: &Path) -> Self {
        self.objects.image.get_or_insert_with(|| image.as_os_str().as_bytes().to_vec());
        self
    }

    /// Says for programs at which path in the image, unless that is known.
    #[must_use]
    pub(crate) fn at_path(mut self, path: &[u8]) -> Self {
        self.objects.path.get_or_insert_with(|| path.to_vec());
        self
    }

    /// Says for programs at which path of the host, unless that is known.
    #[must_use]
    pub(crate) fn at_host(mut self, path: &Path) -> Self {
        self.objects.host_path.get_or_insert_with(|| path.as_os_str().as_bytes().to_vec());
        self
    }

    /// Says that it is about what files are read from or written to on the host, which the caller knows.
    #[must_use]
    pub(crate) fn of_host_tree(self) -> Self {
        Self { is_of_host_tree: true, ..self }
    }

    /// Says for programs where that is, unless the failure is about something else.
    #[must_use]
    pub(crate) fn at_host_tree(self, path: &Path) -> Self {
        if self.is_of_host_tree && path != Path::new("-") { self.at_host(path) } else { self }
    }

    /// Says for programs which inode it is about, unless that is known.
    #[must_use]
    pub(crate) fn with_inode(mut self, number: InodeNumber) -> Self {
        self.objects.inode.get_or_insert(number.get());
        self
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
        let earlier = self.message.strip_suffix(')').filter(|_| self.has_remedy);
        self.message = match earlier {
            Some(earlier) => format!("{earlier}; {remedy})"),
            None => format!("{} ({remedy})", self.message),
        };
        self.has_remedy = true;
        self
    }

    /// Adds the state in which the object remains.
    #[must_use]
    pub(crate) fn with_remains(mut self, sentence: &str) -> Self {
        self.message = format!("{}; {sentence}", self.message);
        self
    }

    /// Whether it says only that the reader of the output has gone.
    pub(crate) fn is_quiet(&self) -> bool {
        self.is_quiet
    }

    /// What it is counted as, exit code and message, unless it is to be kept quiet.
    pub(crate) fn parts(&self) -> Option<(&'static str, Exit, Cow<'_, str>)> {
        (!self.is_quiet).then(|| (self.counted_as, self.exit, self.text()))
    }

    /// The message, which begins with the image of the command where it names neither that nor a file of the host.
    fn text(&self) -> Cow<'_, str> {
        let is_elsewhere = self.objects.host_path.is_some()
            || matches!(self.kind, Kind::Usage | Kind::Output | Kind::Interrupted);
        let image = self.objects.image.as_deref().or_else(|| output::image().map(OsStrExt::as_bytes));
        match image.filter(|_| !self.names_image && !is_elsewhere && output::messages_name_image()) {
            Some(image) => format!("{}: {}", escaped(image), self.message).into(),
            None => self.message.as_str().into(),
        }
    }

    /// The document, whose only field says what it is: `error` or `problem`.
    pub(crate) fn document(&self, field: &str) -> Value {
        let mut document = json!({
            "kind": self.kind.token(),
            "exit_code": self.exit as u8,
            "message": without_error_numbers(&self.text()),
        });
        if let Some(errno) = self.errno.and_then(errno_name) {
            document["errno"] = errno.into();
        }
        if let Some(structure) = self.structure {
            document["structure"] = structure.into();
        }
        let Objects { image, path, host_path, inode } = &*self.objects;
        let image = image.as_deref().or_else(|| output::image().map(OsStrExt::as_bytes));
        for (field, name) in
            [("image", image), ("path", path.as_deref()), ("host_path", host_path.as_deref())]
        {
            if let Some(name) = name {
                put_name(&mut document, field, name);
            }
        }
        if let Some(inode) = inode {
            document["inode"] = (*inode).into();
        }
        json!({ field: document })
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
        match json {
            true => message!("{}", self.document("error")),
            false => say!("{}", self.text()),
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

impl From<&Error> for Failure {
    fn from(error: &Error) -> Self {
        let mut failure = Self::new(Kind::of(error), exit_of(error), error.to_string());
        failure.errno = errno_of(error);
        if let Error::Corrupt(corruption) = error {
            failure.structure = Some(corruption.structure.name());
            failure.counted_as = corruption.structure.name();
        }
        failure
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        (&error).into()
    }
}

impl From<io::Error> for Failure {
    /// Errors of our own output. A closed pipe ends the command quietly: the reader has all it wanted.
    fn from(error: io::Error) -> Self {
        let message = format!("cannot write output: {error}");
        let is_quiet = error.kind() == io::ErrorKind::BrokenPipe;
        Self { errno: error.raw_os_error(), is_quiet, ..Self::new(Kind::Output, Exit::Failed, message) }
    }
}

impl From<serde_json::Error> for Failure {
    fn from(error: serde_json::Error) -> Self {
        io::Error::from(error).into()
    }
}

/// Adds the subject to an error on its way up.
pub trait About<T>: Sized {
    /// Names what the failed operation was about: an option, a structure.
    fn about(self, subject: impl std::fmt::Display) -> Result<T, Failure>;
    /// As [`about`](Self::about) a path in an image.
    fn about_path(self, path: &[u8]) -> Result<T, Failure>;
    /// As [`about`](Self::about) a file that the command line names.
    fn about_target(self, target: &Target) -> Result<T, Failure>;
    /// As [`about`](Self::about) the image.
    fn about_image(self, image: &Path) -> Result<T, Failure>;
    /// As [`about`](Self::about) a file of the host.
    fn about_host(self, path: &Path) -> Result<T, Failure>;
}

impl<T, E: Into<Failure>> About<T> for Result<T, E> {
    fn about(self, subject: impl std::fmt::Display) -> Result<T, Failure> {
        self.map_err(|error| error.into().about(subject))
    }

    fn about_path(self, path: &[u8]) -> Result<T, Failure> {
        self.map_err(|error| error.into().about_path(path))
    }

    fn about_target(self, target: &Target) -> Result<T, Failure> {
        self.map_err(|error| error.into().about_target(target))
    }

    fn about_image(self, image: &Path) -> Result<T, Failure> {
        self.map_err(|error| error.into().about_image(image))
    }

    fn about_host(self, path: &Path) -> Result<T, Failure> {
        self.map_err(|error| error.into().about_host(path))
    }
}
