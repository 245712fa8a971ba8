//! The options of `uxfs ls`, and what they come to.

use std::{ffi::OsString, os::unix::ffi::OsStrExt};

use crate::{
    commands::ls::{order::Key, time::TimeStyle},
    failure::Failure,
    glob::{self, GlobArguments, pattern::Pattern},
};

/// Arguments of `uxfs ls`.
#[derive(Debug, clap::Args)]
#[command(
    disable_help_flag = true,
    args_override_self = true,
    after_help = format!("Examples: uxfs ls -lR disk.img /etc\n          \
    uxfs ls -ltr disk.img '/var/log/*.log'\n          \
    uxfs ls -I '.*' disk.img /root\n\
    Names that begin with a dot are shown, as BSD's ls shows them to root; -I '.*' leaves them out. Owners and groups are those \
    of the image's own /etc/passwd and /etc/group. Times are UTC. Directories of more than 50,000 entries are listed in their \
    own order, sorted in parts.\n{}", glob::HELP)
)]
pub struct Arguments {
    /// Paths in the image, or inode numbers
    #[arg(value_name = "PATH")]
    pub targets: Vec<OsString>,
    /// Whether patterns are expanded.
    #[command(flatten)]
    pub globs: GlobArguments,
    #[command(flatten)]
    which: Which,
    #[command(flatten)]
    form: Form,
    #[command(flatten)]
    sorting: Sorting,
    #[command(flatten)]
    times: Times,
    #[command(flatten)]
    fields: Fields,
    /// Print help
    #[arg(long, action = clap::ArgAction::Help)]
    help: Option<bool>,
}

#[derive(Debug, clap::Args)]
struct Which {
    /// Show "." and ".." too
    #[arg(short, long, overrides_with = "almost_all")]
    all: bool,
    /// Show all but "." and "..": the default
    #[arg(short = 'A', long, overrides_with = "all")]
    almost_all: bool,
    /// List directories themselves, not their contents
    #[arg(short, long)]
    directory: bool,
    /// List subdirectories recursively
    #[arg(short = 'R', long)]
    recursive: bool,
    /// Leave out names that fit this pattern
    #[arg(short = 'I', long, value_name = "PATTERN", action = clap::ArgAction::Append)]
    ignore: Vec<OsString>,
}

#[derive(Debug, clap::Args)]
struct Form {
    /// Show mode, links, owner, group, size and time
    #[arg(short, long, overrides_with_all = ["columns", "across"])]
    long: bool,
    /// One name a line: the default where the output is no terminal
    #[arg(short = '1', overrides_with_all = ["columns", "across"])]
    single: bool,
    /// In columns, downwards: the default on a terminal
    #[arg(short = 'C', overrides_with_all = ["long", "across", "single"])]
    columns: bool,
    /// In columns, line by line
    #[arg(short = 'x', overrides_with_all = ["long", "columns", "single"])]
    across: bool,
    /// Columns of the output, 0 for no limit
    #[arg(short, long, value_name = "COLUMNS")]
    width: Option<usize>,
    /// Mark types: / directory, * program, @ symbolic link, | pipe, = socket
    #[arg(short = 'F', long, overrides_with = "slashes")]
    classify: bool,
    /// Mark directories with /
    #[arg(short = 'p', overrides_with = "classify")]
    slashes: bool,
    /// Colour names by type and LS_COLORS
    #[arg(long, value_name = "WHEN", num_args = 0..=1, require_equals = true, default_value = "auto", default_missing_value = "always")]
    color: When,
}

#[derive(Debug, clap::Args)]
struct Sorting {
    /// Sort by time, newest first
    #[arg(short = 't', overrides_with_all = ["by_size", "by_extension", "by_version", "unsorted", "sort"])]
    by_time: bool,
    /// Sort by size, largest first
    #[arg(short = 'S', overrides_with_all = ["by_time", "by_extension", "by_version", "unsorted", "sort"])]
    by_size: bool,
    /// Sort by extension
    #[arg(short = 'X', overrides_with_all = ["by_time", "by_size", "by_version", "unsorted", "sort"])]
    by_extension: bool,
    /// Sort by numbers within names
    #[arg(short = 'v', overrides_with_all = ["by_time", "by_size", "by_extension", "unsorted", "sort"])]
    by_version: bool,
    /// Do not sort
    #[arg(short = 'U', long, overrides_with_all = ["by_time", "by_size", "by_extension", "by_version", "sort"])]
    unsorted: bool,
    /// Sort by this
    #[arg(long, value_name = "WORD", overrides_with_all = ["by_time", "by_size", "by_extension", "by_version", "unsorted"])]
    sort: Option<SortWord>,
    /// Reverse the order
    #[arg(short, long)]
    reverse: bool,
    /// List directories before files
    #[arg(long)]
    group_directories_first: bool,
}

#[derive(Debug, clap::Args)]
struct Times {
    /// Show this time, and sort by it
    #[arg(long, value_name = "WORD", overrides_with_all = ["access", "change"])]
    time: Option<TimeWord>,
    /// As --time=atime
    #[arg(short = 'u', overrides_with_all = ["time", "change"])]
    access: bool,
    /// As --time=ctime
    #[arg(short = 'c', overrides_with_all = ["time", "access"])]
    change: bool,
    /// How to write times: long-iso (the default), full-iso, iso, locale, or +FORMAT as date(1) has it
    #[arg(long, value_name = "STYLE")]
    time_style: Option<String>,
    /// As -l --time-style=full-iso, unless there is another style
    #[arg(long)]
    full_time: bool,
}

#[derive(Debug, clap::Args)]
struct Fields {
    /// Show inode numbers
    #[arg(short, long)]
    inode: bool,
    /// Show allocated sizes, in KiB
    #[arg(short, long = "size")]
    size: bool,
    /// As -l, with numbers of owners and groups
    #[arg(short, long)]
    numeric_uid_gid: bool,
    /// As -l, without owners
    #[arg(short = 'g')]
    without_owner: bool,
    /// As -l, without groups
    #[arg(short = 'o')]
    without_group_long: bool,
    /// With -l: without groups
    #[arg(short = 'G', long)]
    no_group: bool,
    /// Sizes such as 1.5K
    #[arg(short = 'h', short_alias = 'H', long, overrides_with = "si")]
    human_readable: bool,
    /// As -h, with powers of 1000
    #[arg(long, overrides_with = "human_readable")]
    si: bool,
    /// Show security contexts
    #[arg(short = 'Z', long)]
    context: bool,
}

/// When to colour.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum When {
    /// Always.
    #[value(alias = "yes", alias = "force")]
    Always,
    /// On a terminal.
    #[value(alias = "tty", alias = "if-tty")]
    Auto,
    /// Never.
    #[value(alias = "no", alias = "none")]
    Never,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum SortWord {
    None,
    Name,
    Size,
    Time,
    Version,
    Extension,
}

/// Which time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum TimeWord {
    /// Of the last change of contents.
    #[value(name = "mtime", alias = "modification")]
    Modification,
    /// Of the last access.
    #[value(name = "atime", alias = "access", alias = "use")]
    Access,
    /// Of the last change of the inode.
    #[value(name = "ctime", alias = "status")]
    Change,
    /// Of creation.
    #[value(name = "birth", alias = "creation")]
    Birth,
}

/// How entries are laid out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Layout {
    /// With all fields.
    Long,
    /// One a line.
    Single,
    /// Columns, downwards.
    Down,
    /// Columns, line by line.
    Across,
}

/// Which marks follow names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Marks {
    /// None.
    None,
    /// Those of directories.
    Directories,
    /// All.
    All,
}

/// How numbers of bytes are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SizeStyle {
    /// As they are.
    Plain,
    /// With units, powers of this number.
    Human(u64),
}

/// What the options come to.
#[derive(Debug)]
pub struct Settings {
    /// "." and ".." are shown.
    pub with_dots: bool,
    /// Directories are listed themselves.
    pub directory: bool,
    /// Subdirectories follow.
    pub recursive: bool,
    /// Names that are left out.
    pub ignored: Vec<Pattern>,
    /// The layout.
    pub layout: Layout,
    /// Columns of the output that were asked for.
    pub width: Option<usize>,
    /// Marks behind names.
    pub marks: Marks,
    /// When to colour.
    pub color: When,
    /// The order.
    pub key: Key,
    /// The order is reversed.
    pub reverse: bool,
    /// Directories come first.
    pub directories_first: bool,
    /// The time that is shown.
    pub time: TimeWord,
    /// How it is written.
    pub time_style: TimeStyle,
    /// Inode numbers are shown.
    pub inode: bool,
    /// Allocated sizes are shown.
    pub allocated: bool,
    /// Owners and groups as numbers.
    pub numeric: bool,
    /// Owners are shown.
    pub owner: bool,
    /// Groups are shown.
    pub group: bool,
    /// How sizes are written.
    pub size_style: SizeStyle,
    /// Security contexts are shown.
    pub context: bool,
}

impl Settings {
    /// Whether GNU ls prints entries as it reads them, and so cannot align columns.
    pub fn is_streamed(&self) -> bool {
        self.layout == Layout::Single && self.key == Key::None && !self.allocated && !self.recursive
    }
}

impl Arguments {
    /// What the options come to, on a terminal or elsewhere.
    ///
    /// # Errors
    /// An unknown style of time.
    pub fn settings(&self, is_terminal: bool) -> Result<Settings, Failure> {
        let Self { which, form, times, fields, sorting, .. } = self;
        let is_long = form.long
            || fields.numeric_uid_gid
            || fields.without_owner
            || fields.without_group_long
            || times.full_time;
        let layout = match form {
            _ if is_long => Layout::Long,
            Form { across: true, .. } => Layout::Across,
            Form { columns: true, .. } => Layout::Down,
            Form { single: false, .. } if is_terminal => Layout::Down,
            _ => Layout::Single,
        };
        let time_style = match (&times.time_style, times.full_time) {
            (Some(style), _) => TimeStyle::parse(style).map_err(Failure::usage)?,
            (None, true) => TimeStyle::full(),
            (None, false) => TimeStyle::long(),
        };
        Ok(Settings {
            with_dots: which.all,
            directory: which.directory,
            recursive: which.recursive,
            ignored: which.ignore.iter().map(|pattern| Pattern::parse(pattern.as_bytes())).collect(),
            layout,
            width: form.width,
            marks: match form {
                Form { classify: true, .. } => Marks::All,
                Form { slashes: true, .. } => Marks::Directories,
                _ => Marks::None,
            },
            color: form.color,
            key: self.key(layout),
            reverse: sorting.reverse,
            directories_first: sorting.group_directories_first,
            time: times.word().unwrap_or(TimeWord::Modification),
            time_style,
            inode: fields.inode,
            allocated: fields.size,
            numeric: fields.numeric_uid_gid,
            owner: !fields.without_owner,
            group: !fields.without_group_long && !fields.no_group,
            size_style: match fields {
                Fields { human_readable: true, .. } => SizeStyle::Human(1024),
                Fields { si: true, .. } => SizeStyle::Human(1000),
                _ => SizeStyle::Plain,
            },
            context: fields.context,
        })
    }

    fn key(&self, layout: Layout) -> Key {
        match &self.sorting {
            Sorting { by_time: true, .. } | Sorting { sort: Some(SortWord::Time), .. } => Key::Time,
            Sorting { by_size: true, .. } | Sorting { sort: Some(SortWord::Size), .. } => Key::Size,
            Sorting { by_extension: true, .. } | Sorting { sort: Some(SortWord::Extension), .. } => {
                Key::Extension
            }
            Sorting { by_version: true, .. } | Sorting { sort: Some(SortWord::Version), .. } => Key::Version,
            Sorting { unsorted: true, .. } | Sorting { sort: Some(SortWord::None), .. } => Key::None,
            Sorting { sort: Some(SortWord::Name), .. } => Key::Name,
            // A time that is not shown is what the order is by.
            Sorting { .. } if layout != Layout::Long && self.times.word().is_some() => Key::Time,
            Sorting { .. } => Key::Name,
        }
    }
}

impl Times {
    /// The time that was asked for.
    fn word(&self) -> Option<TimeWord> {
        match self {
            Self { access: true, .. } => Some(TimeWord::Access),
            Self { change: true, .. } => Some(TimeWord::Change),
            Self { time, .. } => *time,
        }
    }
}
