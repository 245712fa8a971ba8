//! Inodes and allocation groups: which inodes there are, and all that follows from their extents.

mod holes;
mod lost_clusters;
mod proof;
pub(super) mod survey;

use std::{
    cell::RefCell,
    collections::{BTreeMap, BTreeSet},
};

use uxfs_block::device::BlockDevice;
use uxfs_engine::inode::create::feature_flags2;
use uxfs_format::{
    btree::{
        inode_index::InodeChunk,
        reverse_map::{Mapping, Owner},
    },
    checksum,
    field_table::OnDisk,
    geometry::INODES_PER_CHUNK,
    inode::{FileType, ForkFormat, InodeCore, InodeFault, InodeFlags, core},
    units::{AgBlock, AgInode, AgNumber, InodeNumber, Lsn},
};
use uxfs_journal::copies::{InodeCopy, LogCopies};
use uxfs_volume::{
    error::Result,
    inode::{Inode, scan::ScanOptions},
    volume::Volume,
};

use self::{
    holes::{Taken, uncovered},
    survey::{ChunkSurvey, Contents, Seen, Survey},
};
use super::{
    action::{Action, InodeSource},
    bit_flips::BitFlips,
    conflicts,
    stage::Stage,
    work::Work,
};
use crate::{
    allocation_group::rebuild::{GroupContents, fixed_mappings, rebuild},
    extent_map::spare::SpareBlocks,
    inode::{
        gather::{Found, FoundInode, change_core, make_free, put_inode, read_inode, visit_inode},
        rebuild::Rebuilder,
        witnesses::{Witnesses, copies_of},
    },
    inode_index::{self, gather::ChunksFound},
    metadata_directory, parallel, reverse_map,
};

/// What a repair of inodes and groups reads, beside the work.
#[derive(Clone, Copy)]
pub(super) struct Sources<'s> {
    pub volume: &'s Volume,
    /// The device with the log as it was found, where copies in it may be used.
    pub log: Option<&'s dyn BlockDevice>,
    pub scan: ScanOptions,
    /// Inodes that were given up: they are not made again, although the index and names tell of them.
    pub given_up: &'s BTreeSet<InodeNumber>,
    /// Inodes that were kept with a wrong checksum.
    pub unproved: &'s BTreeSet<InodeNumber>,
    /// An earlier step has rebuilt a group.
    pub is_reverse_map_remade: bool,
    /// Groups are rebuilt although nothing tells all extents of some inodes.
    pub may_lack_extents: bool,
}

/// Of a repair of inodes and groups.
#[derive(Debug, Default)]
pub(super) struct Repaired {
    /// Regular files of which something is missing.
    pub partial: BTreeSet<InodeNumber>,
    /// Inodes whose extents no reverse map tells, and whose extent maps cannot be read to their ends: what they have would become free.
    /// Where there are any, groups were rebuilt only if they may lack extents.
    pub unread: BTreeSet<InodeNumber>,
    /// Inodes kept with a wrong checksum. If there are any, no group has been rebuilt: other witnesses of their extents come first.
    pub unproved: BTreeSet<InodeNumber>,
}

/// Rebuilds the groups of `work`, and what is wrong with inodes.
pub(super) fn repair(
    sources: Sources<'_>,
    stage: &Stage,
    work: &Work,
    actions: &mut Vec<Action>,
) -> Result<Repaired> {
    let volume = sources.volume;
    for (inode, expected) in &work.inode_blocks {
        let mut found = 0;
        change_core(stage, *inode, |core, _| {
            found = core.blocks.get();
            core.blocks.set(*expected);
        })?;
        actions.push(Action::InodeBlocks { inode: *inode, found, expected: *expected });
    }
    for inode in &work.internal_inodes {
        make_realtime_inode(volume, stage, *inode, actions)?;
    }
    for inode in &work.symlinks {
        make_free(stage, *inode)?;
        actions.push(Action::SymlinkLost { inode: *inode });
    }
    // What was given up must not be taken for an inode of which the mode alone is gone.
    if work.inodes || !work.groups.is_empty() || !work.symlinks.is_empty() {
        Gathering {
            volume,
            sources,
            stage,
            witnesses: Witnesses::default(),
            work,
            groups: work.groups.clone(),
            seen: Seen::new(volume, sources.scan),
            contents: Contents::default(),
            partial: RefCell::default(),
            spare: SpareBlocks::new(volume),
            freed: BTreeSet::new(),
            unproved: BTreeSet::new(),
            bit_flips: BitFlips::default(),
            actions,
        }
        .run()
    } else {
        Ok(Repaired::default())
    }
}

/// Realtime bitmap and summary inodes exist on every file system, empty where there is no realtime section.
fn make_realtime_inode(
    volume: &Volume,
    stage: &Stage,
    inode: InodeNumber,
    actions: &mut Vec<Action>,
) -> Result<()> {
    let (geometry, superblock) = (stage.geometry(), volume.superblock());
    let is_bitmap = superblock.realtime_bitmap_inode.get() == inode.get();
    let is_realtime = is_bitmap || superblock.realtime_summary_inode.get() == inode.get();
    let has_place = volume
        .groups()
        .inode_chunk_of(inode)
        .is_ok_and(|found| found.is_some_and(|(chunk, index)| chunk.exists(index)));
    if !is_realtime || !has_place || geometry.realtime_blocks != 0 {
        return Ok(());
    }
    change_core(stage, inode, |core, forks| {
        *core = uxfs_engine::inode::create::unused_core(inode, core.generation.get(), geometry);
        core.mode.set(FileType::Regular.mode_bits());
        core.link_count.set(1);
        core.format = ForkFormat::Extents.code();
        core.attribute_format = ForkFormat::Extents.code();
        core.flags2.set(feature_flags2(geometry).bits());
        if is_bitmap {
            core.flags.set(InodeFlags::NEW_REALTIME_BITMAP.bits());
        }
        forks.fill(0);
    })?;
    actions.push(Action::RealtimeInode { inode });
    Ok(())
}

/// Walks over all chunks of all groups once.
struct Gathering<'g> {
    volume: &'g Volume,
    sources: Sources<'g>,
    stage: &'g Stage,
    /// Of inodes that are gone.
    witnesses: Witnesses,
    work: &'g Work,
    /// Groups to be rebuilt.
    groups: BTreeSet<AgNumber>,
    /// What inodes have that needed a decision.
    seen: Seen<'g>,
    /// What all inodes in use have.
    contents: Contents,
    /// Files of which something is missing.
    partial: RefCell<BTreeSet<InodeNumber>>,
    spare: SpareBlocks<'g>,
    /// Damaged inodes that are not made again.
    freed: BTreeSet<InodeNumber>,
    /// Inodes kept with a wrong checksum.
    unproved: BTreeSet<InodeNumber>,
    bit_flips: BitFlips,
    actions: &'g mut Vec<Action>,
}

/// Of a group: how many chunks no index had, whether there are no others, the chunks, and the extents of files.
type GroupFound = (((u32, bool), Vec<InodeChunk>), Vec<Mapping>);

/// A chunk whose use of inodes may have changed.
struct Chunk<'c> {
    chunk: &'c mut InodeChunk,
    is_changed: bool,
}

impl Gathering<'_> {
    fn run(mut self) -> Result<Repaired> {
        let geometry = self.volume.geometry();
        let all: Vec<AgNumber> = geometry.groups().collect();
        let mut found: Vec<ChunksFound> =
            parallel::in_order(self.sources.scan.threads, all.len(), |number| {
                let Some(group) = all.get(number) else { return ChunksFound::default() };
                inode_index::gather::gather(self.volume, *group, self.work.trust_in(*group))
            });
        let mut survey = Survey::of(self.volume, &found, self.sources.scan);
        let mut lost = std::mem::take(&mut survey.lost);
        lost.extend(lost_clusters::inodes(geometry, &found));
        let copies = self.copies(&lost, &found);
        for (inode, _) in copies.inodes().filter(|(_, copy)| copy.core().is_some_and(|core| !core.is_free()))
        {
            self.add_chunk_of((inode, copies.chunk_start(inode)), &mut found, &mut lost);
        }
        self.witnesses = Witnesses::gather(self.volume, copies, &lost, self.sources.scan);
        drop(lost);
        let mut chunks_by_group = Vec::new();
        for (group, found) in geometry.groups().zip(found) {
            chunks_by_group.push(self.group(group, found, &survey)?);
        }
        self.contents = std::mem::take(&mut survey.contents);
        let seen = std::mem::replace(&mut self.seen, Seen::new(self.volume, self.sources.scan));
        seen.add_to(&mut self.contents);
        let files_by_group = std::mem::take(&mut self.contents.files);
        for (group, (((_, is_sure), chunks), files)) in
            geometry.groups().zip(chunks_by_group.iter_mut().zip(&files_by_group))
        {
            if !*is_sure {
                Taken::by(files).take_from(geometry, chunks);
            }
            self.write_freed(group, chunks)?;
        }
        let contents = chunks_by_group.into_iter().zip(files_by_group).collect();
        self.rebuild_groups(contents)
    }

    /// Rebuilds groups, unless there are blocks that two have: then only the maps of those that have them wrongly.
    fn rebuild_groups(mut self, mut contents: Vec<GroupFound>) -> Result<Repaired> {
        if !self.unproved.is_empty() {
            return Ok(self.repaired(BTreeSet::new()));
        }
        let geometry = self.volume.geometry();
        let (mut losers, mut open) = (BTreeMap::new(), BTreeSet::new());
        for (group, ((_, chunks), files)) in geometry.groups().zip(&contents) {
            if self.groups.contains(&group) {
                let fixed = fixed_mappings(geometry, group, chunks);
                let inodes = (&self.contents.sharing, self.sources.unproved);
                let found = conflicts::find(self.volume, group, files, &fixed, inodes);
                for (fork, contested) in found.losers {
                    losers.entry(fork).or_insert_with(Vec::new).push(contested);
                }
                open.extend(Some(group).filter(|_| found.is_open));
            }
        }
        if !losers.is_empty() {
            let partial = conflicts::resolve(self.volume, self.stage, &losers, self.actions)?;
            self.partial.borrow_mut().extend(partial);
            return Ok(self.repaired(BTreeSet::new()));
        }
        let mut is_unread = false;
        for (group, (_, files)) in geometry.groups().zip(&mut contents) {
            if self.groups.contains(&group) && !open.contains(&group) {
                is_unread |= !self.add_owned(group, files);
            }
        }
        let unread = if is_unread { std::mem::take(&mut self.contents.incomplete) } else { BTreeSet::new() };
        if !unread.is_empty() && !self.sources.may_lack_extents {
            return Ok(self.repaired(unread));
        }
        for (group, (((found, is_sure), mut chunks), files)) in geometry.groups().zip(contents) {
            // A conflict stays a finding.
            if !self.groups.contains(&group) || open.contains(&group) {
                continue;
            }
            if !is_sure {
                self.make_missing_chunks(group, &mut chunks, &files)?;
            }
            let contents = GroupContents { chunks, files, unlinked: Vec::new() };
            if rebuild(self.stage, group, contents)?.is_ok() {
                self.actions.push(Action::Group { group, chunks_without_index: found });
            }
        }
        Ok(self.repaired(unread))
    }

    fn repaired(self, unread: BTreeSet<InodeNumber>) -> Repaired {
        Repaired { partial: self.partial.into_inner(), unread, unproved: self.unproved }
    }

    /// What the log has of lost inodes, and of groups whose chunks are not all known.
    fn copies(&self, lost: &BTreeSet<InodeNumber>, found: &[ChunksFound]) -> LogCopies {
        let unsure = self.volume.geometry().groups().zip(found).filter(|(_, found)| !found.is_sure);
        let unsure: Vec<AgNumber> = unsure.map(|(group, _)| group).collect();
        self.sources.log.map(|log| copies_of(self.volume, log, lost, &unsure)).unwrap_or_default()
    }

    /// Adds the chunk of an inode that the log knows to be in use, where no chunk is known there, and those that are made with it. It
    /// begins where the log says, or as late as it can: inodes come in order.
    fn add_chunk_of(
        &mut self,
        (inode, logged): (InodeNumber, Option<InodeNumber>),
        found: &mut [ChunksFound],
        lost: &mut BTreeSet<InodeNumber>,
    ) {
        let geometry = self.volume.geometry();
        let logged = logged.and_then(|start| geometry.split_inode_number(start)).map(|(_, start)| start);
        let Some((group, inode)) = geometry.split_inode_number(inode) else { return };
        let start = logged.unwrap_or_else(|| geometry.last_chunk_start(inode));
        let end = start.get().saturating_add(INODES_PER_CHUNK);
        let Some(found) = found.get_mut(group.get() as usize).filter(|found| !found.is_sure) else { return };
        let is_known = found.chunks.iter().any(|known| {
            known.start.get() < end && start.get() < known.start.get().saturating_add(INODES_PER_CHUNK)
        });
        if is_known || !geometry.group_may_hold_inode(group, AgInode::new(end.saturating_sub(1))) {
            return;
        }
        for chunk in geometry.chunks_made_together(start).map(InodeChunk::new) {
            lost.extend((0..INODES_PER_CHUNK).map(|index| geometry.inode_number(group, chunk.inode(index))));
            found.chunks.push(chunk);
            self.actions.push(Action::InodeChunk { group, first: chunk.start });
        }
        found.chunks.sort_unstable_by_key(|chunk| chunk.start);
    }

    /// The chunks of a group as they will be, how many of them no index had, and whether there are no others. Decides what the survey
    /// has left open.
    fn group(
        &mut self,
        group: AgNumber,
        found: ChunksFound,
        survey: &Survey,
    ) -> Result<((u32, bool), Vec<InodeChunk>)> {
        let mut chunks = found.chunks;
        let lost_clusters = self.give_back_lost_clusters(group, (&mut chunks, &found.doubtful), survey);
        for chunk in &mut chunks {
            // Nothing is known of the inodes of a chunk that the log has added.
            let of_all = ChunkSurvey { in_use: 0, open: u64::MAX };
            let ChunkSurvey { in_use, mut open } = survey.chunk(group, chunk.start).unwrap_or(of_all);
            let given_back = lost_clusters.get(&chunk.start).copied().unwrap_or(0);
            open |= given_back;
            let mut chunk = Chunk { chunk, is_changed: given_back != 0 };
            for index in 0..INODES_PER_CHUNK {
                let has = |mask: u64| mask & 1_u64.checked_shl(index).unwrap_or(0) != 0;
                if has(in_use) {
                    chunk.set_in_use(index);
                } else if has(open) && chunk.chunk.exists(index) {
                    let inode = visit_inode(self.volume, group, chunk.chunk, index);
                    let inode = self.proved(group, chunk.chunk, inode)?;
                    self.inode(&mut chunk, inode)?;
                }
            }
            if chunk.is_changed {
                self.groups.insert(group);
            }
        }
        Ok(((found.without_index, found.is_sure), chunks))
    }

    /// Clusters of these chunks that a name, the log or the superblock knows an inode of. Gives the inodes, one bit each.
    fn give_back_lost_clusters(
        &mut self,
        group: AgNumber,
        (chunks, doubtful): (&mut [InodeChunk], &BTreeSet<AgInode>),
        survey: &Survey,
    ) -> BTreeMap<AgInode, u64> {
        if doubtful.is_empty() {
            return BTreeMap::new();
        }
        let geometry = self.volume.geometry();
        let files = survey.contents.files.get(group.get() as usize);
        let taken = Taken::by(files.map(Vec::as_slice).unwrap_or_default());
        let (witnesses, metadata_root) = (&self.witnesses, metadata_directory::root(self.volume));
        let is_named = |inode| {
            let copy = witnesses.copy(inode).and_then(InodeCopy::core);
            inode == geometry.root_inode
                || metadata_root == Some(inode)
                || witnesses.named(inode).is_some()
                || copy.is_some_and(|core| !core.is_free())
        };
        let mut given_back = BTreeMap::new();
        for chunk in chunks.iter_mut().filter(|chunk| doubtful.contains(&chunk.start)) {
            let inodes = lost_clusters::give_back(geometry, (group, chunk), &taken, &is_named);
            if inodes != 0 {
                given_back.insert(chunk.start, inodes);
                self.actions.push(Action::InodeChunk { group, first: chunk.start });
            }
        }
        given_back
    }

    /// Of inodes whose extents could not all be read: those that the reverse map gives them, so that they do not become free. Gives whether
    /// these are all that lie in the group.
    fn add_owned(&self, group: AgNumber, files: &mut Vec<Mapping>) -> bool {
        let incomplete = &self.contents.incomplete;
        if incomplete.is_empty() {
            return true;
        }
        let is_incomplete = |inode| incomplete.contains(&inode);
        // An earlier one does not know all that sound files have.
        let has_all = |found: &Vec<Mapping>| {
            uncovered(files, found, &|_| true).iter().all(|part| match part.owner {
                Owner::Inode(inode) => is_incomplete(inode),
                _ => true,
            })
        };
        let mut owned = Vec::new();
        let mut is_whole = reverse_map::read::visit_group(self.volume, group, &mut |mapping| {
            owned.extend(Some(mapping).filter(|mapping| matches!(mapping.owner, Owner::Inode(_))));
        });
        is_whole &= has_all(&owned);
        if !is_whole && let Some(found) = reverse_map::search::found(self.volume, group).find(has_all) {
            (owned, is_whole) = (found, true);
        }
        owned.retain(|mapping| matches!(mapping.owner, Owner::Inode(inode) if is_incomplete(inode)));
        let parts = uncovered(&owned, files, &is_incomplete);
        files.extend(parts);
        is_whole
    }

    /// Chunks of which nothing is left but parent pointers that name their directories: they come back with free inodes, so that the
    /// directories can be made again there. The chunks of the roots always exist.
    fn make_missing_chunks(
        &mut self,
        group: AgNumber,
        chunks: &mut Vec<InodeChunk>,
        files: &[Mapping],
    ) -> Result<()> {
        let geometry = self.volume.geometry();
        let superblock = self.volume.superblock();
        let internal = [superblock.realtime_bitmap_inode.get(), superblock.realtime_summary_inode.get()];
        let roots = [geometry.root_inode].into_iter().chain(metadata_directory::root(self.volume));
        let wanted = self.contents.wanted.iter().copied().chain(roots);
        let wanted: BTreeSet<AgInode> = wanted
            .chain(internal.map(InodeNumber::new))
            .filter_map(|inode| geometry.split_inode_number(inode))
            .filter(|(of, _)| *of == group)
            .map(|(_, inode)| inode)
            .collect();
        let taken = Taken::by(files);
        for inode in wanted {
            let start = geometry.last_chunk_start(inode);
            let chunk = InodeChunk::new(start);
            let end = start.get().saturating_add(INODES_PER_CHUNK);
            let is_known = chunks.iter().any(|known| {
                known.start.get() < end && start.get() < known.start.get().saturating_add(INODES_PER_CHUNK)
            });
            let is_taken = chunk.blocks(geometry).iter().any(|(start, length_blocks)| {
                let end = AgBlock::new(start.get().saturating_add(*length_blocks));
                taken.is_taken(geometry, group, (*start, end))
            });
            if is_known || is_taken || !geometry.group_may_hold_inode(group, AgInode::new(end - 1)) {
                continue;
            }
            for chunk in geometry.chunks_made_together(start).map(InodeChunk::new) {
                for index in 0..INODES_PER_CHUNK {
                    make_free(self.stage, geometry.inode_number(group, chunk.inode(index)))?;
                }
                chunks.push(chunk);
                self.actions.push(Action::InodeChunk { group, first: chunk.start });
            }
            chunks.sort_unstable_by_key(|chunk| chunk.start);
        }
        Ok(())
    }

    fn inode(&mut self, chunk: &mut Chunk<'_>, inode: FoundInode) -> Result<()> {
        let FoundInode { number, index, found } = inode;
        // Its place may have been given to another one since.
        let is_given_up = self.sources.given_up.contains(&number) && !matches!(found, Found::InUse(_));
        if self.work.symlinks.contains(&number) || is_given_up {
            chunk.set_free(index);
            return Ok(());
        }
        match found {
            Found::InUse(inode) => self.keep(chunk, index, &inode)?,
            Found::WithoutChecksum(inode) => self.without_checksum(chunk, index, &inode)?,
            Found::Free if chunk.chunk.is_allocated(index) => {
                let Some((inode, source)) = self.free_though_indexed(number)? else {
                    chunk.set_free(index);
                    return Ok(());
                };
                let fault = Some(InodeFault::FreeThoughIndexed);
                self.actions.push(Action::InodeRebuilt { inode: number, source, fault });
                self.keep(chunk, index, &inode)?;
            }
            Found::Free => chunk.set_free(index),
            Found::Damaged(fault) => {
                let before = read_inode(self.stage, number)?;
                if let Some((inode, source)) = self.rebuilder().rebuild(number)? {
                    let is_sealed = checksum::check(&before, core::CHECKSUM_OFFSET_BYTES).is_ok();
                    let is_proved = is_sealed || source != InodeSource::Remains;
                    self.unproved.extend((!is_proved).then_some(number));
                    let fault = Some(fault);
                    self.actions.push(Action::InodeRebuilt { inode: number, source, fault });
                    return self.keep(chunk, index, &inode);
                }
                if chunk.chunk.is_allocated(index) {
                    self.actions.push(Action::InodeLost { inode: number, fault });
                }
                self.freed.insert(number);
                chunk.set_free(index);
            }
        }
        Ok(())
    }

    /// An inode whose place has a sound free inode, although the index says that it is in use. Its mode may be gone, or a write of it;
    /// or the index is wrong. What the log has is older than the free inode in the last case.
    fn free_though_indexed(&self, number: InodeNumber) -> Result<Option<(Inode, InodeSource)>> {
        let before = read_inode(self.stage, number)?;
        let disk = InodeCore::prefix_of(&before).map_or(Lsn::new(0), |core| Lsn::new(core.lsn.get()));
        let is_newest = self.witnesses.copy(number).is_none_or(|copy| copy.lsn >= disk);
        let made = match is_newest {
            true => self.rebuilder().rebuild(number)?,
            false => self.rebuilder().keep_remains(number)?.map(|inode| (inode, InodeSource::Remains)),
        };
        if made.is_none() {
            put_inode(self.stage, number, &before)?;
        }
        Ok(made)
    }

    /// Puts free inodes where damaged ones lie, but not into holes: there may be a file.
    fn write_freed(&self, group: AgNumber, chunks: &[InodeChunk]) -> Result<()> {
        let geometry = self.volume.geometry();
        let first = geometry.inode_number(group, AgInode::new(0));
        for number in self.freed.range(first..) {
            let Some((_, inode)) = geometry.split_inode_number(*number).filter(|(of, _)| *of == group) else {
                return Ok(());
            };
            let next = chunks.partition_point(|chunk| chunk.start <= inode);
            let Some(chunk) = next.checked_sub(1).and_then(|at| chunks.get(at)) else { continue };
            let index = inode.get().saturating_sub(chunk.start.get());
            if index < INODES_PER_CHUNK && chunk.exists(index) {
                make_free(self.stage, *number)?;
            }
        }
        Ok(())
    }

    fn rebuilder(&self) -> Rebuilder<'_> {
        Rebuilder {
            volume: self.volume,
            stage: self.stage,
            witnesses: &self.witnesses,
            partial: &self.partial,
            is_reverse_map_remade: self.sources.is_reverse_map_remade,
            spare: &self.spare,
        }
    }

    fn keep(&mut self, chunk: &mut Chunk<'_>, index: u32, inode: &Inode) -> Result<()> {
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
        self.seen.keep(inode);
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
