//! Options that label new files, and what a command has labelled. [`super::labelled`] does it.

use std::{path::PathBuf, sync::Arc};

use uxfs_format::units::InodeNumber;
use uxfs_source::labels::{Labels, is_context};

use crate::failure::Failure;

/// Options that label new files.
#[derive(Debug, Clone, Default, clap::Args)]
pub struct LabelArguments {
    /// Set the SELinux labels of new files, and of those that a copy replaces, by their paths in the image, from a file_contexts
    /// file and its companions .homedirs, .local, .subs and .subs_dist
    #[arg(long, value_name = "FILE")]
    file_contexts: Vec<PathBuf>,
    /// Set this SELinux label of new files, and of those that a copy replaces, such as system_u:object_r:etc_t:s0
    #[arg(long, value_name = "CONTEXT", conflicts_with = "file_contexts", value_parser = parse_context)]
    context: Option<Context>,
}

/// A label, with the zero byte at its end that Linux stores.
#[derive(Debug, Clone)]
struct Context(Vec<u8>);

fn parse_context(text: &str) -> Result<Context, String> {
    if !is_context(text.as_bytes()) {
        return Err(format!("`{text}` is no context (USER:ROLE:TYPE or USER:ROLE:TYPE:RANGE)"));
    }
    Ok(Context([text.as_bytes(), b"\0"].concat()))
}

/// Which label a new file gets.
#[derive(Debug, Clone, Default)]
pub enum Rules {
    /// None, but for that of its source.
    #[default]
    None,
    /// That of its path, from files of which this is the first.
    ByPath(Arc<Labels>, PathBuf),
    /// This one.
    Fixed(Vec<u8>),
}

impl LabelArguments {
    /// Reads the files that are named.
    ///
    /// # Errors
    /// One cannot be read, or is no such file.
    pub fn rules(&self) -> Result<Rules, Failure> {
        if let Some(Context(label)) = &self.context {
            return Ok(Rules::Fixed(label.clone()));
        }
        let named = open(&self.file_contexts)?.zip(self.file_contexts.first());
        Ok(named.map_or(Rules::None, |(labels, first)| Rules::ByPath(Arc::new(labels), first.clone())))
    }
}

/// Reads `file_contexts` files; `None` where there are none.
///
/// # Errors
/// One cannot be read, or is no such file.
pub fn open(files: &[PathBuf]) -> Result<Option<Labels>, Failure> {
    let paths: Vec<_> = files.iter().map(PathBuf::as_path).collect();
    if paths.is_empty() {
        return Ok(None);
    }
    let labels = Labels::open(&paths).map_err(|error| match paths.as_slice() {
        [path] => Failure::from(error).at_host(path),
        _ => error.into(),
    });
    labels.map(Some)
}

/// What the command at hand labels.
#[derive(Debug, Default)]
pub struct Labelling {
    /// Where a command has no options of its own.
    pub usual: Rules,
    pub(super) rules: Rules,
    /// Files that were to be labelled, and those that were.
    pub(super) counts: (u64, u64),
    /// The last directory with its path, without the slash in front.
    pub(super) directory: Option<(InodeNumber, Vec<u8>)>,
    /// The last directory that has no label.
    pub(super) unlabelled: Option<InodeNumber>,
    /// That a file is not labelled has been told, or is not to be.
    pub(super) is_told: bool,
}

impl Labelling {
    /// Of an image that has just been opened.
    pub fn new(is_quiet: bool) -> Self {
        Self { is_told: is_quiet, ..Self::default() }
    }
}
