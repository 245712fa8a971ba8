//! Inodes and allocation groups: which inodes there are, and all that follows from their extents.

use std::{
    cell::RefCell,
    collections::{BTreeMap, BTreeSet},
    ops::ControlFlow,
};

use uxfs_block::device::BlockDevice;
use uxfs_engine::inode::create::feature_flags2;
use uxfs_format::{
    btree::{
        inode_index::InodeChunk,
        reverse_map::{Mapping, Owner},
    },
    features::Incompatible,
    field_table::OnDisk,
    geometry::{Geometry, INODES_PER_CHUNK},
    inode::{FileType, Fork, ForkFormat, InodeCore, InodeFault, InodeFlags, InodeFlags2},
    units::{AgBlock, AgInode, AgNumber, FileBlock, InodeNumber, Lsn},
};
use uxfs_journal::copies::LogCopies;
use uxfs_volume::{
    btree::BlockEvent,
    error::Result,
    inode::{Inode, scan::ScanOptions},
    volume::Volume,
};

use super::{
    action::{Action, InodeSource},
    conflicts,
    stage::Stage,
    work::Work,
};
use crate::{
    allocation_group::rebuild::{GroupContents, fixed_mappings, rebuild},
    block_use::list::UseList,
    check::Context,
    extent_map::{self, spare::SpareBlocks},
    inode::{
        gather::{Found, FoundInode, change_core, make_free, put_inode, read_inode, visit_chunk},
        rebuild::Rebuilder,
        witnesses::{Witnesses, copies_of},
    },
    inode_index::{self, gather::ChunksFound},
    memory::Memory,
    observed::groups::SumsByGroup,
    sink::Sink,
    sum::Keys,
};

/// What a repair of inodes and groups reads, beside the work.
#[derive(Clone, Copy)]
pub(super) struct Sources<'s> {
    pub volume: &'s Volume,
    /// The device with the log as it was found, where copies in it may be used.
    pub log: Option<&'s dyn BlockDevice>,
    pub scan: ScanOptions,
}

/// Makes the groups of `work` anew, and what is wrong with inodes. Gives the regular files of which something is missing.
pub(super) fn repair(
    sources: Sources<'_>,
    stage: &Stage,
    work: &Work,
    actions: &mut Vec<Action>,
) -> Result<BTreeSet<InodeNumber>> {
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
            incomplete: BTreeSet::new(),
            partial: RefCell::default(),
            spare: SpareBlocks::new(volume),
            freed: BTreeSet::new(),
            sharing: BTreeSet::new(),
            wanted: BTreeSet::new(),
            actions,
        }
        .run()
    } else {
        Ok(BTreeSet::new())
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

/// The parts of a mapping that its owner's other mappings do not have.
fn uncovered(mapping: &Mapping, files: &[Mapping]) -> Vec<Mapping> {
    let is_same = |file: &&Mapping| {
        file.owner == mapping.owner
            && file.is_attribute_fork == mapping.is_attribute_fork
            && file.is_extent_map_block == mapping.is_extent_map_block
    };
    let overlapping = files.iter().filter(is_same).filter(|file| file.overlaps(mapping.start, mapping.end()));
    let mut covered: Vec<(AgBlock, AgBlock)> = overlapping.map(|file| (file.start, file.end())).collect();
    covered.sort_unstable();
    let (mut parts, mut at) = (Vec::new(), mapping.start);
    for (start, end) in covered.into_iter().chain([(mapping.end(), mapping.end())]) {
        if at < start {
            let done = u64::from(at.get().saturating_sub(mapping.start.get()));
            let file_block = if mapping.has_file_blocks() { mapping.file_block.get() + done } else { 0 };
            let length_blocks = start.get().saturating_sub(at.get());
            parts.push(Mapping {
                start: at,
                length_blocks,
                file_block: FileBlock::new(file_block),
                ..*mapping
            });
        }
        at = at.max(end);
    }
    parts
}

/// Whether some of these blocks are headers, log, or a file's.
fn is_taken(
    geometry: &Geometry,
    group: AgNumber,
    (start, end): (AgBlock, AgBlock),
    files: &[Mapping],
) -> bool {
    let log = geometry.log_start.and_then(|log| geometry.split_fs_block(log));
    let is_log = log.is_some_and(|(of_log, log)| {
        of_log == group && start.get() < log.get().saturating_add(geometry.log_blocks) && log < end
    });
    is_log
        || start.get() < geometry.group_header_blocks()
        || files.iter().any(|file| file.overlaps(start, end))
}

/// Parts of a chunk without inodes in use, whose blocks a file has, are holes.
fn punch_holes(geometry: &Geometry, chunk: &mut InodeChunk, files: &[Mapping]) {
    if !geometry.features.incompatible.contains(Incompatible::SPARSE_INODES) {
        return;
    }
    // Inodes come and go by clusters.
    let unit = (geometry.inode_cluster_blocks() << geometry.inodes_per_block_log).clamp(4, INODES_PER_CHUNK);
    for first in (0..INODES_PER_CHUNK).step_by(unit as usize) {
        let of_unit = (u64::MAX >> (64 - unit)) << first;
        let start = chunk.inode(first).get() >> geometry.inodes_per_block_log;
        let end =
            (chunk.inode(first).get().saturating_add(unit)).div_ceil(1 << geometry.inodes_per_block_log);
        let is_taken = files.iter().any(|file| file.overlaps(AgBlock::new(start), AgBlock::new(end)));
        if is_taken && chunk.free & of_unit == of_unit {
            let holes = (0..16).filter(|bit| of_unit & 0b1111 << (bit * 4) != 0);
            chunk.hole_mask |= holes.fold(0, |mask, bit| mask | 1 << bit);
        }
    }
    chunk.count = chunk.existing().count_ones();
    chunk.free_count = (chunk.free & chunk.existing()).count_ones();
}

/// Walks over all chunks of all groups once.
struct Gathering<'g> {
    volume: &'g Volume,
    sources: Sources<'g>,
    stage: &'g Stage,
    /// Of inodes that are gone.
    witnesses: Witnesses,
    work: &'g Work,
    /// Groups to be made anew.
    groups: BTreeSet<AgNumber>,
    /// Inodes with extents that could not be read.
    incomplete: BTreeSet<InodeNumber>,
    /// Files of which something is missing.
    partial: RefCell<BTreeSet<InodeNumber>>,
    spare: SpareBlocks<'g>,
    /// Damaged inodes that are not made again.
    freed: BTreeSet<InodeNumber>,
    /// Inodes whose data may be shared.
    sharing: BTreeSet<InodeNumber>,
    /// Directories that parent pointers name.
    wanted: BTreeSet<InodeNumber>,
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
    fn run(mut self) -> Result<BTreeSet<InodeNumber>> {
        let geometry = self.volume.geometry();
        let every: Vec<u32> = geometry.groups().map(AgNumber::get).collect();
        let list = UseList::of(every);
        let mut found: Vec<ChunksFound> = geometry
            .groups()
            .map(|group| {
                let is_suspect = self.work.inode_indexes.contains(&group);
                inode_index::gather::gather(self.volume, group, is_suspect)
            })
            .collect();
        let mut lost = self.lost_inodes(&found);
        let copies = self.copies(&lost, &found);
        for (inode, _) in copies.inodes().filter(|(_, copy)| copy.core().is_some_and(|core| !core.is_free()))
        {
            self.add_chunk_of(inode, &mut found, &mut lost);
        }
        self.witnesses = Witnesses::gather(self.volume, copies, &lost);
        let mut chunks_by_group = Vec::new();
        for (group, found) in geometry.groups().zip(found) {
            chunks_by_group.push(self.group(group, found, &list)?);
        }
        let mut files_by_group: Vec<Vec<_>> = vec![Vec::new(); chunks_by_group.len()];
        for one in list.into_uses() {
            if let Some(files) = files_by_group.get_mut(one.group as usize) {
                files.push(one.owner.mapping(one.start, one.end.saturating_sub(one.start)));
            }
        }
        for (group, (((_, is_sure), chunks), files)) in
            geometry.groups().zip(chunks_by_group.iter_mut().zip(&files_by_group))
        {
            if !*is_sure {
                chunks.iter_mut().for_each(|chunk| punch_holes(geometry, chunk, files));
            }
            self.write_freed(group, chunks)?;
        }
        let contents = chunks_by_group.into_iter().zip(files_by_group).collect();
        self.rebuild_groups(contents)
    }

    /// Makes groups anew, unless there are blocks that two have: then only the maps of those that have them wrongly.
    fn rebuild_groups(mut self, contents: Vec<GroupFound>) -> Result<BTreeSet<InodeNumber>> {
        let geometry = self.volume.geometry();
        let (mut losers, mut open) = (BTreeMap::new(), BTreeSet::new());
        for (group, ((_, chunks), files)) in geometry.groups().zip(&contents) {
            if self.groups.contains(&group) {
                let fixed = fixed_mappings(geometry, group, chunks);
                let found = conflicts::find(self.volume, group, files, &fixed, &self.sharing);
                losers.extend(found.losers);
                open.extend(Some(group).filter(|_| found.is_open));
            }
        }
        if !losers.is_empty() {
            let partial = conflicts::resolve(self.volume, self.stage, &losers, self.actions)?;
            self.partial.borrow_mut().extend(partial);
            return Ok(self.partial.into_inner());
        }
        for (group, (((found, is_sure), mut chunks), mut files)) in geometry.groups().zip(contents) {
            // A conflict stays a finding.
            if !self.groups.contains(&group) || open.contains(&group) {
                continue;
            }
            if !is_sure {
                self.make_missing_chunks(group, &mut chunks, &files)?;
            }
            self.add_owned(group, &mut files);
            let contents = GroupContents { chunks, files, unlinked: Vec::new() };
            if rebuild(self.stage, group, &contents)?.is_ok() {
                self.actions.push(Action::Group { group, chunks_without_index: found });
            }
        }
        Ok(self.partial.into_inner())
    }

    /// Inodes that are gone or free in spite of the index, and those with a wrong checksum.
    fn lost_inodes(&self, found: &[ChunksFound]) -> BTreeSet<InodeNumber> {
        let mut lost = BTreeSet::new();
        for (group, found) in self.volume.geometry().groups().zip(found) {
            for chunk in &found.chunks {
                visit_chunk(self.volume, group, chunk, &mut |inode| {
                    let is_free_in_use =
                        matches!(inode.found, Found::Free) && chunk.is_allocated(inode.index);
                    if is_free_in_use || matches!(inode.found, Found::Damaged(_) | Found::WithoutChecksum(_))
                    {
                        lost.insert(inode.number);
                    }
                });
            }
        }
        lost
    }

    /// What the log has of lost inodes, and of groups whose chunks are not all known.
    fn copies(&self, lost: &BTreeSet<InodeNumber>, found: &[ChunksFound]) -> LogCopies {
        let unsure = self.volume.geometry().groups().zip(found).filter(|(_, found)| !found.is_sure);
        let unsure: Vec<AgNumber> = unsure.map(|(group, _)| group).collect();
        self.sources.log.map(|log| copies_of(self.volume, log, lost, &unsure)).unwrap_or_default()
    }

    /// Adds the chunk of an inode that the log knows to be in use, where no chunk is known there.
    fn add_chunk_of(
        &mut self,
        inode: InodeNumber,
        found: &mut [ChunksFound],
        lost: &mut BTreeSet<InodeNumber>,
    ) {
        let geometry = self.volume.geometry();
        let Some((group, inode)) = geometry.split_inode_number(inode) else { return };
        let start = AgInode::new(inode.get() / INODES_PER_CHUNK * INODES_PER_CHUNK);
        let end = start.get().saturating_add(INODES_PER_CHUNK);
        let Some(found) = found.get_mut(group.get() as usize).filter(|found| !found.is_sure) else { return };
        let is_known = found.chunks.iter().any(|known| {
            known.start.get() < end && start.get() < known.start.get().saturating_add(INODES_PER_CHUNK)
        });
        if is_known || !geometry.group_may_hold_inode(group, AgInode::new(end.saturating_sub(1))) {
            return;
        }
        let chunk = InodeChunk::new(start);
        lost.extend((0..INODES_PER_CHUNK).map(|index| geometry.inode_number(group, chunk.inode(index))));
        found.chunks.push(chunk);
        found.chunks.sort_unstable_by_key(|chunk| chunk.start);
        self.actions.push(Action::InodeChunk { group, first: start });
    }

    /// The chunks of a group as they will be, how many of them no index had, and whether there are no others. Adds the extents of its inodes to the list.
    fn group(
        &mut self,
        group: AgNumber,
        found: ChunksFound,
        list: &UseList,
    ) -> Result<((u32, bool), Vec<InodeChunk>)> {
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
        Ok(((found.without_index, found.is_sure), chunks))
    }

    /// Of inodes whose extents could not all be read: those that the reverse map gives them, so that they do not become free.
    fn add_owned(&self, group: AgNumber, files: &mut Vec<Mapping>) {
        let Ok(Some(tree)) = self.volume.group(group).reverse_map() else { return };
        if self.incomplete.is_empty() {
            return;
        }
        let mut owned: Vec<Mapping> = Vec::new();
        let _ = tree.visit_blocks(&mut |event| {
            if let BlockEvent::Block { view, .. } = event {
                let mappings = view.records().iter().map(|record| record.get());
                owned.extend(mappings.filter(|mapping| match mapping.owner {
                    Owner::Inode(inode) => self.incomplete.contains(&inode),
                    _ => false,
                }));
            }
            ControlFlow::Continue(())
        });
        for mapping in owned {
            let parts = uncovered(&mapping, files);
            files.extend(parts);
        }
    }

    /// Chunks of which nothing is left but parent pointers that name their directories: they come back with free inodes, so that the
    /// directories can be made again there. The root directory's chunk always exists.
    fn make_missing_chunks(
        &mut self,
        group: AgNumber,
        chunks: &mut Vec<InodeChunk>,
        files: &[Mapping],
    ) -> Result<()> {
        let geometry = self.volume.geometry();
        let superblock = self.volume.superblock();
        let internal = [superblock.realtime_bitmap_inode.get(), superblock.realtime_summary_inode.get()];
        let wanted = self.wanted.iter().copied().chain([geometry.root_inode]);
        let wanted: BTreeSet<AgInode> = wanted
            .chain(internal.map(InodeNumber::new))
            .filter_map(|inode| geometry.split_inode_number(inode))
            .filter(|(of, _)| *of == group)
            .map(|(_, inode)| inode)
            .collect();
        for inode in wanted {
            let start = AgInode::new(inode.get() / INODES_PER_CHUNK * INODES_PER_CHUNK);
            let chunk = InodeChunk::new(start);
            let end = start.get().saturating_add(INODES_PER_CHUNK);
            let is_known = chunks.iter().any(|known| {
                known.start.get() < end && start.get() < known.start.get().saturating_add(INODES_PER_CHUNK)
            });
            let is_taken = chunk.blocks(geometry).iter().any(|(start, length_blocks)| {
                let end = AgBlock::new(start.get().saturating_add(*length_blocks));
                is_taken(geometry, group, (*start, end), files)
            });
            if is_known || is_taken || !geometry.group_may_hold_inode(group, AgInode::new(end - 1)) {
                continue;
            }
            for index in 0..INODES_PER_CHUNK {
                make_free(self.stage, geometry.inode_number(group, chunk.inode(index)))?;
            }
            chunks.push(chunk);
            chunks.sort_unstable_by_key(|chunk| chunk.start);
            self.actions.push(Action::InodeChunk { group, first: start });
        }
        Ok(())
    }

    fn inode(&mut self, chunk: &mut Chunk<'_>, inode: FoundInode, list: &UseList) -> Result<()> {
        let FoundInode { number, index, found } = inode;
        if self.work.symlinks.contains(&number) {
            chunk.set_free(index);
            return Ok(());
        }
        match found {
            Found::InUse(inode) => self.keep(chunk, index, &inode, list)?,
            Found::WithoutChecksum(inode) => {
                // What the log has is known to be right, unless the disk has something newer.
                let disk = Lsn::new(inode.core.lsn.get());
                let is_logged = self.witnesses.copy(number).is_some_and(|copy| copy.lsn >= disk);
                let before = read_inode(self.stage, number)?;
                let made = if is_logged { self.rebuilder().rebuild(number)? } else { None };
                if let Some((inode, source)) = made.filter(|(_, source)| *source == InodeSource::Log) {
                    self.actions.push(Action::InodeRebuilt { inode: number, source, fault: None });
                    return self.keep(chunk, index, &inode, list);
                }
                put_inode(self.stage, number, &before)?;
                self.actions.push(Action::InodeChecksum { inode: number });
                self.keep(chunk, index, &inode, list)?;
            }
            Found::Free if chunk.chunk.is_allocated(index) => {
                let Some((inode, source)) = self.free_though_indexed(number)? else {
                    chunk.set_free(index);
                    return Ok(());
                };
                let fault = Some(InodeFault::FreeThoughIndexed);
                self.actions.push(Action::InodeRebuilt { inode: number, source, fault });
                self.keep(chunk, index, &inode, list)?;
            }
            Found::Free => chunk.set_free(index),
            Found::Damaged(fault) => {
                if let Some((inode, source)) = self.rebuilder().rebuild(number)? {
                    let fault = Some(fault);
                    self.actions.push(Action::InodeRebuilt { inode: number, source, fault });
                    return self.keep(chunk, index, &inode, list);
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
        for chunk in chunks {
            for index in (0..INODES_PER_CHUNK).filter(|index| chunk.exists(*index)) {
                let number = geometry.inode_number(group, chunk.inode(index));
                if self.freed.contains(&number) {
                    make_free(self.stage, number)?;
                }
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
            spare: &self.spare,
        }
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
        if inode.flags2().contains(InodeFlags2::REFLINK) {
            self.sharing.insert(inode.number);
        }
        let _ = self.volume.visit_parent_pointers(inode, |pointer| {
            self.wanted.insert(pointer.parent);
            Ok(ControlFlow::Continue(()))
        });
        let mut forget = |_| ControlFlow::Continue(());
        let context = Context {
            volume: self.volume,
            keys: Keys::default(),
            sink: Sink::new(&mut forget),
            scan: self.sources.scan,
            memory: Memory::default(),
            uses: Some(list),
            progress: None,
            see: None,
        };
        let mut sums = SumsByGroup::default();
        for fork in [Fork::Data, Fork::Attribute] {
            if extent_map::check::check(&context, inode, fork, &mut sums).is_none() {
                self.incomplete.insert(inode.number);
            }
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
