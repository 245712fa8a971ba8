//! Full groups, and Linux at work on what we left.

use uxfs_testkit::mount::{Access, LoopMount};
use uxfs_volume::error::{Error, OperationError};

use super::*;

/// Fills a file system with blocks of many owners.
struct Filler<'t, 'fs> {
    transaction: &'t mut Transaction<'fs>,
    inode: EditInode,
    first: u64,
    random: Random,
    held: Vec<(u64, Extent)>,
}

impl<'t, 'fs> Filler<'t, 'fs> {
    fn new(transaction: &'t mut Transaction<'fs>) -> Self {
        let root = transaction.engine().geometry().root_inode;
        let mut inode = transaction.load_inode(root).unwrap();
        if transaction.engine().geometry().features.has_reflink() {
            let flags2 = inode.core.flags2() | InodeFlags2::REFLINK;
            inode.core.flags2.set(flags2.bits());
        }
        Self { transaction, inode, first: root.get() + 3, random: Random::new(5), held: Vec::new() }
    }

    fn map(&mut self, owner: u64, extent: Extent) {
        self.inode.number = InodeNumber::new(self.first + owner);
        self.transaction.defer_map(&self.inode, Fork::Data, &extent).unwrap();
        self.held.push((owner, extent));
    }

    fn unmap(&mut self, owner: u64, extent: &Extent) {
        self.inode.number = InodeNumber::new(self.first + owner);
        self.transaction.defer_unmap(&self.inode, Fork::Data, extent).unwrap();
        self.transaction.defer_decrease(extent.start, extent.length_blocks).unwrap();
        // What fails here fails in the middle of a change: nothing may.
        self.transaction.commit().unwrap();
    }

    /// Takes pieces of so many blocks until there are none. Neighbours have different owners, so that each is a record.
    fn fill(&mut self, blocks: u32, most: usize) {
        for number in 0..most {
            let request = AllocationRequest::data(Goal::Anywhere, blocks);
            let allocated = match self.transaction.allocate(&request) {
                Ok(allocated) => allocated,
                Err(Error::Operation(OperationError::NoSpace)) => return,
                Err(error) => panic!("{error}"),
            };
            let extent = Extent {
                file_block: FileBlock::new(10 * number as u64),
                start: allocated.start,
                length_blocks: allocated.length_blocks.into(),
                is_unwritten: false,
            };
            self.map(number as u64 % 7, extent);
            self.transaction.commit().unwrap();
        }
    }

    /// Has a second file share a block in the middle of every extent long enough.
    fn share_middles(&mut self) {
        let long: Vec<Extent> =
            self.held.iter().map(|(_, extent)| *extent).filter(|extent| extent.length_blocks > 2).collect();
        for (number, extent) in long.into_iter().enumerate() {
            let file_block = FileBlock::new((1 << 30) | (5 * number as u64));
            let start = FsBlock::new(extent.start.get() + 1);
            self.map(20, Extent { file_block, start, length_blocks: 1, ..extent });
            let increase = ReferenceCountOperation::Increase;
            self.transaction.defer_reference_count(increase, start, 1).unwrap();
            self.transaction.commit().unwrap();
        }
    }

    /// Takes the last but one block of every extent long enough away, so that what is left is two records.
    fn punch(&mut self) {
        for (owner, extent) in std::mem::take(&mut self.held) {
            let Some(before) = extent.length_blocks.checked_sub(2).filter(|before| *before > 1) else {
                self.held.push((owner, extent));
                continue;
            };
            let part = |skip: u64, length_blocks| Extent {
                file_block: FileBlock::new(extent.file_block.get() + skip),
                start: FsBlock::new(extent.start.get() + skip),
                length_blocks,
                ..extent
            };
            self.unmap(owner, &part(before, 1));
            self.held.push((owner, part(0, before)));
            self.held.push((owner, part(before + 1, 1)));
        }
    }

    /// Gives back everything, in any order, but `kept`.
    fn empty(&mut self, kept: usize) {
        while self.held.len() > kept {
            let index = self.random.below(self.held.len() as u64) as usize;
            let (owner, extent) = self.held.swap_remove(index);
            self.unmap(owner, &extent);
        }
    }
}

#[test]
fn a_full_file_system_can_always_say_who_owns_what() {
    require!(Judge::Mkfs, Judge::XfsRepair);
    let images: [(&str, &[&str], u64); 3] = [
        ("1 KiB blocks", &["-b", "size=1024", "-d", "agcount=2"], 40),
        ("4 KiB blocks", &["-d", "agcount=2"], 64),
        ("no sharing", &["-b", "size=1024", "-m", "reflink=0", "-d", "agcount=2"], 40),
    ];
    for (name, options, size_mebibytes) in images {
        let image = TestImage::new("owners of a small image", size_mebibytes, options, 0);
        let free_before = open_volume(&image.path).superblock().free_data_blocks.get();
        let file_system = open(&image.path);
        let mut transaction = Transaction::begin(&file_system).unwrap();
        let mut filler = Filler::new(&mut transaction);
        filler.fill(9, 800);
        filler.fill(1, usize::MAX);
        assert!(filler.held.len() > 5000, "{name}: {}", filler.held.len());
        if file_system.geometry().features.has_reflink() {
            filler.share_middles();
        }
        filler.punch();
        filler.fill(1, usize::MAX);
        let half = filler.held.len() / 2;
        filler.empty(half);
        filler.fill(2, usize::MAX);
        filler.fill(1, usize::MAX);
        filler.empty(0);
        drop(transaction);
        file_system.close().unwrap();
        let reader = open_volume(&image.path);
        assert_eq!(reader.superblock().free_data_blocks.get(), free_before, "{name}");
        assert_eq!(free_blocks_of(&reader), free_before, "{name}");
        repair_is_silent(&image.path).unwrap();
        judged("xfs_repair", &format!("a full file system, {name}"));
    }
}

/// Whatever was set aside when a machine stopped, Linux gives back when it has replayed the log: through our trees.
#[test]
fn linux_ends_what_was_set_aside() {
    require!(Judge::Mkfs, Judge::XfsRepair, Judge::XfsIo, Judge::Kernel);
    let image = make(&["-b", "size=1024"]);
    let free_before = open_volume(&image.path).superblock().free_data_blocks.get();
    let file_system = open(&image.path);
    let mut transaction = Transaction::begin(&file_system).unwrap();
    let mut staged = Vec::new();
    for number in 0..3000 {
        let request = AllocationRequest::data(Goal::Anywhere, 1 + number % 5);
        let allocated = transaction.allocate(&request).unwrap();
        if number % 3 != 0 {
            staged.push(allocated);
            let stage = ReferenceCountOperation::AllocateCow;
            transaction
                .defer_reference_count(stage, allocated.start, allocated.length_blocks.into())
                .unwrap();
        } else {
            transaction.defer_free(allocated.start, allocated.length_blocks.into()).unwrap();
        }
        if number % 50 == 0 {
            transaction.commit().unwrap();
        }
    }
    transaction.commit().unwrap();
    drop(transaction);
    file_system.close().unwrap();
    assert_trees_are_sound(&image.path, "set aside");
    let mount = LoopMount::new(&image.path, Access::ReadWrite).unwrap();
    std::fs::create_dir(mount.join("directory")).unwrap();
    let stop = Judge::XfsIo.command().args(["-x", "-c", "shutdown -f"]).arg(mount.path()).status().unwrap();
    assert!(stop.success());
    mount.unmount().unwrap();
    let mount = LoopMount::new(&image.path, Access::ReadWrite).unwrap();
    std::fs::remove_dir(mount.join("directory")).unwrap();
    mount.unmount().unwrap();
    repair_is_silent(&image.path).unwrap();
    let reader = open_volume(&image.path);
    for group in reader.geometry().groups() {
        assert_eq!(reader.group(group).shared_extents().unwrap().count(), 0, "group {group}");
    }
    assert_eq!(free_blocks_of(&reader), free_before);
    judged("kernel", &format!("{} extents set aside", staged.len()));
}
