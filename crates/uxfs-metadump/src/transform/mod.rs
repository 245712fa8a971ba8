//! What of a piece of metadata goes into a dump: unused bytes become zeros, names others, and checksums that were right are made
//! right again.
//!
//! A verifier decides whether the bytes of a structure can be taken at its word. What fails only by its checksum can, but for unused
//! bytes, which are kept. Where more is wrong, names that can be found are replaced, and all other text is covered; nothing else changes.

mod attribute;
mod btree;
mod directory;
mod inode;
mod plan;
mod symlink;

use std::{collections::HashSet, ops::Range};

use uxfs_format::{
    checksum,
    fault::Structure,
    geometry::Geometry,
    seal::checksum_offset_of,
    units::{InodeNumber, Sector},
    verify::{VerifyContext, verify},
};

use crate::obfuscate::NameCipher;
use plan::Plan;

/// How metadata is changed on its way into a dump.
#[derive(Debug)]
pub(crate) struct Transform<'t> {
    pub geometry: &'t Geometry,
    /// `None` leaves names as they are.
    pub cipher: Option<&'t NameCipher>,
    /// Unused bytes become zeros.
    pub zero_unused: bool,
    /// Inodes of the metadata directory tree, whose names are fixed.
    pub internal_inodes: &'t HashSet<InodeNumber>,
}

impl Transform<'_> {
    /// Whether there is nothing to do.
    pub(crate) fn is_idle(&self) -> bool {
        self.cipher.is_none() && !self.zero_unused
    }

    /// A structure that takes all of `bytes`, at `sector`.
    pub(crate) fn structure(&self, structure: Structure, bytes: &mut [u8], sector: Sector) {
        let context = VerifyContext::new(self.geometry, sector);
        let checksum_offset = checksum_offset_of(structure);
        let has_checksum = checksum_offset.is_some_and(|offset| checksum::check(bytes, offset).is_ok());
        let is_sound = verify(structure, bytes, &context).is_ok();
        let is_usable = is_sound || (!has_checksum && self.is_sound_when_sealed(structure, bytes, &context));
        let plan = self.plan(structure, bytes, is_usable);
        match plan {
            Some(plan) if is_usable => plan.apply(bytes, self, is_sound),
            Some(plan) => plan.cover(bytes, self),
            None => self.cover_text(bytes, 0),
        }
        if let Some(offset) = checksum_offset.filter(|_| has_checksum) {
            checksum::seal(bytes, offset);
        }
    }

    /// All inodes in `bytes`. The first one has number `first`.
    pub(crate) fn inodes(&self, bytes: &mut [u8], first: InodeNumber) {
        let size = self.geometry.inode_size().max(1);
        for (index, bytes) in (0_u64..).zip(bytes.chunks_exact_mut(size)) {
            let number = InodeNumber::new(first.get().saturating_add(index));
            self.inode(bytes, number);
        }
    }

    /// Bytes that are nothing known.
    pub(crate) fn unknown(&self, bytes: &mut [u8]) {
        self.cover_text(bytes, 0);
    }

    /// Whether names below this inode may be replaced.
    fn has_names_of_users(&self, owner: u64) -> bool {
        !self.internal_inodes.contains(&InodeNumber::new(owner))
    }

    fn is_sound_when_sealed(&self, structure: Structure, bytes: &[u8], context: &VerifyContext<'_>) -> bool {
        let Some(offset) = checksum_offset_of(structure) else { return false };
        let mut copy = bytes.to_vec();
        checksum::seal(&mut copy, offset);
        verify(structure, &copy, context).is_ok()
    }

    /// What the bytes of a structure are; `None` where its parts cannot be told apart.
    fn plan(&self, structure: Structure, bytes: &[u8], is_usable: bool) -> Option<Plan> {
        match structure {
            Structure::FreeSpaceByBlock
            | Structure::FreeSpaceByLength
            | Structure::InodeIndex
            | Structure::FreeInodeIndex
            | Structure::ReverseMap
            | Structure::ReferenceCount
            | Structure::ExtentMap => Some(btree::plan(structure, bytes)),
            Structure::DirectoryBlock | Structure::DirectoryData => {
                Some(directory::plan_data(structure, bytes, self, is_usable))
            }
            Structure::DirectoryLeaf | Structure::DirectoryLeafNode => {
                Some(directory::plan_leaf(structure, bytes, self.geometry))
            }
            Structure::DirectoryNode | Structure::AttributeNode => Some(directory::plan_node(bytes)),
            Structure::DirectoryFreeIndex => Some(directory::plan_free_index(bytes, self.geometry)),
            Structure::AttributeLeaf => attribute::plan_leaf(bytes, self),
            Structure::AttributeRemoteValue => Some(attribute::plan_remote(bytes, self.geometry)),
            Structure::Symlink => Some(symlink::plan(bytes)),
            _ => None,
        }
    }

    /// Covers text behind the first `from_bytes` bytes.
    fn cover_text(&self, bytes: &mut [u8], from_bytes: usize) {
        if self.cipher.is_some()
            && let Some(rest) = bytes.get_mut(from_bytes..)
        {
            plan::cover_text(rest);
        }
    }
}

/// Where a part of a block lies in it.
fn range_in(block: &[u8], part: &[u8]) -> Range<usize> {
    let start = part.as_ptr().addr().saturating_sub(block.as_ptr().addr()).min(block.len());
    start..start.saturating_add(part.len()).min(block.len())
}
