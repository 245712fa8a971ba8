//! Facts that an inode alone tells: no other structure on the device repeats them, but its last change in the log does.

use std::hash::{DefaultHasher, Hash, Hasher};

use uxfs_format::{
    field_table::OnDisk,
    inode::{FileType, ForkFormat, InodeCore, InodeFlags},
};

/// Seconds and nanoseconds.
type Time = (i64, u32);

/// The facts of one inode.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OwnFacts {
    owners: (u32, u32),
    project: (u16, u16),
    mode: u16,
    flags: u16,
    /// Of regular files and symbolic links: the size of a directory follows from its blocks.
    size_bytes: Option<u64>,
    creation_time: Time,
    /// Last access, last change of contents, last change.
    times: [Time; 3],
    generation: u32,
    /// Of a device its number, of a short symbolic link its target; `None` where the log does not tell.
    contents: Option<u64>,
}

impl OwnFacts {
    /// Flags that users set. xfs_repair clears none of them in a sound inode.
    pub const FLAGS: InodeFlags = InodeFlags::IMMUTABLE
        .union(InodeFlags::APPEND)
        .union(InodeFlags::SYNCHRONOUS)
        .union(InodeFlags::NO_ACCESS_TIME)
        .union(InodeFlags::NO_DUMP)
        .union(InodeFlags::PROJECT_INHERIT)
        .union(InodeFlags::NO_SYMLINKS)
        .union(InodeFlags::NO_DEFRAGMENT)
        .union(InodeFlags::FILE_STREAM);

    /// Of an inode as it lies on disk; `None` of one that is free. `has_contents`: its data fork is there.
    pub fn of(inode: &[u8], has_contents: bool) -> Option<Self> {
        let core = InodeCore::prefix_of(inode)?;
        if core.is_free() {
            return None;
        }
        let time = |time| {
            let time = core.time(time);
            (time.seconds, time.nanoseconds)
        };
        let has_size = matches!(core.file_type(), Some(FileType::Regular | FileType::SymbolicLink));
        Some(Self {
            owners: (core.uid.get(), core.gid.get()),
            project: (core.project_id_low.get(), core.project_id_high.get()),
            mode: core.mode.get(),
            flags: core.flags.get() & Self::FLAGS.bits(),
            size_bytes: has_size.then(|| core.size_bytes.get()),
            creation_time: time(core.creation_time),
            times: [time(core.access_time), time(core.modification_time), time(core.change_time)],
            generation: core.generation.get(),
            contents: has_contents.then(|| contents_of(core, inode)).flatten(),
        })
    }

    /// Keeps contents that an earlier change told of the same inode.
    pub(super) fn with_contents_of(mut self, before: &Self) -> Self {
        if self.contents.is_none() && self.generation == before.generation {
            self.contents = before.contents;
        }
        self
    }

    /// Which facts of the inode on disk are not those of its last change in the log, which these are. Times may be later on disk: with
    /// `lazytime` Linux writes them without logging them.
    pub fn contradicted_by(&self, disk: &Self) -> Vec<&'static str> {
        let has_other_contents =
            self.contents.zip(disk.contents).is_some_and(|(logged, found)| logged != found);
        let is_earlier = self.times.iter().zip(&disk.times).any(|(logged, found)| found < logged);
        [
            ("generation", self.generation != disk.generation),
            ("owner", self.owners != disk.owners),
            ("project", self.project != disk.project),
            ("mode", self.mode != disk.mode),
            ("flags", self.flags != disk.flags),
            ("size", self.size_bytes != disk.size_bytes),
            ("times", is_earlier || self.creation_time != disk.creation_time),
            ("contents", has_other_contents),
        ]
        .into_iter()
        .filter_map(|(name, is_other)| is_other.then_some(name))
        .collect()
    }
}

fn contents_of(core: &InodeCore, inode: &[u8]) -> Option<u64> {
    let length = match (core.file_type()?, ForkFormat::from_code(core.format)?) {
        (FileType::BlockDevice | FileType::CharacterDevice, ForkFormat::Device) => 4,
        (FileType::SymbolicLink, ForkFormat::Local) => usize::try_from(core.size_bytes.get()).ok()?,
        _ => return None,
    };
    let bytes = inode.get(InodeCore::SIZE_BYTES..)?.get(..length)?;
    let mut hasher = DefaultHasher::new();
    bytes.hash(&mut hasher);
    Some(hasher.finish())
}
