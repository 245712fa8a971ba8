//! The source of a new file system, and options for filling it: the part of the command line that mkfs.xfs does not have.

use std::{
    ffi::OsStr,
    os::unix::{ffi::OsStrExt, fs::FileExt},
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    thread,
};

use uxfs_block::cache::pressure::default_budget_bytes;
use uxfs_partition::signature;
use uxfs_populate::{MEMORY_SHARE, Options, adjust::Adjustments, contents::Contents, error::PopulateError};
use uxfs_source::{
    container::{self, Form, Platform, Reference},
    content::Content,
    directory::{DirectoryOptions, DirectorySource, FileIdentity},
    entry::{Kind, Timestamp},
    error::{ArchiveFault, Shown, SourceError, TextFault},
    host_names::HostNames,
    labels::Labels,
    manifest::{Overlay, Unmatched},
    open::{Source, SourceOptions},
    owner_map::OwnerMap,
    protofile::{ProtofileOptions, ProtofileSource},
    tar::TarOptions,
    tree::{Reading, TreeSource},
};

use super::times::TimeArguments;
use crate::{
    edit::labels,
    failure::Failure,
    kind::Note,
    output::notice,
    overwrite::{Input, path_within},
    text::parse_size,
};

/// Sources, and options for filling.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Contents")]
pub struct SourceArguments {
    /// Fill it from a directory, an archive (tar, also compressed with gzip, zstd or xz; `-` for standard input), a manifest
    /// (mtree, composefs dump, also compressed) or an image of a container (`oci:DIR[:TAG]`, `oci-archive:FILE[:TAG]`, `docker-archive:FILE[:REF]`);
    /// several sources, of any kind, are layered like those of a container image
    #[arg(long, value_name = "SOURCE")]
    pub from: Vec<PathBuf>,
    /// With images of containers for several platforms: the one to take [default: this machine's]
    #[arg(long, value_name = "OS/ARCH[/VARIANT]", requires = "from")]
    platform: Option<Platform>,
    /// Read on behind the blocks of zeros that end an archive, as tar does for archives joined into one file
    #[arg(long, requires = "from")]
    ignore_zeros: bool,
    /// Keep symbolic links to directories where a later archive or layer has a directory, as tar does with this option
    #[arg(long, requires = "from")]
    keep_directory_symlink: bool,
    /// Make the image without unreadable files, and list them; the exit code is 1 then
    #[arg(long)]
    pub skip_unreadable: bool,
    /// Do not cross file system boundaries: mount points stay empty directories
    #[arg(long)]
    one_file_system: bool,
    /// Keep the source's access times; by default they are the time at which the image is made
    #[arg(long)]
    atime: bool,
    #[command(flatten)]
    times: TimeArguments,
    /// Map owners: comma-separated rules FROM:TO, FROM:TO:COUNT, LOW-HIGH:TO or *:TO, with u: or g: in front for users or
    /// groups only; or a file of such rules. FROM and TO are numbers, or names of this machine
    #[arg(long, value_name = "RULES|FILE")]
    owner_map: Option<String>,
    /// Directory with files passwd and group for the names in --owner-map, in manifests and in ACLs of archives [default: /etc]
    #[arg(long, value_name = "DIR")]
    owner_names: Option<PathBuf>,
    /// Take owners, modes, times and attributes by path from an mtree manifest or composefs dump, also compressed
    #[arg(long, value_name = "FILE", visible_alias = "mode-map")]
    manifest: Option<PathBuf>,
    /// Set SELinux labels by path from a file_contexts file, and from its companions .homedirs, .local, .subs and .subs_dist
    #[arg(long, value_name = "FILE")]
    file_contexts: Vec<PathBuf>,
    /// With --size fit: the share of the space that df then shows as available
    #[arg(long, value_name = "PERCENT", default_value = "10%", value_parser = parse_percent)]
    pub free: u64,
    /// Make equal images from equal sources: a fixed uuid unless -m uuid= is given, the time from SOURCE_DATE_EPOCH or 1970
    #[arg(long)]
    pub reproducible: bool,
    /// Threads that read and copy; the number does not change the image [default: one for each processor]
    #[arg(long, value_name = "COUNT")]
    threads: Option<usize>,
    /// Memory for cached metadata [default: 256M, or less where memory is scarce]
    #[arg(long, value_name = "BYTES", value_parser = parse_size)]
    pub cache_size: Option<u64>,
    /// Memory for the records of the source's files and of --manifest; more goes to temporary files in TMPDIR. It does not
    /// change the image [default: as --cache-size]
    #[arg(long, value_name = "BYTES", value_parser = parse_size)]
    source_memory: Option<u64>,
}

/// `--manifest` takes one part in this many of the memory for records.
const MANIFEST_SHARE: u64 = 4;
/// Paths of a manifest that are reported as missing in the source; the others are counted.
const UNMATCHED_TOLD: usize = 20;

fn parse_percent(text: &str) -> Result<u64, String> {
    let number = text.strip_suffix('%').unwrap_or(text);
    number
        .parse()
        .ok()
        .filter(|percent| *percent < 100)
        .ok_or_else(|| format!("`{text}` is not a share such as 10%, below 100%"))
}

impl SourceArguments {
    /// Whether there is anything to fill the file system with.
    pub fn is_given(&self) -> bool {
        !self.from.is_empty()
    }

    /// Files read in addition to those on the command line.
    pub(crate) fn companions(&self) -> Vec<PathBuf> {
        self.file_contexts.first().map(|first| Labels::companions(first)).unwrap_or_default()
    }

    /// The files that are read.
    pub(crate) fn inputs(&self) -> impl Iterator<Item = Input<'_>> {
        let sources = self.from.iter().map(|path| Input::new("source", container::path_of(path)));
        let manifests = self.manifest.iter().map(|path| Input::new("manifest", path));
        let contexts = self.file_contexts.iter().map(|path| Input::new("file of labels", path));
        let owners = self.owner_map.iter().map(|path| Input::new("owner map", Path::new(path)));
        sources.chain(manifests).chain(contexts).chain(owners)
    }

    /// Opens all that is named. `image` is left out where it lies in the source itself. To fit an image the sources are
    /// read twice.
    pub fn open(
        &self,
        proto: Option<&Proto<'_>>,
        image: &Path,
        is_fitted: bool,
    ) -> Result<Contents, Failure> {
        if let Some(proto) = proto.filter(|proto| !proto.path.is_dir()) {
            let options = ProtofileOptions {
                time: proto.now,
                access_times: proto.keeps_access_times,
                slashes_are_spaces: proto.slashes_are_spaces,
            };
            let source = ProtofileSource::open(proto.path, options)?;
            return Ok(Contents::One(Source::Stream(Box::new(source))));
        }
        let paths: Vec<&Path> =
            proto.map(|proto| proto.path).into_iter().chain(self.from.iter().map(PathBuf::as_path)).collect();
        let itself = image_identity(image);
        let is_itself = |path: &Path| path.is_file() && image_identity(path) == itself;
        if let Some(path) = paths.iter().find(|path| is_itself(container::path_of(path))) {
            return Err(Failure::usage("is the image itself and cannot be its source").about_host(path));
        }
        self.check_containers(image)?;
        let mut options = self.source_options(itself, paths.len() > 1, self.names()?);
        options.spools_streams = is_fitted;
        Ok(Contents::open(&paths, &options, Reading::Everything)?)
    }

    /// Refuses options that mean nothing without images of containers, and an image in the place of a part of one.
    fn check_containers(&self, image: &Path) -> Result<(), Failure> {
        let containers: Vec<_> = self.from.iter().filter_map(|path| Reference::parse(path)).collect();
        if self.platform.is_some() && containers.is_empty() {
            let failure =
                Failure::usage("--platform chooses among images of containers, and no source is one");
            return Err(failure.with_remedy("name it as oci:DIR, oci-archive:FILE or docker-archive:FILE"));
        }
        let layouts = containers.iter().filter(|reference| reference.form == Form::Layout);
        for Reference { path, .. } in layouts {
            if image.is_file() && path_within(path, image).is_some_and(|within| within.starts_with("blobs")) {
                return Err(Failure::usage(format!("lies among the blobs of its source {}", path.display())));
            }
        }
        Ok(())
    }

    fn memory_bytes(&self) -> Option<u64> {
        self.source_memory.or(self.cache_size)
    }

    /// The users and groups by name.
    fn names(&self) -> Result<HostNames, Failure> {
        Ok(self.owner_names.as_deref().map(HostNames::of_folder).transpose()?.unwrap_or_default())
    }

    fn source_options(
        &self,
        exclude: Vec<FileIdentity>,
        is_layered: bool,
        names: HostNames,
    ) -> SourceOptions {
        let mut directory = DirectoryOptions {
            skip_unreadable: self.skip_unreadable,
            one_file_system: self.one_file_system,
            exclude,
            ..DirectoryOptions::default()
        };
        if let Some(threads) = self.threads {
            directory.threads = threads.max(1);
        }
        let tar = TarOptions {
            whiteouts: is_layered,
            ignores_zeros: self.ignore_zeros,
            names: names.clone(),
            ..TarOptions::default()
        };
        let (memory_bytes, platform) = (self.memory_bytes(), self.platform.clone());
        SourceOptions {
            directory,
            tar,
            names,
            memory_bytes,
            platform,
            keeps_directory_symlinks: self.keep_directory_symlink,
            ..SourceOptions::default()
        }
    }

    /// Reports what `--manifest` describes and the source does not have. The image is made all the same.
    pub fn tell_unmatched(&self, adjustments: &mut Adjustments) {
        let (Some(overlay), Some(manifest)) = (&mut adjustments.overlay, &self.manifest) else { return };
        let manifest = manifest.display();
        match overlay.unmatched(UNMATCHED_TOLD) {
            Ok(Unmatched { count: 0, .. }) => {}
            Ok(Unmatched { first, count }) => {
                for path in &first {
                    let path = Shown([b"/", &**path].concat().into());
                    notice!(Note::Source, "{manifest}: the source has no such file: {path}");
                }
                let more = count.saturating_sub(first.len() as u64);
                if more > 0 {
                    notice!(Note::Source, "{manifest}: and {more} more");
                }
            }
            Err(error) => notice!(Note::Source, "{manifest}: {error}"),
        }
    }

    /// Reports that labels were asked for, and no file has one.
    pub fn tell_unlabelled(&self, adjustments: &Adjustments) {
        if let (Some(labels), Some(file)) = (&adjustments.labels, self.file_contexts.first())
            && labels.labelled_count() == 0
        {
            notice!(Note::Source, "{}: no file of the source has a label", file.display());
        }
    }

    /// Reads what changes the sources' metadata. `epoch` is what SOURCE_DATE_EPOCH says.
    pub fn adjustments(&self, epoch: Option<Timestamp>, now: Timestamp) -> Result<Adjustments, Failure> {
        // Prototypes are filled as mkfs.xfs fills them.
        let times = self.times.rule(epoch.filter(|_| self.is_given()), now)?;
        let owners = self.owners()?;
        let memory_bytes = self.memory_bytes().unwrap_or_else(default_budget_bytes) / MANIFEST_SHARE;
        let names = self.names()?;
        let open = |path| {
            Overlay::open(path, &names, memory_bytes).map_err(|error| Failure::from(error).at_host(path))
        };
        let overlay = self.manifest.as_deref().map(open).transpose()?;
        let labels = labels::open(&self.file_contexts)?;
        Ok(Adjustments { owners, overlay, times, labels })
    }

    fn owners(&self) -> Result<OwnerMap, Failure> {
        let Some(rules) = &self.owner_map else { return Ok(OwnerMap::default()) };
        let names = self.names()?;
        if !Path::new(rules).is_file() {
            let parsed = OwnerMap::parse("--owner-map", rules, &names);
            return parsed.map_err(|error| Failure::usage(error.to_string()));
        }
        let text = std::fs::read_to_string(rules);
        let cannot = |error| Failure::caused_by(&error).about("cannot read it").about_host(Path::new(rules));
        let text = text.map_err(cannot)?;
        OwnerMap::parse(rules, &text, &names).map_err(|error| Failure::from(error).at_host(Path::new(rules)))
    }

    /// How the file system is filled.
    pub fn options(&self, proto: Option<&Proto<'_>>) -> Options {
        let has_access_times = self.atime || self.times.sets_all();
        let mut options = Options {
            keeps_access_times: has_access_times || proto.is_some_and(|proto| proto.keeps_access_times),
            keeps_directory_symlinks: self.keep_directory_symlink,
            ..Options::default()
        };
        if let Some(threads) = self.threads {
            options.threads = threads.max(1);
        }
        if let Some(memory_bytes) = self.memory_bytes() {
            options.memory_bytes = memory_bytes / MEMORY_SHARE;
        }
        options
    }
}

/// The prototype file of `-p`, with its options.
#[derive(Debug, Clone, Copy)]
pub struct Proto<'a> {
    /// A directory, or a prototype file.
    pub path: &'a Path,
    /// `atime=1`.
    pub keeps_access_times: bool,
    /// `slashes_are_spaces=1`.
    pub slashes_are_spaces: bool,
    /// The time of files that a prototype file names.
    pub now: Timestamp,
}

/// The image itself: it may lie in the tree that it is filled from.
fn image_identity(image: &Path) -> Vec<FileIdentity> {
    uxfs_block::engine::open_plain(image).and_then(FileIdentity::of).into_iter().collect()
}

impl From<SourceError> for Failure {
    fn from(error: SourceError) -> Self {
        let failure = Self::caused_by(&error).of_host_tree();
        match &error {
            // A list of paths comes before.
            SourceError::Unreadable(_) => {
                failure.with_remedy("--skip-unreadable makes the image without them")
            }
            SourceError::Text { fault: TextFault::UnknownName { .. }, .. } => {
                failure.with_remedy("--owner-names DIR takes names from DIR/passwd and DIR/group")
            }
            SourceError::Compiled { .. } => {
                failure.with_remedy("name the text that it was compiled from, usually the file without .bin")
            }
            SourceError::Archive { archive, fault: ArchiveFault::Checksum { .. }, offset: 0..=512 } => {
                match held_instead_of_archive(archive) {
                    Some(held) => failure.with_remedy(&held),
                    None => failure,
                }
            }
            _ => failure,
        }
    }
}

/// What a file that is no archive seems to hold, and how its files are reached.
fn held_instead_of_archive(file: &Shown) -> Option<String> {
    let path = Path::new(OsStr::from_bytes(&file.0));
    let file = uxfs_block::engine::open_plain(path).ok()?;
    let held =
        signature::find(file.metadata().ok()?.len(), |offset, bytes| file.read_exact_at(bytes, offset));
    let name = held.ok()??.name;
    let way = match name {
        signature::XFS => format!(
            ": uxfs extract {} --tar - | uxfs mkfs --from - makes an image of its files",
            path.display()
        ),
        _ => String::new(),
    };
    Some(format!("it seems to hold {name}{way}"))
}

impl From<PopulateError> for Failure {
    fn from(error: PopulateError) -> Self {
        match error {
            PopulateError::Image(error) => error.into(),
            PopulateError::Source(error) => error.into(),
            error => Self::caused_by(&error),
        }
    }
}

/// Counts what a directory holds while it is being read, so that progress can say when it will end.
#[derive(Debug)]
pub struct Survey {
    /// Bytes of contents; `u64::MAX` until all has been seen.
    bytes: Arc<AtomicU64>,
}

impl Survey {
    /// Counts what `contents` hold, where that can be done.
    pub fn of(contents: &Contents, name: &Path, image: &Path) -> Option<Self> {
        match contents {
            Contents::One(Source::Tree(_)) => Self::start(name, image),
            Contents::Layers(layers) => layers.content_bytes().ok().map(Self::known),
            Contents::One(Source::Stream(_)) | Contents::Streams(_) => None,
        }
    }

    /// Begins to count in a thread of its own, which ends with the source or the process.
    pub fn start(path: &Path, image: &Path) -> Option<Self> {
        let options = DirectoryOptions {
            threads: 1,
            skip_unreadable: true,
            exclude: image_identity(image),
            ..DirectoryOptions::default()
        };
        let mut source = DirectorySource::open(path, options, Reading::Metadata).ok()?;
        let bytes = Arc::new(AtomicU64::new(u64::MAX));
        let total = Arc::clone(&bytes);
        let count = move || {
            let mut sum = 0_u64;
            // The thread that fills the image reports errors of the source.
            while let Ok(Some(batch)) = source.next_batch() {
                for entry in &batch.entries {
                    if let Kind::Regular { size_bytes, content } = &entry.kind
                        && !matches!(content, Content::Hole)
                    {
                        sum = sum.saturating_add(*size_bytes);
                    }
                }
            }
            total.store(sum, Relaxed);
        };
        thread::Builder::new().name("survey".into()).spawn(count).ok()?;
        Some(Self { bytes })
    }

    /// Where the bytes of all contents are known already.
    pub fn known(bytes: u64) -> Self {
        Self { bytes: Arc::new(AtomicU64::new(bytes)) }
    }

    /// Bytes of all contents, once they are known.
    pub fn bytes(&self) -> Option<u64> {
        Some(self.bytes.load(Relaxed)).filter(|bytes| *bytes != u64::MAX)
    }
}
