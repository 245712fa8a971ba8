//! Making images.

use std::path::{Path, PathBuf};

use uxfs_block::engine;
use uxfs_format::units::Uuid;
use uxfs_mkfs::{
    empty,
    identity::Identity,
    layout::Layout,
    options::{Options, grammar::Group},
    target::{FileSize, Reserved, Target},
};
use uxfs_populate::{
    adjust::Adjustments,
    contents::Contents,
    fit::Fit,
    make::{self, Making},
    report::{Progress, Report},
};
use uxfs_source::{
    directory::{DirectoryOptions, FileIdentity},
    open::SourceOptions,
    tar::TarOptions,
    tree::Reading,
};

use crate::{Error, Result, Timestamp, error::About};

/// Makes an image, with the layout and the options of `mkfs.xfs`, empty or filled.
///
/// ```
/// # let folder = tempfile::tempdir()?;
/// # let tree = folder.path().join("rootfs");
/// # std::fs::create_dir(&tree)?;
/// # let path = folder.path().join("disk.img");
/// use uxfs::Maker;
///
/// // As large as what it is filled with needs, and always the same bytes.
/// let made = Maker::new().source(&tree).label("root").reproducible().make(&path)?;
/// # assert!(made.size_bytes > 0);
///
/// // Empty, with options of mkfs.xfs.
/// Maker::new().size(300 << 20).option('b', "size=1024").option('m', "reflink=0").overwrite().make(&path)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// File systems below 300 MiB are refused, as `mkfs.xfs` refuses them, unless [`allow_unsupported`](Maker::allow_unsupported) is called.
#[derive(Debug, Clone, Default)]
pub struct Maker {
    size_bytes: Option<u64>,
    options: Vec<(char, String)>,
    label: Vec<u8>,
    uuid: Option<[u8; 16]>,
    time: Option<Timestamp>,
    sources: Vec<PathBuf>,
    free_percent: u8,
    is_reproducible: bool,
    overwrites: bool,
    allows_unsupported: bool,
    skips_unreadable: bool,
    keeps_access_times: bool,
}

/// The result of making a file system.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Made {
    /// Size of the file system.
    pub size_bytes: u64,
    /// Directories, without the root.
    pub directories: u64,
    /// Regular files.
    pub files: u64,
    /// Symbolic links.
    pub symbolic_links: u64,
    /// Devices, fifos and sockets.
    pub special_files: u64,
    /// Further names of files.
    pub hard_links: u64,
    /// The first losses, in words: properties of the source that the image does not have.
    pub problems: Vec<String>,
    /// How many problems there were.
    pub problem_count: u64,
}

impl Maker {
    /// The defaults of `mkfs.xfs`.
    pub fn new() -> Self {
        Self { free_percent: 10, ..Self::default() }
    }

    /// Size of the file, unless it is larger already. Without a size a block device is used whole, and a file becomes as large as
    /// its [`source`](Self::source) needs.
    #[must_use]
    pub fn size(mut self, bytes: u64) -> Self {
        self.size_bytes = Some(bytes);
        self
    }

    /// Share in percent that `df` shows as available in an image that is made as large as needed: 10 unless given, at most 99.
    #[must_use]
    pub fn free_percent(mut self, percent: u8) -> Self {
        self.free_percent = percent.min(99);
        self
    }

    /// An option of `mkfs.xfs`: `option('i', "size=1024")` for `-i size=1024`.
    #[must_use]
    pub fn option(mut self, letter: char, text: impl Into<String>) -> Self {
        self.options.push((letter, text.into()));
        self
    }

    /// The label, at most 12 bytes.
    #[must_use]
    pub fn label(mut self, label: impl AsRef<[u8]>) -> Self {
        self.label = label.as_ref().to_vec();
        self
    }

    /// The uuid; random unless given.
    #[must_use]
    pub fn uuid(mut self, uuid: [u8; 16]) -> Self {
        self.uuid = Some(uuid);
        self
    }

    /// The time at which the image is made, in place of the clock's.
    #[must_use]
    pub fn time(mut self, time: impl Into<Timestamp>) -> Self {
        self.time = Some(time.into());
        self
    }

    /// Makes equal images of equal sources: a fixed uuid, and the time 1970, unless they are given.
    #[must_use]
    pub fn reproducible(mut self) -> Self {
        self.is_reproducible = true;
        self
    }

    /// Fills the image: with a directory of the host, an archive (tar, also packed with gzip, zstd or xz), a manifest (mtree,
    /// composefs dump) or an image of a container (`oci:DIR:TAG`, `docker-archive:FILE`). Several are layers, one over the
    /// other, as container images have them.
    #[must_use]
    pub fn source(mut self, path: impl Into<PathBuf>) -> Self {
        self.sources.push(path.into());
        self
    }

    /// Keeps the access times of the source; otherwise all are the time at which the image is made.
    #[must_use]
    pub fn keep_access_times(mut self) -> Self {
        self.keeps_access_times = true;
        self
    }

    /// Leaves out what cannot be read of a source, and says so in [`Made::problems`].
    #[must_use]
    pub fn skip_unreadable(mut self) -> Self {
        self.skips_unreadable = true;
        self
    }

    /// Overwrites what is there; otherwise a file or device that seems to hold something is refused.
    #[must_use]
    pub fn overwrite(mut self) -> Self {
        self.overwrites = true;
        self
    }

    /// Allows unsupported geometries: file systems below 300 MiB, one allocation group, a log below 64 MiB. For tests.
    #[must_use]
    pub fn allow_unsupported(mut self) -> Self {
        self.allows_unsupported = true;
        self
    }

    /// Makes the image at `path`: a file, which is made where it is missing, or a block device. Where this fails, a file that was
    /// made goes away again, and an image that was begun says that it is unfinished.
    ///
    /// # Errors
    /// Options that do not go together; something is there; a source cannot be read; no space; the device.
    pub fn make(&self, path: impl AsRef<Path>) -> Result<Made> {
        let path = path.as_ref();
        self.try_make(path).about(path.display())
    }

    fn try_make(&self, path: &Path) -> Result<Made> {
        let mut options = self.mkfs_options()?;
        let identity = self.identity(&options)?;
        let mut reserved = if self.sources.is_empty() { None } else { Some(Reserved::make(path)?) };
        let mut filling = self.filling(path)?;
        let size = match (&mut filling, self.size_bytes) {
            (_, Some(bytes)) => FileSize::AtLeast(bytes),
            (Some(filling), None) if !is_block_device(path) => {
                options.size_bytes = Some(filling.fit(&options, &identity, path, self.free_percent)?);
                FileSize::Exactly(options.size_bytes.unwrap_or_default())
            }
            _ => FileSize::Present,
        };
        let mut target = Target::open(path, size, false)?;
        if !self.overwrites {
            target.refuse_occupied().map_err(|error| match error {
                uxfs_mkfs::target::TargetError::Occupied(found) => {
                    Error::invalid(format!("it seems to hold {}; Maker::overwrite() allows it", found.name))
                }
                error => error.into(),
            })?;
        }
        let (layout, _warnings) = Layout::resolve(&options, target.facts())?;
        if let Some(reserved) = &mut reserved {
            reserved.begun();
        }
        let device = target.prepare(&layout, true)?;
        let report = match &mut filling {
            None => {
                empty::format(&*device, &layout, &identity)?;
                Report::default()
            }
            Some(filling) => {
                let making = Making {
                    layout: &layout,
                    identity: &identity,
                    adjustments: &mut filling.adjustments,
                    options: filling.options,
                    cache_bytes: None,
                };
                make::make(&device, &mut filling.contents, making, &Progress::default())?
            }
        };
        target.keep();
        if let Some(reserved) = reserved {
            reserved.keep();
        }
        let geometry = layout.geometry();
        let size_bytes = geometry.data_blocks.saturating_mul(geometry.block_size_bytes.into());
        Ok(Made::of(size_bytes, report))
    }

    fn mkfs_options(&self) -> Result<Options> {
        let mut options = Options::default();
        options.allow_unsupported = self.allows_unsupported;
        for (letter, text) in &self.options {
            let groups =
                Group::ALL.into_iter().filter(|group| !matches!(group, Group::Config | Group::Proto));
            let group = groups.into_iter().find(|group| group.letter() == *letter);
            let unknown =
                || Error::invalid(format!("-{letter} is no option of mkfs.xfs that can be given here"));
            options.add(group.ok_or_else(unknown)?, text)?;
        }
        options.set_label(&self.label)?;
        Ok(options)
    }

    fn identity(&self, options: &Options) -> Result<Identity> {
        let uuid = self.uuid.map(Uuid).or(options.uuid()?);
        let (mut identity, _) = Identity::from_environment(uuid, |_| None::<&str>);
        if self.is_reproducible {
            identity.make_reproducible(uuid.is_some(), false);
        }
        if let Some(time) = self.time {
            identity.now = time.into();
        }
        Ok(identity)
    }

    fn filling(&self, image: &Path) -> Result<Option<Filling>> {
        let paths: Vec<&Path> = self.sources.iter().map(PathBuf::as_path).collect();
        if paths.is_empty() {
            return Ok(None);
        }
        // The image may lie in the tree that it is filled from.
        let exclude = engine::open_plain(image).and_then(FileIdentity::of).into_iter().collect();
        let directory = DirectoryOptions {
            skip_unreadable: self.skips_unreadable,
            exclude,
            ..DirectoryOptions::default()
        };
        let tar = TarOptions { whiteouts: paths.len() > 1, ..TarOptions::default() };
        let options = SourceOptions { directory, tar, ..SourceOptions::default() };
        Ok(Some(Filling {
            contents: Contents::open(&paths, &options, Reading::Everything)?,
            adjustments: Adjustments::default(),
            options: uxfs_populate::Options {
                keeps_access_times: self.keeps_access_times,
                ..uxfs_populate::Options::default()
            },
        }))
    }
}

/// Sources that have been opened.
struct Filling {
    contents: Contents,
    adjustments: Adjustments,
    options: uxfs_populate::Options,
}

impl Filling {
    fn fit(&mut self, options: &Options, identity: &Identity, image: &Path, free_percent: u8) -> Result<u64> {
        let directory = image.parent().filter(|parent| !parent.as_os_str().is_empty());
        let mut fit = Fit {
            mkfs: options,
            identity,
            directory: directory.unwrap_or(Path::new(".")),
            options: self.options,
            adjustments: &mut self.adjustments,
            cache_bytes: None,
            free_percent: free_percent.into(),
            progress: &Progress::default(),
        };
        Ok(fit.size_bytes(&mut self.contents)?)
    }
}

impl Made {
    fn of(size_bytes: u64, report: Report) -> Self {
        Self {
            size_bytes,
            directories: report.directories,
            files: report.files,
            symbolic_links: report.symlinks,
            special_files: report.special_files,
            hard_links: report.hard_links,
            problems: report.problems.iter().map(ToString::to_string).collect(),
            problem_count: report.problem_count,
        }
    }
}

fn is_block_device(path: &Path) -> bool {
    use std::os::unix::fs::FileTypeExt;
    path.metadata().is_ok_and(|found| found.file_type().is_block_device())
}
