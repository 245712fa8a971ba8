//! Which checkpoints hold the changes of an inode: what `fsync` and `fdatasync` wait for.

use uxfs_format::{
    field_table::OnDisk,
    geometry::INODE_CORE_SIZE_BYTES,
    inode::{FileType, Fork, InodeCore},
};
use uxfs_journal::journal::items::inode::InodeChange;
use uxfs_volume::metadata::piece;
use zerocopy::IntoBytes;

use super::EditInode;
use crate::engine::Engine;
use uxfs_format::{edit::DIRTY_RUN_BYTES, units::Sector};

/// The newest checkpoints that hold changes of an inode; 0 where there is none.
#[doc(alias = "ili_commit_seq")]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CommitSequences {
    /// Any change.
    pub all: u64,
    /// A change that the contents cannot be read without: everything but times.
    #[doc(alias = "ili_datasync_seq")]
    pub data: u64,
    /// The one that was being filled when contents were written last. They are on the device once a checkpoint with this
    /// number is stable, or the device has been flushed.
    pub contents: u64,
    /// How often contents were written: tells whether they were written again during a flush.
    pub contents_writes: u64,
}

/// The change of a stored inode outside its forks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CoreChange {
    /// At most times and the count of changes.
    Times,
    /// More.
    Other,
}

impl CoreChange {
    /// Compares the core in the buffer of the cluster with the new one.
    pub fn between(old: &[u8], new: &InodeCore) -> Self {
        let Some(old) = old.get(..INODE_CORE_SIZE_BYTES as usize).and_then(InodeCore::prefix_of) else {
            return Self::Other;
        };
        let mut old = *old;
        // Nor what is set when the inode is sealed, and what lists of unlinked inodes have of it.
        old.access_time = new.access_time;
        old.modification_time = new.modification_time;
        old.change_time = new.change_time;
        old.change_count = new.change_count;
        old.lsn = new.lsn;
        old.checksum = new.checksum;
        old.next_unlinked = new.next_unlinked;
        if old.as_bytes() == new.as_bytes() { Self::Times } else { Self::Other }
    }
}

impl CommitSequences {
    /// Of an inode that was read: all that is known is the newest checkpoint that may hold a change.
    pub fn at_most(sequence: u64) -> Self {
        Self { all: sequence, data: sequence, contents: sequence, contents_writes: 0 }
    }

    pub(crate) fn note(&mut self, sequence: u64, is_data: bool, has_written_contents: bool) {
        self.all = sequence;
        if is_data {
            self.data = sequence;
        }
        if has_written_contents {
            self.contents = sequence;
            self.contents_writes += 1;
        }
    }
}

impl EditInode {
    /// Whether changes of the data fork may lie in blocks, where the inode does not show them.
    pub(crate) fn has_data_elsewhere(&self) -> bool {
        self.has_extent_tree(Fork::Data) || self.file_type() == Some(FileType::Directory)
    }
}

impl Engine {
    /// The checkpoints that may still hold changes of an inode that was read, by the marks in the buffer of its cluster.
    pub(crate) fn commit_sequences_of(
        &self,
        (sector, length_bytes): (Sector, u32),
        offset_bytes: usize,
    ) -> CommitSequences {
        if self.newest_lsn().get().is_none() {
            return CommitSequences::default();
        }
        let first = u32::try_from(offset_bytes).unwrap_or(u32::MAX) / DIRTY_RUN_BYTES;
        let runs = first..first.saturating_add(InodeChange::COUNT);
        CommitSequences::at_most(self.cache().newest_change(&[piece((sector, length_bytes))], runs))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use zerocopy::FromZeros;

    #[test]
    fn times_are_told_from_other_changes() {
        let old = InodeCore::new_zeroed();
        let mut new = old;
        new.modification_time.0 = 77.into();
        new.change_time.0 = 77.into();
        new.change_count = 8.into();
        assert_eq!(CoreChange::between(old.as_bytes(), &new), CoreChange::Times);
        let mut larger = new;
        larger.size_bytes = 1.into();
        let mut executable = new;
        executable.mode = 0o755.into();
        for changed in [larger, executable] {
            assert_eq!(CoreChange::between(old.as_bytes(), &changed), CoreChange::Other);
        }
        assert_eq!(CoreChange::between(&[], &new), CoreChange::Other, "nothing to compare with");
    }

    #[test]
    fn each_kind_of_change_has_its_checkpoint() {
        let mut commits = CommitSequences::default();
        commits.note(3, true, false);
        commits.note(5, false, true);
        commits.note(7, false, false);
        assert_eq!(commits, CommitSequences { all: 7, data: 3, contents: 5, contents_writes: 1 });
    }
}
