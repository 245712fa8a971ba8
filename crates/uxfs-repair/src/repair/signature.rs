//! Whether a pass of the repair is the same as one before: sums over sentences.

use std::{
    fmt::Display,
    hash::{DefaultHasher, Hash, Hasher},
};

use uxfs_format::units::AgNumber;

use crate::finding::Finding;

/// Tells two lists of findings apart: how many there are, and a sum over their sentences.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Signature {
    pub count: u64,
    /// Those of them about copies of the superblock.
    pub of_copies: u64,
    sum: u64,
}

impl Signature {
    pub fn add(&mut self, finding: &Finding) {
        self.count += 1;
        self.of_copies += u64::from(is_about_copy(finding));
        self.sum = self.sum.wrapping_add(sum_of(finding));
    }
}

fn is_about_copy(finding: &Finding) -> bool {
    match finding {
        Finding::SuperblockCopy { .. } => true,
        Finding::SuperblockFields { group, .. } => *group != AgNumber::new(0),
        _ => false,
    }
}

/// A sum over the sentence of a finding or an action.
pub(super) fn sum_of(sentence: &impl Display) -> u64 {
    let mut hasher = DefaultHasher::new();
    sentence.to_string().hash(&mut hasher);
    hasher.finish()
}
