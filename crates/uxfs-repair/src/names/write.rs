//! Directories, parent pointers, attributes and link counts as decided.
//!
//! First, inodes are changed as they lie on disk: directories that are made again or rebuilt become empty ones, damaged attribute
//! forks become empty. Rebuilding the groups then frees the blocks of the old directories. Then names
//! are added by the engine that every change of a file system uses.

use std::collections::{BTreeMap, BTreeSet};

use uxfs_engine::{
    attribute::{AttributeName, SetMode},
    directory::NewName,
    engine::{BulkEngine, modes::AnyEngine},
    inode::{create::feature_flags2, edit::EditInode, edit::room::default_attribute_offset_bytes},
    options::{Generations, MountOptions},
    transaction::Transaction,
};
use uxfs_format::{
    attribute::flags::Namespace,
    directory::shortform_edit,
    field_table::OnDisk,
    inode::{FileType, Fork, ForkFormat, InodeCore, InodeFlags2, timestamp::DiskTimestamp},
    units::InodeNumber,
};
use uxfs_volume::{
    error::{Error, OperationError, Result},
    inode::{Inode, Timestamp},
    parent_pointer::ParentPointer,
    volume::{Volume, VolumeOptions},
};

use super::{
    decide::{Decision, NewDirectory},
    facts::{Facts, Link},
    gather::Gathered,
    lost_and_found,
};
use crate::{
    finding::Name,
    inode::gather::{change_core, make_free},
    metadata_directory,
    repair::{
        action::{Action, PointerCause},
        stage::Stage,
        work::Work,
    },
};

/// Changes that follow from a decision.
#[derive(Debug, Default)]
pub(crate) struct Changes {
    /// Directories that are rebuilt, each with the directory above it.
    pub directories: BTreeMap<InodeNumber, InodeNumber>,
    /// Parent pointers to be set and to be removed, by inode.
    pointers: BTreeMap<InodeNumber, PointerChanges>,
    /// Link counts.
    link_counts: BTreeMap<InodeNumber, (u32, u32)>,
}

#[derive(Debug, Default)]
struct PointerChanges {
    set: Vec<(InodeNumber, Name, PointerCause)>,
    removed: Vec<(InodeNumber, Name, u32)>,
}

impl Changes {
    /// What has to change for the decision to be true.
    pub fn of(gathered: &Gathered, decision: &Decision, work: &Work) -> Self {
        let facts = &gathered.facts;
        let mut changes = Self::default();
        changes.find_directories(facts, decision, work);
        if facts.has_parent_pointers {
            changes.find_pointers(gathered, decision);
        }
        changes.find_link_counts(facts, decision);
        changes
    }

    /// Whether nothing has to.
    pub fn is_empty(&self, decision: &Decision, gathered: &Gathered) -> bool {
        self.directories.is_empty()
            && self.pointers.is_empty()
            && self.link_counts.is_empty()
            && decision.lost.is_empty()
            && decision.unlinked.is_empty()
            && gathered.attributes.is_empty()
    }

    fn find_directories(&mut self, facts: &Facts, decision: &Decision, work: &Work) {
        let mut parents: BTreeMap<InodeNumber, InodeNumber> = BTreeMap::new();
        // No link of a directory is undisputed.
        for ((directory, _), inode) in &decision.links {
            parents.insert(*inode, *directory);
        }
        let mut changed: BTreeSet<InodeNumber> = decision.directories.keys().copied().collect();
        changed.extend(work.directories.iter().filter(|inode| facts.directory(**inode).is_some()));
        for (index, (link, witnesses)) in facts.links.iter().enumerate() {
            if witnesses.has_entry != decision.has_link(index, link) {
                changed.insert(link.directory);
            }
        }
        // Names that follow from the contents of a directory alone.
        if let Some(root) = facts.metadata_root {
            let links = decision.links.range((root, Name::default())..);
            for ((directory, name), inode) in links.take_while(|((directory, _), _)| *directory == root) {
                let link = Link { directory: *directory, name: name.clone(), inode: *inode };
                changed.extend(Some(root).filter(|_| !facts.links.contains_key(&link)));
            }
        }
        for (inode, fact) in facts.inodes.iter().filter(|(_, fact)| fact.file_type == FileType::Directory) {
            let parent = parents.get(inode).copied();
            if parent.is_some() && fact.dot_dot != parent {
                changed.insert(*inode);
            }
        }
        for inode in changed {
            let is_directory = facts.directory(inode).is_some() || decision.directories.contains_key(&inode);
            if is_directory {
                // Roots are their own parents; a lost directory gets one with its name.
                let parent = parents.get(&inode).copied().unwrap_or(inode);
                self.directories.insert(inode, parent);
            }
        }
    }

    fn find_pointers(&mut self, gathered: &Gathered, decision: &Decision) {
        let facts = &gathered.facts;
        let generation = |directory: InodeNumber| match facts.directory(directory) {
            Some(fact) => Some(fact.generation),
            None => decision.directories.get(&directory).and_then(|new| new.generation),
        };
        let mut set = |directory, name: &Name, inode: InodeNumber, found: Option<u32>, expected| {
            let is_new =
                decision.directories.contains_key(&inode) || gathered.attributes.contains_key(&inode);
            let cause = match found {
                _ if is_new => PointerCause::MadeAnew,
                None => PointerCause::EntryAlone,
                found if found != expected => PointerCause::OtherGeneration,
                Some(_) => return,
            };
            self.pointers.entry(inode).or_default().set.push((directory, name.clone(), cause));
        };
        for ((directory, name), inode) in &decision.links {
            let link = Link { directory: *directory, name: name.clone(), inode: *inode };
            let found = facts.links.get(&link).and_then(|witnesses| witnesses.pointer_generation);
            set(*directory, name, *inode, found, generation(*directory));
        }
        let mut last = None;
        let mut generation = |directory| match last {
            Some((of, generation)) if of == directory => generation,
            _ => last.insert((directory, generation(directory))).1,
        };
        for (index, (link, witnesses)) in facts.links.iter().enumerate() {
            if decision.undisputed.has_link(index) {
                let found = witnesses.pointer_generation;
                set(link.directory, &link.name, link.inode, found, generation(link.directory));
            }
        }
        for (index, (link, witnesses)) in facts.links.iter().enumerate() {
            let Some(found) = witnesses.pointer_generation else { continue };
            let is_kept = Some(found) == generation(link.directory) && decision.has_link(index, link);
            let has_fork = !gathered.attributes.contains_key(&link.inode);
            if !is_kept && has_fork {
                let removed = (link.directory, link.name.clone(), found);
                self.pointers.entry(link.inode).or_default().removed.push(removed);
            }
        }
    }

    fn find_link_counts(&mut self, facts: &Facts, decision: &Decision) {
        let mut counts: BTreeMap<InodeNumber, u32> = BTreeMap::new();
        let is_directory = |inode: InodeNumber| {
            facts.directory(inode).is_some() || decision.directories.contains_key(&inode)
        };
        for ((directory, _), inode) in &decision.links {
            if is_directory(*inode) {
                *counts.entry(*directory).or_default() += 1;
            } else {
                *counts.entry(*inode).or_default() += 1;
            }
        }
        let new = decision.directories.keys().map(|inode| (*inode, 0));
        // What is undisputed has as many links as it counts.
        let old = facts.inodes.iter().enumerate();
        let old = old
            .filter(|(index, (_, fact))| !fact.is_internal && !decision.undisputed.has_inode(*index))
            .map(|(_, (inode, fact))| (*inode, fact.link_count));
        for (inode, found) in old.chain(new) {
            let names = counts.get(&inode).copied().unwrap_or(0);
            let expected = if is_directory(inode) { names.saturating_add(2) } else { names };
            // One without names gets its name, and with it a link, in lost+found.
            if expected > 0 && found != expected {
                self.link_counts.insert(inode, (found, expected));
            }
        }
    }

    /// Inodes that lose blocks, or that come into use, before names are added.
    pub fn emptied(&self, gathered: &Gathered, decision: &Decision) -> BTreeSet<InodeNumber> {
        let directories = self.directories.keys().copied();
        directories
            .chain(gathered.attributes.keys().copied())
            .chain(decision.unlinked.iter().copied())
            .collect()
    }

    /// Empties the directories and attribute forks to be rebuilt; returns whether anything changed.
    pub fn write_inodes(
        &self,
        volume: &Volume,
        stage: &Stage,
        gathered: &Gathered,
        decision: &Decision,
    ) -> Result<bool> {
        let now = newest_time(volume);
        for (inode, parent) in &self.directories {
            match decision.directories.get(inode) {
                Some(new) => make_directory(stage, *inode, *parent, *new, now)?,
                None => empty_directory(volume, stage, *inode, *parent)?,
            }
        }
        for inode in gathered.attributes.keys() {
            empty_attributes(volume, stage, *inode)?;
        }
        for inode in &decision.unlinked {
            make_free(stage, *inode)?;
        }
        Ok(!self.directories.is_empty() || !gathered.attributes.is_empty() || !decision.unlinked.is_empty())
    }

    /// Adds names, parent pointers and attributes through the engine, and sets link counts.
    pub fn write_names(
        &self,
        stage: &Stage,
        gathered: &Gathered,
        decision: &Decision,
        actions: &mut Vec<Action>,
    ) -> Result<()> {
        let volume = Volume::open(stage.device(), &VolumeOptions::default())?;
        // Nothing is random: a repair that was cut off and one that was not must come to the same bytes.
        let generation = crc32c::crc32c(volume.superblock().disk_bytes());
        let options = MountOptions { generations: Generations::Fixed(generation), ..MountOptions::default() };
        let engine = BulkEngine::new(volume, options)?;
        let engine = AnyEngine::Bulk(Box::new(engine));
        let mut writer = Writer { engine: &engine, gathered, decision, actions };
        writer.fill_directories(&self.directories)?;
        writer.set_attributes()?;
        writer.change_pointers(&self.pointers)?;
        lost_and_found::name_lost(&engine, &gathered.facts, decision, actions)?;
        engine.close()?;
        actions.extend(decision.unlinked.iter().map(|inode| Action::UnlinkedFreed { inode: *inode }));
        for (inode, (found, expected)) in &self.link_counts {
            change_core(stage, *inode, |core, _| core.link_count.set(*expected))?;
            if gathered.facts.inodes.contains_key(inode) {
                actions.push(Action::LinkCount { inode: *inode, found: *found, expected: *expected });
            }
        }
        Ok(())
    }
}

/// The times of directories that are made again: no clock, so that one image gives one result.
fn newest_time(volume: &Volume) -> Timestamp {
    let root = volume.inode(volume.geometry().root_inode);
    root.map(|root| root.modification_time()).unwrap_or_default()
}

fn make_directory(
    stage: &Stage,
    inode: InodeNumber,
    parent: InodeNumber,
    new: NewDirectory,
    time: Timestamp,
) -> Result<()> {
    let geometry = stage.geometry();
    change_core(stage, inode, |core, forks| {
        let generation = new.generation.unwrap_or(core.generation.get());
        *core = uxfs_engine::inode::create::unused_core(inode, generation, geometry);
        let flags2 = feature_flags2(geometry);
        let time = DiskTimestamp::encode_clamped(time, flags2.contains(InodeFlags2::BIG_TIME));
        core.mode.set(FileType::Directory.mode_bits() | 0o755);
        core.link_count.set(2);
        core.flags2.set(flags2.bits());
        core.change_count.set(1);
        (core.access_time, core.modification_time) = (time, time);
        (core.change_time, core.creation_time) = (time, time);
        core.attribute_format = ForkFormat::Extents.code();
        if geometry.features.has_parent_pointers() {
            let offset = default_attribute_offset_bytes(Some(FileType::Directory));
            core.fork_offset = u8::try_from(offset / 8).unwrap_or(0);
        }
        if new.is_metadata {
            metadata_directory::put_directory(core);
        }
        forks.fill(0);
        put_empty_directory(core, forks, parent);
    })
}

fn put_empty_directory(core: &mut InodeCore, forks: &mut [u8], parent: InodeNumber) {
    let bytes = shortform_edit::empty(parent);
    core.format = ForkFormat::Local.code();
    core.size_bytes.set(bytes.len() as u64);
    if let Some(place) = forks.get_mut(..bytes.len()) {
        place.copy_from_slice(&bytes);
    }
    match core.flags2().contains(InodeFlags2::LARGE_EXTENT_COUNTS) {
        true => core.large_extent_count.set(0),
        false => core.extent_count.set(0),
    }
}

/// Takes all blocks from a directory. Its attributes stay.
fn empty_directory(volume: &Volume, stage: &Stage, number: InodeNumber, parent: InodeNumber) -> Result<()> {
    let inode = volume.inode(number)?;
    let room = inode.fork_room_bytes(Fork::Data, stage.geometry()) as usize;
    let kept = fork_blocks(volume, &inode, Fork::Attribute);
    change_core(stage, number, |core, forks| {
        forks.get_mut(..room).into_iter().for_each(|data| data.fill(0));
        core.blocks.set(kept);
        put_empty_directory(core, forks, parent);
    })
}

/// Takes all blocks and attributes from an attribute fork.
fn empty_attributes(volume: &Volume, stage: &Stage, number: InodeNumber) -> Result<()> {
    let inode = volume.inode(number)?;
    let data_room = inode.fork_room_bytes(Fork::Data, stage.geometry()) as usize;
    let kept = fork_blocks(volume, &inode, Fork::Data);
    change_core(stage, number, |core, forks| {
        forks.get_mut(data_room..).into_iter().for_each(|attributes| attributes.fill(0));
        core.attribute_format = ForkFormat::Extents.code();
        core.blocks.set(kept);
        match core.flags2().contains(InodeFlags2::LARGE_EXTENT_COUNTS) {
            true => core.extent_count.set(0),
            false => core.attribute_extent_count.set(0),
        }
    })
}

/// Blocks of a fork as far as they can be read, those of its btree among them.
fn fork_blocks(volume: &Volume, inode: &Inode, fork: Fork) -> u64 {
    crate::extent_map::check::count_blocks(volume, inode, fork)
}

/// Changes names through the engine.
struct Writer<'w> {
    engine: &'w AnyEngine,
    gathered: &'w Gathered,
    decision: &'w Decision,
    actions: &'w mut Vec<Action>,
}

impl Writer<'_> {
    fn file_type(&self, inode: InodeNumber) -> FileType {
        self.gathered.facts.inodes.get(&inode).map_or(FileType::Directory, |fact| fact.file_type)
    }

    fn fill_directories(&mut self, directories: &BTreeMap<InodeNumber, InodeNumber>) -> Result<()> {
        for directory in directories.keys() {
            let names = self.decision.names_in(&self.gathered.facts, *directory);
            let new: Vec<NewName<'_>> = names
                .iter()
                .map(|(name, inode)| NewName { name, inode: *inode, file_type: self.file_type(*inode) })
                .collect();
            let mut transaction = Transaction::begin(self.engine)?;
            let mut inode = transaction.load_inode(*directory)?;
            if !new.is_empty() {
                transaction.directories().fill_directory(&mut inode, &new)?;
            }
            transaction.store_inode(&mut inode)?;
            transaction.commit()?;
            self.report_directory(*directory, names.len() as u64);
        }
        Ok(())
    }

    fn report_directory(&mut self, directory: InodeNumber, names: u64) {
        let facts = &self.gathered.facts;
        let (mut removed, mut added) = (0, Vec::new());
        for (index, link, witnesses) in facts.links_in(directory) {
            match (witnesses.has_entry, self.decision.has_link(index, link)) {
                (true, false) => {
                    removed += 1;
                    let (name, inode) = (link.name.clone(), link.inode);
                    let because = self.decision.rejected.get(link).cloned();
                    self.actions.push(Action::NameRemoved { directory, name, inode, because });
                }
                (false, true) => added.push(link),
                _ => {}
            }
        }
        let from_parent_pointers = added.len() as u64;
        // In a directory of which nothing is damaged, an entry that is missing contradicts the parent pointer.
        let is_sound =
            facts.directory(directory).is_some() && !facts.damaged_directories.contains(&directory);
        for link in added.into_iter().filter(|_| is_sound) {
            let (name, inode) = (link.name.clone(), link.inode);
            self.actions.push(Action::NameAdded { directory, name, inode });
        }
        let fact = facts.directory(directory);
        self.actions.push(Action::Directory {
            inode: directory,
            is_any_unread: fact.is_none_or(|fact| fact.has_unread_entries),
            names,
            from_parent_pointers,
            removed,
        });
    }

    fn set_attributes(&mut self) -> Result<()> {
        self.actions.extend(self.gathered.access_lists.iter().cloned());
        let (attributes, freed) = (&self.gathered.attributes, &self.decision.unlinked);
        for (number, attributes) in attributes.iter().filter(|(number, _)| !freed.contains(number)) {
            let mut transaction = Transaction::begin(self.engine)?;
            let mut inode = transaction.load_inode(*number)?;
            for attribute in attributes {
                let name = AttributeName { namespace: attribute.namespace, name: &attribute.name };
                transaction.attributes().set_attribute(
                    &mut inode,
                    name,
                    &attribute.value,
                    SetMode::Upsert,
                )?;
            }
            transaction.store_inode(&mut inode)?;
            transaction.commit()?;
            let is_any_lost = self.gathered.lossy.contains(number);
            let attributes = attributes.len() as u64;
            self.actions.push(Action::Attributes { inode: *number, attributes, is_any_lost });
        }
        Ok(())
    }

    fn change_pointers(&mut self, pointers: &BTreeMap<InodeNumber, PointerChanges>) -> Result<()> {
        let freed = &self.decision.unlinked;
        // Loading a directory takes long where it is large, and neighbouring pointers mostly name the same one.
        let mut last = None;
        for (number, changes) in pointers.iter().filter(|(number, _)| !freed.contains(number)) {
            let mut transaction = Transaction::begin(self.engine)?;
            let mut inode = transaction.load_inode(*number)?;
            for (directory, name, generation) in &changes.removed {
                let pointer = ParentPointer { parent: *directory, generation: *generation, name };
                unless_gone(transaction.parent_pointers().remove_parent_pointer(&mut inode, pointer))?;
                let link = Link { directory: *directory, name: name.clone(), inode: *number };
                let because = self.decision.rejected.get(&link).cloned();
                let Link { directory, name, inode } = link;
                self.actions.push(Action::ParentPointerRemoved { inode, directory, name, because });
            }
            for (directory, name, cause) in &changes.set {
                let generation = match last {
                    Some((of, generation)) if of == *directory => generation,
                    _ => transaction.load_inode(*directory)?.generation(),
                };
                last = Some((*directory, generation));
                let pointer = ParentPointer { parent: *directory, generation, name };
                unless_there(transaction.parent_pointers().add_parent_pointer(&mut inode, pointer))?;
                let is_unmarked = remove_unmarked(&mut transaction, &mut inode, &pointer)?;
                let cause = if is_unmarked { PointerCause::Unmarked } else { *cause };
                let (inode, directory, name) = (*number, *directory, name.clone());
                self.actions.push(Action::ParentPointerSet { inode, directory, name, cause });
            }
            transaction.store_inode(&mut inode)?;
            transaction.commit()?;
        }
        Ok(())
    }
}

/// Removes an attribute that is this parent pointer, and has lost the mark of one. Gives whether there was one.
fn remove_unmarked(
    transaction: &mut Transaction<'_>,
    inode: &mut EditInode,
    pointer: &ParentPointer<'_>,
) -> Result<bool> {
    let (parent, generation) = (pointer.parent.get().to_be_bytes(), pointer.generation.to_be_bytes());
    let value = [&parent[..], &generation[..]].concat();
    for namespace in [Namespace::User, Namespace::Trusted, Namespace::Security] {
        let name = AttributeName { namespace, name: pointer.name };
        if transaction.attributes().attribute(inode, name)?.is_some_and(|found| found == value) {
            transaction.attributes().remove_attribute(inode, name)?;
            return Ok(true);
        }
    }
    Ok(false)
}

fn unless_gone(result: Result<()>) -> Result<()> {
    match result {
        Err(Error::Operation(OperationError::NoSuchAttribute)) => Ok(()),
        result => result,
    }
}

pub(super) fn unless_there(result: Result<()>) -> Result<()> {
    match result {
        Err(Error::Operation(OperationError::Exists)) => Ok(()),
        result => result,
    }
}
