//! Links about which there is nothing to decide.
//!
//! Most names of a damaged file system are sound. A link of a file stays whatever the others are, where
//! - both ends exist, and nothing speaks against it ([`Facts`] and the rows of [`weighing`](crate::repair::weighing)),
//! - no other link has its name in its directory,
//! - all links of the file are such, and they are as many as it counts.
//!
//! Only the others go through the decision, so that its time and memory follow the damage.

use std::collections::BTreeMap;

use uxfs_format::{inode::FileType, units::InodeNumber};

use super::{
    decide::{NewDirectory, is_possible_name},
    facts::{Facts, InodeFact, Link, Witnesses},
};

/// Which links and inodes of [`Facts`] are undisputed, by their indices in its tables.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Undisputed {
    links: Vec<bool>,
    inodes: Vec<bool>,
}

/// Links of an inode.
#[derive(Debug, Clone, Copy, Default)]
struct Count {
    all: u32,
    undisputed: u32,
}

const NONE: u32 = u32::MAX;

impl Undisputed {
    /// `made_again`: directories that are made again.
    pub fn of(facts: &Facts, made_again: &BTreeMap<InodeNumber, NewDirectory>) -> Self {
        let links = facts.links.entries();
        let mut counts = vec![Count::default(); facts.inodes.len()];
        let mut targets = vec![NONE; links.len()];
        let (mut near, mut directory) = (0, None);
        let mut before: Option<&Link> = None;
        let mut following = links.iter().skip(1);
        for ((link, witnesses), target) in links.iter().zip(&mut targets) {
            let next = following.next().map(|(next, _)| next);
            let is_alone = !is_same_place(before, link) && !is_same_place(next, link);
            before = Some(link);
            let Some(index) = facts.inodes.index_near(&link.inode, &mut near) else { continue };
            let (Some((_, fact)), Some(count)) = (facts.inodes.entries().get(index), counts.get_mut(index))
            else {
                continue;
            };
            count.all = count.all.saturating_add(1);
            let may_have_files = match directory {
                Some((of, may)) if of == link.directory => may,
                _ => may_have_files(facts, made_again, link.directory),
            };
            directory = Some((link.directory, may_have_files));
            if is_alone && may_have_files && is_plain(facts, link, witnesses, fact) {
                count.undisputed = count.undisputed.saturating_add(1);
                *target = u32::try_from(index).unwrap_or(NONE);
            }
        }
        let all = facts.inodes.iter().zip(&counts);
        let inodes: Vec<bool> = all
            .map(|((inode, fact), count)| {
                count.all == count.undisputed
                    && count.all == fact.link_count
                    && count.all > 0
                    && !facts.uncounted.contains(inode)
                    && !facts.unproved.contains(inode)
            })
            .collect();
        let is_undisputed = |target: u32| inodes.get(target as usize).copied().unwrap_or(false);
        Self { links: targets.into_iter().map(is_undisputed).collect(), inodes }
    }

    /// Whether the link with this index is.
    pub fn has_link(&self, index: usize) -> bool {
        self.links.get(index).copied().unwrap_or(false)
    }

    /// Whether all links of the inode with this index are.
    pub fn has_inode(&self, index: usize) -> bool {
        self.inodes.get(index).copied().unwrap_or(false)
    }
}

fn is_same_place(one: Option<&Link>, other: &Link) -> bool {
    one.is_some_and(|one| one.directory == other.directory && one.name == other.name)
}

/// Whether it is a directory of the tree of users.
fn may_have_files(
    facts: &Facts,
    made_again: &BTreeMap<InodeNumber, NewDirectory>,
    directory: InodeNumber,
) -> bool {
    match made_again.get(&directory) {
        Some(new) => !new.is_metadata,
        None => facts.directory(directory).is_some() && !facts.is_metadata(directory),
    }
}

/// Whether a witness says this link of a file, and none says anything against it.
fn is_plain(facts: &Facts, link: &Link, witnesses: &Witnesses, fact: &InodeFact) -> bool {
    let has_witness = witnesses.has_entry || witnesses.pointer_generation.is_some();
    let is_of_type = witnesses.entry_type.is_none_or(|entry_type| entry_type == fact.file_type);
    has_witness
        && is_of_type
        && fact.file_type != FileType::Directory
        && !fact.is_internal
        && !facts.partial.contains(&link.inode)
        && is_possible_name(&link.name)
}
