//! A copy of the superblock in the place of a first one that is damaged or lost, for commands that read.
//!
//! A first superblock that is sound is believed, whatever copies say. Where it is not, a copy counts under these conditions:
//!
//! 1. Its checksum and all its fields are right, and it lies where its own geometry puts a group.
//! 2. A header behind it, of free space or of inodes, is sound and says that it belongs to the same group: an image in a file has
//!    its groups elsewhere.
//! 3. Of the copies in the first groups, more agree with it than contradict it.
//! 4. A header of group 0 agrees with it, too; where both are lost, two copies and more than half of those in the first groups. A file may
//!    hold blocks that imitate a copy with its header. A copy that the user names is excused from this.
//!
//! Copies are looked for in this order, until one counts. By its geometry, the first of the groups in front of it whose copy counts is
//! taken instead:
//!
//! | place | read at most |
//! |---|---|
//! | group 1 and so on, as the damaged first superblock tells the size of groups | 16 sectors |
//! | group 1, for each number of groups up to 64 in a device of this size, with blocks of 4 KiB | 63 sectors |
//! | what is no hole of the image, from its start | [`SEARCHED_DATA_BYTES`] of the first TiB |
//!
//! What is read through a copy is an overlay with the copy in place, and with counters from the groups: a dirty log is recovered as always,
//! and every structure is verified.

use std::{fs::File, iter, ops::Range, path::Path, sync::Arc};

use rustix::fs::{SeekFrom, seek};
use uxfs_block::{device::BlockDevice, engine::overlay::OverlayDevice};
use uxfs_engine::options::MountOptions;
use uxfs_filesystem::{mount, recovery::counters};
use uxfs_format::{
    fault::{Fault, HeaderFault, Structure},
    field_table::OnDisk,
    geometry::Geometry,
    seal::seal,
    superblock::{MAGIC, Superblock, SuperblockFault},
    units::AgNumber,
};
use uxfs_volume::{
    error::{Error, OperationError, Result},
    tolerant::{SuperblockChoice, TolerantOptions, search::read_group_superblock},
    volume::Volume,
};

/// Groups whose copies are asked.
const ASKED_GROUPS: u32 = 16;
/// Most groups of a file system whose group size is guessed.
const GUESSED_GROUPS: u64 = 64;
/// The block size of guessed groups.
const GUESSED_BLOCK_BYTES: u64 = 4096;
/// Data of the image that are searched: some seconds.
pub(crate) const SEARCHED_DATA_BYTES: u64 = 4 << 30;
/// The largest group has 1 TiB: the second begins here at the latest.
const SEARCHED_BYTES: u64 = (1 << 40) + STEP_BYTES as u64;
/// Groups begin at blocks, and the smallest blocks have this size.
const STEP_BYTES: usize = 1024;
/// Most holes of an image file returned.
const MOST_HOLES: usize = 1 << 20;
/// Bytes that the search reads at once.
const CHUNK_BYTES: usize = 1 << 20;
/// Places with the magic number that are looked at: each costs some reads.
const MOST_CANDIDATES: u32 = 10_000;
/// The cache of a volume that is only asked for headers.
const CACHE_BYTES: u64 = 4 << 20;

/// A copy of the superblock that counts.
pub(crate) struct StandIn {
    /// The group that it was found in.
    pub group: AgNumber,
    volume: Volume,
}

/// Whether an error means that the first superblock is damaged or lost, so that a copy may help.
pub(crate) fn may_help(error: &Error) -> bool {
    match error {
        Error::Corrupt(corruption) => {
            let is_first = corruption.structure == Structure::Superblock
                && corruption.location.sector.is_none_or(|sector| sector.get() == 0);
            // An image that was not finished has no contents, one that was cut off lacks more than its superblock, and with a log that
            // was rebuilt the superblock is not the only one ahead of it.
            let is_other = matches!(
                corruption.fault,
                Fault::Superblock(
                    SuperblockFault::InProgress { .. } | SuperblockFault::DeviceTooShort { .. }
                ) | Fault::Header(HeaderFault::AheadOfLog { .. })
            );
            is_first && !is_other
        }
        Error::Io(error) => error.offset_bytes == 0,
        _ => false,
    }
}

/// Looks for a copy that counts: that of a group, or any.
///
/// # Errors
/// There is no such group, or its copy is damaged; `None` where any would do and none was found.
pub(crate) fn find(
    device: &Arc<dyn BlockDevice>,
    holes: Option<Holes>,
    wanted: Option<AgNumber>,
) -> Result<Option<StandIn>> {
    let mut search = Search { device, candidates: 0, is_named: wanted.is_some() };
    let Some(wanted) = wanted else { return Ok(search.any(holes)) };
    // Any superblock tells where the wanted one lies, that of the first group among them.
    let known = match read_group_superblock(device.as_ref(), 0) {
        Ok(first) => first,
        Err(error) => *search.any(holes).ok_or(error)?.volume.superblock(),
    };
    if wanted.get() >= known.ag_count.get() {
        return Err(OperationError::NoSuchGroup.into());
    }
    let offset_bytes = u64::from(wanted.get()).saturating_mul(group_bytes(&known));
    read_group_superblock(device.as_ref(), offset_bytes)?;
    match search.confirmed(offset_bytes) {
        Some(copy) if copy.group == wanted => Ok(Some(copy)),
        _ => Err(OperationError::NoSuchGroup.into()),
    }
}

/// Where an image file has data.
#[derive(Debug)]
pub(crate) struct Holes {
    file: File,
    start_bytes: u64,
}

impl Holes {
    /// Of an image that begins at a byte of a file; `None` where that cannot be read, or holds the image in another form, whose holes lie
    /// elsewhere.
    pub fn of(path: &Path, start_bytes: u64) -> Option<Self> {
        let is_file = std::fs::metadata(path).ok()?.is_file() && crate::forms::of(path).is_none();
        is_file.then(|| File::open(path).ok().map(|file| Self { file, start_bytes })).flatten()
    }

    /// The first byte from this one on that is no hole; `None` where only holes follow.
    fn skip(&self, offset_bytes: u64) -> Option<u64> {
        let at = offset_bytes.saturating_add(self.start_bytes);
        match seek(&self.file, SeekFrom::Data(at)) {
            Ok(data) => Some(data.saturating_sub(self.start_bytes).max(offset_bytes)),
            Err(rustix::io::Errno::NXIO) => None,
            // The file system of the host knows nothing of holes.
            Err(_) => Some(offset_bytes),
        }
    }

    /// The first holes before byte `end`.
    pub fn until(&self, end: u64) -> impl Iterator<Item = Range<u64>> {
        let mut position = 0_u64;
        let next = move || {
            let at = position.checked_add(self.start_bytes).filter(|_| position < end)?;
            let hole = seek(&self.file, SeekFrom::Hole(at)).ok()?.checked_sub(self.start_bytes)?;
            let hole = Some(hole).filter(|hole| *hole < end)?;
            position = self.skip(hole).unwrap_or(end).min(end);
            Some(hole..position)
        };
        // An empty hole means that the file has changed.
        iter::from_fn(next).take_while(|hole| !hole.is_empty()).take(MOST_HOLES)
    }
}

struct Search<'d> {
    device: &'d Arc<dyn BlockDevice>,
    candidates: u32,
    /// The user has named a group.
    is_named: bool,
}

impl Search<'_> {
    /// The first group that has a copy: one of a later group may be found first.
    fn any(&mut self, holes: Option<Holes>) -> Option<StandIn> {
        let found = self.near_places().or_else(|| self.data(holes))?;
        let group_bytes = group_bytes(found.volume.superblock());
        let earlier = 1..found.group.get().min(ASKED_GROUPS);
        let mut earlier = earlier.map(|group| u64::from(group).saturating_mul(group_bytes));
        Some(earlier.find_map(|offset_bytes| self.confirmed(offset_bytes)).unwrap_or(found))
    }

    /// Where the first superblock or mkfs would put copies.
    fn near_places(&mut self) -> Option<StandIn> {
        let mut first = [0; 512];
        let told = match self.device.read(0, &mut first) {
            Ok(()) => Superblock::prefix_of(&first).map_or(0, group_bytes),
            Err(_) => 0,
        };
        let as_told = (1..=u64::from(ASKED_GROUPS)).map(|group| told.saturating_mul(group));
        let blocks = self.device.size_bytes() / GUESSED_BLOCK_BYTES;
        let guessed = (2..=GUESSED_GROUPS).map(|count| blocks.div_ceil(count) * GUESSED_BLOCK_BYTES);
        let places =
            as_told.chain(guessed).filter(|offset| *offset > 0 && *offset < self.device.size_bytes());
        places.collect::<Vec<_>>().into_iter().find_map(|offset_bytes| self.confirmed(offset_bytes))
    }

    /// Among all data of the image.
    fn data(&mut self, holes: Option<Holes>) -> Option<StandIn> {
        let end = self.device.size_bytes().min(SEARCHED_BYTES);
        let mut chunk = vec![0; CHUNK_BYTES];
        let (mut offset_bytes, mut left) = (0, SEARCHED_DATA_BYTES);
        while offset_bytes < end && left > 0 {
            if let Some(holes) = &holes {
                let data = holes.skip(offset_bytes)?;
                offset_bytes = data / CHUNK_BYTES as u64 * CHUNK_BYTES as u64;
                if offset_bytes >= end {
                    return None;
                }
            }
            let length =
                usize::try_from(end - offset_bytes).map_or(CHUNK_BYTES, |left| left.min(CHUNK_BYTES));
            let bytes = chunk.get_mut(..length).unwrap_or_default();
            // What cannot be read hides what lies in it only.
            if self.device.read(offset_bytes, bytes).is_ok() {
                let is_magic = |block: &[u8]| block.starts_with(&MAGIC.to_be_bytes());
                let starts = bytes.chunks(STEP_BYTES).enumerate().filter(|(_, block)| is_magic(block));
                let starts: Vec<_> = starts.map(|(index, _)| (index * STEP_BYTES) as u64).collect();
                let found = starts.into_iter().find_map(|start| self.confirmed(offset_bytes + start));
                if found.is_some() || self.candidates >= MOST_CANDIDATES {
                    return found;
                }
            }
            offset_bytes += CHUNK_BYTES as u64;
            left = left.saturating_sub(CHUNK_BYTES as u64);
        }
        None
    }

    /// The copy of the superblock at a place, if it counts.
    fn confirmed(&mut self, offset_bytes: u64) -> Option<StandIn> {
        self.candidates = self.candidates.checked_add(1).filter(|count| *count <= MOST_CANDIDATES)?;
        let superblock = read_group_superblock(self.device.as_ref(), offset_bytes).ok()?;
        let group_bytes = group_bytes(&superblock);
        let group = u32::try_from(offset_bytes.checked_div(group_bytes)?).ok()?;
        if !offset_bytes.is_multiple_of(group_bytes) || group >= superblock.ag_count.get() {
            return None;
        }
        let group = AgNumber::new(group);
        let options = TolerantOptions {
            cache_budget_bytes: Some(CACHE_BYTES),
            superblock: SuperblockChoice::Given(Box::new(superblock)),
        };
        let volume = Volume::open_tolerantly(Arc::clone(self.device), &options).ok()?;
        let has_header = |group| {
            let headers = volume.group(group);
            headers.free_space_header().is_ok() || headers.inode_header().is_ok()
        };
        let counts = has_header(group)
            && self.has_majority(&superblock, self.is_named || has_header(AgNumber::new(0)));
        counts.then_some(StandIn { group, volume })
    }

    /// Whether copies agree: more than contradict where something else speaks for it, otherwise more than half of all.
    fn has_majority(&self, superblock: &Superblock, is_supported: bool) -> bool {
        let identity = |superblock: &Superblock| {
            let geometry = Geometry::new(superblock);
            let sizes = [geometry.ag_blocks, geometry.ag_count, geometry.block_log];
            (sizes, geometry.data_blocks, superblock.effective_metadata_uuid())
        };
        let (mut agreeing, mut contradicting) = (0_u32, 0_u32);
        let asked = 1..superblock.ag_count.get().min(ASKED_GROUPS);
        let asked_count = asked.end.saturating_sub(1);
        for group in asked {
            let offset_bytes = u64::from(group).saturating_mul(group_bytes(superblock));
            match read_group_superblock(self.device.as_ref(), offset_bytes) {
                Ok(copy) if identity(&copy) == identity(superblock) => agreeing += 1,
                Ok(_) => contradicting += 1,
                Err(_) => {}
            }
        }
        match is_supported {
            true => agreeing > contradicting || superblock.ag_count.get() == 1,
            false => agreeing > 1 && agreeing > asked_count / 2,
        }
    }
}

/// The size of groups; 0 where the fields are none of a superblock.
fn group_bytes(superblock: &Superblock) -> u64 {
    match superblock.block_log {
        log @ 9..=16 => u64::from(superblock.ag_blocks.get()) << log,
        _ => 0,
    }
}

impl StandIn {
    /// The device with this copy in the place of the first superblock. Nothing is written to it.
    ///
    /// # Errors
    /// A temporary file.
    pub fn put(&self, device: &Arc<dyn BlockDevice>) -> Result<Arc<dyn BlockDevice>> {
        let (geometry, mut superblock) = (self.volume.geometry(), *self.volume.superblock());
        // A copy that mkfs made early names no root directory.
        superblock.root_inode.set(geometry.root_inode.get());
        superblock.in_progress = 0;
        let mut sector = vec![0; geometry.sector_size_bytes as usize];
        if let Some(first) = Superblock::prefix_of_mut(&mut sector) {
            *first = superblock;
        }
        seal(&mut sector, None, geometry);
        let overlay: Arc<dyn BlockDevice> = Arc::new(OverlayDevice::new(Arc::clone(device)));
        overlay.write(0, &sector)?;
        let options = MountOptions {
            ignore_dirty_log: true,
            cache_budget_bytes: Some(CACHE_BYTES),
            ..MountOptions::default()
        };
        // Where headers are damaged, the counters stay those of the copy.
        if let Ok(volume) = mount::open_volume(Arc::clone(&overlay), &options) {
            let _ = counters::correct(&volume);
        }
        Ok(overlay)
    }
}
