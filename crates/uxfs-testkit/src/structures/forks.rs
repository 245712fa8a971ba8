//! Structures below the forks of an inode.

use anyhow::{Context, Result, bail};
use uxfs_format::{
    btree::{
        BlockPointer,
        block::BtreeBlock,
        extent_map::{Extent, ExtentMap, ExtentMapRoot, ExtentRecord},
    },
    fault::Structure,
    field_table::OnDisk,
    geometry::{Geometry, INODE_CORE_SIZE_BYTES},
    inode::{FileType, InodeCore, InodeFlags2},
    quota::QuotaRecord,
    units::{FsBlock, InodeNumber},
};

use super::{Instance, Owner, Walk};

const EXTENTS: u8 = 2;
const BTREE: u8 = 3;

impl Walk<'_> {
    pub(super) fn forks(&mut self, number: InodeNumber, inode: &[u8]) -> Result<()> {
        let core = InodeCore::prefix_of(inode).context("short inode")?;
        if core.is_free() {
            return Ok(());
        }
        let is_large = core.flags2().contains(InodeFlags2::LARGE_EXTENT_COUNTS);
        let small: u64 = core.extent_count.get().into();
        let (data_count, attribute_count) = if is_large {
            (core.large_extent_count.get(), small)
        } else {
            (small, core.attribute_extent_count.get().into())
        };
        let start = INODE_CORE_SIZE_BYTES as usize;
        let middle = start + 8 * usize::from(core.fork_offset);
        let data = if core.fork_offset == 0 { &inode[start..] } else { &inode[start..middle] };
        let extents = self.fork_extents(number, core.format, data, data_count)?;
        match core.file_type() {
            Some(FileType::Directory) => self.directory(number, &extents)?,
            Some(FileType::SymbolicLink) => self.symlink(number, &extents)?,
            Some(FileType::Regular) if self.quota_inodes.contains(&number.get()) => {
                self.quota_records(number, &extents)?;
            }
            _ => {}
        }
        if core.fork_offset != 0 {
            let extents =
                self.fork_extents(number, core.attribute_format, &inode[middle..], attribute_count)?;
            self.attributes(number, &extents)?;
        }
        Ok(())
    }

    /// The extents of a fork; adds the blocks of its btree.
    fn fork_extents(
        &mut self,
        number: InodeNumber,
        format: u8,
        fork: &[u8],
        count: u64,
    ) -> Result<Vec<Extent>> {
        let owner = Owner::Inode(number.get());
        match format {
            EXTENTS => {
                let records = fork.chunks_exact(ExtentRecord::SIZE_BYTES).take(count as usize);
                Ok(records.filter_map(ExtentRecord::prefix_of).map(ExtentRecord::get).collect())
            }
            BTREE => {
                let root = ExtentMapRoot::parse(fork)?;
                let mut extents = Vec::new();
                let mut blocks: Vec<u64> =
                    root.pointers().iter().rev().map(|pointer| pointer.get()).collect();
                while let Some(block) = blocks.pop() {
                    let instance =
                        self.block_instance(Structure::ExtentMap, FsBlock::new(block), owner, None)?;
                    let bytes = self.add(instance)?;
                    let view = BtreeBlock::<ExtentMap>::parse(&bytes)?;
                    blocks.extend(view.pointers().iter().rev().map(|pointer| pointer.raw()));
                    extents.extend(view.records().iter().map(ExtentRecord::get));
                }
                Ok(extents)
            }
            _ => Ok(Vec::new()),
        }
    }

    /// Each record of a quota inode: it has a checksum of its own.
    fn quota_records(&mut self, number: InodeNumber, extents: &[Extent]) -> Result<()> {
        let per_block = self.geometry.block_size() / QuotaRecord::SIZE_BYTES;
        for (file_block, block) in extents.iter().flat_map(blocks_of) {
            let sector = self.geometry.sector_of_block(block).context("block outside the file system")?;
            for index in 0..per_block {
                let offset = Geometry::byte_of_sector(sector) + (index * QuotaRecord::SIZE_BYTES) as u64;
                self.add(Instance {
                    structure: Structure::Quota,
                    pieces: vec![(offset, QuotaRecord::SIZE_BYTES as u32)],
                    owner: Owner::Inode(number.get()),
                    file_block: Some(file_block),
                    fs_block: (index == 0).then_some(block.get()),
                })?;
            }
        }
        Ok(())
    }

    fn directory(&mut self, number: InodeNumber, extents: &[Extent]) -> Result<()> {
        let blocks: Vec<(u64, FsBlock)> = extents.iter().flat_map(blocks_of).collect();
        let per_block = self.geometry.blocks_per_directory_block() as usize;
        for parts in blocks.chunks(per_block) {
            let (file_block, first) = parts[0];
            let mut pieces = Vec::new();
            for (_, block) in parts {
                let sector = self.geometry.sector_of_block(*block).context("block outside")?;
                pieces.push((Geometry::byte_of_sector(sector), self.geometry.block_size_bytes));
            }
            let mut instance = Instance {
                structure: Structure::DirectoryData,
                pieces,
                owner: Owner::Inode(number.get()),
                file_block: Some(file_block),
                fs_block: Some(first.get()),
            };
            let bytes = instance.read(self.device)?;
            let four = u32::from_be_bytes(bytes[..4].try_into()?);
            let two = u16::from_be_bytes(bytes[8..10].try_into()?);
            instance.structure = match (four, two) {
                (0x5844_4233, _) => Structure::DirectoryBlock,
                (0x5844_4433, _) => Structure::DirectoryData,
                (0x5844_4633, _) => Structure::DirectoryFreeIndex,
                (_, 0x3df1) => Structure::DirectoryLeaf,
                (_, 0x3dff) => Structure::DirectoryLeafNode,
                (_, 0x3ebe) => Structure::DirectoryNode,
                _ => bail!("directory block {file_block} has no known magic"),
            };
            self.instances.push(instance);
        }
        Ok(())
    }

    fn symlink(&mut self, number: InodeNumber, extents: &[Extent]) -> Result<()> {
        for extent in extents {
            let mut instance = self.block_instance(
                Structure::Symlink,
                extent.start,
                Owner::Inode(number.get()),
                Some(extent.file_block.get()),
            )?;
            instance.pieces[0].1 *= extent.length_blocks as u32;
            self.instances.push(instance);
        }
        Ok(())
    }

    fn attributes(&mut self, number: InodeNumber, extents: &[Extent]) -> Result<()> {
        for (file_block, block) in extents.iter().flat_map(blocks_of) {
            let owner = Owner::Inode(number.get());
            let mut instance =
                self.block_instance(Structure::AttributeLeaf, block, owner, Some(file_block))?;
            let bytes = instance.read(self.device)?;
            let four = u32::from_be_bytes(bytes[..4].try_into()?);
            let two = u16::from_be_bytes(bytes[8..10].try_into()?);
            instance.structure = match (four, two) {
                (0x5841_524d, _) => Structure::AttributeRemoteValue,
                (_, 0x3bee) => Structure::AttributeLeaf,
                (_, 0x3ebe) => Structure::AttributeNode,
                _ => bail!("attribute block {file_block} has no known magic"),
            };
            self.instances.push(instance);
        }
        Ok(())
    }
}

fn blocks_of(extent: &Extent) -> impl Iterator<Item = (u64, FsBlock)> + use<> {
    let (file_block, start) = (extent.file_block.get(), extent.start.get());
    (0..extent.length_blocks).map(move |index| (file_block + index, FsBlock::new(start + index)))
}
