//! Where on a disk or in a disk image the file system lies: at a byte, or in a partition.

use std::{
    fmt::Write,
    fs::{self, File},
    os::unix::fs::FileTypeExt,
    path::{Path, PathBuf},
    sync::{Arc, OnceLock},
};

use uxfs_block::{
    claim::Lock,
    device::{BlockDevice, DeviceError},
    engine::{Engine, OpenOptions},
    window::Window,
};
use uxfs_partition::{
    file_system::XfsIdentity,
    selection::{SelectionError, Selector},
    table::{Partition, PartitionTable, TableError},
};
use uxfs_volume::error::Error;

use crate::{
    compressed,
    failure::Failure,
    image::is_no_file_system,
    text::{escaped, human_size, parse_size},
};

/// Sectors of a master boot record in a file, which does not say how large those of its disk were.
const USUAL_SECTOR_BYTES: u32 = 512;
/// Partitions that a message names.
const MOST_TOLD: usize = 16;

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
    found: OnceLock<Extent>,
}

/// A part of a disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Extent {
    /// Where it begins.
    pub start_bytes: u64,
    /// How long it is; all that follows where nothing bounds it.
    pub length_bytes: Option<u64>,
}

impl Extent {
    /// Restricts a device that begins with the extent to it.
    ///
    /// # Errors
    /// The device is shorter.
    pub fn bound(self, device: Arc<dyn BlockDevice>) -> Result<Arc<dyn BlockDevice>, DeviceError> {
        match self.length_bytes {
            Some(length_bytes) => Ok(Arc::new(Window::new(device, 0, length_bytes)?)),
            None => Ok(device),
        }
    }
}

impl PlaceArguments {
    /// Whether it was said.
    pub fn is_given(&self) -> bool {
        self.partition.is_some() || self.offset.is_some()
    }

    /// Whether the image is taken for the file system itself.
    pub fn is_whole_image(&self) -> bool {
        self.partition.is_none() && self.offset.unwrap_or(0) == 0
    }

    /// A failure for a disk with partitions that was taken for a file system, after this error; `None` where it is no such.
    pub fn disk(&self, image: &Path, error: &Error) -> Option<Failure> {
        if !is_no_file_system(error) {
            return None;
        }
        let device = open(image).ok()?;
        if let Some(selector) = &self.partition {
            return not_in_partition(&*device, selector, sector_bytes(image));
        }
        if !self.is_whole_image() {
            return None;
        }
        has_partitions_on(&*device, sector_bytes(image), "--partition ")
    }

    /// The option that was given, as another command takes it, with a space in front.
    pub fn option(&self) -> String {
        match (&self.partition, self.offset.unwrap_or(0)) {
            (Some(selector), _) => format!(" --partition {}", quoted(&selector.to_string())),
            (None, 0) => String::new(),
            (None, offset) => format!(" --offset {offset}"),
        }
    }

    /// The place of the file system in `image`.
    ///
    /// # Errors
    /// There is no such partition; its table cannot be read.
    pub fn find(&self, image: &Path) -> Result<Extent, Failure> {
        let Some(selector) = &self.partition else {
            return Ok(Extent { start_bytes: self.offset.unwrap_or(0), length_bytes: None });
        };
        if let Some(found) = self.found.get() {
            return Ok(*found);
        }
        let found = find_in_file(image, selector)?;
        Ok(*self.found.get_or_init(|| found))
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

    /// As arguments of another command.
    pub fn arguments(&self) -> String {
        format!("{} {}", self.option, self.path.display())
    }

    /// How to make an image file as long as its file system; `None` for devices, partitions and packed images.
    pub fn lengthening(&self, needed_bytes: u64) -> Option<String> {
        let is_file = fs::metadata(&self.path).is_ok_and(|metadata| metadata.is_file());
        let is_plain = is_file && matches!(compressed::is_packed(&self.path), Ok(false));
        let end_bytes = self.start_bytes?.checked_add(needed_bytes)?;
        is_plain.then(|| {
            format!(
                "to make it as long as its file system, with zeros: truncate -s {end_bytes} {}",
                self.path.display()
            )
        })
    }
}

/// A word for a shell.
fn quoted(word: &str) -> String {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_=.:/".contains(&byte);
    match word.bytes().all(is_plain) {
        true => word.to_owned(),
        false => format!("'{}'", escaped(word.as_bytes()).replace('\'', "'\\''")),
    }
}

fn find_in_file(image: &Path, selector: &Selector) -> Result<Extent, Failure> {
    let is_packed = compressed::is_packed(image).unwrap_or(false);
    if is_packed {
        return Err(Failure::failed("partitions of a compressed image are not looked for")
            .with_remedy("unpack it first: zstd -d"));
    }
    find_on(&*open(image).map_err(Error::from)?, selector, sector_bytes(image))
}

/// The place of the partition that is meant.
///
/// # Errors
/// There is none; its table cannot be read.
pub fn find_on(device: &dyn BlockDevice, selector: &Selector, sector_bytes: u32) -> Result<Extent, Failure> {
    let table = PartitionTable::read(device, sector_bytes).map_err(no_table)?;
    let table = table.ok_or_else(|| Failure::failed("it has no partition table"))?;
    match table.select(device, selector) {
        Ok(partition) => {
            Ok(Extent { start_bytes: partition.start_bytes, length_bytes: Some(partition.length_bytes) })
        }
        Err(SelectionError::Device(error)) => Err(Error::from(error).into()),
        Err(error @ SelectionError::Several { .. }) => {
            Err(Failure::failed(error.to_string())
                .with_remedy("give its number, or its own UUID as PARTUUID="))
        }
        Err(error) => Err(Failure::failed(error.to_string()).with_remedy(&told(device, &table))),
    }
}

fn no_table(error: TableError) -> Failure {
    match error {
        TableError::Device(error) => Error::from(error).into(),
        error => Failure::corruption(error.to_string()),
    }
}

/// Whether this part of an image is a partition.
pub fn has_partition(image: &Path, start_bytes: u64, length_bytes: u64) -> bool {
    let table = open(image).ok().and_then(|device| PartitionTable::read(&*device, sector_bytes(image)).ok());
    table.flatten().is_some_and(|table| {
        table.partitions.iter().any(|one| one.start_bytes == start_bytes && one.length_bytes == length_bytes)
    })
}

/// The image for a look at its partitions, beside whatever uses it.
fn open(image: &Path) -> Result<Arc<dyn BlockDevice>, DeviceError> {
    let options = OpenOptions { engine: Engine::Sync, lock: Lock::None, ..OpenOptions::default() };
    uxfs_block::engine::open(image, &options)
}

/// Bytes in which the table of a disk counts.
pub fn sector_bytes(image: &Path) -> u32 {
    let is_block_device = image.metadata().is_ok_and(|found| found.file_type().is_block_device());
    let of_device = || rustix::fs::ioctl_blksszget(File::open(image).ok()?).ok();
    is_block_device.then(of_device).flatten().unwrap_or(USUAL_SECTOR_BYTES)
}

/// A failure for a disk with partitions that was taken for a file system; `None` where it has none. `option` is what goes before the
/// number of a partition.
pub fn has_partitions_on(device: &dyn BlockDevice, sector_bytes: u32, option: &str) -> Option<Failure> {
    let table = PartitionTable::read(device, sector_bytes).ok()??;
    let with_xfs = |partition: &&Partition| matches!(XfsIdentity::read(device, partition), Ok(Some(_)));
    let all: Vec<_> = table.partitions.iter().filter(with_xfs).collect();
    let remedy = match all.as_slice() {
        [] => format!("none of them begins with an XFS file system: {}", told(device, &table)),
        [one] => format!("{option}{} chooses the one with XFS; {}", one.number, told(device, &table)),
        [one, ..] => format!("{option}{} chooses the first with XFS; {}", one.number, told(device, &table)),
    };
    let scheme = table.scheme.name();
    Some(
        Failure::failed(format!("a disk with partitions ({scheme}), not a file system")).with_remedy(&remedy),
    )
}

/// A failure for a partition without XFS.
pub fn not_in_partition(device: &dyn BlockDevice, selector: &Selector, sector_bytes: u32) -> Option<Failure> {
    let table = PartitionTable::read(device, sector_bytes).ok()??;
    let number = table.select(device, selector).ok()?.number;
    let message = format!("partition {number} does not begin with an XFS file system");
    Some(Failure::failed(message).with_remedy(&told(device, &table)))
}

/// The partitions in words.
fn told(device: &dyn BlockDevice, table: &PartitionTable) -> String {
    if table.partitions.is_empty() {
        return "its table is empty".to_owned();
    }
    let mut text = String::from("it has ");
    for (index, partition) in table.partitions.iter().take(MOST_TOLD).enumerate() {
        let separator = if index == 0 { "" } else { ", " };
        let name = escaped(partition.name.as_bytes());
        let name = if name.is_empty() { name } else { format!(" `{name}`") };
        let size = human_size(partition.length_bytes);
        let _ = write!(text, "{separator}{}{name} ({size}{})", partition.number, contents(device, partition));
    }
    let more = table.partitions.len().saturating_sub(MOST_TOLD);
    if more > 0 {
        let _ = write!(text, " and {more} more");
    }
    text
}

fn contents(device: &dyn BlockDevice, partition: &Partition) -> String {
    match XfsIdentity::read(device, partition) {
        Ok(Some(identity)) if identity.label.is_empty() => ", XFS".to_owned(),
        Ok(Some(identity)) => format!(", XFS `{}`", escaped(&identity.label)),
        Ok(None) => String::new(),
        Err(_) => ", cannot be read".to_owned(),
    }
}
