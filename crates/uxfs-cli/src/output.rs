//! Standard output, and messages on standard error.
//!
//! Both may be closed or full at any time. An error of standard output is an error of the command, after its work has been
//! done; one of standard error is passed over, because no channel is left to report it on. `println!` and its kin panic
//! instead, and are denied by lint. A command whose result is what it prints, as `cat`, refuses a standard output that was closed from the
//! start: see [`must_be_open`].

use std::{
    ffi::OsStr,
    fmt,
    io::{self, BufWriter, IsTerminal, Stdout, Write},
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
    sync::OnceLock,
};

use serde::Serialize;
use serde_json::{Value, json};
use uxfs_block::words::{in_words, without_error_numbers};

use crate::{
    failure::Failure,
    kind::{Kind, Note},
    progress,
};

/// Writes a line to standard error, as `eprintln!` does, and goes on where that is closed or full.
macro_rules! message {
    ($($argument:tt)*) => { $crate::output::write_message(::std::format_args!($($argument)*)) };
}
pub(crate) use message;

/// As [`message!`], with the name in front by which the program was called.
macro_rules! say {
    ($($argument:tt)*) => {
        $crate::output::write_message(::std::format_args!(
            "{}: {}", $crate::output::program(), ::std::format_args!($($argument)*)
        ))
    };
}
pub(crate) use say;

/// As [`say!`]; with `--json` as a document with a [`Note`].
macro_rules! notice {
    ($note:expr, $($argument:tt)*) => { $crate::output::write_notice($note, ::std::format_args!($($argument)*)) };
}
pub(crate) use notice;

/// The name of a link by which the program was called.
static PROGRAM: OnceLock<&'static str> = OnceLock::new();

/// The name that messages begin with.
pub fn program() -> &'static str {
    PROGRAM.get().copied().unwrap_or("uxfs")
}

/// Sets the name that messages begin with, once.
pub(crate) fn set_program(name: &'static str) {
    let _ = PROGRAM.set(name);
}

/// Set where standard output was closed when the process began.
static IS_CLOSED: OnceLock<()> = OnceLock::new();

/// Says that standard output was closed when the process began: what is written to it goes nowhere, without an error.
pub fn set_closed() {
    let _ = IS_CLOSED.set(());
}

/// Refuses a standard output that is closed, for a command whose result goes there. Others do their work all the same.
///
/// # Errors
/// It is.
pub(crate) fn must_be_open() -> Result<(), Failure> {
    match IS_CLOSED.get() {
        Some(()) => {
            Err(Failure::refused(Kind::Output, "standard output is closed: what goes there would be lost"))
        }
        None => Ok(()),
    }
}

/// Set where the command prints JSON.
static IS_JSON: OnceLock<()> = OnceLock::new();

/// From now on what is told on standard error are documents, a line each.
pub(crate) fn set_json() {
    let _ = IS_JSON.set(());
}

/// Whether they are.
pub(crate) fn is_json() -> bool {
    IS_JSON.get().is_some()
}

/// The image that the command is about.
static IMAGE: OnceLock<PathBuf> = OnceLock::new();
/// Set where messages do not begin with it.
static IS_IMAGE_UNSAID: OnceLock<()> = OnceLock::new();

/// Says which image the command is about: messages about what lies in it begin with its path.
pub(crate) fn set_image(image: &Path) {
    let _ = IMAGE.set(image.to_owned());
}

/// As [`set_image`], for documents alone: a shell works on one image all the time.
pub(crate) fn set_image_of_shell(image: &Path) {
    set_image(image);
    let _ = IS_IMAGE_UNSAID.set(());
}

/// The image that the command is about, where it is about one.
pub(crate) fn image() -> Option<&'static OsStr> {
    IMAGE.get().map(|image| image.as_os_str())
}

/// Whether messages begin with it. Stand-ins for other tools say what those say.
pub(crate) fn messages_name_image() -> bool {
    IS_IMAGE_UNSAID.get().is_none() && program() == "uxfs"
}

/// Tells one thing: a line of text, or a document whose only field says what it is.
pub fn write_notice(note: Note, text: fmt::Arguments<'_>) {
    match is_json() {
        true => write_message(format_args!("{}", notice_document(note, &text.to_string()))),
        false => say!("{text}"),
    }
}

/// The document of a notice, or of a warning where the text begins with that word.
pub(crate) fn notice_document(note: Note, text: &str) -> Value {
    let text = without_error_numbers(text);
    match text.strip_prefix("warning: ") {
        Some(text) => json!({"warning": {"kind": note.token(), "message": text}}),
        None => json!({"notice": {"kind": note.token(), "message": text}}),
    }
}

/// As [`message!`].
pub fn write_message(text: fmt::Arguments<'_>) {
    // In one piece, so that messages of several processes do not mix.
    let line = format!("{}\n", in_words(&text));
    let _ = progress::suspend(|| io::stderr().write_all(line.as_bytes()));
}

/// Buffered standard output that knows whether a person is looking.
#[derive(Debug)]
pub struct Output {
    writer: BufWriter<BesideProgress>,
    is_terminal: bool,
}

impl Output {
    /// Takes standard output for this command.
    pub fn new() -> Self {
        let stdout = io::stdout();
        let is_terminal = stdout.is_terminal();
        let writer = BufWriter::with_capacity(256 << 10, BesideProgress { stdout, is_terminal });
        Self { writer, is_terminal }
    }

    /// Whether a person is looking.
    pub fn is_terminal(&self) -> bool {
        self.is_terminal
    }

    /// Writes a name or path. On a terminal, bytes that could steer it are escaped: images come from strangers.
    pub fn name(&mut self, name: &[u8]) -> io::Result<()> {
        if !self.is_terminal || name.iter().all(|byte| (b' '..0x7f).contains(byte)) {
            return self.writer.write_all(name);
        }
        crate::text::write_escaped(&mut self.writer, name)
    }

    /// Writes a line of a file, or a part of one. On a terminal, bytes that could steer it are escaped.
    pub fn contents(&mut self, text: &[u8]) -> io::Result<()> {
        let is_safe = |byte: &u8| *byte == b'\t' || (b' '..0x7f).contains(byte);
        if !self.is_terminal || text.iter().all(is_safe) {
            return self.writer.write_all(text);
        }
        let shown = crate::text::escaped(text).replace("\\011", "\t").replace("\\134", "\\");
        self.writer.write_all(shown.as_bytes())
    }

    /// Writes one JSON document on a line of its own.
    pub fn json(&mut self, document: &impl Serialize) -> io::Result<()> {
        serde_json::to_writer(&mut self.writer, document)?;
        self.writer.write_all(b"\n")
    }

    /// Ends the output. Must be called: an error of the last write is only seen here.
    pub fn finish(mut self) -> io::Result<()> {
        self.writer.flush()
    }
}

impl Default for Output {
    fn default() -> Self {
        Self::new()
    }
}

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.writer.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.writer.flush()
    }
}

/// Standard output, with the line of progress out of the way where both are on a terminal.
#[derive(Debug)]
struct BesideProgress {
    stdout: Stdout,
    is_terminal: bool,
}

impl Write for BesideProgress {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if !self.is_terminal {
            return self.stdout.write(bytes);
        }
        // Up to the end of a line where there is one: the line of progress comes behind it.
        let end = bytes.iter().rposition(|byte| *byte == b'\n').map_or(bytes.len(), |end| end + 1);
        progress::suspend(|| self.stdout.write(bytes.get(..end).unwrap_or(bytes)))
    }

    fn flush(&mut self) -> io::Result<()> {
        self.stdout.flush()
    }
}

/// A name or path in JSON: a string, and the bytes in hexadecimal where they are not UTF-8.
#[derive(Debug, Clone, Serialize)]
pub struct JsonName {
    text: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    hex: Option<String>,
}

impl JsonName {
    /// Takes the bytes as they are on disk.
    pub fn new(bytes: &[u8]) -> Self {
        match std::str::from_utf8(bytes) {
            Ok(text) => Self { text: text.to_owned(), hex: None },
            Err(_) => Self {
                text: String::from_utf8_lossy(bytes).into_owned(),
                hex: Some(crate::text::hexadecimal(bytes)),
            },
        }
    }

    /// `text`, for fields named `<name>`.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// `hex`, for fields named `<name>_hex`; only where the bytes are not UTF-8.
    pub fn hex(&self) -> Option<&str> {
        self.hex.as_deref()
    }
}

/// As [`put_name`], for a path of the host.
pub fn put_path(document: &mut Value, field: &str, path: &Path) {
    put_name(document, field, path.as_os_str().as_bytes());
}

/// Adds a name or path to a document: the text, and in a field `<name>_hex` the bytes where they are not UTF-8.
pub fn put_name(document: &mut Value, field: &str, bytes: &[u8]) {
    let name = JsonName::new(bytes);
    document[field] = name.text().into();
    if let Some(hex) = name.hex() {
        document[format!("{field}_hex")] = hex.into();
    }
}
