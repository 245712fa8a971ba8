//! Real files that share blocks: cloned, punched and written by us, read by Linux.

use std::{fs, path::PathBuf};

use uxfs_format::log::extent_map::ExtentMapOperation;
use uxfs_testkit::mount::{Access, LoopMount};

use super::*;

const CLONED_FILES: usize = 5;
const FILE_BLOCKS: u64 = 400;

/// What each block of each file holds; 0 in a hole.
type Contents = Vec<Vec<u8>>;

fn name(file: usize) -> String {
    format!("file-{file}")
}

/// Linux makes the files: the first half of each is written, in pieces.
fn fill(image: &Path, block_bytes: usize) -> Contents {
    let mount = LoopMount::new(image, Access::ReadWrite).unwrap();
    let mut contents = Contents::new();
    for file in 0..CLONED_FILES {
        let path: PathBuf = mount.join(name(file));
        let mut bytes = vec![0; FILE_BLOCKS as usize];
        for (block, byte) in bytes.iter_mut().enumerate().take(FILE_BLOCKS as usize / 2) {
            *byte = if block % 17 == file { 0 } else { 1 + (block % 100) as u8 };
        }
        fs::write(&path, []).unwrap();
        let handle = fs::OpenOptions::new().write(true).open(&path).unwrap();
        handle.set_len(FILE_BLOCKS * block_bytes as u64).unwrap();
        for (block, byte) in bytes.iter().enumerate().filter(|(_, byte)| **byte != 0) {
            let offset = (block * block_bytes) as u64;
            std::os::unix::fs::FileExt::write_all_at(&handle, &vec![*byte; block_bytes], offset).unwrap();
        }
        contents.push(bytes);
    }
    mount.unmount().unwrap();
    contents
}

/// The files while we change them.
struct Cloner<'t, 'fs> {
    file_system: &'fs FileSystem,
    transaction: &'t mut Transaction<'fs>,
    inodes: Vec<InodeNumber>,
    contents: Contents,
    random: Random,
}

impl Cloner<'_, '_> {
    /// The extents of a file within a range.
    fn extents(&mut self, file: usize, start: u64, length: u64) -> Vec<Extent> {
        let inode = self.transaction.load_inode(self.inodes[file]).unwrap();
        let within = |extent: Extent| {
            let first = extent.file_block.get().max(start);
            let end = extent.end().get().min(start + length);
            (first < end).then(|| Extent {
                file_block: FileBlock::new(first),
                start: FsBlock::new(extent.start.get() + first - extent.file_block.get()),
                length_blocks: end - first,
                ..extent
            })
        };
        inode.extents(Fork::Data).iter().filter_map(within).collect()
    }

    /// From now on the data of a file may be shared.
    fn mark_shared(&mut self, file: usize) {
        let mut inode = self.transaction.load_inode(self.inodes[file]).unwrap();
        let flags2 = inode.core.flags2() | InodeFlags2::REFLINK;
        inode.core.flags2.set(flags2.bits());
        self.transaction.store_inode(&mut inode).unwrap();
    }

    /// As FICLONERANGE does it: the old mappings go, references count up, the new mappings come.
    fn clone(&mut self) {
        let (from, to) = (self.some_file(), self.some_file());
        let length = 1 + self.random.below(60);
        let source = self.random.below(FILE_BLOCKS - length);
        let target = self.random.below(FILE_BLOCKS - length);
        if from == to && source.abs_diff(target) < length {
            return;
        }
        [from, to].into_iter().for_each(|file| self.mark_shared(file));
        let inode = self.inodes[to];
        for old in self.extents(to, target, length) {
            let unmap = ExtentMapOperation::Unmap;
            self.transaction.defer_extent_map(unmap, inode, Fork::Data, &old).unwrap();
            self.transaction.defer_decrease(old.start, old.length_blocks).unwrap();
        }
        for new in self.extents(from, source, length) {
            let increase = ReferenceCountOperation::Increase;
            self.transaction.defer_reference_count(increase, new.start, new.length_blocks).unwrap();
            let file_block = FileBlock::new(new.file_block.get() - source + target);
            let map = ExtentMapOperation::Map;
            let extent = Extent { file_block, ..new };
            self.transaction.defer_extent_map(map, inode, Fork::Data, &extent).unwrap();
        }
        self.transaction.commit().unwrap();
        let range = source as usize..(source + length) as usize;
        let copied = self.contents[from][range].to_vec();
        self.contents[to][target as usize..(target + length) as usize].copy_from_slice(&copied);
    }

    fn punch(&mut self) {
        let file = self.some_file();
        let length = 1 + self.random.below(40);
        let start = self.random.below(FILE_BLOCKS - length);
        let mut inode = self.transaction.load_inode(self.inodes[file]).unwrap();
        self.transaction
            .extent_maps()
            .unmap_blocks(&mut inode, Fork::Data, FileBlock::new(start), length)
            .unwrap();
        self.transaction.store_inode(&mut inode).unwrap();
        self.transaction.commit().unwrap();
        self.contents[file][start as usize..(start + length) as usize].fill(0);
    }

    /// New blocks for a range, with new contents.
    fn write(&mut self) {
        let file = self.some_file();
        let length = 1 + self.random.below(10);
        let start = self.random.below(FILE_BLOCKS - length);
        let byte = 101 + self.random.below(150) as u8;
        let (geometry, first) = (self.file_system.geometry(), FileBlock::new(start));
        let mut inode = self.transaction.load_inode(self.inodes[file]).unwrap();
        self.transaction.extent_maps().unmap_blocks(&mut inode, Fork::Data, first, length).unwrap();
        let mapped = self
            .transaction
            .extent_maps()
            .map_blocks(&mut inode, Fork::Data, first, length, Default::default())
            .unwrap();
        for extent in mapped.iter() {
            let place = Geometry::byte_of_sector(geometry.sector_of_block(extent.start).unwrap());
            let bytes = vec![byte; extent.length_blocks as usize * geometry.block_size()];
            self.file_system.device().write(place, &bytes).unwrap();
        }
        self.transaction.store_inode(&mut inode).unwrap();
        self.transaction.commit().unwrap();
        self.contents[file][start as usize..(start + length) as usize].fill(byte);
    }

    fn some_file(&mut self) -> usize {
        self.random.below(CLONED_FILES as u64) as usize
    }
}

#[test]
fn linux_reads_files_that_share_blocks() {
    require!(Judge::Mkfs, Judge::XfsRepair, Judge::Kernel);
    let images: [(&str, &[&str]); 2] =
        [("default", &[]), ("1 KiB blocks", &["-b", "size=1024", "-d", "agcount=2"])];
    for (image_name, options) in images {
        let image = make(options);
        let block_bytes = open_volume(&image.path).geometry().block_size();
        let mut contents = fill(&image.path, block_bytes);
        for round in 0..3 {
            let file_system = open(&image.path);
            let find =
                |file| file_system.resolve(format!("/{}", name(file)).as_bytes(), false).unwrap().number;
            let inodes = (0..CLONED_FILES).map(find).collect();
            let mut transaction = Transaction::begin(&file_system).unwrap();
            let mut cloner = Cloner {
                file_system: &file_system,
                transaction: &mut transaction,
                inodes,
                contents,
                random: Random::new(99 + round),
            };
            for _ in 0..250 {
                match cloner.random.below(4) {
                    0 | 1 => cloner.clone(),
                    2 => cloner.punch(),
                    _ => cloner.write(),
                }
            }
            contents = cloner.contents;
            drop(transaction);
            file_system.close().unwrap();
            repair_is_silent(&image.path).unwrap();
            let mount = LoopMount::new(&image.path, Access::ReadWrite).unwrap();
            for (file, blocks) in contents.iter().enumerate() {
                let bytes = fs::read(mount.join(name(file))).unwrap();
                assert_eq!(bytes.len(), blocks.len() * block_bytes);
                for (block, (expected, found)) in blocks.iter().zip(bytes.chunks(block_bytes)).enumerate() {
                    assert!(found == vec![*expected; found.len()], "{image_name}, file {file}: {block}");
                }
            }
            // Linux changes shared files too before we go on.
            let bytes = vec![42; 3 * block_bytes];
            let handle = fs::OpenOptions::new().write(true).open(mount.join(name(0))).unwrap();
            std::os::unix::fs::FileExt::write_all_at(&handle, &bytes, 7 * block_bytes as u64).unwrap();
            drop(handle);
            contents[0][7..10].fill(42);
            mount.unmount().unwrap();
        }
        let file_system = open_volume(&image.path);
        let shared: usize = file_system
            .geometry()
            .groups()
            .map(|group| file_system.group(group).shared_extents().unwrap().count())
            .sum();
        assert!(shared > 20, "{image_name}: otherwise this tests less than it says: {shared}");
        judged("kernel", &format!("{image_name}: {CLONED_FILES} files with {shared} shared extents"));
    }
}
