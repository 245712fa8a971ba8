//! Contents of open files. Each operation locks its inodes, and may be called from any thread.
//!
//! Callers check permissions. These operations enforce the inode flags `IMMUTABLE` and `APPEND`.

use super::{
    FileEdit, Touch, exchange::ExchangeRange, mappings::FileMapping, share::CloneRange, space::SizeChange,
};
use crate::file::truncate::has_blocks_behind_end;
use crate::{
    filesystem::FileSystem,
    inode::table::{InodeHandle, InodeWriteGuard, lock_in_order},
};
use uxfs_block::device::BlockDevice;
use uxfs_engine::inode::edit::EditInode;
use uxfs_volume::{
    error::{Error, OperationError, Result},
    file_data::ranges::DataRanges,
    inode::{FileType, InodeFlags},
};

/// The target of a seek.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Seek {
    /// The next byte of data.
    #[doc(alias = "SEEK_DATA")]
    Data,
    /// The next byte in a hole, of which there is one at the end.
    #[doc(alias = "SEEK_HOLE")]
    Hole,
}

/// Refuses a change of a file with one of the flags `forbidding`.
fn check_flags(inode: &EditInode, forbidding: InodeFlags) -> Result<()> {
    if inode.core.flags().intersects(forbidding) { Err(OperationError::NotPermitted.into()) } else { Ok(()) }
}

const FIXED: InodeFlags = InodeFlags::IMMUTABLE.union(InodeFlags::APPEND);

/// Calls `take` with where the data of a part of a file lies, with the end of the part (the file's end at most), and with the device. What
/// lies between the ranges is zero. Until it returns nothing else changes the file or its blocks.
///
/// # Errors
/// As [`FileSystem::read`], without those of the device.
pub fn with_data<T>(
    file_system: &FileSystem,
    file: &InodeHandle,
    start_bytes: u64,
    length_bytes: u64,
    take: impl FnOnce(DataRanges<'_>, u64, &dyn BlockDevice) -> T,
) -> Result<T> {
    let inode = file.read();
    let end_bytes = start_bytes.saturating_add(length_bytes).min(inode.size_bytes()).max(start_bytes);
    let ranges = file_system.data_ranges_between(&inode, start_bytes, end_bytes)?;
    Ok(take(ranges, end_bytes, file_system.device().as_ref()))
}

impl FileSystem {
    /// Reads from a file: see [`Volume::read_file`](uxfs_volume::volume::Volume::read_file).
    ///
    /// # Errors
    /// As there.
    pub fn read(&self, file: &InodeHandle, offset_bytes: u64, buffer: &mut [u8]) -> Result<usize> {
        self.read_file(&file.read(), offset_bytes, buffer)
    }

    /// Finds data or a hole: see [`seek_data`](uxfs_volume::volume::Volume::seek_data) and
    /// [`seek_hole`](uxfs_volume::volume::Volume::seek_hole).
    ///
    /// # Errors
    /// As there.
    pub fn seek(&self, file: &InodeHandle, offset_bytes: u64, seek: Seek) -> Result<u64> {
        match seek {
            Seek::Data => self.seek_data(&file.read(), offset_bytes),
            Seek::Hole => self.seek_hole(&file.read(), offset_bytes),
        }
    }

    /// The mappings of a file: see [`file_mappings`](Self::file_mappings).
    ///
    /// # Errors
    /// As there.
    pub fn mappings(
        &self,
        file: &InodeHandle,
        offset_bytes: u64,
        length_bytes: u64,
        most: usize,
    ) -> Result<Vec<FileMapping>> {
        self.file_mappings(&file.read(), offset_bytes, length_bytes, most)
    }

    /// Writes to a file: see [`FileEdit::write`].
    ///
    /// # Errors
    /// As there; [`NotPermitted`](OperationError::NotPermitted) for a file that is fixed, or only to be appended to.
    pub fn write(&self, file: &InodeHandle, offset_bytes: u64, bytes: &[u8], touch: Touch) -> Result<usize> {
        let inode = file.write();
        let is_append = offset_bytes == inode.size_bytes();
        check_flags(&inode, if is_append { InodeFlags::IMMUTABLE } else { FIXED })?;
        write_locked(self, file, inode, offset_bytes, bytes, touch)
    }

    /// Writes to the end of a file; returns the offset of the write and its length.
    ///
    /// # Errors
    /// As [`write`](Self::write).
    #[doc(alias = "O_APPEND")]
    pub fn append(&self, file: &InodeHandle, bytes: &[u8], touch: Touch) -> Result<(u64, usize)> {
        let inode = file.write();
        check_flags(&inode, InodeFlags::IMMUTABLE)?;
        let offset_bytes = inode.size_bytes();
        let written = write_locked(self, file, inode, offset_bytes, bytes, touch)?;
        Ok((offset_bytes, written))
    }

    /// Sets the size of a file: see [`FileEdit::set_size`].
    ///
    /// # Errors
    /// As there.
    pub fn set_size(&self, file: &InodeHandle, size_bytes: u64, touch: Touch) -> Result<()> {
        change_file(self, file, FIXED, |file| file.set_size(size_bytes, touch))
    }

    /// Frees the speculative preallocation past EOF: see [`FileEdit::free_preallocation`].
    ///
    /// # Errors
    /// As there.
    pub fn free_preallocation(&self, file: &InodeHandle) -> Result<()> {
        change_file(self, file, InodeFlags::empty(), |file| file.free_preallocation())
    }

    /// Allocates: see [`FileEdit::allocate_range`].
    ///
    /// # Errors
    /// As there.
    pub fn allocate_range(
        &self,
        file: &InodeHandle,
        offset_bytes: u64,
        length_bytes: u64,
        size: SizeChange,
        touch: Touch,
    ) -> Result<()> {
        change_file(self, file, InodeFlags::IMMUTABLE, |file| {
            file.allocate_range(offset_bytes, length_bytes, size, touch)
        })
    }

    /// Makes a hole: see [`FileEdit::punch`].
    ///
    /// # Errors
    /// As there.
    pub fn punch_range(
        &self,
        file: &InodeHandle,
        offset_bytes: u64,
        length_bytes: u64,
        touch: Touch,
    ) -> Result<()> {
        change_file(self, file, FIXED, |file| file.punch(offset_bytes, length_bytes, touch))
    }

    /// Zeroes: see [`FileEdit::zero_range`].
    ///
    /// # Errors
    /// As there.
    pub fn zero_range(
        &self,
        file: &InodeHandle,
        offset_bytes: u64,
        length_bytes: u64,
        size: SizeChange,
        touch: Touch,
    ) -> Result<()> {
        change_file(self, file, FIXED, |file| file.zero_range(offset_bytes, length_bytes, size, touch))
    }

    /// Takes a range out: see [`FileEdit::collapse`].
    ///
    /// # Errors
    /// As there.
    pub fn collapse_range(
        &self,
        file: &InodeHandle,
        offset_bytes: u64,
        length_bytes: u64,
        touch: Touch,
    ) -> Result<()> {
        change_file(self, file, FIXED, |file| file.collapse(offset_bytes, length_bytes, touch))
    }

    /// Puts a hole in: see [`FileEdit::insert`].
    ///
    /// # Errors
    /// As there.
    pub fn insert_range(
        &self,
        file: &InodeHandle,
        offset_bytes: u64,
        length_bytes: u64,
        touch: Touch,
    ) -> Result<()> {
        change_file(self, file, FIXED, |file| file.insert(offset_bytes, length_bytes, touch))
    }

    /// Copies shared extents: see [`FileEdit::unshare`].
    ///
    /// # Errors
    /// As there.
    pub fn unshare_range(
        &self,
        file: &InodeHandle,
        offset_bytes: u64,
        length_bytes: u64,
        size: SizeChange,
        touch: Touch,
    ) -> Result<()> {
        change_file(self, file, FIXED, |file| file.unshare(offset_bytes, length_bytes, size, touch))
    }

    /// Maps the blocks of a range of `source` into `target`, which may be the same file: see
    /// [`FileEdit::clone_from`].
    ///
    /// # Errors
    /// As there.
    pub fn clone_range(
        &self,
        source: &InodeHandle,
        target: &InodeHandle,
        range: &CloneRange,
        touch: Touch,
    ) -> Result<u64> {
        let [target, source] = &mut lock_in_order([Some(target), Some(source)]);
        let target = target.as_deref_mut().ok_or(OperationError::NoSuchInode)?;
        check_flags(target, FIXED)?;
        self.edit_file(target)?.clone_from(source.as_deref_mut(), range, touch)
    }

    /// Shares a range if the contents are equal: see [`FileEdit::share_if_equal`].
    ///
    /// # Errors
    /// As there.
    pub fn share_if_equal(
        &self,
        source: &InodeHandle,
        target: &InodeHandle,
        range: &CloneRange,
    ) -> Result<bool> {
        let [target, source] = &mut lock_in_order([Some(target), Some(source)]);
        let target = target.as_deref_mut().ok_or(OperationError::NoSuchInode)?;
        check_flags(target, InodeFlags::IMMUTABLE)?;
        self.edit_file(target)?.share_if_equal(source.as_deref_mut(), range)
    }

    /// Exchanges contents of two files, which may be the same one: see [`exchange_range`](Self::exchange_range).
    ///
    /// # Errors
    /// As there.
    pub fn exchange_files(
        &self,
        first: &InodeHandle,
        second: &InodeHandle,
        range: &ExchangeRange,
        touch: Touch,
    ) -> Result<()> {
        let [first, second] = &mut lock_in_order([Some(first), Some(second)]);
        let first = first.as_deref_mut().ok_or(OperationError::NoSuchInode)?;
        check_flags(first, FIXED)?;
        if let Some(second) = second {
            check_flags(second, FIXED)?;
        }
        self.exchange_range(first, second.as_deref_mut(), range, touch)
    }
}

/// Changes one file.
fn change_file<T>(
    file_system: &FileSystem,
    file: &InodeHandle,
    forbidding: InodeFlags,
    change: impl FnOnce(&mut FileEdit<'_>) -> Result<T>,
) -> Result<T> {
    let mut inode = file.write();
    check_flags(&inode, forbidding)?;
    change(&mut file_system.edit_file(&mut inode)?)
}

/// As [`FileSystem::write`], for a file whose flags were asked when it was opened: Linux asks them then.
///
/// # Errors
/// See [`FileEdit::write`].
pub fn write_opened(
    file_system: &FileSystem,
    file: &InodeHandle,
    offset_bytes: u64,
    bytes: &[u8],
    touch: Touch,
) -> Result<usize> {
    write_locked(file_system, file, file.write(), offset_bytes, bytes, touch)
}

fn write_locked(
    file_system: &FileSystem,
    file: &InodeHandle,
    mut inode: InodeWriteGuard<'_>,
    offset_bytes: u64,
    bytes: &[u8],
    touch: Touch,
) -> Result<usize> {
    let written = file_system.edit_file(&mut inode)?.write(offset_bytes, bytes, touch)?;
    if has_blocks_behind_end(file_system, &inode) {
        file.set_has_preallocation();
    }
    drop(inode);
    free_preallocation_of_closed(file_system)?;
    Ok(written)
}

/// Frees the speculative preallocation of files that have been closed.
pub(crate) fn free_preallocation_of_closed(file_system: &FileSystem) -> Result<()> {
    while let Some(number) = file_system.inode_table().next_with_preallocation() {
        let file = match file_system.open_if_in_use(number) {
            // Freed since it was closed.
            Err(Error::Operation(OperationError::NoSuchInode)) => continue,
            opened => opened?,
        };
        let mut inode = file.write();
        if inode.file_type() == Some(FileType::Regular) {
            file_system.edit_file(&mut inode)?.free_preallocation()?;
        }
    }
    Ok(())
}
