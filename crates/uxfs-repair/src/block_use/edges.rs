//! Where extents begin and end, sorted by block and by owner: two external sorts, so that a group may have any number of extents.

use uxfs_block::spill::{
    SpillError,
    sorter::{Merge, Sorter},
};

use super::list::{BlockUse, UseKind, UseOwner};

const SPACE_KEY_BYTES: usize = 22;
const OWNER_KEY_BYTES: usize = 26;

/// An end of an extent that is free, used or counted. Of one block, ends of extents come before beginnings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SpaceEdge {
    pub group: u32,
    pub block: u32,
    pub is_start: bool,
    /// Never [`UseKind::Mapped`].
    pub kind: UseKind,
    pub owner: u64,
}

/// An end of an extent that a structure or file shows, or the reverse mapping btree.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct OwnerEdge {
    pub group: u32,
    pub owner: UseOwner,
    pub block: u32,
    pub is_start: bool,
    pub is_mapped: bool,
}

impl SpaceEdge {
    fn key(&self) -> [u8; SPACE_KEY_BYTES] {
        let (kind, count) = match self.kind {
            UseKind::Free => (0, 0),
            UseKind::Shown | UseKind::Mapped => (1, 0),
            UseKind::Counted(count) => (2, count),
        };
        let [a, b, c, d] = self.group.to_be_bytes();
        let [e, f, g, h] = self.block.to_be_bytes();
        let [i, j, k, l] = u32::to_be_bytes(count);
        let [m, n, o, p, q, r, s, t] = self.owner.to_be_bytes();
        [a, b, c, d, e, f, g, h, self.is_start.into(), kind, i, j, k, l, m, n, o, p, q, r, s, t]
    }

    fn of_key(key: [u8; SPACE_KEY_BYTES]) -> Self {
        let [a, b, c, d, e, f, g, h, is_start, kind, i, j, k, l, owner @ ..] = key;
        Self {
            group: u32::from_be_bytes([a, b, c, d]),
            block: u32::from_be_bytes([e, f, g, h]),
            is_start: is_start != 0,
            kind: match kind {
                0 => UseKind::Free,
                1 => UseKind::Shown,
                _ => UseKind::Counted(u32::from_be_bytes([i, j, k, l])),
            },
            owner: u64::from_be_bytes(owner),
        }
    }
}

impl OwnerEdge {
    fn key(&self) -> [u8; OWNER_KEY_BYTES] {
        let mut key = [0; OWNER_KEY_BYTES];
        let values = self.group.to_be_bytes().into_iter().chain(self.owner.to_bytes());
        let values = values
            .chain(self.block.to_be_bytes())
            .chain([u8::from(self.is_start) << 1 | u8::from(self.is_mapped)]);
        key.iter_mut().zip(values).for_each(|(byte, value)| *byte = value);
        key
    }

    fn of_key(key: [u8; OWNER_KEY_BYTES]) -> Option<Self> {
        let (group, rest) = key.split_first_chunk()?;
        let (owner, rest) = rest.split_first_chunk()?;
        let (block, rest) = rest.split_first_chunk()?;
        let [marks] = rest.first_chunk()?;
        Some(Self {
            group: u32::from_be_bytes(*group),
            owner: UseOwner::from_bytes(*owner),
            block: u32::from_be_bytes(*block),
            is_start: marks & 2 != 0,
            is_mapped: marks & 1 != 0,
        })
    }
}

/// Gathers extents.
#[derive(Debug)]
pub(super) struct EdgeSorter {
    space: Sorter,
    owners: Sorter,
    failure: Option<SpillError>,
}

impl EdgeSorter {
    pub fn new(memory_limit: usize) -> Self {
        let half = memory_limit / 2;
        Self { space: Sorter::new(half), owners: Sorter::new(half), failure: None }
    }

    pub fn add(&mut self, one: &BlockUse) {
        if self.failure.is_none() {
            self.failure = self.push(one).err();
        }
    }

    fn push(&mut self, one: &BlockUse) -> Result<(), SpillError> {
        for (block, is_start) in [(one.start, true), (one.end, false)] {
            if one.kind != UseKind::Mapped {
                let owner = one.owner.owner().raw();
                let edge = SpaceEdge { group: one.group, block, is_start, kind: one.kind, owner };
                self.space.push(&edge.key(), &[])?;
            }
            if matches!(one.kind, UseKind::Shown | UseKind::Mapped) {
                let is_mapped = one.kind == UseKind::Mapped;
                let edge = OwnerEdge { group: one.group, owner: one.owner, block, is_start, is_mapped };
                self.owners.push(&edge.key(), &[])?;
            }
        }
        Ok(())
    }

    pub fn finish(self) -> Result<Edges, SpillError> {
        if let Some(error) = self.failure {
            return Err(error);
        }
        let (space, owners) = (self.space.finish()?, self.owners.finish()?);
        Ok(Edges { space: EdgeReader::new(space.read()?), owners: EdgeReader::new(owners.read()?) })
    }
}

/// All edges, in order.
#[derive(Debug)]
pub(crate) struct Edges {
    pub space: EdgeReader<SpaceEdge>,
    pub owners: EdgeReader<OwnerEdge>,
}

/// Edges of one kind.
#[derive(Debug)]
pub(crate) struct EdgeReader<E> {
    merge: Merge,
    /// Read, and not given yet.
    next: Option<E>,
}

/// What a reader gives.
pub(crate) trait Edge: Copy {
    fn decode(key: &[u8]) -> Option<Self>;
    fn group(&self) -> u32;
}

impl Edge for SpaceEdge {
    fn decode(key: &[u8]) -> Option<Self> {
        key.try_into().ok().map(Self::of_key)
    }

    fn group(&self) -> u32 {
        self.group
    }
}

impl Edge for OwnerEdge {
    fn decode(key: &[u8]) -> Option<Self> {
        key.try_into().ok().and_then(Self::of_key)
    }

    fn group(&self) -> u32 {
        self.group
    }
}

impl<E: Edge> EdgeReader<E> {
    fn new(merge: Merge) -> Self {
        Self { merge, next: None }
    }

    /// The next edge of a group, without taking it. Edges of groups before it are passed over.
    pub fn peek(&mut self, group: u32) -> Result<Option<E>, SpillError> {
        loop {
            if self.next.is_none() {
                let Some((key, _)) = self.merge.next_record()? else { return Ok(None) };
                self.next = Some(E::decode(key).ok_or_else(SpillError::damaged)?);
            }
            match self.next {
                Some(edge) if edge.group() < group => self.next = None,
                next => return Ok(next.filter(|edge| edge.group() == group)),
            }
        }
    }

    /// Takes the next edge of a group.
    pub fn next(&mut self, group: u32) -> Result<Option<E>, SpillError> {
        let edge = self.peek(group)?;
        if edge.is_some() {
            self.next = None;
        }
        Ok(edge)
    }
}
