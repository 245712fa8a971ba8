//! The contents of regular files.
//!
//! Contents are read from the device straight into the caller's memory and never pass through the metadata cache.
//! Holes and unwritten extents are zeros that cost no read; blocks behind the end of the file are left alone.
//!
//! | module | holds |
//! |---|---|
//! | [`ranges`] | where a file has data and where it has holes |
//! | [`read`] | random access |
//! | [`reader`] | sequential reading in large pieces |

pub mod ranges;
pub mod read;
pub mod reader;

use uxfs_format::{features::Unsupported, inode::Fork};

use crate::{
    error::{OperationError, Result},
    extent_map::ExtentMap,
    inode::{FileType, Inode},
    volume::Volume,
};

impl Volume {
    /// The extents of a regular file's data, if it is one that can be read.
    fn readable_extents<'i>(&self, inode: &'i Inode) -> Result<&'i ExtentMap> {
        match inode.file_type() {
            Some(FileType::Regular) => {}
            Some(FileType::Directory) => return Err(OperationError::IsADirectory.into()),
            Some(_) => return Err(OperationError::WrongFileType.into()),
            None => return Err(OperationError::NoSuchInode.into()),
        }
        if inode.is_realtime() && inode.extent_count(Fork::Data) != 0 {
            return Err(Unsupported::RealtimeData.into());
        }
        self.extent_map(inode, Fork::Data)
    }
}
