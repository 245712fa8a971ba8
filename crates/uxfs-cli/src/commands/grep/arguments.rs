//! The options of `uxfs grep`.

use std::{
    ffi::OsString,
    fs::File,
    io::{self, Read},
    os::unix::ffi::OsStrExt,
    path::Path,
};

use clap::{ArgMatches, Args, Command, FromArgMatches};
use grep_regex::{RegexMatcher, RegexMatcherBuilder};

use super::names::FileNames;
use crate::{
    commands::ls::arguments::When,
    failure::{Exit, Failure},
    glob::GlobArguments,
    image::ImageArguments,
    kind::Note,
    output::notice,
};

/// Memory for the automata of a pattern.
const PATTERN_BYTES_MAX: usize = 64 << 20;
/// In place of an image: no argument has it.
const ABSENT: &str = "\0";
/// A pattern that fits nothing.
const NOTHING: &str = r"[^\s\S]";

/// The help behind the options.
const AFTER_HELP: &str = "Examples: uxfs grep -n root disk.img /etc/passwd\n          \
    uxfs grep -il --include '*.conf' 'listen +443' disk.img /etc\n          \
    uxfs grep -c -e one -e two disk.img /var/log\n\
    PATTERN is a regular expression of Rust's regex crate, much like that of grep -E; it has no back references. Directories are \
    searched with all that they hold, without PATH the whole image; symbolic links are followed only where PATH names them. Lines \
    longer than 64 MiB are an error of their file.\n\
    Exit codes, unlike those of other commands: 0 some line was selected, 1 none, 2 an error, 3 damage was met, 4 unsupported feature. \
    With -q it is 0 at the first selected line, whatever else there is.";

/// Arguments of `uxfs grep`.
#[derive(Debug, clap::Args)]
#[command(
    disable_help_flag = true,
    args_override_self = true,
    override_usage = "uxfs grep [OPTIONS] PATTERN IMAGE [PATH]...\n       uxfs grep [OPTIONS] -e PATTERN... IMAGE [PATH]...",
    after_help = AFTER_HELP
)]
pub struct Arguments {
    /// Regular expression, unless -e or -f gives some
    #[arg(value_name = "PATTERN")]
    pattern: Option<OsString>,
    #[command(flatten)]
    image: ImageBehindPattern,
    /// Files and directories in the image
    #[arg(value_name = "PATH")]
    paths: Vec<OsString>,
    /// All else.
    #[command(flatten)]
    pub options: Options,
}

/// The image, which may stand in the place of the pattern.
#[derive(Debug)]
struct ImageBehindPattern(ImageArguments);

impl ImageBehindPattern {
    fn with_optional_image(command: Command) -> Command {
        command.mut_arg("image", |image| image.required(false).default_value(ABSENT).hide_default_value(true))
    }
}

impl Args for ImageBehindPattern {
    fn augment_args(command: Command) -> Command {
        Self::with_optional_image(ImageArguments::augment_args(command))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::with_optional_image(ImageArguments::augment_args_for_update(command))
    }
}

impl FromArgMatches for ImageBehindPattern {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        ImageArguments::from_arg_matches(matches).map(Self)
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        self.0.update_from_arg_matches(matches)
    }
}

/// Arguments in the shell, where the image is known.
#[derive(Debug, clap::Args)]
#[command(disable_help_flag = true, args_override_self = true, after_help = AFTER_HELP)]
pub struct InShell {
    /// Regular expression, unless -e or -f gives some; then files and directories
    #[arg(value_name = "PATTERN [PATH]")]
    operands: Vec<OsString>,
    /// All else.
    #[command(flatten)]
    pub options: Options,
}

/// The options.
#[derive(Debug, clap::Args)]
pub struct Options {
    #[command(flatten)]
    patterns: Patterns,
    /// What is printed.
    #[command(flatten)]
    pub printed: Printed,
    /// Which files are searched, and how.
    #[command(flatten)]
    pub files: Files,
    /// Print help
    #[arg(long, action = clap::ArgAction::Help)]
    help: Option<bool>,
}

#[derive(Debug, clap::Args)]
struct Patterns {
    /// Look for this, too
    #[arg(short = 'e', long = "regexp", value_name = "PATTERN", allow_hyphen_values = true, action = clap::ArgAction::Append)]
    expressions: Vec<OsString>,
    /// Look for the lines of this file of the host, too
    #[arg(short = 'f', long = "file", value_name = "FILE", action = clap::ArgAction::Append)]
    pattern_files: Vec<OsString>,
    /// Patterns are regular expressions: the default
    #[arg(short = 'E', long, overrides_with = "fixed_strings")]
    extended_regexp: bool,
    /// Patterns are plain text
    #[arg(short = 'F', long, overrides_with = "extended_regexp")]
    fixed_strings: bool,
    /// Ignore case
    #[arg(short, long)]
    ignore_case: bool,
    /// Only whole words
    #[arg(short, long)]
    word_regexp: bool,
    /// Only whole lines
    #[arg(short = 'x', long)]
    line_regexp: bool,
    /// Select lines that do not match
    #[arg(short = 'v', long)]
    invert_match: bool,
    /// Lines end with a zero byte
    #[arg(short = 'z', long)]
    null_data: bool,
}

/// What is printed.
#[derive(Debug, clap::Args)]
pub struct Printed {
    /// Only the number of selected lines of each file
    #[arg(short, long)]
    pub count: bool,
    /// Only the paths of files with selected lines
    #[arg(short = 'l', long, overrides_with = "files_without_match")]
    pub files_with_matches: bool,
    /// Only the paths of files without selected lines
    #[arg(short = 'L', long, overrides_with = "files_with_matches")]
    pub files_without_match: bool,
    /// Only the parts of lines that match
    #[arg(short, long)]
    pub only_matching: bool,
    /// Nothing; stop at the first selected line
    #[arg(short, long, visible_alias = "silent")]
    pub quiet: bool,
    /// Stop reading a file after this many selected lines
    #[arg(short, long, value_name = "COUNT")]
    pub max_count: Option<u64>,
    /// Line numbers
    #[arg(short = 'n', long)]
    pub line_number: bool,
    /// Paths in front of lines: the default for several files
    #[arg(short = 'H', long, overrides_with = "no_filename")]
    pub with_filename: bool,
    /// No paths in front of lines
    #[arg(short = 'h', long, overrides_with = "with_filename")]
    pub no_filename: bool,
    /// A zero byte behind paths
    #[arg(short = 'Z', long)]
    pub null: bool,
    /// This many lines behind selected ones, too
    #[arg(short = 'A', long, value_name = "LINES")]
    after_context: Option<usize>,
    /// This many lines before selected ones, too
    #[arg(short = 'B', long, value_name = "LINES")]
    before_context: Option<usize>,
    /// This many lines around selected ones, too
    #[arg(short = 'C', long, value_name = "LINES")]
    context: Option<usize>,
    /// Colour matches
    #[arg(long, value_name = "WHEN", num_args = 0..=1, require_equals = true, default_value = "auto", default_missing_value = "always")]
    pub color: When,
}

/// Which files are searched, and how.
#[derive(Debug, clap::Args)]
pub struct Files {
    /// Whether patterns in paths are expanded.
    #[command(flatten)]
    pub globs: GlobArguments,
    /// Search directories with all that they hold: the default
    #[arg(short, long)]
    recursive: bool,
    /// Print lines of binary files as well
    #[arg(short = 'a', long, overrides_with = "without_binary")]
    pub text: bool,
    /// Pass over binary files
    #[arg(short = 'I', overrides_with = "text")]
    pub without_binary: bool,
    /// No messages about missing and unreadable files
    #[arg(short = 's', long)]
    pub no_messages: bool,
    /// Files that are searched, by their names.
    #[command(flatten)]
    pub names: FileNames,
    /// No directories whose names fit this pattern
    #[arg(long, value_name = "PATTERN", action = clap::ArgAction::Append)]
    pub exclude_dir: Vec<OsString>,
}

impl Printed {
    /// Lines before and behind selected ones.
    pub fn context_lines(&self) -> (usize, usize) {
        let both = self.context.unwrap_or(0);
        (self.before_context.unwrap_or(both), self.after_context.unwrap_or(both))
    }
}

impl Arguments {
    /// Where the file system is, the pattern unless options give some, and the paths.
    ///
    /// # Errors
    /// One of them is missing.
    pub fn split(&self) -> Result<(ImageArguments, Option<OsString>, Vec<OsString>), Failure> {
        let is_there = |image: &ImageArguments| !matches!(image.image.as_os_str().as_bytes(), b"" | b"\0");
        let (mut image, mut paths) = (self.image.0.clone(), self.paths.clone());
        let mut pattern = self.pattern.clone();
        if self.options.patterns.is_given() {
            // What stands in the place of the pattern is the image.
            if is_there(&image) {
                paths.insert(0, std::mem::take(&mut image.image).into_os_string());
            }
            image.image = pattern.take().unwrap_or_default().into();
        } else if pattern.is_none() {
            return Err(Failure::usage("PATTERN is missing"));
        }
        if !is_there(&image) {
            return Err(Failure::usage("IMAGE is missing"));
        }
        Ok((image, pattern, paths))
    }
}

impl InShell {
    /// The pattern unless options give some, and the paths.
    ///
    /// # Errors
    /// There is no pattern.
    pub fn split(&self) -> Result<(Option<OsString>, Vec<OsString>), Failure> {
        if self.options.patterns.is_given() {
            return Ok((None, self.operands.clone()));
        }
        let (pattern, paths) =
            self.operands.split_first().ok_or_else(|| Failure::usage("PATTERN is missing"))?;
        Ok((Some(pattern.clone()), paths.to_vec()))
    }
}

impl Patterns {
    fn is_given(&self) -> bool {
        !self.expressions.is_empty() || !self.pattern_files.is_empty()
    }
}

impl Options {
    /// Whether lines are selected that do not match.
    pub fn is_inverted(&self) -> bool {
        self.patterns.invert_match
    }

    /// Whether no line can be selected: `-v` with the empty pattern alone. GNU grep then exits before it reads, without counts.
    pub(super) fn selects_nothing(&self, operand: Option<&OsString>) -> bool {
        let patterns = &self.patterns;
        let mut texts = operand.into_iter().chain(&patterns.expressions).peekable();
        let is_empty = texts.peek().is_some() && texts.all(|text| text.is_empty());
        let is_part = !patterns.word_regexp && !patterns.line_regexp;
        let are_all_wanted = self.printed.files_without_match;
        patterns.invert_match && is_empty && patterns.pattern_files.is_empty() && is_part && !are_all_wanted
    }

    /// The byte at the end of lines.
    pub fn line_end(&self) -> u8 {
        if self.patterns.null_data { 0 } else { b'\n' }
    }

    /// What lines are compared with.
    ///
    /// # Errors
    /// A pattern is none; a file of patterns cannot be read.
    pub fn matcher(&self, operand: Option<&OsString>) -> Result<RegexMatcher, Failure> {
        let patterns = &self.patterns;
        let mut texts: Vec<Vec<u8>> = Vec::new();
        for pattern in operand.into_iter().chain(&patterns.expressions) {
            texts.extend(pattern.as_bytes().split(|byte| *byte == b'\n').map(<[u8]>::to_vec));
        }
        for file in &patterns.pattern_files {
            let read = read_patterns(Path::new(file)).map_err(|error| {
                let failure = Failure::caused_by(&error).with_exit(Exit::Usage);
                failure.about("cannot read").about_host(Path::new(file))
            })?;
            let lines = read.strip_suffix(b"\n").unwrap_or(&read);
            if !read.is_empty() {
                texts.extend(lines.split(|byte| *byte == b'\n').map(<[u8]>::to_vec));
            }
        }
        let expressions: Vec<String> = match texts.is_empty() {
            true => vec![NOTHING.to_owned()],
            false => texts.iter().map(|text| self.expression(text)).collect::<Result<_, _>>()?,
        };
        let mut builder = RegexMatcherBuilder::new();
        builder
            .case_insensitive(patterns.ignore_case)
            .word(patterns.word_regexp)
            .whole_line(patterns.line_regexp && !patterns.null_data)
            // Lines that end with a zero byte are looked at one by one: ^ and $ are their ends.
            .multi_line(!patterns.null_data)
            .line_terminator(Some(self.line_end()))
            .size_limit(PATTERN_BYTES_MAX)
            .dfa_size_limit(PATTERN_BYTES_MAX);
        builder
            .build_many(&expressions)
            .map_err(|error| Failure::usage(format!("the pattern is wrong: {error}")))
    }

    /// Tells that nothing was found with a pattern that means something else to grep without -E.
    pub(super) fn tell_other_dialect(&self, operand: Option<&OsString>) {
        let patterns = &self.patterns;
        let has_bar = |pattern: &OsString| pattern.as_bytes().windows(2).any(|pair| pair == br"\|");
        if !patterns.fixed_strings && operand.into_iter().chain(&patterns.expressions).any(has_bar) {
            notice!(
                Note::Option,
                r"nothing found: patterns are those of grep -E, in which \| is the character |, and | stands between alternatives"
            );
        }
    }

    fn expression(&self, text: &[u8]) -> Result<String, Failure> {
        let expression = self.part(text)?;
        Ok(match self.patterns.null_data && self.patterns.line_regexp {
            true => format!(r"\A(?:{expression})\z"),
            false => expression,
        })
    }

    fn part(&self, text: &[u8]) -> Result<String, Failure> {
        if self.patterns.fixed_strings {
            let byte = |byte: &u8| match byte.is_ascii_alphanumeric() {
                true => char::from(*byte).to_string(),
                false => format!(r"(?-u:\x{byte:02x})"),
            };
            return Ok(match std::str::from_utf8(text) {
                Ok(text) => text.chars().map(plain).collect(),
                Err(_) => text.iter().map(byte).collect(),
            });
        }
        let text = std::str::from_utf8(text);
        let text =
            text.map_err(|_| Failure::usage(r"a pattern must be UTF-8: (?-u:\xff) stands for a byte"))?;
        Ok(text.to_owned())
    }
}

/// A file of patterns. One that is too long could not be compiled, and may be a device that never ends.
fn read_patterns(file: &Path) -> io::Result<Vec<u8>> {
    let mut read = Vec::new();
    File::open(file)?.take(PATTERN_BYTES_MAX as u64 + 1).read_to_end(&mut read)?;
    match read.len() > PATTERN_BYTES_MAX {
        true => Err(io::ErrorKind::FileTooLarge.into()),
        false => Ok(read),
    }
}

/// A character as an expression that matches it.
fn plain(character: char) -> String {
    match character.is_alphanumeric() || character == '_' {
        true => character.to_string(),
        false => format!(r"\x{{{:x}}}", u32::from(character)),
    }
}
