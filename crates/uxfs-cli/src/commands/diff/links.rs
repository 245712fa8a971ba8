//! Which names are one file, on both sides.
//!
//! A file of the first side that has several names belongs to the file of the second side that has the first of these names. Where another
//! of its names leads to another file there, or the other way round, the names are grouped otherwise.

use uxfs_block::spill::{SpillError, map::Key, map::SpillMap};

use super::both::Both;

/// Memory for one side; more lies in a temporary file.
const MEMORY_BYTES: usize = 4 << 20;

/// What is known of a pair with several names on a side.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LinkUse {
    /// Both have one name, or it does not matter.
    Single,
    /// Its first name; the pair is known by this key.
    First(Key),
    /// A further name of a pair that is compared already.
    Again(Key),
    /// The names are grouped otherwise.
    Broken,
}

/// Files with several names.
#[derive(Debug)]
pub(super) struct Links {
    /// The file of the other side that a file belongs to.
    partners: Both<SpillMap>,
}

impl Links {
    pub fn new() -> Self {
        Self { partners: Both::of(|_| SpillMap::new(MEMORY_BYTES)) }
    }

    /// A name that leads to these two files.
    ///
    /// # Errors
    /// A temporary file.
    pub fn meet(&mut self, keys: Both<Key>) -> Result<LinkUse, SpillError> {
        let first = self.partners.first.get(keys.first)?;
        let second = self.partners.second.get(keys.second)?;
        match (first, second) {
            (None, None) => {
                self.partners.first.insert(keys.first, keys.second)?;
                self.partners.second.insert(keys.second, keys.first)?;
                Ok(LinkUse::First(keys.first))
            }
            (Some(partner), _) if partner == keys.second => Ok(LinkUse::Again(keys.first)),
            _ => Ok(LinkUse::Broken),
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn groups_are_compared_both_ways() {
        let mut links = Links::new();
        let mut meet = |first: u64, second: u64| links.meet(Both { first: (0, first), second: (1, second) });
        assert_eq!(meet(1, 11).unwrap(), LinkUse::First((0, 1)));
        assert_eq!(meet(1, 11).unwrap(), LinkUse::Again((0, 1)));
        assert_eq!(meet(1, 12).unwrap(), LinkUse::Broken, "one file became two");
        assert_eq!(meet(2, 11).unwrap(), LinkUse::Broken, "two files became one");
        assert_eq!(meet(1, 11).unwrap(), LinkUse::Again((0, 1)));
    }
}
