//! Inodes and allocation groups: which inodes there are, and all that follows from their extents.

use std::collections::BTreeSet;

use uxfs_format::{
    btree::inode_index::InodeChunk,
    inode::Fork,
    units::{AgInode, AgNumber},
};
use uxfs_volume::{
    error::Result,
    inode::{Inode, scan::ScanOptions},
    volume::Volume,
};

use super::{action::Action, stage::Stage, work::Work};
use crate::{
    allocation_group::rebuild::{GroupContents, rebuild},
    block_use::list::UseList,
    check::Context,
    extent_map,
    inode::gather::{Found, FoundInode, change_core, make_free, visit_chunk},
    inode_index,
    observed::groups::SumsByGroup,
    sink::Sink,
    sum::Keys,
};

/// Makes the groups of `work` anew, and what is wrong with inodes.
pub(super) fn repair(
    volume: &Volume,
    stage: &Stage,
    work: &Work,
    scan: ScanOptions,
    actions: &mut Vec<Action>,
) -> Result<()> {
    for (inode, expected) in &work.inode_blocks {
        let mut found = 0;
        change_core(stage, *inode, |core, _| {
            found = core.blocks.get();
            core.blocks.set(*expected);
        })?;
        actions.push(Action::InodeBlocks { inode: *inode, found, expected: *expected });
    }
    if work.inodes || !work.groups.is_empty() {
        Gathering::new(volume, stage, scan, work.groups.clone(), actions).run()?;
    }
    Ok(())
}

/// Walks over all chunks of all groups once.
struct Gathering<'g> {
    volume: &'g Volume,
    stage: &'g Stage,
    scan: ScanOptions,
    /// Groups to be made anew.
    groups: BTreeSet<AgNumber>,
    actions: &'g mut Vec<Action>,
}

/// A chunk whose use of inodes may have changed.
struct Chunk<'c> {
    chunk: &'c mut InodeChunk,
    is_changed: bool,
}

impl<'g> Gathering<'g> {
    fn new(
        volume: &'g Volume,
        stage: &'g Stage,
        scan: ScanOptions,
        groups: BTreeSet<AgNumber>,
        actions: &'g mut Vec<Action>,
    ) -> Self {
        Self { volume, stage, scan, groups, actions }
    }

    fn run(mut self) -> Result<()> {
        let geometry = self.volume.geometry();
        let every: Vec<u32> = geometry.groups().map(AgNumber::get).collect();
        let list = UseList::of(every, usize::MAX);
        let mut chunks_by_group = Vec::new();
        for group in geometry.groups() {
            chunks_by_group.push(self.group(group, &list)?);
        }
        let mut files_by_group: Vec<Vec<_>> = vec![Vec::new(); chunks_by_group.len()];
        for one in list.into_uses() {
            if let Some(files) = files_by_group.get_mut(one.group as usize) {
                files.push(one.owner.mapping(one.start, one.end.saturating_sub(one.start)));
            }
        }
        let contents = chunks_by_group.into_iter().zip(files_by_group);
        for (group, ((found, chunks), files)) in geometry.groups().zip(contents) {
            if !self.groups.contains(&group) {
                continue;
            }
            let contents = GroupContents { chunks, files, unlinked: Vec::new() };
            // A conflict stays a finding.
            if rebuild(self.stage, group, &contents)?.is_ok() {
                self.actions.push(Action::Group { group, chunks_without_index: found });
            }
        }
        Ok(())
    }

    /// The chunks of a group as they will be, and how many of them no index had. Adds the extents of its inodes to the list.
    fn group(&mut self, group: AgNumber, list: &UseList) -> Result<(u32, Vec<InodeChunk>)> {
        let found = inode_index::gather::gather(self.volume, group);
        let mut chunks = found.chunks;
        for chunk in &mut chunks {
            let mut inodes = Vec::new();
            visit_chunk(self.volume, group, chunk, &mut |inode| inodes.push(inode));
            let mut chunk = Chunk { chunk, is_changed: false };
            for inode in inodes {
                self.inode(&mut chunk, inode, list)?;
            }
            if chunk.is_changed {
                self.groups.insert(group);
            }
        }
        Ok((found.without_index, chunks))
    }

    fn inode(&mut self, chunk: &mut Chunk<'_>, inode: FoundInode, list: &UseList) -> Result<()> {
        let FoundInode { number, index, found } = inode;
        match found {
            Found::InUse(inode) => self.keep(chunk, index, &inode, list)?,
            Found::WithoutChecksum(inode) => {
                change_core(self.stage, number, |_, _| {})?;
                self.actions.push(Action::InodeChecksum { inode: number });
                self.keep(chunk, index, &inode, list)?;
            }
            Found::Free => chunk.set_free(index),
            Found::Damaged(fault) => {
                if chunk.chunk.is_allocated(index) {
                    self.actions.push(Action::InodeLost { inode: number, fault });
                }
                make_free(self.stage, number)?;
                chunk.set_free(index);
            }
        }
        Ok(())
    }

    fn keep(&mut self, chunk: &mut Chunk<'_>, index: u32, inode: &Inode, list: &UseList) -> Result<()> {
        if inode.link_count() == 0 && self.is_nameless(inode) {
            self.actions.push(Action::UnlinkedFreed { inode: inode.number });
            make_free(self.stage, inode.number)?;
            chunk.set_free(index);
            return Ok(());
        }
        if inode.next_unlinked().is_some() {
            change_core(self.stage, inode.number, |core, _| core.next_unlinked.set(AgInode::NULL.get()))?;
        }
        chunk.set_in_use(index);
        let mut forget = |_| std::ops::ControlFlow::Continue(());
        let context = Context {
            volume: self.volume,
            keys: Keys::default(),
            sink: Sink::new(&mut forget),
            scan: self.scan,
            uses: Some(list),
            progress: None,
        };
        let mut sums = SumsByGroup::default();
        for fork in [Fork::Data, Fork::Attribute] {
            extent_map::check::check(&context, inode, fork, &mut sums);
        }
        Ok(())
    }

    /// Whether no parent pointer of an inode leads to an entry that leads back.
    fn is_nameless(&self, inode: &Inode) -> bool {
        // Without parent pointers only a walk over all directories tells: that comes later.
        let Ok((pointers, _)) = self.volume.parent_pointers(inode, 1000) else { return false };
        !pointers.iter().any(|pointer| {
            let directory = self.volume.inode(pointer.parent);
            let found = directory.and_then(|directory| self.volume.lookup(&directory, &pointer.name));
            found.is_ok_and(|found| found.is_some_and(|found| found.inode == inode.number))
        })
    }
}

impl Chunk<'_> {
    fn set_free(&mut self, index: u32) {
        self.is_changed |= self.chunk.give_back(index);
    }

    fn set_in_use(&mut self, index: u32) {
        self.is_changed |= self.chunk.take(index);
    }
}
