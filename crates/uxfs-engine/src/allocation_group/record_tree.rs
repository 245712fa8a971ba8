//! The tree as the algorithms of this folder change it.
//!
//! Reverse mappings and reference counts are kept merged by rules that have nothing to do with blocks and levels. Those
//! rules are written against this trait, so that tests can run them on a sorted list beside a naive model.

use uxfs_format::{
    btree::{
        BtreeKind,
        check::BtreeFault,
        reverse_map::{Mapping, ReverseMap},
    },
    fault::Fault,
    units::AgBlock,
};

use super::trees::{GroupCursor, GroupTree};
use uxfs_volume::error::{Error, Result};

/// A tree and a place in it. Changes name the record that they are about, so that no algorithm depends on where an
/// earlier change left the place; implementations make that cheap where the place is near.
pub trait RecordTree<K: BtreeKind> {
    /// Goes to the last record at or before `position`.
    fn at_or_before(&mut self, position: K::Position) -> Result<Option<K::Record>>;

    /// Goes to the first record at or behind `position`.
    fn at_or_after(&mut self, position: K::Position) -> Result<Option<K::Record>>;

    /// Goes to the next record; only after a search or step that found one, and before any change.
    fn next(&mut self) -> Result<Option<K::Record>>;

    /// Goes to the previous record; only after a search or step that found one, and before any change.
    fn previous(&mut self) -> Result<Option<K::Record>>;

    /// Puts a record in its place.
    fn insert(&mut self, record: K::Record) -> Result<()>;

    /// Replaces the record at `position`. The new one must lie between the neighbours of the old one.
    fn update(&mut self, position: K::Position, record: K::Record) -> Result<()>;

    /// Removes the record at `position`.
    fn delete(&mut self, position: K::Position) -> Result<()>;

    /// A fault of the tree as a whole.
    fn damaged(&self, fault: Fault) -> Error;
}

/// A tree of owners: its records may overlap.
pub trait OwnerTree: RecordTree<ReverseMap> {
    /// A mapping that covers `block` and that `accept` wants. The place is nowhere afterwards.
    fn find_covering(&mut self, block: AgBlock, accept: &dyn Fn(&Mapping) -> bool)
    -> Result<Option<Mapping>>;
}

impl<K: GroupTree> RecordTree<K> for GroupCursor<'_, '_, K> {
    #[inline]
    fn at_or_before(&mut self, position: K::Position) -> Result<Option<K::Record>> {
        self.seek_at_or_before(position)
    }

    #[inline]
    fn at_or_after(&mut self, position: K::Position) -> Result<Option<K::Record>> {
        self.seek_at_or_after(position)
    }

    #[inline]
    fn next(&mut self) -> Result<Option<K::Record>> {
        Self::next(self)
    }

    #[inline]
    fn previous(&mut self) -> Result<Option<K::Record>> {
        Self::previous(self)
    }

    #[inline]
    fn insert(&mut self, record: K::Record) -> Result<()> {
        Self::insert(self, &record)
    }

    fn update(&mut self, position: K::Position, record: K::Record) -> Result<()> {
        go_to(self, position)?;
        Self::update(self, &record)
    }

    fn delete(&mut self, position: K::Position) -> Result<()> {
        go_to(self, position)?;
        Self::delete(self)
    }

    fn damaged(&self, fault: Fault) -> Error {
        self.damaged_tree(fault)
    }
}

/// Goes to the record at a position unless the cursor is there.
fn go_to<K: GroupTree>(cursor: &mut GroupCursor<'_, '_, K>, position: K::Position) -> Result<()> {
    if cursor.record().is_some_and(|record| K::position_of_record(&record) == position) {
        return Ok(());
    }
    match cursor.seek_exact(position)? {
        Some(_) => Ok(()),
        None => Err(cursor.damaged_tree(BtreeFault::MissingRecord)),
    }
}

impl OwnerTree for GroupCursor<'_, '_, ReverseMap> {
    fn find_covering(
        &mut self,
        block: AgBlock,
        accept: &dyn Fn(&Mapping) -> bool,
    ) -> Result<Option<Mapping>> {
        Ok(self.seek_covering(block, accept)?.map(|record| record.get()))
    }
}

/// A sorted list, for tests.
#[cfg(test)]
pub mod list {
    use super::*;
    use uxfs_format::fault::{Corruption, Location};

    #[derive(Debug, Clone)]
    /// A tree that is a list.
    pub(crate) struct ListTree<K: BtreeKind> {
        /// In order.
        pub(crate) records: Vec<K::Record>,
        place: Option<usize>,
        /// Changes made so far.
        pub changes: usize,
    }

    impl<K: BtreeKind> ListTree<K> {
        /// Without records.
        pub(crate) fn new() -> Self {
            Self { records: Vec::new(), place: None, changes: 0 }
        }

        fn go_to(&mut self, index: Option<usize>) -> Option<K::Record> {
            self.place = index.filter(|index| *index < self.records.len());
            self.place.map(|index| self.records[index])
        }

        fn index_of(&self, position: K::Position) -> usize {
            let found = self.records.binary_search_by_key(&position, K::position_of_record);
            found.expect("a record at the position that is to be changed")
        }

        fn changed(&mut self) {
            self.place = None;
            self.changes += 1;
            let ordered = |pair: &[K::Record]| K::may_follow(&pair[0], &pair[1]);
            assert!(self.records.windows(2).all(ordered), "order lost: {:?}", self.records);
        }
    }

    impl<K: BtreeKind> RecordTree<K> for ListTree<K> {
        fn at_or_before(&mut self, position: K::Position) -> Result<Option<K::Record>> {
            let count = self.records.partition_point(|record| K::position_of_record(record) <= position);
            Ok(self.go_to(count.checked_sub(1)))
        }

        fn at_or_after(&mut self, position: K::Position) -> Result<Option<K::Record>> {
            let count = self.records.partition_point(|record| K::position_of_record(record) < position);
            Ok(self.go_to(Some(count)))
        }

        fn next(&mut self) -> Result<Option<K::Record>> {
            let place = self.place.expect("a place to go on from");
            Ok(self.go_to(Some(place + 1)))
        }

        fn previous(&mut self) -> Result<Option<K::Record>> {
            let place = self.place.expect("a place to go back from");
            Ok(self.go_to(place.checked_sub(1)))
        }

        fn insert(&mut self, record: K::Record) -> Result<()> {
            let position = K::position_of_record(&record);
            let index = self.records.partition_point(|other| K::position_of_record(other) < position);
            self.records.insert(index, record);
            self.changed();
            Ok(())
        }

        fn update(&mut self, position: K::Position, record: K::Record) -> Result<()> {
            let index = self.index_of(position);
            self.records[index] = record;
            self.changed();
            Ok(())
        }

        fn delete(&mut self, position: K::Position) -> Result<()> {
            let index = self.index_of(position);
            self.records.remove(index);
            self.changed();
            Ok(())
        }

        fn damaged(&self, fault: Fault) -> Error {
            Corruption::new(K::STRUCTURE, Location::default(), fault).into()
        }
    }

    impl OwnerTree for ListTree<ReverseMap> {
        fn find_covering(
            &mut self,
            block: AgBlock,
            accept: &dyn Fn(&Mapping) -> bool,
        ) -> Result<Option<Mapping>> {
            self.place = None;
            let mut covering = self
                .records
                .iter()
                .map(|record| record.get())
                .filter(|mapping| mapping.start <= block && block < mapping.end() && accept(mapping));
            Ok(covering.next())
        }
    }
}
