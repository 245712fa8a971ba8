//! Extended attributes and access control lists of two files.

use uxfs_block::spill::sorter::{Merge, Sorter};
use uxfs_volume::attribute::xattr::{ACL_ACCESS, ACL_DEFAULT};

use super::{
    both::{Both, Side},
    field::{Field, Fields},
    host::spilled,
    tree::{File, Trees},
};
use crate::failure::Failure;

/// Memory for the attributes of one file; more of them lie in a temporary file.
const MEMORY_BYTES: usize = 4 << 20;
/// Attributes that are told of one file. An image can have millions on one.
pub(super) const TOLD_MAX: usize = 16;

/// What became of something.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Change {
    /// Only the first side has it.
    Removed,
    /// Only the second side has it.
    Added,
    /// Both have it, and it is not the same.
    Changed,
}

impl Change {
    /// The word for it.
    pub fn word(self) -> &'static str {
        match self {
            Self::Removed => "removed",
            Self::Added => "added",
            Self::Changed => "changed",
        }
    }
}

/// Attributes that differ.
#[derive(Debug, Default)]
pub(super) struct Differing {
    /// The first of them.
    pub told: Vec<(Vec<u8>, Change)>,
    /// How many more there are.
    pub others: u64,
    pub fields: Fields,
}

/// Whether it is the name under which XFS stores an ACL, which is compared under its other name.
pub(super) fn is_stored_acl(name: &[u8]) -> bool {
    matches!(name, b"trusted.SGI_ACL_FILE" | b"trusted.SGI_ACL_DEFAULT")
}

/// Compares the attributes of two files.
///
/// # Errors
/// Those of this side cannot be read; a temporary file.
pub(super) fn differing(
    trees: Trees<'_>,
    files: &Both<&File>,
    wanted: Fields,
) -> Result<Differing, (Side, Failure)> {
    let may_have = |side| trees.at(side).may_have_attributes(files.at(side));
    let Both { first, second } = Both::of(may_have);
    if !first && !second {
        return Ok(Differing::default());
    }
    let has_trusted = trees.tell_trusted();
    let mut lists = Both::try_of(|side| {
        let mut sorter = Sorter::new(MEMORY_BYTES);
        let gathered = trees.at(side).attributes(files.at(side), has_trusted, &mut sorter);
        let sorted =
            gathered.and_then(|()| sorter.finish().and_then(|sorted| sorted.read()).map_err(spilled));
        sorted.map_err(|failure| (side, failure))
    })?;
    merge(&mut lists, wanted).map_err(|failure| (Side::First, failure))
}

fn merge(lists: &mut Both<Merge>, wanted: Fields) -> Result<Differing, Failure> {
    let mut differing = Differing::default();
    let mut heads = Both::try_of(|side| next(lists.at_mut(side)))?;
    loop {
        let change = match (&heads.first, &heads.second) {
            (None, None) => return Ok(differing),
            (Some(_), None) => Change::Removed,
            (None, Some(_)) => Change::Added,
            (Some(one), Some(two)) if one.0 < two.0 => Change::Removed,
            (Some(one), Some(two)) if one.0 > two.0 => Change::Added,
            (Some(one), Some(two)) if one.1 == two.1 => {
                heads = Both::try_of(|side| next(lists.at_mut(side)))?;
                continue;
            }
            _ => Change::Changed,
        };
        let mut name = None;
        if change != Change::Added {
            name = std::mem::replace(&mut heads.first, next(&mut lists.first)?);
        }
        if change != Change::Removed {
            name = std::mem::replace(&mut heads.second, next(&mut lists.second)?);
        }
        if let Some((name, _)) = name {
            differing.add(name, change, wanted);
        }
    }
}

impl Differing {
    fn add(&mut self, name: Vec<u8>, change: Change, wanted: Fields) {
        let is_acl = name == ACL_ACCESS || name == ACL_DEFAULT;
        let field = if is_acl { Field::Acl } else { Field::Xattr };
        if !wanted.has(field) {
            return;
        }
        self.fields.add(field);
        match self.told.len() < TOLD_MAX {
            true => self.told.push((name, change)),
            false => self.others = self.others.saturating_add(1),
        }
    }
}

/// Name and value.
type Attribute = (Vec<u8>, Vec<u8>);

fn next(list: &mut Merge) -> Result<Option<Attribute>, Failure> {
    let record = list.next_record().map_err(spilled)?;
    Ok(record.map(|(name, value)| (name.to_vec(), value.to_vec())))
}
