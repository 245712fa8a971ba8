//! All records of a tree in order. In a tolerant volume those of damaged blocks are left out.

use uxfs_format::btree::BtreeKind;

use super::Cursor;
use crate::{error::Result, tolerant::records::TolerantWalk};

/// All records of a tree in order. It ends behind the first error.
#[derive(Debug)]
pub struct Records<'fs, K: BtreeKind> {
    walk: Walk<'fs, K>,
    state: State,
}

#[derive(Debug)]
enum Walk<'fs, K: BtreeKind> {
    Strict(Cursor<'fs, K>),
    /// With the records of the leaf at hand that have not been given, in reverse.
    Tolerant(Box<TolerantWalk<'fs, K>>, Vec<K::Record>),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Unread,
    Started,
    Ended,
}

impl<'fs, K: BtreeKind> Records<'fs, K> {
    pub(super) fn new(cursor: Cursor<'fs, K>) -> Self {
        let tree = cursor.tree();
        let walk = match tree.volume().findings() {
            Some(_) => Walk::Tolerant(Box::new(TolerantWalk::new(tree.clone())), Vec::new()),
            None => Walk::Strict(cursor.with_readahead()),
        };
        Self { walk, state: State::Unread }
    }

    /// Blocks that a tolerant volume has left out so far.
    pub fn left_out(&self) -> u64 {
        match &self.walk {
            Walk::Strict(_) => 0,
            Walk::Tolerant(walk, _) => walk.left_out(),
        }
    }

    /// Calls `visit` with the records of each leaf, which is faster than one by one. Stops at the first error.
    ///
    /// # Errors
    /// Damage, the device, or what `visit` gives.
    pub fn visit_leaves(self, mut visit: impl FnMut(&[K::Record]) -> Result<()>) -> Result<()> {
        match self.walk {
            Walk::Strict(mut cursor) => {
                let mut record = cursor.first()?;
                while record.is_some() {
                    visit(cursor.rest_of_leaf())?;
                    record = cursor.next_leaf()?;
                }
            }
            Walk::Tolerant(mut walk, _) => {
                while let Some(records) = walk.next_leaf()? {
                    visit(records)?;
                }
            }
        }
        Ok(())
    }
}

impl<K: BtreeKind> Iterator for Records<'_, K> {
    type Item = Result<K::Record>;

    fn next(&mut self) -> Option<Self::Item> {
        let step = match (&mut self.walk, self.state) {
            (_, State::Ended) => return None,
            (Walk::Strict(cursor), State::Unread) => cursor.first(),
            (Walk::Strict(cursor), State::Started) => cursor.next(),
            (Walk::Tolerant(walk, waiting), _) => next_tolerantly(walk, waiting),
        };
        self.state = if matches!(step, Ok(Some(_))) { State::Started } else { State::Ended };
        step.transpose()
    }
}

impl<K: BtreeKind> std::iter::FusedIterator for Records<'_, K> {}

fn next_tolerantly<K: BtreeKind>(
    walk: &mut TolerantWalk<'_, K>,
    waiting: &mut Vec<K::Record>,
) -> Result<Option<K::Record>> {
    while waiting.is_empty() {
        let Some(records) = walk.next_leaf()? else { return Ok(None) };
        waiting.extend(records.iter().rev());
    }
    Ok(waiting.pop())
}
