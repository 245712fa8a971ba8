//! Sources of any kind, one or several, opened to fill a file system.

use std::path::Path;

use uxfs_filesystem::filesystem::FileSystem;
use uxfs_source::{
    error::SourceError,
    layers::Layers,
    open::{Source, SourceOptions, can_be_read_twice, is_directory, open_streams},
    stream::StreamSource,
    tree::{Reading, TreeSource},
};

use crate::{
    Options,
    adjust::Adjustments,
    error::PopulateError,
    report::{Progress, Report},
    stream::populate_streams,
    tree::populate_tree,
};

/// Sources that have been opened.
pub enum Contents {
    /// A single source.
    One(Source),
    /// Several sources that can be read twice: they are merged, in order, before anything is made.
    Layers(Box<Layers>),
    /// Several sources, one of them a pipe: each is read after the one before.
    Streams(Vec<Box<dyn StreamSource>>),
}

impl Contents {
    /// Opens directories, archives, manifests and images of containers. Several are layers, one over the other.
    ///
    /// # Errors
    /// One of them cannot be read.
    pub fn open(paths: &[&Path], options: &SourceOptions, reading: Reading) -> Result<Self, SourceError> {
        let is_read_twice = options.spools_streams || paths.iter().all(|path| can_be_read_twice(path));
        if let [path] = paths
            && (is_directory(path) || !is_read_twice)
        {
            return Ok(Self::One(Source::open(path, options, reading)?));
        }
        let reading = if is_read_twice { Reading::Checked } else { reading };
        let mut streams = Vec::with_capacity(paths.len());
        for path in paths {
            streams.extend(open_streams(path, options, reading)?);
        }
        match is_read_twice {
            true => Ok(Self::Layers(Box::new(Layers::with_options(
                streams,
                options.memory(),
                options.keeps_directory_symlinks,
            )?))),
            false => Ok(Self::Streams(streams)),
        }
    }

    /// Fills a file system that is mounted in bulk mode.
    ///
    /// # Errors
    /// As for [`populate_tree`].
    pub fn fill(
        &mut self,
        file_system: &FileSystem,
        adjustments: &mut Adjustments,
        options: &Options,
        progress: &Progress,
    ) -> Result<Report, PopulateError> {
        match self {
            Self::One(Source::Tree(tree)) => {
                populate_tree(file_system, &mut **tree, adjustments, options, progress)
            }
            Self::One(Source::Stream(stream)) => {
                populate_streams(file_system, std::slice::from_mut(stream), adjustments, options, progress)
            }
            Self::Layers(layers) => populate_tree(file_system, &mut **layers, adjustments, options, progress),
            Self::Streams(streams) => populate_streams(file_system, streams, adjustments, options, progress),
        }
    }

    /// Reads everything and gives the error with which that ends.
    pub fn whole_error(&mut self) -> Option<SourceError> {
        let Self::One(Source::Tree(tree)) = self else { return None };
        tree.restart(Reading::Everything).err().or_else(|| {
            loop {
                match tree.next_batch() {
                    Ok(Some(_)) => {}
                    Ok(None) => return None,
                    Err(error) => return Some(error),
                }
            }
        })
    }

    /// Opens every file of a directory, and begins again. All other sources tell what they cannot read in another way.
    ///
    /// # Errors
    /// All that cannot be read, at once.
    pub fn check(&mut self) -> Result<(), SourceError> {
        let Self::One(Source::Tree(tree)) = self else { return Ok(()) };
        tree.restart(Reading::Checked)?;
        while tree.next_batch()?.is_some() {}
        tree.restart(Reading::Everything)
    }

    /// Begins again.
    ///
    /// # Errors
    /// A source cannot be read again.
    pub fn restart(&mut self, reading: Reading) -> Result<(), SourceError> {
        match self {
            Self::One(Source::Tree(tree)) => tree.restart(reading),
            Self::One(Source::Stream(stream)) => stream.restart(reading),
            Self::Layers(layers) => layers.restart(reading),
            Self::Streams(streams) => streams.iter_mut().try_for_each(|stream| stream.restart(reading)),
        }
    }
}
