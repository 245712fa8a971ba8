//! Inodes that are gone, from what others say about them.
//!
//! What is believed, and why, stands in [`weighing`](crate::repair::weighing), rows 30 and 31. What the log does not have comes from
//! elsewhere: extents from the reverse map; names of a short directory from parent pointers; attributes from the blocks that the reverse
//! map names; parent pointers from entries. The target of a short symbolic link is lost.
//!
//! An inode of which the log says that it is free, or that nothing names and that has no blocks, stays free.

use std::{cell::RefCell, collections::BTreeSet};

use uxfs_engine::inode::{create::feature_flags2, edit::room::default_attribute_offset_bytes};
use uxfs_format::{
    btree::extent_map::Extent,
    directory::{self, shortform_edit},
    field_table::OnDisk,
    geometry::Geometry,
    inode::{
        FileType, Fork, ForkFormat, InodeCore, InodeFlags, InodeFlags2, symlink, timestamp::DiskTimestamp,
        verify_inode,
    },
    quota::{self, QuotaKind, QuotaRecord},
    units::{AgInode, FsBlock, InodeNumber},
};
use uxfs_journal::copies::InodeCopy;
use uxfs_volume::{error::Result, inode::Inode, volume::Volume};

use super::{
    gather::{change_core, put_inode, read_inode},
    witnesses::{Named, Witnesses},
};
use crate::{
    extent_map::{
        rebuild::{Owned, write_fork},
        spare::SpareBlocks,
    },
    metadata_directory,
    repair::{
        action::{Inference, InodeSource, TypeSource},
        stage::Stage,
    },
};

/// Makes inodes again.
pub(crate) struct Rebuilder<'r> {
    pub volume: &'r Volume,
    pub stage: &'r Stage,
    pub witnesses: &'r Witnesses,
    /// Regular files of which something is missing.
    pub partial: &'r RefCell<BTreeSet<InodeNumber>>,
    /// This repair has rebuilt groups: their reverse maps lack what was lost by then.
    pub is_reverse_map_remade: bool,
    /// Blocks for extent maps.
    pub spare: &'r SpareBlocks<'r>,
}

impl Rebuilder<'_> {
    /// Makes an inode again, in the stage. `None` where too little is known of it: its place holds anything then.
    ///
    /// # Errors
    /// The device.
    pub fn rebuild(&self, number: InodeNumber) -> Result<Option<(Inode, InodeSource)>> {
        if let Some(copy) = self.witnesses.copy(number) {
            if copy.core().is_none_or(InodeCore::is_free) {
                return Ok(None);
            }
            let before = read_inode(self.stage, number)?;
            let with_attributes =
                copy.with_attributes_of(&before).filter(|bytes| self.is_sound(number, bytes));
            let (bytes, has_attribute_fork) = match with_attributes {
                Some(bytes) => (bytes, true),
                None => (copy.bytes.clone(), copy.has_attribute_fork),
            };
            if let Some(made) = self.take_copy(number, copy, bytes, has_attribute_fork)? {
                return Ok(Some(made));
            }
            put_inode(self.stage, number, &before)?;
        }
        if let Some(inode) = self.keep_remains(number)? {
            return Ok(Some((inode, InodeSource::Remains)));
        }
        self.infer(number)
    }

    fn is_sound(&self, number: InodeNumber, bytes: &[u8]) -> bool {
        verify_inode(&seal(&mut bytes.to_vec()), number, self.stage.geometry()).is_ok()
    }

    /// The inode of the log's newest copy, its maps from the reverse map where the copy has not the forks that it describes.
    fn take_copy(
        &self,
        number: InodeNumber,
        copy: &InodeCopy,
        mut bytes: Vec<u8>,
        has_attribute_fork: bool,
    ) -> Result<Option<(Inode, InodeSource)>> {
        let geometry = self.stage.geometry();
        if let Some(core) = InodeCore::prefix_of_mut(&mut bytes) {
            core.next_unlinked.set(AgInode::NULL.get());
        }
        let core = verify_inode(&seal(&mut bytes), number, geometry).ok().copied();
        let whole = core.and_then(|core| Inode::decode(&bytes, &core, geometry));
        let is_known = |fork: Fork, is_logged: bool| {
            is_logged && whole.as_ref().is_some_and(|inode| self.agrees(inode, fork))
        };
        let is_data_known = is_known(Fork::Data, copy.has_data_fork);
        let are_attributes_known = is_known(Fork::Attribute, has_attribute_fork);
        put_inode(self.stage, number, &bytes)?;
        if is_data_known && are_attributes_known {
            let source = if copy.may_be_older { InodeSource::DamagedLog } else { InodeSource::Log };
            return Ok(self.verified(number)?.map(|inode| (inode, source)));
        }
        // A fork that is rebuilt comes second: the other one must be sound for it to be read.
        if !are_attributes_known {
            self.clear_attributes(number)?;
        }
        if !is_data_known && !self.remake_data(number)? {
            return Ok(None);
        }
        if !are_attributes_known && !self.map(number, Fork::Attribute)? {
            return Ok(None);
        }
        let source = match copy.lacks_attributes_in_inode() && !has_attribute_fork {
            true => InodeSource::LogWithoutAttributes,
            false => InodeSource::LogAndReverseMap,
        };
        Ok(self.verified(number)?.map(|inode| (inode, source)))
    }

    /// Whether the reverse map does not contradict a fork.
    pub(super) fn agrees(&self, inode: &Inode, fork: Fork) -> bool {
        let is_elsewhere = fork == Fork::Data && inode.flags().contains(InodeFlags::REALTIME);
        if !self.witnesses.has_whole_reverse_map() || is_elsewhere {
            return true;
        }
        let mut owned = self.witnesses.owned(inode.number, fork);
        match inode.fork_format(fork) {
            Some(ForkFormat::Extents) => {
                let Ok(map) = self.volume.extent_map(inode, fork) else { return false };
                let mut known = Owned { extents: map.iter().collect(), btree_runs: Vec::new() };
                known.union().0 == owned.union().0 && owned.btree_runs.is_empty()
            }
            Some(ForkFormat::Btree) => {
                let other = if fork == Fork::Data { Fork::Attribute } else { Fork::Data };
                let other = self.witnesses.owned(inode.number, other).blocks();
                !owned.btree_runs.is_empty() && owned.blocks().saturating_add(other) == inode.blocks()
            }
            Some(ForkFormat::Local | ForkFormat::Device | ForkFormat::MetadataBtree) | None => {
                owned.blocks() == 0
            }
        }
    }

    /// Makes the data fork of an inode whose core is known. Gives whether that is possible.
    fn remake_data(&self, number: InodeNumber) -> Result<bool> {
        let Some(core) = self.core(number)? else { return Ok(false) };
        let is_local = ForkFormat::from_code(core.format) == Some(ForkFormat::Local);
        let kind = FileType::from_mode(core.mode.get());
        let has_blocks = self.witnesses.owned(number, Fork::Data).blocks() > 0;
        match kind {
            // Its names come back from parent pointers.
            Some(FileType::Directory) if is_local || !has_blocks => {
                let root = self.stage.geometry().root_inode;
                self.empty_directory(number, root)?;
                Ok(true)
            }
            Some(FileType::SymbolicLink) if is_local => Ok(false),
            Some(kind) if kind.is_special() => Ok(matches!(kind, FileType::Fifo | FileType::Socket)),
            Some(_) => {
                self.clear_data(number)?;
                self.map(number, Fork::Data)
            }
            None => Ok(false),
        }
    }

    /// Makes an inode that the log knows nothing of.
    fn infer(&self, number: InodeNumber) -> Result<Option<(Inode, InodeSource)>> {
        let named = self.witnesses.named(number).copied().unwrap_or_default();
        let data = self.witnesses.owned(number, Fork::Data);
        let attributes = self.witnesses.owned(number, Fork::Attribute);
        let Some((kind, type_from)) = self.type_of(&named, &data) else { return Ok(None) };
        let has_blocks = data.blocks() > 0;
        // What files of realtime groups hold cannot be made up.
        if kind == FileType::Regular && self.is_metadata(&named)? && self.quota_kind(number).is_none() {
            return Ok(None);
        }
        let is_enough = match kind {
            FileType::Fifo | FileType::Socket => !has_blocks,
            FileType::SymbolicLink => has_blocks,
            // An empty file and a short directory have none. The latter is made with its names.
            FileType::Regular => has_blocks || named.file_type == Some(kind),
            FileType::Directory => has_blocks,
            FileType::CharacterDevice | FileType::BlockDevice => false,
        };
        if !is_enough {
            return Ok(None);
        }
        let owner_from = self.put_inferred(number, kind, &named, !attributes.extents.is_empty())?;
        if !kind.is_special() && has_blocks && !self.map(number, Fork::Data)? {
            return Ok(None);
        }
        if !self.map(number, Fork::Attribute)? {
            return Ok(None);
        }
        let size_bytes = self.size_of(number, kind, &data)?;
        let is_shared = kind == FileType::Regular && self.witnesses.is_shared(self.volume, &data);
        change_core(self.stage, number, |core, _| {
            core.size_bytes.set(size_bytes);
            if is_shared {
                core.flags2.set((core.flags2() | InodeFlags2::REFLINK).bits());
            }
        })?;
        let has_unknown_contents = kind == FileType::Regular && !has_blocks && !self.knows_all_blocks();
        let made_up = Inference { file_type: kind, type_from, owner_from, size_bytes, has_unknown_contents };
        Ok(self.verified(number)?.map(|inode| (inode, InodeSource::Inferred(made_up))))
    }

    /// Whether a file without mappings in the reverse map had no blocks.
    fn knows_all_blocks(&self) -> bool {
        self.witnesses.has_whole_reverse_map() && !self.is_reverse_map_remade
    }

    pub(super) fn type_of(&self, named: &Named, data: &Owned) -> Option<(FileType, TypeSource)> {
        if let Some(kind) = named.file_type {
            return Some((kind, TypeSource::Entry));
        }
        if named.generation.is_some() {
            return Some((FileType::Directory, TypeSource::ParentPointers));
        }
        let first = data.extents.iter().min_by_key(|extent| extent.file_block)?;
        let mut magic = [0; 4];
        self.read_block(first.start, &mut magic)?;
        Some(match u32::from_be_bytes(magic) {
            directory::block::MAGIC | directory::data::MAGIC => (FileType::Directory, TypeSource::FirstBlock),
            symlink::MAGIC => (FileType::SymbolicLink, TypeSource::FirstBlock),
            _ => (FileType::Regular, TypeSource::Blocks),
        })
    }

    /// A core that says as little as possible: the owner of the directory alone may read it. Gives the directory.
    fn put_inferred(
        &self,
        number: InodeNumber,
        kind: FileType,
        named: &Named,
        has_attributes: bool,
    ) -> Result<Option<InodeNumber>> {
        let geometry = self.stage.geometry();
        let model = named.directory.and_then(|directory| self.volume.inode(directory).ok());
        let model = model.or_else(|| self.volume.inode(geometry.root_inode).ok());
        let permissions = private_permissions(kind);
        let is_metadata = metadata_directory::root(self.volume) == Some(number)
            || model.as_ref().is_some_and(|model| metadata_directory::is_directory(model));
        let quota = is_metadata.then(|| self.quota_kind(number)).flatten();
        change_core(self.stage, number, |core, forks| {
            let generation = named.generation.unwrap_or(1);
            *core = uxfs_engine::inode::create::unused_core(number, generation, geometry);
            let flags2 = feature_flags2(geometry);
            let time = model.as_ref().map(|model| model.modification_time()).unwrap_or_default();
            let time = DiskTimestamp::encode_clamped(time, flags2.contains(InodeFlags2::BIG_TIME));
            core.mode.set(kind.mode_bits() | permissions);
            if let Some(model) = &model {
                core.uid.set(model.uid());
                core.gid.set(model.gid());
            }
            core.link_count.set(if kind == FileType::Directory { 2 } else { 1 });
            core.flags2.set(flags2.bits());
            core.change_count.set(1);
            (core.access_time, core.modification_time) = (time, time);
            (core.change_time, core.creation_time) = (time, time);
            let format = if kind.is_special() { ForkFormat::Device } else { ForkFormat::Extents };
            core.format = format.code();
            core.attribute_format = ForkFormat::Extents.code();
            if geometry.features.has_parent_pointers() || has_attributes {
                let offset = default_attribute_offset_bytes(Some(kind));
                core.fork_offset = u8::try_from(offset / 8).unwrap_or(0);
            }
            match (kind, quota) {
                (FileType::Directory, _) if is_metadata => metadata_directory::put_directory(core),
                (FileType::Regular, Some(quota)) => metadata_directory::put_quota_file(core, quota),
                _ => {}
            }
            forks.fill(0);
        })?;
        Ok(model.map(|model| model.number))
    }

    /// Whether an entry of a directory of the metadata directory tree names an inode.
    fn is_metadata(&self, named: &Named) -> Result<bool> {
        if metadata_directory::root(self.volume).is_none() {
            return Ok(false);
        }
        let directory = named.directory.map(|directory| self.decoded(directory)).transpose()?;
        Ok(directory.flatten().as_ref().is_some_and(metadata_directory::is_directory))
    }

    /// Which quota records the first block of a file holds.
    fn quota_kind(&self, number: InodeNumber) -> Option<QuotaKind> {
        let data = self.witnesses.owned(number, Fork::Data);
        let first = data.extents.iter().min_by_key(|extent| extent.file_block)?;
        let mut bytes = [0; QuotaRecord::SIZE_BYTES];
        self.read_block(first.start, &mut bytes)?;
        let record = QuotaRecord::prefix_of(&bytes).filter(|record| record.magic.get() == quota::MAGIC)?;
        QuotaKind::ALL.into_iter().find(|kind| record.record_type().contains(kind.record_type()))
    }

    /// The size that follows from the blocks: of a regular file up to the last byte of its last block that is not zero.
    fn size_of(&self, number: InodeNumber, kind: FileType, data: &Owned) -> Result<u64> {
        let geometry = self.stage.geometry();
        let block_bytes = geometry.block_size() as u64;
        let end_of = |is_counted: &dyn Fn(u64) -> bool| {
            let ends = data.extents.iter().map(|extent| extent.end().get());
            ends.filter(|end| is_counted(*end)).max().unwrap_or(0)
        };
        Ok(match kind {
            FileType::Directory => {
                let leaf = geometry.directory_leaf_start().get();
                end_of(&|end| end <= leaf).saturating_mul(block_bytes)
            }
            FileType::SymbolicLink => {
                let Some(inode) = self.decoded(number)? else { return Ok(0) };
                self.symlink_bytes(&inode)
            }
            FileType::Regular => end_of_contents(self.volume, &data.extents),
            _ => 0,
        })
    }

    /// The length of a target, as the headers of its pieces say.
    fn symlink_bytes(&self, inode: &Inode) -> u64 {
        let Ok(map) = self.volume.extent_map(inode, Fork::Data) else { return 0 };
        let pieces = map.iter().map(|extent| {
            let mut header = [0; 12];
            let is_read = self.read_block(extent.start, &mut header).is_some();
            let length = header.get(8..).and_then(|length| length.first_chunk());
            length.filter(|_| is_read).map_or(0, |length| u64::from(u32::from_be_bytes(*length)))
        });
        pieces.sum()
    }

    fn read_block(&self, block: FsBlock, bytes: &mut [u8]) -> Option<()> {
        read_block(self.volume, block, bytes)
    }

    /// Writes a fork from the reverse map. Gives whether that is possible.
    fn map(&self, number: InodeNumber, fork: Fork) -> Result<bool> {
        let owned = self.witnesses.owned(number, fork);
        if owned.extents.is_empty() {
            return Ok(self.witnesses.has_whole_reverse_map()
                || fork == Fork::Attribute
                || self.is_empty(number)?);
        }
        let Some(inode) = self.decoded(number)? else { return Ok(false) };
        let is_complete = self.witnesses.has_whole_reverse_map();
        let written = write_fork(self.spare, self.stage, &inode, fork, owned, is_complete)?;
        let is_file = fork == Fork::Data && inode.file_type() == Some(FileType::Regular);
        if is_file && written.is_some_and(|written| !written.is_whole) {
            self.partial.borrow_mut().insert(number);
        }
        Ok(written.is_some())
    }

    /// A file without contents needs no map.
    fn is_empty(&self, number: InodeNumber) -> Result<bool> {
        Ok(self.core(number)?.is_some_and(|core| core.size_bytes.get() == 0))
    }

    fn empty_directory(&self, number: InodeNumber, parent: InodeNumber) -> Result<()> {
        self.clear_data(number)?;
        change_core(self.stage, number, |core, forks| {
            let bytes = shortform_edit::empty(parent);
            core.format = ForkFormat::Local.code();
            core.size_bytes.set(bytes.len() as u64);
            if let Some(place) = forks.get_mut(..bytes.len()) {
                place.copy_from_slice(&bytes);
            }
        })
    }

    fn clear_data(&self, number: InodeNumber) -> Result<()> {
        change_core(self.stage, number, |core, forks| {
            let room = usize::from(core.fork_offset) * 8;
            let data = if room == 0 { Some(forks) } else { forks.get_mut(..room) };
            data.into_iter().for_each(|data| data.fill(0));
            core.format = ForkFormat::Extents.code();
            core.blocks.set(0);
            match core.flags2().contains(InodeFlags2::LARGE_EXTENT_COUNTS) {
                true => core.large_extent_count.set(0),
                false => core.extent_count.set(0),
            }
        })
    }

    fn clear_attributes(&self, number: InodeNumber) -> Result<()> {
        let data_blocks = self.witnesses.owned(number, Fork::Data).blocks();
        change_core(self.stage, number, |core, forks| {
            let room = usize::from(core.fork_offset) * 8;
            if room > 0 {
                forks.get_mut(room..).into_iter().for_each(|attributes| attributes.fill(0));
            }
            core.attribute_format = ForkFormat::Extents.code();
            core.blocks.set(data_blocks);
            match core.flags2().contains(InodeFlags2::LARGE_EXTENT_COUNTS) {
                true => core.extent_count.set(0),
                false => core.attribute_extent_count.set(0),
            }
        })
    }

    fn core(&self, number: InodeNumber) -> Result<Option<InodeCore>> {
        Ok(InodeCore::prefix_of(&read_inode(self.stage, number)?).copied())
    }

    /// The inode as it lies in the stage, whatever a verifier says of it.
    fn decoded(&self, number: InodeNumber) -> Result<Option<Inode>> {
        let bytes = read_inode(self.stage, number)?;
        let core = InodeCore::prefix_of(&bytes).copied();
        Ok(core.and_then(|core| Inode::decode(&bytes, &core, self.stage.geometry())))
    }

    fn verified(&self, number: InodeNumber) -> Result<Option<Inode>> {
        let bytes = read_inode(self.stage, number)?;
        let geometry = self.stage.geometry();
        let core = verify_inode(&bytes, number, geometry).ok().filter(|core| !core.is_free());
        Ok(core.and_then(|core| Inode::decode(&bytes, core, geometry)))
    }
}

fn read_block(volume: &Volume, block: FsBlock, bytes: &mut [u8]) -> Option<()> {
    let sector = volume.geometry().sector_of_block(block)?;
    volume.device().read(Geometry::byte_of_sector(sector), bytes).ok()
}

/// Where the contents of a regular file with these extents end: behind the last byte of the last written block that is not zero.
pub(crate) fn end_of_contents(volume: &Volume, extents: &[Extent]) -> u64 {
    let block_bytes = volume.geometry().block_size() as u64;
    let written = extents.iter().filter(|extent| !extent.is_unwritten);
    let Some(last) = written.max_by_key(|extent| extent.file_block) else { return 0 };
    let mut bytes = vec![0; volume.geometry().block_size()];
    let start = FsBlock::new(last.start.get().saturating_add(last.length_blocks.saturating_sub(1)));
    let used = read_block(volume, start, &mut bytes)
        .and_then(|()| bytes.iter().rposition(|byte| *byte != 0))
        .map_or(block_bytes, |last| last as u64 + 1);
    last.end().get().saturating_sub(1).saturating_mul(block_bytes).saturating_add(used)
}

/// What the owner alone may do; the permissions of symbolic links mean nothing.
pub(super) fn private_permissions(kind: FileType) -> u16 {
    match kind {
        FileType::Directory => 0o700,
        FileType::SymbolicLink => 0o777,
        _ => 0o600,
    }
}

fn seal(bytes: &mut [u8]) -> Vec<u8> {
    uxfs_format::checksum::seal(bytes, uxfs_format::inode::core::CHECKSUM_OFFSET_BYTES);
    bytes.to_vec()
}
