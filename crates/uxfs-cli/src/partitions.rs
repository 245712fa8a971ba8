//! The partitions of a disk or disk image: finding one, and telling which there are.

use std::{fmt::Write, fs::File, ops::Range, os::unix::fs::FileTypeExt, path::Path, sync::Arc};

use uxfs_block::{
    claim::Lock,
    device::{BlockDevice, DeviceError},
    engine::{self, Engine, OpenOptions},
};
use uxfs_partition::{
    file_system::XfsIdentity,
    selection::{SelectionError, Selector},
    signature::{self, Signature},
    table::{Partition, PartitionTable, TableError},
};
use uxfs_volume::error::Error;

use crate::{
    failure::Failure,
    kind::{Kind, Note},
    output::notice,
    text::{counted, escaped, human_size},
};

/// Sectors of a master boot record in a file, which does not say how large those of its disk were.
const USUAL_SECTOR_BYTES: u32 = 512;
/// Partitions that a message names.
const MOST_NAMED: usize = 16;

/// What may have partitions.
#[derive(Debug)]
pub struct Disk {
    device: Arc<dyn BlockDevice>,
    sector_bytes: u32,
}

impl Disk {
    /// For a look at its partitions, beside whatever uses it.
    ///
    /// # Errors
    /// It cannot be opened.
    pub fn open(path: &Path) -> Result<Self, DeviceError> {
        let options = OpenOptions { engine: Engine::Sync, lock: Lock::None, ..OpenOptions::default() };
        Ok(Self::of(engine::open(path, &options)?, sector_bytes(path)))
    }

    /// The disk in an image that is not plain.
    pub fn of_image(device: &Arc<dyn BlockDevice>) -> Self {
        Self::of(Arc::clone(device), USUAL_SECTOR_BYTES)
    }

    /// That is open already. `sector_bytes`: see [`sector_bytes`].
    pub fn of(device: Arc<dyn BlockDevice>, sector_bytes: u32) -> Self {
        Self { device, sector_bytes }
    }

    fn table(&self) -> Result<Option<PartitionTable>, TableError> {
        PartitionTable::read(&*self.device, self.sector_bytes)
    }

    /// The bytes of the partition that is meant. Warns where its table is a copy, or the disk ends before it does.
    ///
    /// # Errors
    /// There is none, or there are several; the table cannot be read.
    pub fn find(&self, selector: &Selector) -> Result<Range<u64>, Failure> {
        self.find_with_table(selector).map(|(partition, _)| partition.range())
    }

    /// As [`find`](Self::find), for a partition whose contents are to be replaced: it must lie beside the table and all others.
    ///
    /// # Errors
    /// As there; it does not.
    pub fn find_to_make(&self, selector: &Selector) -> Result<Range<u64>, Failure> {
        let (partition, table) = self.find_with_table(selector)?;
        let number = partition.number;
        if partition.start_bytes == 0 {
            let words = format!("partition {number} begins with the partition table itself");
            return Err(Failure::refused(Kind::Invalid, words));
        }
        if let Some(other) = table.overlapping(&partition) {
            let failure = format!("partition {number} shares a part of the disk with partition {other}");
            return Err(Failure::refused(Kind::Invalid, failure).with_remedy(&self.list(&table)));
        }
        if table.is_itself_in(&partition.range()) {
            let words = format!("a part of the partition table lies in partition {number}");
            return Err(Failure::refused(Kind::Invalid, words).with_remedy(&self.list(&table)));
        }
        Ok(partition.range())
    }

    /// Refuses to make a file system in a part of a disk that is neither in one partition nor beside all of them and their table.
    ///
    /// # Errors
    /// It is such a part; the table cannot be read.
    pub fn refuse_over_partitions(&self, part: &Range<u64>) -> Result<(), Failure> {
        let Some(table) = self.readable_table()? else { return Ok(()) };
        let numbers: Vec<_> = table.in_part(part).map(|partition| partition.number.to_string()).collect();
        let is_in_one = |partition: &Partition| {
            partition.range().start <= part.start && part.end <= partition.range().end
        };
        let is_beside = match numbers.as_slice() {
            [] => true,
            [_] => table.in_part(part).all(is_in_one),
            _ => false,
        };
        if is_beside && !table.is_itself_in(part) {
            return Ok(());
        }
        let over = match numbers.as_slice() {
            [] => "the partition table".to_owned(),
            [one] => format!("partition {one} and what lies behind it"),
            several => format!("partitions {}", several.join(", ")),
        };
        let failure = Failure::refused(
            Kind::Occupied,
            format!("a file system of this size there would lie over {over}"),
        );
        let list = self.list(&table);
        Err(failure
            .with_remedy(&format!("--partition N makes it in a partition, --force overwrites: {list}")))
    }

    fn readable_table(&self) -> Result<Option<PartitionTable>, Failure> {
        self.table().map_err(|error| match error {
            TableError::Device(error) => Error::from(error).into(),
            error => Failure::corruption(error.to_string()),
        })
    }

    fn find_with_table(&self, selector: &Selector) -> Result<(Partition, PartitionTable), Failure> {
        let table = self.readable_table()?;
        let table =
            table.ok_or_else(|| Failure::refused(Kind::NoSuchPartition, "it has no partition table"))?;
        let partition = match table.select(&*self.device, selector) {
            Ok(partition) => partition.clone(),
            Err(SelectionError::Device(error)) => return Err(Error::from(error).into()),
            Err(error @ SelectionError::Several { .. }) => {
                let failure = Failure::caused_by(&error);
                return Err(failure.with_remedy("give its number, or its own UUID as PARTUUID="));
            }
            Err(error) => return Err(Failure::caused_by(&error).with_remedy(&self.list(&table))),
        };
        if table.is_backup {
            notice!(
                Note::Damaged,
                "warning: the partition table is damaged; this is the copy at the end of the disk"
            );
        }
        if partition.is_cut() {
            let (number, found, claimed) =
                (partition.number, partition.length_bytes, partition.claimed_bytes);
            notice!(
                Note::Damaged,
                "warning: partition {number} has {claimed} bytes, and the image ends after {found} of them"
            );
        }
        Ok((partition, table))
    }

    /// Whether a part is a partition.
    pub fn has(&self, part: &Range<u64>) -> bool {
        let table = self.table().ok().flatten();
        table.is_some_and(|table| table.partitions.iter().any(|partition| partition.range() == *part))
    }

    /// Why it is no file system: it has partitions. `None` where it has none. `option`: what goes before the number of a partition.
    pub fn is_no_file_system(&self, option: &str) -> Option<Failure> {
        let table = self.table().ok()??;
        let has_xfs =
            |partition: &&Partition| matches!(XfsIdentity::read(&*self.device, partition), Ok(Some(_)));
        let with_xfs: Vec<_> = table.partitions.iter().filter(has_xfs).map(|one| one.number).collect();
        let list = self.list(&table);
        let container = || {
            let mut held =
                table.partitions.iter().take(MOST_NAMED).filter_map(|one| self.held(&one.range()).ok()?);
            held.find_map(|held| held.container).map(|one| format!("; {}", one.remedy())).unwrap_or_default()
        };
        let remedy = match with_xfs.as_slice() {
            [] if table.partitions.is_empty() => "it has none".to_owned(),
            [] => format!("none of them begins with an XFS file system: {list}{}", container()),
            [one] => format!("{option}{one} chooses the one with XFS; {list}"),
            [first, ..] => format!("{option}{first} chooses the first with XFS; {list}"),
        };
        let scheme = table.scheme.name();
        let failure = Failure::refused(
            Kind::NotAFileSystem,
            format!("a disk with partitions ({scheme}), not a file system"),
        );
        Some(failure.with_remedy(&remedy))
    }

    /// Its partitions in words; `None` where it has no table.
    pub fn partitions(&self) -> Option<String> {
        Some(self.list(&self.table().ok()??))
    }

    /// Why a partition is no file system. `None` where there is no such partition.
    pub fn has_no_file_system_in(&self, selector: &Selector) -> Option<Failure> {
        let table = self.table().ok()??;
        let partition = table.select(&*self.device, selector).ok()?;
        let (number, list) = (partition.number, self.list(&table));
        let Some(held) = self.held(&partition.range()).ok().flatten() else {
            let words = format!("partition {number} does not begin with an XFS file system");
            return Some(Failure::refused(Kind::NotAFileSystem, words).with_remedy(&list));
        };
        let words = format!("partition {number} seems to hold {}, and no XFS file system", held.name);
        let remedy = held.container.map(|container| format!("{}; ", container.remedy())).unwrap_or_default();
        Some(Failure::refused(Kind::NotAFileSystem, words).with_remedy(&format!("{remedy}{list}")))
    }

    /// Why something else than XFS begins at a byte. `None` where nothing known does.
    pub fn other_contents(&self, start_bytes: u64) -> Option<Failure> {
        let held = self.held(&(start_bytes..self.device.size_bytes())).ok()??;
        if held.name == signature::XFS {
            return None;
        }
        let words = format!("not an XFS file system: it seems to hold {}", held.name);
        let failure = Failure::refused(Kind::NotAFileSystem, words);
        Some(match held.container {
            Some(container) => failure.with_remedy(&container.remedy()),
            None => failure,
        })
    }

    /// What a part of the disk holds, where that is known.
    fn held(&self, part: &Range<u64>) -> Result<Option<Signature>, DeviceError> {
        signature::find(part.end.saturating_sub(part.start), |offset, bytes| {
            self.device.read(part.start.saturating_add(offset), bytes)
        })
    }

    fn list(&self, table: &PartitionTable) -> String {
        let named = table.partitions.iter().take(MOST_NAMED).map(|partition| self.describe(partition));
        let mut text = match table.partitions.len() {
            0 => "it has none".to_owned(),
            _ => format!("it has {}", named.collect::<Vec<_>>().join(", ")),
        };
        let more = table.partitions.len().saturating_sub(MOST_NAMED);
        if more > 0 {
            let _ = write!(text, " and {more} more");
        }
        let outside = table.impossible.len() as u64;
        if outside > 0 {
            let _ = write!(text, "; {} that cannot be there", counted(outside, "partition"));
        }
        text
    }

    fn describe(&self, partition: &Partition) -> String {
        let Partition { number, length_bytes, claimed_bytes, .. } = partition;
        let name = match escaped(partition.name.as_bytes()) {
            name if name.is_empty() => name,
            name => format!(" `{name}`"),
        };
        let size = match partition.is_cut() {
            true => format!("{} of {}", human_size(*length_bytes), human_size(*claimed_bytes)),
            false => human_size(*length_bytes),
        };
        let contents = match XfsIdentity::read(&*self.device, partition) {
            Ok(Some(identity)) if identity.label.is_empty() => ", XFS".to_owned(),
            Ok(Some(identity)) => format!(", XFS `{}`", escaped(&identity.label)),
            Ok(None) => match self.held(&partition.range()) {
                Ok(Some(held)) => format!(", {}", held.name),
                Ok(None) => String::new(),
                Err(_) => ", cannot be read".to_owned(),
            },
            Err(_) => ", cannot be read".to_owned(),
        };
        format!("{number}{name} ({size}{contents})")
    }
}

/// Bytes in which a master boot record there counts.
pub fn sector_bytes(path: &Path) -> u32 {
    let is_block_device = path.metadata().is_ok_and(|found| found.file_type().is_block_device());
    let of_device = || rustix::fs::ioctl_blksszget(File::open(path).ok()?).ok();
    is_block_device.then(of_device).flatten().unwrap_or(USUAL_SECTOR_BYTES)
}
