//! All records of a tree in order.

use uxfs_format::btree::BtreeKind;

use super::Cursor;
use crate::error::Result;

/// All records of a tree in order. It ends behind the first error.
#[derive(Debug)]
pub struct Records<'fs, K: BtreeKind> {
    cursor: Cursor<'fs, K>,
    state: State,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Unread,
    Started,
    Ended,
}

impl<'fs, K: BtreeKind> Records<'fs, K> {
    pub(super) fn new(cursor: Cursor<'fs, K>) -> Self {
        Self { cursor: cursor.with_readahead(), state: State::Unread }
    }

    /// Calls `visit` with the records of each leaf, which is faster than one by one. Stops at the first error.
    ///
    /// # Errors
    /// Damage, the device, or what `visit` gives.
    pub fn visit_leaves(mut self, mut visit: impl FnMut(&[K::Record]) -> Result<()>) -> Result<()> {
        let mut record = self.cursor.first()?;
        while record.is_some() {
            visit(self.cursor.rest_of_leaf())?;
            record = self.cursor.next_leaf()?;
        }
        Ok(())
    }
}

impl<K: BtreeKind> Iterator for Records<'_, K> {
    type Item = Result<K::Record>;

    fn next(&mut self) -> Option<Self::Item> {
        let step = match self.state {
            State::Unread => self.cursor.first(),
            State::Started => self.cursor.next(),
            State::Ended => return None,
        };
        self.state = if matches!(step, Ok(Some(_))) { State::Started } else { State::Ended };
        step.transpose()
    }
}

impl<K: BtreeKind> std::iter::FusedIterator for Records<'_, K> {}
