//! Extent maps that are changed, on file systems of many kinds: judged by our own reader, `xfs_repair` and the kernel.

mod memory;
mod random;

use std::{os::unix::fs::FileExt, process::Command};

use rustix::fs::{FallocateFlags, fallocate};

use uxfs_engine::{
    extent_map::map::Mapping,
    inode::edit::{EditInode, InodeFork},
    transaction::Transaction,
};
use uxfs_filesystem::{file::Touch, filesystem::FileSystem};
use uxfs_format::{
    inode::{Fork, ForkFormat, InodeFlags2},
    units::{FileBlock, InodeNumber},
};
use uxfs_testkit::{
    image::{TestImage, file},
    judges::Judge,
    mount::{Access, LoopMount},
    require,
    verdict::kernel_removes_everything,
};
use uxfs_volume::{
    error::{Error, OperationError},
    extent_map::Extent,
};

/// Options of `mkfs.xfs`, and how large the image is in MiB.
const KINDS: &[(&str, u64, &[&str])] = &[
    ("default", 300, &[]),
    ("block-1k", 300, &["-b", "size=1024"]),
    ("block-64k", 600, &["-b", "size=65536"]),
    ("inode-2k", 300, &["-i", "size=2048"]),
    ("no-reverse-map", 300, &["-m", "rmapbt=0"]),
    ("no-reflink", 300, &["-m", "reflink=0,rmapbt=0", "-n", "parent=0"]),
    ("small-counts", 300, &["-i", "nrext64=0"]),
    ("no-parents", 300, &["-n", "parent=0"]),
];

fn block(number: u64) -> FileBlock {
    FileBlock::new(number)
}

fn map(tx: &mut Transaction<'_>, inode: &mut EditInode, start: u64, length: u64) -> Vec<Extent> {
    tx.extent_maps().map_blocks(inode, Fork::Data, block(start), length, Mapping::default()).unwrap().to_vec()
}

/// Stores an inode of regular data that ends where its extents do.
fn finish(mut tx: Transaction<'_>, inode: &mut EditInode) {
    let end = inode.extents(Fork::Data).last().map_or(0, |extent| extent.end().get());
    inode.set_size_bytes(end << tx.engine().geometry().block_log);
    tx.store_inode(inode).unwrap();
    tx.commit().unwrap();
}

/// What a new mount says of a file.
fn read_back(image: &TestImage, number: InodeNumber) -> (Vec<Extent>, ForkFormat, u64) {
    let file_system = image.mount();
    let inode = file_system.inode(number).unwrap();
    let map = file_system.extent_map(&inode, Fork::Data).unwrap();
    (map.iter().collect(), inode.fork_format(Fork::Data).unwrap(), inode.blocks())
}

fn set_size(file_system: &FileSystem, inode: &mut EditInode, size_bytes: u64) {
    file_system.edit_file(inode).unwrap().set_size(size_bytes, Touch::NOTHING).unwrap();
}

fn begin(file_system: &FileSystem, index: usize) -> (Transaction<'_>, EditInode) {
    let mut tx = Transaction::begin(file_system).unwrap();
    let inode = tx.load_inode(file(file_system, index)).unwrap();
    (tx, inode)
}

#[test]
fn from_one_extent_to_many_and_back() {
    require!(Judge::Mkfs, Judge::XfsRepair);
    for (name, size, options) in KINDS {
        let image = TestImage::new(&format!("many extents, {name}"), *size, options, 3);
        // A hole after each block keeps them apart.
        let counts = [20_u64, 3000, 1];
        let mut expected = Vec::new();
        let file_system = image.mount_bulk();
        for (index, count) in counts.into_iter().enumerate() {
            let (mut tx, mut inode) = begin(&file_system, index);
            let count = if *name == "block-64k" { count.min(1000) } else { count };
            (0..count).for_each(|number| drop(map(&mut tx, &mut inode, number * 2, 1)));
            assert_eq!(inode.extents(Fork::Data).len() as u64, count);
            expected.push((inode.number, inode.extents(Fork::Data).to_vec(), inode.data.format()));
            finish(tx, &mut inode);
        }
        file_system.close().unwrap();
        image.must_be_sound();
        for (number, extents, format) in &expected {
            let (found, found_format, _) = read_back(&image, *number);
            assert_eq!((&found, &found_format), (extents, format), "{name}");
        }
        // The holes are filled, and what continues on disk becomes one; then all is taken away again.
        let file_system = image.mount_bulk();
        for (index, (_, extents, _)) in expected.iter().enumerate() {
            let (mut tx, mut inode) = begin(&file_system, index);
            for extent in extents {
                map(&mut tx, &mut inode, extent.file_block.get() + 1, 1);
            }
            let blocks: u64 = inode.extents(Fork::Data).iter().map(|extent| extent.length_blocks).sum();
            assert_eq!(blocks, 2 * extents.len() as u64);
            finish(tx, &mut inode);
        }
        file_system.close().unwrap();
        image.must_be_sound();
        let file_system = image.mount_bulk();
        for index in 0..expected.len() {
            let (_, mut inode) = begin(&file_system, index);
            set_size(&file_system, &mut inode, 5 << file_system.geometry().block_log);
            assert_eq!(
                inode.extents(Fork::Data).last().unwrap().end().get().min(5),
                inode.extents(Fork::Data).last().unwrap().end().get()
            );
            if index == 1 {
                set_size(&file_system, &mut inode, 0);
                assert_eq!((inode.blocks(), inode.data.format()), (0, ForkFormat::Extents));
            }
        }
        file_system.close().unwrap();
        image.must_be_sound();
    }
}

#[test]
fn unwritten_blocks_become_written_and_unwritten_again() {
    require!(Judge::Mkfs, Judge::XfsRepair);
    for (name, size, options) in KINDS.iter().take(2) {
        let image = TestImage::new(&format!("conversion, {name}"), *size, options, 1);
        let file_system = image.mount_bulk();
        let (mut tx, mut inode) = begin(&file_system, 0);
        let unwritten = Mapping { is_unwritten: true, ..Mapping::default() };
        tx.extent_maps().map_blocks(&mut inode, Fork::Data, block(10), 2000, unwritten).unwrap();
        for number in (10..2010).step_by(4) {
            tx.extent_maps().convert_blocks(&mut inode, block(number), 2, false).unwrap();
        }
        assert_eq!(inode.data.format(), ForkFormat::Btree);
        let extents = inode.extents(Fork::Data).to_vec();
        let number = inode.number;
        finish(tx, &mut inode);
        file_system.close().unwrap();
        image.must_be_sound();
        assert_eq!(read_back(&image, number).0, extents);

        let file_system = image.mount_bulk();
        let (mut tx, mut inode) = begin(&file_system, 0);
        tx.extent_maps().convert_blocks(&mut inode, block(0), 5000, true).unwrap();
        assert!(inode.extents(Fork::Data).iter().all(|extent| extent.is_unwritten));
        assert_eq!(inode.data.format(), ForkFormat::Extents);
        tx.extent_maps().convert_blocks(&mut inode, block(0), 100, false).unwrap();
        finish(tx, &mut inode);
        file_system.close().unwrap();
        image.must_be_sound();
    }
}

#[test]
fn twenty_thousand_extents() {
    require!(Judge::Mkfs, Judge::XfsRepair);
    let image = TestImage::new("20 000 extents", 600, &[], 1);
    let file_system = image.mount_bulk();
    let (mut tx, mut inode) = begin(&file_system, 0);
    for number in 0..20_000 {
        map(&mut tx, &mut inode, number * 3, 1);
        if number % 1000 == 0 {
            tx.finish_deferred().unwrap();
        }
    }
    finish(tx, &mut inode);
    file_system.close().unwrap();
    image.must_be_sound();
    let (extents, ..) = read_back(&image, inode.number);
    assert_eq!(extents, inode.extents(Fork::Data).to_vec());

    let file_system = image.mount_bulk();
    let (mut tx, mut inode) = begin(&file_system, 0);
    // A hole in the middle, then everything.
    assert_eq!(tx.extent_maps().unmap_blocks(&mut inode, Fork::Data, block(9000), 30_000).unwrap(), 10_000);
    tx.finish_deferred().unwrap();
    assert_eq!(tx.extent_maps().unmap_blocks(&mut inode, Fork::Data, block(0), u64::MAX).unwrap(), 10_000);
    assert_eq!(inode.blocks(), 0);
    inode.set_size_bytes(0);
    tx.store_inode(&mut inode).unwrap();
    tx.commit().unwrap();
    file_system.close().unwrap();
    image.must_be_sound();
}

#[test]
fn a_full_file_system_says_so_and_a_mapped_range_is_given_as_it_is() {
    require!(Judge::Mkfs, Judge::XfsRepair);
    let image = TestImage::new("full", 300, &[], 2);
    let file_system = image.mount_bulk();
    let (mut tx, mut inode) = begin(&file_system, 0);
    let first = map(&mut tx, &mut inode, 0, 100);
    let again = map(&mut tx, &mut inode, 50, 100);
    assert_eq!(again.iter().map(|extent| extent.length_blocks).sum::<u64>(), 100);
    assert_eq!(again[0].start.get(), first[0].start.get() + 50);
    let mut next = 1000;
    let error = loop {
        match tx.extent_maps().map_blocks(&mut inode, Fork::Data, block(next), 4096, Mapping::default()) {
            Ok(_) => next += 4096,
            Err(error) => break error,
        }
        tx.finish_deferred().unwrap();
    };
    assert!(matches!(error, Error::Operation(OperationError::NoSpace)), "{error:?}");
    finish(tx, &mut inode);
    file_system.close().unwrap();
    image.must_be_sound();
}

#[test]
fn the_border_between_the_forks_moves() {
    require!(Judge::Mkfs, Judge::XfsRepair);
    let image = TestImage::new("fork offset", 300, &["-n", "parent=0"], 2);
    let file_system = image.mount_bulk();
    for (index, count) in [(0, 15), (1, 21)] {
        let (mut tx, mut inode) = begin(&file_system, index);
        (0..count).for_each(|number| drop(map(&mut tx, &mut inode, number * 2, 1)));
        assert_eq!(inode.data.format(), ForkFormat::Extents);
        // Twelve extents fit before the new border.
        tx.extent_maps().set_attribute_offset(&mut inode, 192).unwrap();
        assert_eq!(inode.data.format(), ForkFormat::Btree);
        tx.extent_maps().set_attribute_offset(&mut inode, 256).unwrap();
        let fits = count * 16 <= 256;
        assert_eq!(inode.data.format() == ForkFormat::Extents, fits);
        assert!(tx.extent_maps().set_attribute_offset(&mut inode, 336).is_err());
        if index == 1 {
            tx.extent_maps().remove_attribute_fork(&mut inode).unwrap();
            assert_eq!(inode.data.format(), ForkFormat::Extents);
        }
        finish(tx, &mut inode);
    }
    file_system.close().unwrap();
    // Without attributes a superblock need not say that there are some.
    image.must_be_sound();
}

#[test]
fn no_more_extents_than_the_inode_can_count() {
    require!(Judge::Mkfs, Judge::XfsRepair);
    let image = TestImage::new("most extents", 300, &["-i", "nrext64=0", "-n", "parent=0"], 1);
    let file_system = image.mount_bulk();
    let (mut tx, mut inode) = begin(&file_system, 0);
    tx.extent_maps().set_attribute_offset(&mut inode, 192).unwrap();
    let most = inode.core.extent_count_max(Fork::Attribute);
    assert_eq!(most, 32_767);
    for number in 0..most {
        tx.extent_maps()
            .map_blocks(&mut inode, Fork::Attribute, block(number * 2), 1, Mapping::default())
            .unwrap();
    }
    let error = tx
        .extent_maps()
        .map_blocks(&mut inode, Fork::Attribute, block(100_000), 1, Mapping::default())
        .unwrap_err();
    assert!(matches!(error, Error::Operation(OperationError::FileTooLarge)), "{error}");
    tx.extent_maps().unmap_blocks(&mut inode, Fork::Attribute, block(0), u64::MAX).unwrap();
    tx.extent_maps().remove_attribute_fork(&mut inode).unwrap();
    assert_eq!(inode.blocks(), 0);
    tx.store_inode(&mut inode).unwrap();
    tx.commit().unwrap();
    file_system.close().unwrap();
    image.must_be_sound();
}

#[test]
fn inodes_that_count_in_the_small_way_change_to_the_large_one() {
    require!(Judge::Mkfs, Judge::XfsRepair);
    let image = TestImage::new("larger counts", 300, &["-n", "parent=0"], 1);
    let file_system = image.mount_bulk();
    let (mut tx, mut inode) = begin(&file_system, 0);
    let flags = inode.core.flags2() - InodeFlags2::LARGE_EXTENT_COUNTS;
    inode.core.flags2.set(flags.bits());
    tx.extent_maps().set_attribute_offset(&mut inode, 192).unwrap();
    for number in 0..32_768 {
        let is_large = inode.core.flags2().contains(InodeFlags2::LARGE_EXTENT_COUNTS);
        assert!(!is_large, "after {number}");
        tx.extent_maps()
            .map_blocks(&mut inode, Fork::Attribute, block(number * 2), 1, Mapping::default())
            .unwrap();
    }
    assert!(inode.core.flags2().contains(InodeFlags2::LARGE_EXTENT_COUNTS));
    tx.extent_maps().unmap_blocks(&mut inode, Fork::Attribute, block(0), u64::MAX).unwrap();
    tx.extent_maps().remove_attribute_fork(&mut inode).unwrap();
    tx.store_inode(&mut inode).unwrap();
    tx.commit().unwrap();
    file_system.close().unwrap();
    image.must_be_sound();
}

#[test]
fn linux_and_uxfs_change_the_same_trees_in_turn() {
    require!(Judge::Mkfs, Judge::XfsRepair, Judge::Kernel);
    for (name, size, options) in KINDS.iter().take(2) {
        let image = TestImage::new(&format!("in turn, {name}"), *size, options, 3);
        let file_system = image.mount_bulk();
        for (index, gap) in [2, 3, 5].into_iter().enumerate() {
            let (mut tx, mut inode) = begin(&file_system, index);
            (0..3000).for_each(|number| drop(map(&mut tx, &mut inode, number * gap, 1)));
            finish(tx, &mut inode);
        }
        let block_size = u64::from(file_system.geometry().block_size_bytes);
        file_system.close().unwrap();

        let mount = LoopMount::new(&image.path, Access::ReadWrite).unwrap();
        let open = |index| {
            let path = mount.join(format!("file-{index}"));
            std::fs::File::options().write(true).open(path).unwrap()
        };
        open(0).set_len(3001 * block_size).unwrap();
        for number in (0..2000).step_by(7) {
            open(1).write_all_at(b"between", number * 3 * block_size + block_size).unwrap();
        }
        for number in (1..2900).step_by(3) {
            let punch = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
            fallocate(open(2), punch, number * 5 * block_size, 6 * block_size).unwrap();
        }
        mount.unmount().unwrap();
        image.must_be_sound();

        let file_system = image.mount_bulk();
        for index in 0..3 {
            let (mut tx, mut inode) = begin(&file_system, index);
            for start in (0..9000).step_by(11) {
                match start % 3 {
                    0 => {
                        tx.extent_maps().unmap_blocks(&mut inode, Fork::Data, block(start), 4).unwrap();
                    }
                    _ => drop(map(&mut tx, &mut inode, start, 3)),
                }
                tx.finish_deferred().unwrap();
            }
            finish(tx, &mut inode);
        }
        file_system.close().unwrap();
        image.must_be_sound();
        kernel_removes_everything(&image.path, 0x5eed).unwrap();
    }
}

#[test]
fn truncation_leaves_zeros_and_other_files_alone() {
    require!(Judge::Mkfs, Judge::XfsRepair, Judge::Kernel);
    let image = TestImage::new("truncation", 300, &[], 3);
    let contents = |length: usize| vec![0xa5_u8; length];
    let mount = LoopMount::new(&image.path, Access::ReadWrite).unwrap();
    std::fs::write(mount.join("file-0"), contents(100_000)).unwrap();
    let mut copy = Command::new("cp");
    copy.args(["--reflink=always"]).arg(mount.join("file-0")).arg(mount.join("file-1"));
    assert!(copy.status().unwrap().success());
    std::fs::write(mount.join("file-2"), contents(50_000)).unwrap();
    mount.unmount().unwrap();

    let file_system = image.mount_bulk();
    for (index, size) in [(1, 10_000), (2, 4097)] {
        let (_, mut inode) = begin(&file_system, index);
        set_size(&file_system, &mut inode, size);
        set_size(&file_system, &mut inode, size + 20_000);
    }
    file_system.close().unwrap();
    image.must_be_sound();
    let mount = LoopMount::new(&image.path, Access::ReadOnly).unwrap();
    let read = |name: &str| std::fs::read(mount.join(name)).unwrap();
    assert_eq!(read("file-0"), contents(100_000));
    assert_eq!(read("file-1"), [contents(10_000), vec![0; 20_000]].concat());
    assert_eq!(read("file-2"), [contents(4097), vec![0; 20_000]].concat());
    mount.unmount().unwrap();
}

#[test]
fn a_tree_of_four_levels() {
    require!(Judge::Mkfs, Judge::XfsRepair);
    let image = TestImage::new("many extents of small blocks", 2048, &["-b", "size=1024"], 1);
    let file_system = image.mount_bulk();
    let (mut tx, mut inode) = begin(&file_system, 0);
    for number in 0..200_000 {
        map(&mut tx, &mut inode, number * 2, 1);
        if number % 1000 == 0 {
            tx.finish_deferred().unwrap();
        }
    }
    let InodeFork::Extents(extents) = &inode.data else { panic!("{:?}", inode.data.format()) };
    assert_eq!(extents.root.as_ref().map(|root| root.level), Some(3));
    finish(tx, &mut inode);
    file_system.close().unwrap();
    image.must_be_sound();
    let file_system = image.mount_bulk();
    let (_, mut inode) = begin(&file_system, 0);
    set_size(&file_system, &mut inode, 0);
    assert_eq!(inode.blocks(), 0);
    file_system.close().unwrap();
    image.must_be_sound();
}
