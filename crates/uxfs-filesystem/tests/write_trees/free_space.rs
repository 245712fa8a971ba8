//! Allocating and freeing, against a map of free blocks.

use std::{collections::BTreeMap, sync::Mutex, thread};

use uxfs_engine::{
    allocation_group::free_space::{Purpose, choose::GroupRequest, reservation::Reservation},
    transaction::{
        GroupEdit, Transaction,
        allocate::{Allocated, AllocationRequest, Goal},
    },
};
use uxfs_format::{
    btree::{
        BtreeKind,
        free_space::{ByBlock, ByLength, FreeSpaceRecord},
        reverse_map::{Mapping, Owner, ReverseMap, ReverseMapRecord},
    },
    log::reference_count::ReferenceCountOperation,
    units::{AgBlock, AgNumber, FsBlock, InodeNumber},
};
use uxfs_testkit::{
    image::TestImage,
    judges::Judge,
    require,
    seeds::{Random, Seed},
};
use uxfs_volume::error::{Error, OperationError};

use super::check::check_tree;

/// Invariants 1 to 4 of `free_space`; gives the free extents.
fn check(group: &mut GroupEdit<'_, '_>) -> Vec<(u32, u32)> {
    let by_block = check_tree::<ByBlock>(group);
    let by_length = check_tree::<ByLength>(group);
    let pair = |record: &FreeSpaceRecord| (record.start.get(), record.length_blocks.get());
    let extents: Vec<_> = by_block.records.iter().map(pair).collect();
    let mut sorted: Vec<_> = by_length.records.iter().map(pair).collect();
    assert_eq!(
        sorted.last().map_or(0, |last| last.1),
        group.state.headers().unwrap().free_space.longest_blocks.get()
    );
    sorted.sort_unstable();
    assert_eq!(extents, sorted, "invariant 1");
    assert!(extents.windows(2).all(|pair| pair[0].0 + pair[0].1 < pair[1].0), "invariant 1: none touch");
    let header = &group.state.headers().unwrap().free_space;
    assert_eq!(header.free_blocks.get(), extents.iter().map(|extent| extent.1).sum::<u32>(), "invariant 2");
    let reverse_map_blocks = header.reverse_map_blocks.get().saturating_sub(1);
    assert_eq!(header.btree_blocks.get(), by_block.blocks - 1 + by_length.blocks - 1 + reverse_map_blocks);
    extents
}

fn random_request(draw: &mut impl FnMut(u64) -> u32, length: u32) -> GroupRequest {
    let max_blocks = if draw(40) == 0 { 1 + draw(300) } else { 1 + draw(3) };
    let near = (draw(3) > 0).then(|| AgBlock::new(draw(length.into())));
    GroupRequest {
        near,
        is_exact: near.is_some() && draw(3) > 0,
        min_blocks: 1 + draw(max_blocks.into()),
        max_blocks,
        alignment_blocks: if draw(4) == 0 { 1 << draw(5) } else { 1 },
        spare_blocks: 0,
        purpose: Purpose::Data,
    }
}

/// Allocates and frees at random; at the end all is free again.
fn allocate_and_free(name: &'static str, size_mebibytes: u64, options: &[&str], steps: u32, levels: u32) {
    let image = TestImage::new(name, size_mebibytes, options, 0);
    let file_system = image.mount_bulk();
    let seed = Seed::from_environment(name, 11);
    let mut random = seed.random();
    let mut draw = |below: u64| random.below(below) as u32;
    let free_before = file_system.free_blocks();
    let mut highest = 0;
    let mut transaction = Transaction::begin(&file_system).unwrap();
    for group in [0, 1] {
        let mut group = transaction.group(AgNumber::new(group)).unwrap();
        let before = check(&mut group);
        let length = group.state.headers().unwrap().free_space.length_blocks.get();
        let mut taken: BTreeMap<u32, u32> = BTreeMap::new();
        for step in 0..steps {
            let want_free = (step / (steps / 6)) % 3 == 2;
            if draw(10) < if want_free { 7 } else { 2 } && !taken.is_empty() {
                let from = draw(length.into());
                let found = taken.range(from..).next().or_else(|| taken.iter().next());
                let (start, blocks) = found.map(|(start, blocks)| (*start, *blocks)).unwrap();
                taken.remove(&start);
                // Gives a part back, so that free space becomes ragged.
                let part = if draw(2) == 0 { blocks } else { 1 + draw(blocks.into()) };
                group.free(AgBlock::new(start), part).unwrap();
                if part < blocks {
                    taken.insert(start + part, blocks - part);
                }
            } else {
                let request = random_request(&mut draw, length);
                let Some((start, blocks)) = group.allocate(&request).unwrap() else { continue };
                let start = start.get();
                assert!((request.min_blocks..=request.max_blocks).contains(&blocks));
                assert_eq!(start % request.alignment_blocks, 0);
                assert!(!request.is_exact || request.near == Some(AgBlock::new(start)));
                let before = taken.range(..=start).next_back().map_or(0, |(start, blocks)| start + blocks);
                let behind = taken.range(start..).next().map_or(length, |(start, _)| *start);
                assert!(before <= start && start + blocks <= behind, "taken twice");
                taken.insert(start, blocks);
            }
            if step % 997 == 0 {
                check(&mut group);
                highest = highest.max(group.state.headers().unwrap().free_space.by_block_levels.get());
            }
        }
        for (start, blocks) in taken {
            group.free(AgBlock::new(start), blocks).unwrap();
        }
        group.fill_free_list().unwrap();
        let after = check(&mut group);
        let sum = |extents: &[(u32, u32)]| extents.iter().map(|extent| extent.1).sum::<u32>();
        assert_eq!(sum(&before), sum(&after));
    }
    assert!(highest >= levels, "{highest} levels: too few to test anything");
    transaction.commit().unwrap();
    assert_eq!(file_system.free_blocks(), free_before, "invariant 3");
    file_system.close().unwrap();
    image.must_satisfy_repair();
}

#[test]
fn small_blocks() {
    require!(Judge::Mkfs, Judge::XfsRepair);
    allocate_and_free("1 KiB blocks", 256, &["-b", "size=1024", "-d", "agcount=2"], 60_000, 2);
}

#[test]
fn usual_blocks() {
    require!(Judge::Mkfs, Judge::XfsRepair);
    allocate_and_free("4 KiB blocks", 256, &["-d", "agcount=2"], 20_000, 2);
}

#[test]
fn without_reverse_map() {
    require!(Judge::Mkfs, Judge::XfsRepair);
    let options = ["-b", "size=1024", "-d", "agcount=2", "-m", "rmapbt=0,reflink=0"];
    allocate_and_free("no reverse map", 128, &options, 20_000, 2);
}

#[test]
fn large_sectors() {
    require!(Judge::Mkfs, Judge::XfsRepair);
    allocate_and_free("4 KiB sectors", 256, &["-s", "size=4096", "-d", "agcount=2"], 6_000, 1);
}

#[test]
fn large_blocks() {
    require!(Judge::Mkfs, Judge::XfsRepair);
    allocate_and_free("64 KiB blocks", 1024, &["-b", "size=65536", "-d", "agcount=2"], 6_000, 1);
}

/// Trees whose blocks leave memory and come back, judged by the verifiers each time.
#[test]
fn with_a_small_cache() {
    require!(Judge::Mkfs, Judge::XfsRepair);
    let image = TestImage::new("small cache", 128, &["-b", "size=1024", "-d", "agcount=2"], 0);
    let file_system = image.mount_bulk_with_cache(256 << 10);
    let mut random = Seed::from_environment("small cache", 3).random();
    let mut taken = Vec::new();
    let mut transaction = Transaction::begin(&file_system).unwrap();
    for round in 0..120 {
        for number in [0, 1] {
            let mut group = transaction.group(AgNumber::new(number)).unwrap();
            for _ in 0..200 {
                let near = Some(AgBlock::new(2000 + random.below(60_000) as u32));
                let request = GroupRequest { near, is_exact: true, ..GroupRequest::blocks(1) };
                let found = group.allocate(&request).unwrap();
                taken.extend(found.map(|(start, _)| (number, start)));
            }
            for _ in 0..round {
                let index = random.below(taken.len() as u64) as usize;
                if taken[index].0 == number {
                    group.free(taken.swap_remove(index).1, 1).unwrap();
                }
            }
        }
        transaction.commit().unwrap();
    }
    taken.sort_unstable_by_key(|taken| taken.0);
    for (number, start) in taken {
        transaction.group(AgNumber::new(number)).unwrap().free(start, 1).unwrap();
    }
    for number in [0, 1] {
        let mut group = transaction.group(AgNumber::new(number)).unwrap();
        group.fill_free_list().unwrap();
        check(&mut group);
    }
    transaction.commit().unwrap();
    assert!(file_system.cache().counters().misses > 1000, "{:?}", file_system.cache().counters());
    file_system.close().unwrap();
    image.must_satisfy_repair();
}

/// Threads that allocate anywhere, several groups each, neither wait for each other for ever nor get the same blocks.
#[test]
fn threads_share_the_groups() {
    require!(Judge::Mkfs, Judge::XfsRepair);
    let image = TestImage::new("threads", 256, &["-b", "size=1024", "-d", "agcount=4"], 0);
    let file_system = image.mount_bulk();
    let taken = Mutex::new(BTreeMap::new());
    let work = |seed: u64| {
        let mut random = Random::new(seed + 1);
        let mut transaction = Transaction::begin(&file_system).unwrap();
        for _ in 0..300 {
            let mut mine = Vec::new();
            for _ in 0..4 {
                let blocks = 1 + random.below(20) as u32;
                match transaction.allocate(&AllocationRequest::data(Goal::Anywhere, blocks)) {
                    Ok(allocated) => mine.push(allocated),
                    Err(Error::Operation(OperationError::NoSpace)) => {}
                    Err(error) => panic!("{error}"),
                }
            }
            let mut taken = taken.lock().unwrap();
            for allocated in mine {
                for block in 0..u64::from(allocated.length_blocks) {
                    assert_eq!(taken.insert(allocated.start.get() + block, ()), None, "taken twice");
                }
            }
            drop(taken);
            transaction.commit().unwrap();
        }
    };
    thread::scope(|scope| (0..4).for_each(|seed| drop(scope.spawn(move || work(seed)))));
    let mut transaction = Transaction::begin(&file_system).unwrap();
    for block in taken.into_inner().unwrap().into_keys() {
        let (group, block) = file_system.geometry().split_fs_block(FsBlock::new(block)).unwrap();
        transaction.group(group).unwrap().free(block, 1).unwrap();
    }
    transaction.commit().unwrap();
    file_system.close().unwrap();
    image.must_satisfy_repair();
}

/// High trees that stay: every other block is set aside for a copy-on-write, which needs no file, and `xfs_repair` compares
/// free space, owners, reference counts and every count in the headers.
#[test]
fn high_trees_are_what_repair_expects() {
    require!(Judge::Mkfs, Judge::XfsRepair);
    for (name, options) in
        [("high trees, 1 KiB", ["-b", "size=1024"]), ("high trees, 4 KiB", ["-b", "size=4096"])]
    {
        let image = TestImage::new(name, 256, &[options.as_slice(), &["-d", "agcount=2"]].concat(), 0);
        let file_system = image.mount_bulk();
        let mut transaction = Transaction::begin(&file_system).unwrap();
        let mut seed = Seed::from_environment(name, 21).random();
        let (mut levels, mut taken) = ([0; 4], Vec::new());
        for number in [0, 1] {
            for index in 0..12_000 {
                let mut group = transaction.group(AgNumber::new(number)).unwrap();
                let near = Some(AgBlock::new(4000 + index * 2));
                let length = 1 + u32::from(index % 50 == 0) * seed.below(9) as u32;
                let request = GroupRequest { near, is_exact: true, ..GroupRequest::blocks(length) };
                let Some((start, length)) = group.allocate(&request).unwrap() else { continue };
                let start = file_system.geometry().fs_block(AgNumber::new(number), start).unwrap();
                let set_aside = ReferenceCountOperation::AllocateCow;
                transaction.defer_reference_count(set_aside, start, length.into()).unwrap();
                taken.push((start, u64::from(length)));
                if index % 7 == 0 {
                    transaction.commit().unwrap();
                }
            }
            transaction.commit().unwrap();
            let mut group = transaction.group(AgNumber::new(number)).unwrap();
            check(&mut group);
            let header = group.state.headers().unwrap().free_space;
            levels = [
                header.by_block_levels.get(),
                header.by_length_levels.get(),
                header.reverse_map_levels.get(),
                header.reference_count_levels.get(),
            ];
        }
        assert!(levels.iter().all(|levels| *levels >= 2), "{name}: {levels:?}");
        transaction.commit().unwrap();
        file_system.close().unwrap();
        image.must_satisfy_repair_but_for("leftover CoW extent");
        // And back, in another order, until the trees are as low as they were.
        let file_system = image.mount_bulk();
        let mut transaction = Transaction::begin(&file_system).unwrap();
        let middle = taken.len() / 3;
        taken.rotate_left(middle);
        for chunk in taken.chunks(7) {
            for (start, length) in chunk {
                let given_up = ReferenceCountOperation::FreeCow;
                transaction.defer_reference_count(given_up, *start, *length).unwrap();
                transaction.defer_free(*start, *length).unwrap();
            }
            transaction.commit().unwrap();
        }
        file_system.close().unwrap();
        image.must_satisfy_repair();
    }
}

/// Invariants 4 and 5: a group is filled block by block, each with an owner of its own, and no split finds it empty.
#[test]
fn a_group_is_full_before_its_trees_are() {
    require!(Judge::Mkfs, Judge::XfsRepair);
    let image = TestImage::new("owners of a full group", 64, &["-b", "size=1024", "-d", "agcount=2"], 0);
    let file_system = image.mount_bulk();
    let mut transaction = Transaction::begin(&file_system).unwrap();
    let mut group = transaction.group(AgNumber::new(1)).unwrap();
    let mut taken = Vec::new();
    let mapping = |start: AgBlock| Mapping {
        owner: Owner::Inode(InodeNumber::new(128 + u64::from(start.get() % 2))),
        ..Mapping::of_group(start, 1, Owner::Log)
    };
    // First with gaps, so that free space is in as many pieces as can be, then whatever is left.
    for block in (100..32_000).step_by(2) {
        let near = Some(AgBlock::new(block));
        let request =
            GroupRequest { near, is_exact: true, purpose: Purpose::Data, ..GroupRequest::blocks(1) };
        taken.extend(group.allocate(&request).unwrap().map(|(start, _)| start));
    }
    let request = GroupRequest { purpose: Purpose::Data, ..GroupRequest::blocks(1) };
    let first = taken.len();
    for index in 0.. {
        if let Some(start) = taken.get(index) {
            group.fill_free_list().unwrap();
            group.tree::<ReverseMap>().insert(&mapping(*start).into()).unwrap();
        }
        if let Some((start, _)) = group.allocate(&request).unwrap() {
            taken.push(start);
        } else if index >= taken.len() {
            break;
        }
    }
    assert!(taken.len() > first + 10_000);
    let header = group.state.headers().unwrap().free_space;
    assert!(header.reverse_map_levels.get() >= 3);
    check(&mut group);
    for start in taken {
        group.fill_free_list().unwrap();
        let mut cursor = group.tree::<ReverseMap>();
        let record: ReverseMapRecord = mapping(start).into();
        assert_eq!(cursor.seek_exact(ReverseMap::position_of_record(&record)).unwrap(), Some(record));
        cursor.delete().unwrap();
        drop(cursor);
        group.free(start, 1).unwrap();
    }
    group.fill_free_list().unwrap();
    check(&mut group);
    transaction.commit().unwrap();
    file_system.close().unwrap();
    image.must_satisfy_repair();
}

/// Every other block of a group, so that its trees become as high as they can.
#[test]
fn the_most_ragged_group() {
    require!(Judge::Mkfs, Judge::XfsRepair);
    let image = TestImage::new("ragged", 256, &["-b", "size=1024", "-d", "agcount=2"], 0);
    let file_system = image.mount_bulk();
    let mut transaction = Transaction::begin(&file_system).unwrap();
    let mut group = transaction.group(AgNumber::new(1)).unwrap();
    let mut taken = Vec::new();
    for block in (2000..60_000).step_by(2) {
        let near = Some(AgBlock::new(block));
        let request = GroupRequest { near, is_exact: true, ..GroupRequest::blocks(1) };
        taken.extend(group.allocate(&request).unwrap().map(|(start, _)| start));
    }
    assert!(taken.len() > 20_000, "{}", taken.len());
    let header = group.state.headers().unwrap().free_space;
    assert_eq!((header.by_block_levels.get(), header.by_length_levels.get()), (3, 3));
    check(&mut group);
    // From both ends, so that the trees shrink in other ways than they grew.
    let half = taken.split_off(taken.len() / 2);
    for (first, last) in taken.iter().zip(half.iter().rev()) {
        group.free(*first, 1).unwrap();
        group.free(*last, 1).unwrap();
    }
    for rest in half.iter().take(half.len() - taken.len()) {
        group.free(*rest, 1).unwrap();
    }
    group.fill_free_list().unwrap();
    check(&mut group);
    transaction.commit().unwrap();
    file_system.close().unwrap();
    image.must_satisfy_repair();
}

/// Invariant 5: what a full group keeps.
#[test]
fn a_full_group_keeps_what_its_trees_need() {
    require!(Judge::Mkfs, Judge::XfsRepair);
    let image = TestImage::new("full", 64, &["-d", "agcount=2"], 0);
    let file_system = image.mount_bulk();
    let mut transaction = Transaction::begin(&file_system).unwrap();
    let mut group = transaction.group(AgNumber::new(1)).unwrap();
    let request = |purpose| GroupRequest { purpose, min_blocks: 1, ..GroupRequest::blocks(7) };
    let mut taken = Vec::new();
    while let Some(extent) = group.allocate(&request(Purpose::Data)).unwrap() {
        taken.push(extent);
    }
    let headers = group.state.headers().unwrap();
    let left = headers.free_space.free_blocks.get() + headers.free_space.free_list_count.get();
    assert_eq!(left, headers.reservation.left(headers, Purpose::Data) + headers.needs.blocks(headers));
    assert_eq!(group.allocate(&request(Purpose::Metadata)).unwrap(), None);
    // Trees that have something kept for them still get it.
    let (start, _) = group.allocate(&request(Purpose::FreeInodeBtree)).unwrap().unwrap();
    group.free(start, 7).unwrap();
    for (start, blocks) in taken {
        group.free(start, blocks).unwrap();
    }
    transaction.commit().unwrap();
    file_system.close().unwrap();
    image.must_satisfy_repair();
}

/// What Linux hides of the free space of a file system of 1 GiB, as `statfs` shows.
#[test]
fn reservations_are_those_of_linux() {
    require!(Judge::Mkfs);
    let image = TestImage::new("reservations", 1024, &[], 0);
    let file_system = image.mount_bulk();
    let geometry = file_system.geometry();
    let mut hidden = 0;
    for group in geometry.groups() {
        let asked = Reservation::new(geometry, group);
        // One block of each tree there is already; blocks of the reverse map count as free.
        hidden += asked.reference_count_blocks - 1 + asked.free_inode_blocks - 1 + asked.reverse_map_blocks;
    }
    assert_eq!(hidden, 4722);
}

/// Requests for any group go to all in turn, and one that no group can fill fails.
#[test]
fn allocations_go_from_group_to_group() {
    require!(Judge::Mkfs, Judge::XfsRepair);
    let image = TestImage::new("from group to group", 256, &["-d", "agcount=4"], 0);
    let file_system = image.mount_bulk();
    let geometry = file_system.geometry();
    let mut transaction = Transaction::begin(&file_system).unwrap();
    let mut taken = Vec::new();
    for _ in 0..8 {
        taken.push(transaction.allocate(&AllocationRequest::data(Goal::Anywhere, 10)).unwrap());
    }
    let group_of = |allocated: &Allocated| geometry.split_fs_block(allocated.start).unwrap().0.get();
    assert_eq!(taken.iter().map(group_of).collect::<Vec<_>>(), [0, 1, 2, 3, 0, 1, 2, 3]);
    // Near a block: right behind what was taken there last.
    let last = taken[7];
    let behind = FsBlock::new(last.start.get() + 10);
    let next = transaction.allocate(&AllocationRequest::data(Goal::Near(behind), 5)).unwrap();
    assert_eq!(next.start, behind);
    taken.push(next);
    let exact = transaction.allocate(&AllocationRequest::data(Goal::Exact(behind), 1));
    assert!(matches!(exact, Err(Error::Operation(OperationError::NoSpace))), "{exact:?}");
    let huge = transaction.allocate(&AllocationRequest::data(Goal::Anywhere, geometry.ag_blocks));
    assert!(matches!(huge, Err(Error::Operation(OperationError::NoSpace))), "{huge:?}");
    // Behind the end of the second group: in that group.
    let end = FsBlock::new((2 << geometry.ag_block_log) - 1);
    let allocated = transaction.allocate(&AllocationRequest::data(Goal::Near(end), 1)).unwrap();
    assert_eq!(group_of(&allocated), 1);
    taken.push(allocated);
    // All that a group has in one piece goes before less of the group that was wanted.
    let request =
        AllocationRequest { min_blocks: 1, ..AllocationRequest::data(Goal::Group(AgNumber::new(0)), 9_000) };
    let large = transaction.allocate(&request).unwrap();
    taken.push(large);
    for allocated in taken {
        let (group, block) = geometry.split_fs_block(allocated.start).unwrap();
        transaction.group(group).unwrap().free(block, allocated.length_blocks).unwrap();
    }
    transaction.commit().unwrap();
    file_system.close().unwrap();
    image.must_satisfy_repair();
}

/// Blocks that are free already, lie outside the group or in its headers are not freed.
#[test]
fn what_is_not_allocated_cannot_be_freed() {
    require!(Judge::Mkfs);
    let image = TestImage::new("not allocated", 64, &["-d", "agcount=2"], 0);
    let file_system = image.mount_bulk();
    let mut transaction = Transaction::begin(&file_system).unwrap();
    let mut group = transaction.group(AgNumber::new(1)).unwrap();
    let extents = check(&mut group);
    let (start, blocks) = *extents.last().unwrap();
    for (start, blocks) in
        [(start + 5, 2), (start - 1, 2), (0, 1), (start + blocks, 1), (u32::MAX, 3), (500, 0)]
    {
        let result = group.free(AgBlock::new(start), blocks);
        assert!(matches!(result, Err(Error::Corrupt(_))), "{start} {blocks}: {result:?}");
    }
    assert_eq!(check(&mut group), extents);
}

/// Where first, last and count of the free list disagree, Linux takes it for empty; what was on it is lost.
#[test]
fn a_free_list_that_contradicts_itself_is_empty() {
    require!(Judge::Mkfs);
    let image = TestImage::new("free list", 64, &["-d", "agcount=2"], 0);
    let file_system = image.mount_bulk();
    let mut transaction = Transaction::begin(&file_system).unwrap();
    let mut group = transaction.group(AgNumber::new(1)).unwrap();
    let before = group.state.headers().unwrap().free_space;
    assert_eq!(before.free_list_count.get(), 6);
    group.state.free_list_mut().unwrap().1.free_list_first.set(3);
    group.fill_free_list().unwrap();
    let after = group.state.headers().unwrap().free_space;
    assert_eq!(
        (after.free_list_first.get(), after.free_list_last.get(), after.free_list_count.get()),
        (0, 5, 6)
    );
    assert_eq!(after.free_blocks.get(), before.free_blocks.get() - 6);
}
