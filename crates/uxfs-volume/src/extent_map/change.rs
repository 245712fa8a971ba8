//! Other extents in the place of some.

use std::ops::Range;

use uxfs_block::cache::MemoryAccount;
use uxfs_format::btree::extent_map::ExtentRecord;

use super::{ExtentMap, FEW_RECORDS, Form, tree::Tree};

/// A tree with no more extents than that becomes a list again: fewer than it came from, so that it does not go to and fro.
const FEW_AGAIN_RECORDS: usize = FEW_RECORDS / 2;

impl ExtentMap {
    /// Puts `added` in the place of the extents of a range. What many extents take is charged to `account`.
    pub fn splice(&mut self, range: Range<usize>, added: &[ExtentRecord], account: Option<&MemoryAccount>) {
        let length = self.len();
        let range = range.start.min(length)..range.end.min(length).max(range.start.min(length));
        let new_length = length - range.len() + added.len();
        match (&mut self.form, added) {
            (Form::Many(tree), _) if new_length > FEW_AGAIN_RECORDS => tree.splice(range, added),
            (Form::Few(records), _) if (2..=FEW_RECORDS).contains(&new_length) => {
                splice_list(records, range, added);
            }
            (_, [only]) if new_length == 1 => self.form = Form::One(*only),
            _ if new_length <= FEW_RECORDS => self.form = self.form_of_few(range, added, new_length),
            _ => {
                let mut tree = Tree::new(account);
                let (before, _) = self.run_at(0);
                tree.splice(0..0, before);
                tree.splice(range, added);
                self.form = Form::Many(Box::new(tree));
            }
        }
    }

    /// As a list what the map would be, with the number of its extents.
    fn form_of_few(&self, range: Range<usize>, added: &[ExtentRecord], length: usize) -> Form {
        let mut records = Vec::new();
        // A file that has two extents will have more.
        records.reserve_exact(if length == 0 { 0 } else { length.next_power_of_two().max(4) });
        self.copy_records(0..range.start, &mut records);
        records.extend_from_slice(added);
        self.copy_records(range.end..self.len(), &mut records);
        match records.as_slice() {
            [only] => Form::One(*only),
            _ => Form::Few(records),
        }
    }

    fn copy_records(&self, range: Range<usize>, to: &mut Vec<ExtentRecord>) {
        let mut next = range.start;
        while next < range.end {
            let (records, place) = self.run_at(next);
            let found = records.get(place..).unwrap_or_default();
            let found = found.get(..range.end - next).unwrap_or(found);
            if found.is_empty() {
                return;
            }
            to.extend_from_slice(found);
            next += found.len();
        }
    }

    /// Gives back memory that was taken for more extents than have come.
    pub(super) fn shrink_to_fit(&mut self) {
        match &mut self.form {
            Form::One(_) => {}
            Form::Few(records) => records.shrink_to_fit(),
            Form::Many(tree) => tree.shrink_to_fit(),
        }
    }

    /// Whether there are so many extents that their memory is counted.
    pub fn is_large(&self) -> bool {
        matches!(self.form, Form::Many(_))
    }
}

/// The usual changes of a list, without a detour.
fn splice_list(records: &mut Vec<ExtentRecord>, range: Range<usize>, added: &[ExtentRecord]) {
    if range.len() == added.len() {
        if let Some(slots) = records.get_mut(range) {
            slots.copy_from_slice(added);
        }
    } else if range.start == records.len() {
        records.extend_from_slice(added);
    } else {
        records.splice(range, added.iter().copied());
    }
}
