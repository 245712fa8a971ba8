//! Changing the contents of regular files.
//!
//! Contents never pass through the metadata cache: they go from the caller's memory to the device and back. A [`FileEdit`]
//! is a regular file that its holder has locked; each of its operations begins, commits and, where it is long, divides its
//! own transactions.
//!
//! | module | holds |
//! |---|---|
//! | [`pieces`](self) | a range of a file as holes, written and unwritten runs |
//! | [`mappings`] | where a file lies, and what others share |
//! | [`mod@write`] | writing; what comes into a file when it grows |
//! | `new_contents` | bytes that are to be written |
//! | `allocate` | new blocks for holes and copies, and speculative preallocation |
//! | `copy_on_write` | writing to shared blocks; unsharing |
//! | [`truncate`] | the size of a file |
//! | [`space`] | allocating, punching and zeroing ranges |
//! | [`shift`] | collapsing and inserting ranges |
//! | [`share`] | clones |
//! | [`exchange`] | exchanging the contents of two files |
//! | `exchange_step` | one step of that |
//! | [`handles`] | all of it on files that are open, from any thread |
//! | `sync` | `fsync` and `fdatasync` |
//! | `own_blocks` | whether blocks may be written in place |
//! | `device` | contents on the device, whatever alignment it wants |
//!
//! Invariants, cited by the tests:
//! 1. **Blocks are filled before anything leads to them.** Contents of new blocks are on the device before the transaction
//!    that maps them as written commits, and that transaction says so
//!    ([`depends_on_data`](uxfs_engine::transaction::Transaction::depends_on_data)): the journal flushes the device before it
//!    commits the checkpoint. So no crash shows what lay in the blocks before. Long runs are allocated as unwritten, written,
//!    and then converted. Runs up to a bound are staged: written between the two steps of the transaction that allocates
//!    and maps them. No transaction is under way while contents are read or written:
//!    [`contents_io`](uxfs_block::contents_io) checks it.
//! 2. **What lies behind the end of a file is worth nothing.** An operation that makes a file longer ensures that what
//!    comes into it reads as zeros: the rest of the block that holds the end is zeroed, written blocks behind it are taken
//!    away. So making a file shorter writes no contents at all, and a crash finds either size with the bytes that it had.
//! 3. Shared blocks are never written: new ones take their place in the transaction in which the old ones lose an owner.
//! 4. Whether an operation will find space is asked before each step changes anything; long operations that find none in
//!    the middle leave a file that is whole, as Linux does.
//! 5. A step changes a bounded number of extents. What fits one step is atomic.

mod allocate;
mod copy_on_write;
mod device;
pub mod exchange;
pub(crate) mod exchange_step;
pub mod handles;
pub mod mappings;
mod new_contents;
mod own_blocks;
mod pieces;
pub mod share;
pub mod shift;
pub mod space;
mod sync;
pub mod truncate;
pub mod write;

use std::ops::Range;

use uxfs_format::{
    btree::extent_map::MAX_FILE_BLOCKS,
    geometry::Geometry,
    inode::{FileType, Fork, Timestamp},
    units::FileBlock,
};
use zerocopy::big_endian::U16;

use self::device::ContentsWriter;
use crate::{
    filesystem::FileSystem,
    operations::set_attributes::{Writer, mode_without_set_id},
};
use uxfs_engine::extent_map::{ATOMIC_EXTENTS, STEP_EXTENTS};
use uxfs_engine::{
    extent_map::list,
    inode::edit::{EditInode, TimeKind},
    transaction::{Transaction, reservation::Operation},
};
use uxfs_volume::error::{Error, OperationError, Result};

/// Times and mode bits that a change of contents sets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Touch {
    /// When the contents changed: time of modification, time of change and the count of changes follow. `None` leaves
    /// them alone.
    pub time: Option<Timestamp>,
    /// Clear the set-user-ID and set-group-ID bits because this user writes. The caller knows the writer.
    #[doc(alias = "file_remove_privs")]
    pub clears_set_id: Option<Writer>,
}

impl Touch {
    /// Leaves everything else as it is.
    pub const NOTHING: Self = Self { time: None, clears_set_id: None };

    /// Contents changed at `time`.
    pub fn at(time: Timestamp) -> Self {
        Self { time: Some(time), clears_set_id: None }
    }

    fn apply(&self, inode: &mut EditInode) {
        if let Some(writer) = self.clears_set_id {
            inode.core.mode = U16::new(mode_without_set_id(inode.core.mode.get(), writer));
        }
        if let Some(time) = self.time {
            inode.set_time(TimeKind::Modification, time);
            inode.set_time(TimeKind::Change, time);
            inode.count_change();
        }
    }
}

/// A regular file whose inode its holder has locked for changes.
///
/// After an error of the device, or damage, the inode is not to be used any more: read it anew.
#[derive(Debug)]
pub struct FileEdit<'a> {
    file_system: &'a FileSystem,
    inode: &'a mut EditInode,
    /// The write does not extend the file.
    keeps_size: bool,
}

impl FileSystem {
    /// A regular file that the caller has locked, to be changed.
    ///
    /// # Errors
    /// No regular file; one of the realtime section.
    pub fn edit_file<'a>(&'a self, inode: &'a mut EditInode) -> Result<FileEdit<'a>> {
        require_regular(inode)?;
        Ok(FileEdit { file_system: self, inode, keeps_size: false })
    }

    /// The largest size that a file can have.
    #[doc(alias = "s_maxbytes")]
    pub fn largest_file_bytes(&self) -> u64 {
        let blocks = MAX_FILE_BLOCKS.checked_mul(self.geometry().block_size_bytes.into());
        blocks.unwrap_or(u64::MAX).min(i64::MAX.cast_unsigned())
    }
}

fn require_regular(inode: &EditInode) -> Result<()> {
    match inode.file_type() {
        Some(FileType::Regular) => uxfs_engine::extent_map::refuse_realtime(inode, Fork::Data),
        Some(FileType::Directory) => Err(OperationError::IsADirectory.into()),
        Some(_) => Err(OperationError::WrongFileType.into()),
        None => Err(OperationError::NoSuchInode.into()),
    }
}

fn is_no_space(error: &Error) -> bool {
    matches!(error, Error::Operation(OperationError::NoSpace))
}

fn is_refusal(error: &Error) -> bool {
    matches!(error, Error::Operation(OperationError::NoSpace | OperationError::FileTooLarge))
}

/// Tries something that takes blocks. Where it finds none, but some wait for a checkpoint to be free, it is tried again after
/// that checkpoint.
fn with_freed_blocks<T>(file_system: &FileSystem, mut attempt: impl FnMut() -> Result<T>) -> Result<T> {
    match attempt() {
        Err(error) if is_no_space(&error) && file_system.wait_for_freed_blocks()? => attempt(),
        done => done,
    }
}

impl<'a> FileEdit<'a> {
    /// To write to the device.
    fn device_writer(&self) -> ContentsWriter<'a> {
        ContentsWriter::new(self.file_system)
    }

    fn geometry(&self) -> &'a Geometry {
        self.file_system.geometry()
    }

    /// The block that holds a byte.
    fn block_of(&self, offset_bytes: u64) -> FileBlock {
        FileBlock::new(offset_bytes >> self.geometry().block_log)
    }

    /// The first block behind a byte range's end.
    fn block_behind(&self, end_bytes: u64) -> FileBlock {
        FileBlock::new(end_bytes.div_ceil(self.geometry().block_size_bytes.into()))
    }

    fn byte_of(&self, block: FileBlock) -> u64 {
        block.get().saturating_mul(self.geometry().block_size_bytes.into())
    }

    fn offset_in_block(&self, offset_bytes: u64) -> usize {
        (offset_bytes & u64::from(self.geometry().block_size_bytes.saturating_sub(1))) as usize
    }

    /// Whether a byte offset is the beginning of a block.
    fn is_aligned(&self, offset_bytes: u64) -> bool {
        self.offset_in_block(offset_bytes) == 0
    }

    /// End of a range that is to be part of a file.
    ///
    /// # Errors
    /// Nothing, or past the largest file.
    fn range_end(&self, offset_bytes: u64, length_bytes: u64) -> Result<u64> {
        if length_bytes == 0 {
            return Err(OperationError::InvalidRange.into());
        }
        let end = offset_bytes.checked_add(length_bytes).ok_or(OperationError::FileTooLarge)?;
        if end > self.file_system.largest_file_bytes() {
            return Err(OperationError::FileTooLarge.into());
        }
        Ok(end)
    }

    /// How many extents have blocks in a range.
    fn extents_in(&self, range: &Range<FileBlock>) -> usize {
        list::overlapping(self.inode.extents(Fork::Data), range.start, range.end).len()
    }

    /// Begins a step that changes mappings, by which the file may get `growth` more extents.
    ///
    /// # Errors
    /// [`NoSpace`](OperationError::NoSpace), [`FileTooLarge`](OperationError::FileTooLarge), with nothing changed; damage;
    /// the device.
    fn begin_remap(&mut self, growth: u32) -> Result<Transaction<'a>> {
        with_freed_blocks(self.file_system, || self.begin_remap_now(growth))
    }

    fn begin_remap_now(&mut self, growth: u32) -> Result<Transaction<'a>> {
        let mut tx = match Transaction::begin_for(self.file_system, Operation::Remap) {
            // Freeing must work on a full file system; the caller checks the space next.
            Err(error) if is_no_space(&error) => {
                Transaction::begin_for(self.file_system, Operation::Release)?
            }
            begun => begun?,
        };
        match tx.extent_maps().ready_extents(self.inode, Fork::Data, growth) {
            Ok(()) => Ok(tx),
            Err(error) => {
                tx.commit()?;
                Err(error)
            }
        }
    }

    /// Ends a step.
    fn end_step(&mut self, tx: &mut Transaction<'_>, touch: Touch) -> Result<()> {
        touch.apply(self.inode);
        tx.store_inode(self.inode)?;
        tx.commit()
    }

    /// A step that changes nothing but the core.
    fn touch(&mut self, touch: Touch) -> Result<()> {
        let mut tx = Transaction::begin_for(self.file_system, Operation::SetAttributes)?;
        tx.depends_on_data();
        self.end_step(&mut tx, touch)
    }

    /// Takes all blocks of a range away, in steps.
    fn unmap(&mut self, range: &Range<FileBlock>, touch: Touch) -> Result<()> {
        loop {
            let found = list::overlapping(self.inode.extents(Fork::Data), range.start, range.end);
            if found.is_empty() {
                return Ok(());
            }
            let growth = self.growth_of_hole(range);
            let most = if found.len() <= ATOMIC_EXTENTS { ATOMIC_EXTENTS } else { STEP_EXTENTS };
            let mut tx = self.begin_remap(growth)?;
            tx.extent_maps().unmap_last(self.inode, range.clone(), most)?;
            self.end_step(&mut tx, touch)?;
        }
    }
}
