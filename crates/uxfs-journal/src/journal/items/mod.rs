//! Items as they are written: the other direction of [`uxfs_format::log`]'s decoders.
//!
//! | module | holds |
//! |---|---|
//! | [`buffer`] | changed runs of buffers, freed buffers, lists of unlinked inodes |
//! | [`inode`] | changed inodes, new chunks of them |
//! | [`intent`] | intents and their ends |

pub mod buffer;
pub mod inode;
pub mod intent;

/// Takes the regions of items, one after the other.
pub trait RegionSink {
    /// One region; its length is a multiple of four.
    fn region(&mut self, bytes: &[u8]);

    /// A region that holds what has changed, and does not only say where.
    fn content(&mut self, bytes: &[u8]) {
        self.region(bytes);
    }
}

impl RegionSink for super::records::RecordWriter<'_> {
    #[inline]
    fn region(&mut self, bytes: &[u8]) {
        Self::region(self, bytes);
    }

    #[inline]
    fn content(&mut self, bytes: &[u8]) {
        Self::content(self, bytes);
    }
}

impl RegionSink for Vec<Vec<u8>> {
    fn region(&mut self, bytes: &[u8]) {
        self.push(bytes.to_vec());
    }
}
