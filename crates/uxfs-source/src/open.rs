//! Any source by its path: what it is shows.

use std::{
    fs::File,
    io::{self, BufReader, Read},
    path::{Path, PathBuf},
};

use uxfs_block::cache::pressure::default_budget_bytes;

use crate::{
    container::{self, Layer, Platform, Reference, refuse_layout, region::spooled_path},
    directory::{DirectoryOptions, DirectorySource},
    endless::{refuse_device, refuse_device_on_standard_input},
    entry::Timestamp,
    error::SourceError,
    host_names::HostNames,
    manifest::{self, ManifestSource},
    packing::unpack,
    stream::StreamSource,
    tar::{TarOptions, TarSource},
    tree::{Reading, TreeSource},
    tree_stream::TreeStream,
};

/// Some source.
pub enum Source {
    /// Asked directory by directory.
    Tree(Box<dyn TreeSource>),
    /// One file after the other.
    Stream(Box<dyn StreamSource>),
}

/// How a source is read, whatever it turns out to be.
#[derive(Debug, Clone, Default)]
pub struct SourceOptions {
    /// If it is a directory.
    pub directory: DirectoryOptions,
    /// If it is an archive.
    pub tar: TarOptions,
    /// Where a manifest's contents lie; beside it unless told otherwise.
    pub contents: Option<PathBuf>,
    /// The time of what a manifest gives none to.
    pub time: Timestamp,
    /// Users and groups that a manifest may name.
    pub names: HostNames,
    /// Of images of containers that are for several platforms; that of the host unless told otherwise.
    pub platform: Option<Platform>,
    /// Of several sources that are laid over each other, and within an archive: a directory does not replace a symbolic link
    /// to a directory.
    pub keeps_directory_symlinks: bool,
    /// Copies what cannot be read twice to a temporary file first.
    pub spools_streams: bool,
    /// Memory, about, for the records of files of archives, manifests and layers, and a part of it for the names of each
    /// directory that is being read; by default as much as an image's cache takes. The rest goes to temporary files.
    pub memory_bytes: Option<u64>,
}

impl SourceOptions {
    /// [`memory_bytes`](Self::memory_bytes), or the default.
    pub fn memory(&self) -> u64 {
        self.memory_bytes.unwrap_or_else(default_budget_bytes)
    }

    fn directory(&self) -> DirectoryOptions {
        let share = usize::try_from(self.memory() / NAMES_SHARE).unwrap_or(usize::MAX);
        DirectoryOptions { names_bytes: share.min(self.directory.names_bytes), ..self.directory.clone() }
    }
}

/// The names of a directory of the host take one part in this many of the memory at most.
const NAMES_SHARE: u64 = 8;

/// The hard links of a directory among layers take one part in this many of the memory.
const LINKS_SHARE: u64 = 8;

/// So much of a file shows what it is: the comments before a manifest's first line, and that line.
const START_BYTES: u64 = 64 << 10;

impl Source {
    /// Opens a directory, an archive (packed or not, a file or a pipe), a manifest (mtree or a dump of composefs, packed or not), or, as
    /// `-`, an archive from standard input.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn open(path: &Path, options: &SourceOptions, reading: Reading) -> Result<Self, SourceError> {
        if is_standard_input(path) {
            refuse_device_on_standard_input()?;
            let source = TarSource::from_stream("standard input", io::stdin(), options.tar.clone())?;
            return Ok(Self::Stream(Box::new(source)));
        }
        let found = std::fs::metadata(path).map_err(|error| SourceError::host(path, "open", error))?;
        refuse_device(path, &found)?;
        if found.is_dir() {
            refuse_layout(path)?;
            let source = DirectorySource::open(path, options.directory(), reading)?;
            return Ok(Self::Tree(Box::new(source)));
        }
        // A pipe would lose what is looked at.
        if found.is_file() && is_manifest(path)? {
            let beside = || path.parent().map_or_else(PathBuf::new, Path::to_path_buf);
            let contents = options.contents.clone().unwrap_or_else(beside);
            return Ok(Self::Stream(Box::new(ManifestSource::open(
                path,
                &contents,
                options.time,
                &options.names,
            )?)));
        }
        Ok(Self::Stream(Box::new(TarSource::open(path, options.tar.clone(), reading)?)))
    }
}

/// Opens a source as [`open_stream`] does, or the layers of an image of a container.
///
/// # Errors
/// It cannot be read.
pub fn open_streams(
    path: &Path,
    options: &SourceOptions,
    reading: Reading,
) -> Result<Vec<Box<dyn StreamSource>>, SourceError> {
    if let Some(reference) = Reference::parse(path) {
        return container::open(&reference, options.platform.as_ref(), &options.tar, reading);
    }
    if options.spools_streams && !can_be_read_twice(path) {
        let region = spooled_path(path)?;
        return Ok(vec![Box::new(Layer::of_archive(region, options.tar.clone(), reading))]);
    }
    Ok(vec![open_stream(path, options, reading)?])
}

/// Opens a source as [`Source::open`] does, and tells it as a stream whatever it is: as one of several layers, in which
/// [`TarOptions::whiteouts`] speaks of directories too.
///
/// # Errors
/// It cannot be read.
pub fn open_stream(
    path: &Path,
    options: &SourceOptions,
    reading: Reading,
) -> Result<Box<dyn StreamSource>, SourceError> {
    if path.is_dir() && !is_standard_input(path) {
        refuse_layout(path)?;
        let tree = DirectorySource::open(path, options.directory(), reading)?;
        let memory_bytes = usize::try_from(options.memory() / LINKS_SHARE).unwrap_or(usize::MAX);
        return Ok(Box::new(TreeStream::new(tree, options.tar.whiteouts, memory_bytes)));
    }
    match Source::open(path, options, reading)? {
        Source::Stream(stream) => Ok(stream),
        // It has become a directory this moment.
        Source::Tree(_) => Err(SourceError::Replaced { path: path.as_os_str().as_encoded_bytes().into() }),
    }
}

/// Whether a source can be read twice: not a pipe. Images of containers are copied where they come from one.
pub fn can_be_read_twice(path: &Path) -> bool {
    Reference::parse(path).is_some() || (!is_standard_input(path) && (path.is_file() || path.is_dir()))
}

/// Whether a source is a directory of the host, whatever it is called.
pub fn is_directory(path: &Path) -> bool {
    Reference::parse(path).is_none() && !is_standard_input(path) && path.is_dir()
}

/// Whatever else has that name.
fn is_standard_input(path: &Path) -> bool {
    path.as_os_str() == "-"
}

fn is_manifest(path: &Path) -> Result<bool, SourceError> {
    let mut start = Vec::new();
    let file = File::open(path).map_err(|error| SourceError::host(path, "open", error))?;
    let text = match unpack(BufReader::new(file)) {
        Ok(text) => text,
        Err(error) if error.raw_os_error().is_some() => return Err(SourceError::host(path, "read", error)),
        // The reader of the archive says what is wrong.
        Err(_) => return Ok(false),
    };
    let is_packed = text.is_packed();
    match text.take(START_BYTES).read_to_end(&mut start) {
        // What was unpacked before the damage tells.
        Ok(_) => {}
        Err(_) if is_packed => {}
        Err(error) => return Err(SourceError::host(path, "read", error)),
    }
    Ok(manifest::looks_like(&start))
}

#[cfg(test)]
mod tests {
    use std::{fs, io::Write};

    use super::*;
    use crate::error::ArchiveFault;

    #[test]
    fn a_manifest_that_comes_as_a_stream_is_named() {
        for manifest in ["#mtree\n. type=dir\n".to_owned(), "name type=file mode=0644\n".repeat(40)] {
            let stream = TarSource::from_stream("-", io::Cursor::new(manifest), TarOptions::default());
            let refused = stream.and_then(|mut stream| stream.next_item().map(drop));
            assert!(
                matches!(refused, Err(SourceError::Archive { fault: ArchiveFault::Manifest, .. })),
                "{refused:?}"
            );
        }
    }

    #[test]
    fn what_it_is_shows() {
        let folder = tempfile::tempdir().unwrap();
        let open = |path: &Path| Source::open(path, &SourceOptions::default(), Reading::Metadata).unwrap();
        assert!(matches!(open(folder.path()), Source::Tree(_)));
        let path = folder.path().join("source");
        for (text, items) in [
            ("#mtree\n. type=dir\n", 1),
            ("/ 0 40755 2 0 0 0 0.0 - - -\n/a 0 100644 1 0 0 0 0.0 - - -\n", 2),
            // As mtree -c, mtree -C, mtree -D and a person write them.
            ("#\t   user: root\n#\n\n# .\n/set type=file\n.  type=dir\n    a   type=fifo\n..\n", 2),
            ("./a type=fifo uid=0\n", 1),
            ("type=dir mode=0755 .\ntype=fifo uid=0 ./a\ntype=link link=a ./b\n", 3),
            ("a/b \\\n  type=fifo\n", 1),
        ] {
            fs::write(&path, text).unwrap();
            let Source::Stream(mut stream) = open(&path) else { panic!("{text}") };
            let mut count = 0;
            while stream.next_item().unwrap().is_some() {
                count += 1;
            }
            assert_eq!(count, items, "{text}");
        }
        // As gzip, zstd and xz pack them.
        let text = b"#mtree\n. type=dir\n./a type=fifo\n";
        let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        gzip.write_all(text).unwrap();
        let mut xz = liblzma::write::XzEncoder::new(Vec::new(), 1);
        xz.write_all(text).unwrap();
        for packed in
            [gzip.finish().unwrap(), xz.finish().unwrap(), zstd::encode_all(text.as_slice(), 1).unwrap()]
        {
            fs::write(&path, &packed).unwrap();
            let Source::Stream(mut stream) = open(&path) else { panic!("a tree") };
            assert!(stream.next_item().unwrap().is_some() && stream.next_item().unwrap().is_some());
            assert!(stream.next_item().unwrap().is_none());
            fs::write(&path, &packed[..packed.len() - 2]).unwrap();
            let Source::Stream(mut stream) = open(&path) else { panic!("a tree") };
            let end = std::iter::repeat_with(|| stream.next_item()).find(|item| !matches!(item, Ok(Some(_))));
            assert!(matches!(end, Some(Err(_))), "{end:?}");
            let behind = [&packed[..], b"more"].concat();
            fs::write(&path, behind).unwrap();
            let Source::Stream(mut stream) = open(&path) else { panic!("a tree") };
            let end = std::iter::repeat_with(|| stream.next_item()).find(|item| !matches!(item, Ok(Some(_))));
            assert!(matches!(end, Some(Err(_))), "{end:?}");
        }
        for path in ["/dev/zero", "/dev/urandom"] {
            let refused = Source::open(path.as_ref(), &SourceOptions::default(), Reading::Metadata).map(drop);
            assert!(
                matches!(refused, Err(SourceError::Archive { fault: ArchiveFault::Device, .. })),
                "{refused:?}"
            );
        }
        fs::write(&path, "").unwrap();
        let Source::Stream(mut stream) = open(&path) else { panic!("a tree") };
        let empty = stream.next_item().map(drop);
        assert!(matches!(empty, Err(SourceError::Archive { fault: ArchiveFault::Empty, .. })), "{empty:?}");
        for text in ["neither", "#!/bin/sh\nname=value ls\n", "# only comments\n", "a=b c=d\n"] {
            fs::write(&path, text).unwrap();
            let Source::Stream(mut stream) = open(&path) else { panic!("a tree") };
            assert!(matches!(stream.next_item(), Err(SourceError::Archive { .. })), "{text}");
        }
        assert!(
            Source::open(&folder.path().join("nothing"), &SourceOptions::default(), Reading::Metadata)
                .is_err()
        );
    }
}
