//! Inodes taken and given back, on file systems of many kinds. They have no names: `xfs_repair` must call exactly those
//! disconnected, find nothing else wrong, and nothing at all once they are free again.

use std::collections::BTreeMap;

use uxfs_engine::{
    directory::NameCheck,
    extent_map::map::Mapping,
    inode::{create::NewInode, edit::EditInode},
    transaction::Transaction,
};
use uxfs_filesystem::filesystem::FileSystem;
use uxfs_format::{
    btree::{check::BtreeFault, inode_index::InodeIndexFault, reverse_map::Owner},
    inode::{DeviceNumber, Fork},
    units::{AgBlock, AgInode, AgNumber, FileBlock, InodeNumber},
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
    volume::Volume,
};

/// Options of `mkfs.xfs`, and how large the image is in MiB.
const KINDS: &[(&str, u64, &[&str])] = &[
    ("default", 300, &[]),
    ("block-1k", 300, &["-b", "size=1024"]),
    ("block-64k", 600, &["-b", "size=65536"]),
    ("inode-2k", 300, &["-i", "size=2048"]),
    ("no-sparse", 300, &["-i", "sparse=0"]),
    ("no-free-index", 300, &["-m", "finobt=0,inobtcount=0,rmapbt=0,reflink=0"]),
    ("no-reverse-map", 300, &["-m", "rmapbt=0"]),
    ("small-counts", 300, &["-i", "nrext64=0", "-n", "parent=0", "-m", "bigtime=0"]),
];

/// What the superblock and the groups' headers count: inodes, free ones.
fn counts(file_system: &Volume) -> (u64, u64) {
    let superblock = file_system.superblock();
    let by_superblock = (superblock.inode_count.get(), superblock.free_inodes.get());
    let (mut inodes, mut free) = (0, 0);
    for group in file_system.geometry().groups() {
        let header = file_system.group(group).inode_header().unwrap();
        inodes += u64::from(header.count.get());
        free += u64::from(header.free_count.get());
        let chunks: Vec<_> = file_system.group(group).inode_chunks().unwrap().map(Result::unwrap).collect();
        assert_eq!(chunks.iter().map(|chunk| chunk.count).sum::<u32>(), header.count.get());
        assert_eq!(chunks.iter().map(|chunk| chunk.free_count).sum::<u32>(), header.free_count.get());
        if let Some(tree) = file_system.group(group).free_inode_index().unwrap() {
            let geometry = file_system.geometry();
            let found: Vec<_> = tree.records().map(|record| record.unwrap().get(geometry)).collect();
            let expected: Vec<_> = chunks.into_iter().filter(|chunk| chunk.free_count > 0).collect();
            assert_eq!(found, expected);
        }
    }
    assert_eq!((inodes, free), by_superblock);
    by_superblock
}

/// Makes files of all kinds that need no contents.
fn make(file_system: &FileSystem, count: usize) -> Vec<InodeNumber> {
    let mut tx = Transaction::begin(file_system).unwrap();
    let mut parent = file_system.geometry().root_inode;
    let mut numbers = Vec::new();
    for index in 0..count {
        let mode = [0o100_644, 0o020_600, 0o010_644, 0o100_755][index % 4];
        let device =
            if mode == 0o020_600 { DeviceNumber { major: 4, minor: 64 } } else { DeviceNumber::default() };
        let new = NewInode { uid: 1000, gid: 100, device, ..NewInode::new(mode, file_system.now()) };
        let mut inode = tx.inodes().create_inode(parent, &new).unwrap();
        tx.store_inode(&mut inode).unwrap();
        numbers.push(inode.number);
        tx.commit().unwrap();
        if index % 100 == 99 {
            // From here on as if this were a directory.
            parent = tx.inodes().allocate_inode(parent, true).unwrap();
            let new = NewInode::new(0o100_600, file_system.now());
            let mut inode = tx.inodes().new_inode(parent, &new).unwrap();
            tx.store_inode(&mut inode).unwrap();
            numbers.push(parent);
            tx.commit().unwrap();
        }
    }
    numbers
}

fn free(file_system: &FileSystem, number: InodeNumber) {
    let mut tx = Transaction::begin(file_system).unwrap();
    let mut inode = tx.load_inode(number).unwrap();
    inode.set_link_count(0);
    tx.inodes().free_inode(&mut inode).unwrap();
    tx.commit().unwrap();
}

/// In an order that has nothing to do with that in which they were made.
fn shuffled(mut numbers: Vec<InodeNumber>) -> Vec<InodeNumber> {
    numbers.sort_by_key(|number| number.get().wrapping_mul(0x9e37_79b9_7f4a_7c15));
    numbers
}

fn as_numbers(numbers: &[InodeNumber]) -> Vec<u64> {
    let mut numbers: Vec<u64> = numbers.iter().map(|number| number.get()).collect();
    numbers.sort_unstable();
    numbers
}

#[test]
fn inodes_come_and_go() {
    require!(Judge::Mkfs, Judge::XfsRepair);
    for (name, size, options) in KINDS {
        let image = TestImage::new(&format!("inodes, {name}"), *size, options, 0);
        let before = counts(&image.mount());
        let file_system = image.mount_bulk();
        let numbers = make(&file_system, 1500);
        file_system.close().unwrap();
        let sorted = as_numbers(&numbers);
        assert!(sorted.windows(2).all(|pair| pair[0] < pair[1]), "{name}: none twice");
        let groups: BTreeMap<u64, usize> = numbers.iter().fold(BTreeMap::new(), |mut groups, number| {
            let (group, _) = file_system.geometry().split_inode_number(*number).unwrap();
            *groups.entry(u64::from(group.get())).or_default() += 1;
            groups
        });
        assert_eq!(groups.len() as u32, file_system.geometry().ag_count, "{name}: {groups:?}");
        let mut found = image.disconnected_inodes();
        found.sort_unstable();
        assert_eq!(found, sorted, "{name}");
        let reader = image.mount();
        let (inodes, free_inodes) = counts(&reader);
        assert_eq!(inodes - free_inodes, before.0 - before.1 + numbers.len() as u64, "{name}");
        for number in &numbers {
            assert!(reader.groups().is_inode_allocated(*number).unwrap());
            assert_eq!(reader.inode(*number).unwrap().generation(), 0x5345_4544);
        }

        // Half of them, then some new ones in their places, then all.
        let file_system = image.mount_bulk();
        let mut numbers = shuffled(numbers);
        let rest = numbers.split_off(800);
        numbers.iter().for_each(|number| free(&file_system, *number));
        let mut all = make(&file_system, 300);
        all.extend(rest);
        file_system.close().unwrap();
        let mut found = image.disconnected_inodes();
        found.sort_unstable();
        assert_eq!(found, as_numbers(&all), "{name}");
        counts(&image.mount());

        let file_system = image.mount_bulk();
        shuffled(all).into_iter().for_each(|number| free(&file_system, number));
        file_system.close().unwrap();
        image.must_be_sound();
        let after = counts(&image.mount());
        // Chunks that share a block with others stay.
        if file_system.geometry().inodes_per_block() <= 64 {
            assert_eq!(after, before, "{name}");
        }
    }
}

/// Files with contents, made and freed by several threads at once. Gives those that are left.
fn make_and_free(file_system: &FileSystem, seed: u64) -> Vec<InodeNumber> {
    let mut numbers = Vec::new();
    let mut parent = file_system.geometry().root_inode;
    for index in 0..400_u64 {
        let mut tx = Transaction::begin(file_system).unwrap();
        if index % 50 == 0 {
            parent = tx.inodes().allocate_inode(parent, true).unwrap();
            let mut inode =
                tx.inodes().new_inode(parent, &NewInode::new(0o100_600, file_system.now())).unwrap();
            tx.store_inode(&mut inode).unwrap();
            numbers.push(parent);
        }
        let mut inode =
            tx.inodes().create_inode(parent, &NewInode::new(0o100_644, file_system.now())).unwrap();
        for extent in 0..(index + seed) % 20 {
            tx.extent_maps()
                .map_blocks(&mut inode, Fork::Data, FileBlock::new(extent * 3), 2, Mapping::default())
                .unwrap();
        }
        let end = inode.extents(Fork::Data).last().map_or(0, |extent| extent.end().get());
        inode.set_size_bytes(end << file_system.geometry().block_log);
        tx.store_inode(&mut inode).unwrap();
        tx.commit().unwrap();
        numbers.push(inode.number);
        if index % 3 == seed % 3 {
            let number = numbers.swap_remove((index as usize * 7) % numbers.len());
            free(file_system, number);
        }
    }
    numbers
}

#[test]
fn several_threads_at_once() {
    require!(Judge::Mkfs, Judge::XfsRepair);
    let image = TestImage::new("inodes, threads", 300, &[], 0);
    let file_system = image.mount_bulk();
    let numbers = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..4)
            .map(|seed| {
                scope.spawn({
                    let file_system = &file_system;
                    move || make_and_free(file_system, seed)
                })
            })
            .collect();
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect::<Vec<_>>()
    });
    file_system.close().unwrap();
    let mut found = image.disconnected_inodes();
    found.sort_unstable();
    assert_eq!(found, as_numbers(&numbers));
    counts(&image.mount());
    let file_system = image.mount_bulk();
    shuffled(numbers).into_iter().for_each(|number| free(&file_system, number));
    file_system.close().unwrap();
    image.must_be_sound();
}

#[test]
fn lists_of_inodes_without_names() {
    require!(Judge::Mkfs, Judge::XfsRepair);
    let image = TestImage::new("unlinked", 300, &[], 0);
    let file_system = image.mount_bulk();
    let numbers = make(&file_system, 600);
    let mut tx = Transaction::begin(&file_system).unwrap();
    for number in &numbers {
        tx.unlinked_inodes().add_unlinked(*number).unwrap();
        tx.commit().unwrap();
    }
    let mut listed = 0;
    for group in file_system.geometry().groups() {
        let unlinked = tx.group(group).unwrap().state.headers().unwrap().inodes.unlinked;
        for (bucket, head) in unlinked.iter().enumerate() {
            let mut next = (head.get() != u32::MAX).then(|| AgInode::new(head.get()));
            while let Some(inode) = next {
                assert_eq!(inode.get() as usize % 64, bucket);
                listed += 1;
                let number = file_system.geometry().inode_number(group, inode);
                next = file_system.inode(number).unwrap().next_unlinked();
            }
        }
    }
    tx.commit().unwrap();
    assert_eq!(listed, numbers.len());

    for number in shuffled(numbers) {
        tx.unlinked_inodes().remove_unlinked(number).unwrap();
        assert!(matches!(
            tx.unlinked_inodes().remove_unlinked(number),
            Err(Error::Operation(OperationError::NoSuchInode))
        ));
        let mut inode = tx.load_inode(number).unwrap();
        tx.inodes().free_inode(&mut inode).unwrap();
        tx.commit().unwrap();
    }
    file_system.close().unwrap();
    image.must_be_sound();
}

#[test]
fn parts_of_chunks_where_free_space_is_in_pieces() {
    require!(Judge::Mkfs, Judge::XfsRepair);
    // What groups keep for their own trees is free space in one piece, so these have no such trees, or small ones.
    let kinds: [(&str, &[&str]); 3] = [
        ("no owners", &["-m", "rmapbt=0,reflink=0"]),
        ("block-1k", &["-b", "size=1024", "-m", "rmapbt=0,reflink=0"]),
        ("no-free-index", &["-m", "finobt=0,inobtcount=0,rmapbt=0,reflink=0"]),
    ];
    for (name, options) in kinds {
        let image = TestImage::new(&format!("sparse inodes, {name}"), 300, options, 1);
        let file_system = image.mount_bulk();
        let geometry = file_system.geometry();
        let part = u64::from(file_system.superblock().sparse_inode_alignment_blocks.get());
        let inode = fragment(&file_system);

        let mut numbers = make(&file_system, 1000);
        file_system.close().unwrap();
        let mut found = image.disconnected_inodes();
        found.sort_unstable();
        assert_eq!(found, as_numbers(&numbers), "{name}");
        let sparse = sparse_chunks(&image);
        assert!(sparse.len() >= 10, "{name}: {}", sparse.len());

        // Where the other parts could be the file lets go, and they join.
        let file_system = image.mount_bulk();
        let mut tx = Transaction::begin(&file_system).unwrap();
        let mut inode = tx.load_inode(inode.number).unwrap();
        for (group, start) in &sparse {
            let first = geometry.fs_block(*group, AgBlock::new(start.get() >> geometry.inodes_per_block_log));
            unmap_places(&mut tx, &mut inode, first.unwrap().get(), 2 * part);
        }
        tx.store_inode(&mut inode).unwrap();
        tx.commit().unwrap();
        numbers.extend(make(&file_system, 600));
        file_system.close().unwrap();
        let mut found = image.disconnected_inodes();
        found.sort_unstable();
        assert_eq!(found, as_numbers(&numbers), "{name}");
        let still_sparse = sparse_chunks(&image);
        let joined = sparse.iter().filter(|chunk| !still_sparse.contains(chunk)).count();
        assert!(joined >= 5, "{name}: {joined}");

        let file_system = image.mount_bulk();
        shuffled(numbers).into_iter().for_each(|number| free(&file_system, number));
        file_system.close().unwrap();
        image.must_be_sound();
    }
}

/// Leaves free space in pieces in which a part of a chunk fits and no whole one: every second part that is aligned. A file
/// has the rest.
fn fragment(file_system: &FileSystem) -> EditInode {
    let geometry = file_system.geometry();
    let part = u64::from(file_system.superblock().sparse_inode_alignment_blocks.get());
    let mut tx = Transaction::begin(file_system).unwrap();
    let mut inode = tx.load_inode(file(file_system, 0)).unwrap();
    fill(&mut tx, &mut inode);
    // Room for the extent map, which grows with the holes.
    let end = inode.extents(Fork::Data).last().unwrap().end().get();
    tx.extent_maps().unmap_blocks(&mut inode, Fork::Data, FileBlock::new(end - 100), 100).unwrap();
    tx.finish_deferred().unwrap();
    for extent in inode.extents(Fork::Data).to_vec() {
        let first = geometry.split_fs_block(extent.start).unwrap().1.get();
        for offset in 0..extent.length_blocks {
            let block = u64::from(first) + offset;
            if block % (2 * part) == part && offset + part <= extent.length_blocks {
                let at = FileBlock::new(extent.file_block.get() + offset);
                tx.extent_maps().unmap_blocks(&mut inode, Fork::Data, at, part).unwrap();
                tx.finish_deferred().unwrap();
            }
        }
    }
    inode.set_size_bytes(inode.extents(Fork::Data).last().unwrap().end().get() << geometry.block_log);
    tx.store_inode(&mut inode).unwrap();
    tx.commit().unwrap();
    inode
}

#[test]
fn linux_goes_on_with_files_in_parts_of_chunks() {
    require!(Judge::Mkfs, Judge::XfsRepair, Judge::Kernel);
    let options = ["-m", "rmapbt=0,reflink=0", "-n", "parent=0"];
    let image = TestImage::new("files in sparse chunks", 300, &options, 1);
    let file_system = image.mount_bulk();
    fragment(&file_system);
    let mut tx = Transaction::begin(&file_system).unwrap();
    let root = file_system.geometry().root_inode;
    let mut directory = tx.load_inode(root).unwrap();
    let now = file_system.now();
    for index in 0..1200 {
        let is_directory = index % 20 == 0;
        let mode = if is_directory { 0o040_755 } else { 0o100_644 };
        let mut inode = tx.inodes().create_inode(root, &NewInode::new(mode, now)).unwrap();
        let kind = inode.file_type().unwrap();
        if is_directory {
            tx.directories().init_directory(&mut inode, root).unwrap();
            directory.set_link_count(directory.link_count() + 1);
        }
        let name = format!("name-{index}");
        tx.directories()
            .add_name(&mut directory, name.as_bytes(), inode.number, kind, NameCheck::Check)
            .unwrap();
        tx.store_inode(&mut inode).unwrap();
        tx.store_inode(&mut directory).unwrap();
        tx.commit().unwrap();
    }
    file_system.close().unwrap();
    image.must_be_sound();
    assert!(sparse_chunks(&image).len() >= 10);
    let mount = LoopMount::new(&image.path, Access::ReadWrite).unwrap();
    for index in 0..500 {
        std::fs::write(mount.join(format!("name-20/linux-{index}")), b"").unwrap();
    }
    for index in (1..1200).step_by(3).filter(|index| index % 20 != 0) {
        std::fs::remove_file(mount.join(format!("name-{index}"))).unwrap();
    }
    mount.unmount().unwrap();
    image.must_be_sound();
    // What Linux made and freed is taken further by us again.
    let file_system = image.mount_bulk();
    let numbers = make(&file_system, 400);
    shuffled(numbers).into_iter().for_each(|number| free(&file_system, number));
    file_system.close().unwrap();
    counts(&image.mount());
    kernel_removes_everything(&image.path, 0x5eed).unwrap();
}

/// Chunks with holes, after a look at what is counted.
fn sparse_chunks(image: &TestImage) -> Vec<(AgNumber, AgInode)> {
    let reader = image.mount();
    counts(&reader);
    let chunks = reader.geometry().groups().flat_map(|group| {
        let chunks: Vec<_> = reader.group(group).inode_chunks().unwrap().map(Result::unwrap).collect();
        chunks.into_iter().filter(|chunk| chunk.hole_mask != 0).map(move |chunk| (group, chunk.start))
    });
    chunks.collect()
}

/// Takes away what a file has of a run of blocks on disk.
fn unmap_places(tx: &mut Transaction<'_>, inode: &mut EditInode, start: u64, length: u64) {
    for extent in inode.extents(Fork::Data).to_vec() {
        let (first, end) = (extent.start.get(), extent.start.get() + extent.length_blocks);
        let (from, to) = (first.max(start), end.min(start + length));
        if from < to {
            let at = FileBlock::new(extent.file_block.get() + from - first);
            tx.extent_maps().unmap_blocks(inode, Fork::Data, at, to - from).unwrap();
        }
    }
    tx.finish_deferred().unwrap();
}

/// Maps free space to a file until there is none.
fn fill(tx: &mut Transaction<'_>, inode: &mut EditInode) {
    let mut length = 8192;
    while length > 0 {
        let end = inode.extents(Fork::Data).last().map_or(FileBlock::new(0), |extent| extent.end());
        match tx.extent_maps().map_blocks(inode, Fork::Data, end, length, Mapping::default()) {
            Ok(_) => tx.finish_deferred().unwrap(),
            Err(Error::Operation(OperationError::NoSpace)) => length /= 2,
            Err(error) => panic!("{error}"),
        }
    }
}

#[test]
fn inodes_take_no_more_than_their_share() {
    require!(Judge::Mkfs, Judge::XfsRepair);
    let image = TestImage::new("limit", 300, &["-i", "maxpct=1"], 0);
    let file_system = image.mount_bulk();
    let mut tx = Transaction::begin(&file_system).unwrap();
    let root = file_system.geometry().root_inode;
    let mut numbers = Vec::new();
    let error = loop {
        match tx.inodes().create_inode(root, &NewInode::new(0o100_644, file_system.now())) {
            Ok(mut inode) => {
                tx.store_inode(&mut inode).unwrap();
                numbers.push(inode.number);
                tx.commit().unwrap();
            }
            Err(error) => break error,
        }
    };
    assert!(matches!(error, Error::Operation(OperationError::NoSpace)), "{error}");
    // It holds groups.
    drop(tx);
    let most =
        file_system.geometry().data_blocks / 100 * u64::from(file_system.geometry().inodes_per_block());
    assert!(
        numbers.len() as u64 <= most && numbers.len() as u64 + 128 >= most,
        "{} of {most}",
        numbers.len()
    );
    for number in numbers {
        free(&file_system, number);
    }
    file_system.close().unwrap();
    image.must_be_sound();
}

#[test]
fn freed_inodes_are_as_linux_leaves_them() {
    require!(Judge::Mkfs, Judge::XfsRepair);
    let image = TestImage::new("freed", 300, &[], 2);
    let file_system = image.mount_bulk();
    let numbers = make(&file_system, 10);
    free(&file_system, numbers[3]);
    free(&file_system, numbers[4]);
    file_system.close().unwrap();
    let bytes = image.mount().inode_bytes(numbers[3]).unwrap();
    let core = uxfs_format::inode::verify_inode(&bytes, numbers[3], file_system.geometry()).unwrap();
    let kept = (core.uid.get(), core.flags2.get(), core.generation.get());
    assert_eq!(kept, (1000, 0x18, 0x5345_4545));
    assert_eq!((core.format, core.attribute_format, core.fork_offset, core.link_count.get()), (2, 2, 0, 0));
    assert!(core.is_free() && !core.was_never_used());
    assert!(bytes[176..].iter().all(|byte| *byte == 0));
    assert!(matches!(image.mount().inode(numbers[3]), Err(Error::Operation(OperationError::NoSuchInode))));
    // The lowest free inode of the chunk is taken first.
    let file_system = image.mount_bulk();
    let mut tx = Transaction::begin(&file_system).unwrap();
    let taken = tx.inodes().allocate_inode(file_system.geometry().root_inode, false).unwrap();
    assert_eq!(taken, numbers[3]);
    assert_eq!(AgNumber::new(0), file_system.geometry().split_inode_number(taken).unwrap().0);
}

#[test]
fn counts_and_free_space_that_cannot_be_are_errors() {
    require!(Judge::Mkfs, Judge::XfsRepair);
    for options in [&["-m", "rmapbt=0,reflink=0"][..], &["-m", "finobt=0,inobtcount=0,rmapbt=0,reflink=0"]] {
        let image = TestImage::new("impossible counts", 300, options, 1);
        let file_system = image.mount_bulk();
        let root = file_system.geometry().root_inode;
        let mut tx = Transaction::begin(&file_system).unwrap();
        let mut inode = tx.load_inode(file(&file_system, 0)).unwrap();
        fill(&mut tx, &mut inode);
        tx.commit().unwrap();
        let first = AgNumber::new(0);
        let exhausted = |tx: &mut Transaction<'_>| {
            (0..100_000).find_map(|_| tx.inodes().allocate_inode(root, false).err()).unwrap()
        };
        let error = exhausted(&mut tx);
        assert!(matches!(error, Error::Operation(OperationError::NoSpace)), "{error}");
        tx.group(first).unwrap().state.inodes_mut().unwrap().free_count.set(1);
        let error = tx.inodes().allocate_inode(root, false).unwrap_err();
        let Error::Corrupt(corruption) = error else { panic!("{error}") };
        assert_eq!(corruption.fault, InodeIndexFault::NoneFreeInGroup { free_count: 1 }.into());
        tx.group(first).unwrap().state.inodes_mut().unwrap().free_count.set(0);

        // The first chunk, and data behind it, are free space.
        let start = file_system.group(first).inode_chunks().unwrap().next().unwrap().unwrap().start;
        let block = AgBlock::new(start.get() >> file_system.geometry().inodes_per_block_log);
        tx.group(first).unwrap().free(block, 300).unwrap();
        let error = exhausted(&mut tx);
        let Error::Corrupt(corruption) = error else { panic!("{error}") };
        // Found before anything is written there.
        assert_eq!(corruption.fault, BtreeFault::OwnedFreeSpace { owner: Owner::InodeChunks }.into());
    }
}
