//! Where on a disk or in a disk image the file system lies: at a byte, or in a partition.

use std::{
    fs,
    ops::Range,
    path::{Path, PathBuf},
    sync::{Arc, OnceLock},
};

use uxfs_block::{device::BlockDevice, window::Part};
use uxfs_partition::selection::Selector;
use uxfs_volume::error::Error;

use crate::{
    failure::Failure,
    forms,
    image::{beginning_of, is_no_file_system},
    kind::Kind,
    partitions::Disk,
    text::{parse_size, shell_path, shell_word},
};

/// The smallest sectors.
const SECTOR_BYTES: u64 = 512;

/// The place of the file system, as every command on an image takes it.
#[derive(Debug, Clone, Default, clap::Args)]
pub struct PlaceArguments {
    /// Offset of the file system in IMAGE: bytes, or with K, M, G, T
    #[arg(long, value_name = "BYTES", value_parser = parse_size, conflicts_with = "partition", help_heading = "Input and output")]
    offset: Option<u64>,
    /// The partition of IMAGE that holds the file system (GPT or MBR): its number, name or UUID, or the label or UUID of the file system
    #[arg(long, value_name = "N|LABEL|UUID", help_heading = "Input and output")]
    partition: Option<Selector>,
    /// Looked for once.
    #[arg(skip)]
    found: OnceLock<Part>,
    /// The whole disk in an image that is not plain.
    #[arg(skip)]
    disk: OnceLock<Arc<dyn BlockDevice>>,
}

impl PlaceArguments {
    /// As given by options of other names.
    pub fn of(offset: Option<u64>, partition: Option<Selector>) -> Self {
        Self { offset, partition, ..Self::default() }
    }

    /// Whether it was said.
    pub fn is_given(&self) -> bool {
        self.partition.is_some() || self.offset.is_some()
    }

    /// Whether it is a partition.
    pub fn is_in_partition(&self) -> bool {
        self.partition.is_some()
    }

    /// Whether the image is taken for the file system itself.
    pub fn is_whole_image(&self) -> bool {
        self.partition.is_none() && self.offset.unwrap_or(0) == 0
    }

    /// A failure for a disk with partitions that was taken for a file system, after this error; `None` where it is no such.
    pub fn disk(&self, image: &Path, error: &Error) -> Option<Failure> {
        if let Some(failure) =
            beginning_of(error).and_then(|magic| forms::is_no_file_system(magic, Some(image)))
        {
            return Some(failure);
        }
        if !is_no_file_system(error) {
            return None;
        }
        let disk = match self.disk.get() {
            Some(disk) => Disk::of_image(disk),
            None => Disk::open(image).ok()?,
        };
        match &self.partition {
            Some(selector) => disk.has_no_file_system_in(selector),
            None if self.is_whole_image() => disk.is_no_file_system("--partition "),
            None => None,
        }
    }

    /// A failure for an image or a device that holds something else than XFS there, after this error. What was there before XFS may still be
    /// seen, so it is asked for where no superblock was found.
    pub fn other_contents(&self, image: &Path, error: &Error) -> Option<Failure> {
        if !is_no_file_system(error) {
            return None;
        }
        let (disk, start_bytes) = match self.disk.get() {
            Some(disk) => (Disk::of_image(disk), self.find_on(disk).ok()?.start_bytes),
            None => (Disk::open(image).ok()?, self.find(image).ok()?.start_bytes),
        };
        disk.other_contents(start_bytes)
    }

    /// Refuses a place without a byte in it.
    ///
    /// # Errors
    /// It is one.
    pub fn holding_something(&self, device: Arc<dyn BlockDevice>) -> Result<Arc<dyn BlockDevice>, Failure> {
        if device.size_bytes() > 0 {
            return Ok(device);
        }
        let words = match self.offset {
            Some(offset @ 1..) => format!("no file system there: the image ends before byte {offset}"),
            _ => "not an XFS file system: the file is empty".to_owned(),
        };
        Err(Failure::refused(Kind::NotAFileSystem, words))
    }

    /// The option that was given, as another command takes it, with a space in front.
    pub fn option(&self) -> String {
        match (&self.partition, self.offset.unwrap_or(0)) {
            (Some(selector), _) => format!(" --partition {}", shell_word(selector.to_string().as_bytes())),
            (None, 0) => String::new(),
            (None, offset) => format!(" --offset {offset}"),
        }
    }

    /// The place in `image` that a new file system takes: a partition must lie beside all others.
    ///
    /// # Errors
    /// As [`find`](Self::find); it does not.
    pub fn find_to_make(&self, image: &Path) -> Result<Part, Failure> {
        match &self.partition {
            Some(selector) => {
                let range = Disk::open(image).map_err(Error::from)?.find_to_make(selector)?;
                Ok(part_of(range))
            }
            None => match self.offset {
                Some(offset) if !offset.is_multiple_of(SECTOR_BYTES) => Err(Failure::usage(format!(
                    "--offset {offset}: a file system is made at a multiple of {SECTOR_BYTES} bytes"
                ))),
                _ => self.find(image),
            },
        }
    }

    /// Refuses a byte of a disk from which on a file system of this size would lie over partitions.
    ///
    /// # Errors
    /// It is one; the partition table cannot be read.
    pub fn refuse_over_partitions(&self, image: &Path, size_bytes: u64) -> Result<(), Failure> {
        match (self.offset, &self.partition) {
            (Some(offset), None) if offset > 0 => {
                let disk = Disk::open(image).map_err(Error::from)?;
                disk.refuse_over_partitions(&(offset..offset.saturating_add(size_bytes)))
            }
            _ => Ok(()),
        }
    }

    /// The place of the file system in `image`.
    ///
    /// # Errors
    /// There is no such partition; its table cannot be read.
    pub fn find(&self, image: &Path) -> Result<Part, Failure> {
        let Some(selector) = &self.partition else {
            return Ok(Part { start_bytes: self.offset.unwrap_or(0), length_bytes: None });
        };
        if let Some(found) = self.found.get() {
            return Ok(*found);
        }
        let range = Disk::open(image).map_err(Error::from)?.find(selector)?;
        Ok(*self.found.get_or_init(|| part_of(range)))
    }

    /// As [`find`](Self::find), on the disk in an image that is not plain.
    ///
    /// # Errors
    /// As there.
    pub fn find_on(&self, disk: &Arc<dyn BlockDevice>) -> Result<Part, Failure> {
        let disk = self.disk.get_or_init(|| Arc::clone(disk));
        if let (Some(selector), None) = (&self.partition, self.found.get()) {
            let range = Disk::of_image(disk).find(selector)?;
            let _ = self.found.set(part_of(range));
        }
        let whole = Part { start_bytes: self.offset.unwrap_or(0), length_bytes: None };
        Ok(self.found.get().copied().unwrap_or(whole))
    }
}

/// A file system in an image, for messages.
#[derive(Debug, Clone)]
pub(crate) struct ImagePlace {
    path: PathBuf,
    option: String,
    /// Where it begins; none in a partition, whose length the image does not decide.
    start_bytes: Option<u64>,
}

impl ImagePlace {
    /// Of a file system that begins at this byte of an image.
    pub fn new(path: &Path, start_bytes: u64) -> Self {
        let place = PlaceArguments { offset: Some(start_bytes), ..PlaceArguments::default() };
        Self::given(path, &place)
    }

    /// As a command was told.
    pub fn given(path: &Path, place: &PlaceArguments) -> Self {
        let start_bytes = place.partition.is_none().then(|| place.offset.unwrap_or(0));
        Self { path: path.to_owned(), option: place.option(), start_bytes }
    }

    /// As arguments of a command that takes a map of what was read.
    pub fn with_map(mut self, map: Option<&Path>) -> Self {
        if let Some(map) = map {
            self.option.push_str(&format!(" --map {}", shell_path(map)));
        }
        self
    }

    /// The image.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// As arguments of another command.
    pub fn arguments(&self) -> String {
        format!("{} {}", self.option, shell_path(&self.path))
    }

    /// How to make an image file as long as its file system; `None` for devices, partitions and packed images.
    pub fn lengthening(&self, needed_bytes: u64) -> Option<String> {
        let is_file = fs::metadata(&self.path).is_ok_and(|metadata| metadata.is_file());
        let is_plain = is_file && forms::of(&self.path).is_none();
        let end_bytes = self.start_bytes?.checked_add(needed_bytes)?;
        is_plain.then(|| {
            format!(
                "to make it as long as its file system, with zeros: truncate -s {end_bytes} {}",
                shell_path(&self.path)
            )
        })
    }
}

fn part_of(range: Range<u64>) -> Part {
    Part { start_bytes: range.start, length_bytes: Some(range.end - range.start) }
}
