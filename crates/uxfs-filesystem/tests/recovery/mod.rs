//! Recovery of logs that were made by hand: what a kernel leaves behind too rarely to wait for it, and what none leaves.

mod crashes;
mod directory_pieces;
mod given_up;
mod half_freed;
mod large_exchange;
mod large_values;
mod logs;
mod shared_trees;
mod superblock;
mod torn_blocks;

use std::fs;

use logs::{Regions, buffer, device, extent_map, fault, geometry, read, replay, write};
use uxfs_engine::{
    attribute::SetMode,
    extent_map::map::Mapping,
    transaction::{Transaction, deferred::attribute_change::AttributeChange},
};
use uxfs_format::{
    attribute::flags::Namespace,
    checksum,
    directory::name_hash,
    features::Unsupported,
    field_table::OnDisk,
    log::{
        attribute::AttributeOperation,
        exchange::ExchangeIntent,
        free_extent::FreedExtent,
        intent::MapExtent,
        item::{ItemType, LogItemFault},
    },
    superblock::{CHECKSUM_OFFSET_BYTES, Superblock},
    units::{FileBlock, InodeNumber, Sector},
};
use uxfs_testkit::{
    image::{TestImage, file},
    judges::{Judge, all_present, judged},
    manifest::{self, Details, Header},
    mount::{Access, LoopMount},
    sparse, verdict,
};
use uxfs_volume::{error::Error, inode::Fork, parent_pointer::ParentPointer};
use zerocopy::{FromZeros, IntoBytes};

const JUDGES: [Judge; 3] = [Judge::Mkfs, Judge::XfsRepair, Judge::Kernel];

fn image(name: &str) -> Option<TestImage> {
    all_present(&JUDGES, name).then(|| TestImage::new(name, 64, &[], 6))
}

fn padded(bytes: &[u8]) -> Vec<u8> {
    let mut region = bytes.to_vec();
    region.resize(bytes.len().next_multiple_of(4), 0);
    region
}

/// The kernel recovers a copy; then both hold the same, but for when inodes were changed.
fn as_the_kernel(image: &TestImage) {
    as_the_kernel_but_for(image, |_| ());
}

/// As [`as_the_kernel`], without what `forget` takes out of what is known of each file.
fn as_the_kernel_but_for(image: &TestImage, forget: impl Fn(&mut Details)) {
    let copy = image.path.with_extension("kernel");
    sparse::copy(&image.path, &copy).unwrap();
    LoopMount::new(&copy, Access::ReadWrite).unwrap().unmount().unwrap();
    replay(&image.path).unwrap();
    image.must_satisfy_repair();
    let manifest = |path: &std::path::Path| {
        let mount = LoopMount::new(path, Access::ReadOnly).unwrap();
        let header = Header { image: "by hand".into(), judge: "kernel".into(), made_by: "a test".into() };
        let mut manifest = manifest::from_mount(mount.path(), header).unwrap();
        mount.unmount().unwrap();
        for details in manifest.entries.iter_mut().filter_map(|entry| entry.details.as_deref_mut()) {
            details.change_time = None;
            forget(details);
        }
        manifest
    };
    verdict::same(&manifest(&copy), &manifest(&image.path)).unwrap();
    judged("kernel", "recovery of a log made by hand");
}

/// Files 0 and 1 get several extents each, of different shapes; gives their numbers and generations.
fn fill_two(image: &TestImage) -> [(InodeNumber, u32); 2] {
    let file_system = image.mount_bulk();
    let numbers = [0, 1].map(|index| file(&file_system, index));
    let generations = [0, 1].map(|index| {
        let mut transaction = Transaction::begin(&file_system).unwrap();
        let mut inode = transaction.load_inode(numbers[index]).unwrap();
        for piece in 0..12_u64 {
            let at = FileBlock::new(piece * (3 + index as u64));
            let is_unwritten = piece % 5 == 4;
            transaction
                .extent_maps()
                .map_blocks(&mut inode, Fork::Data, at, 2, Mapping { is_unwritten, ..Mapping::default() })
                .unwrap();
        }
        inode.set_size_bytes((60 - index as u64 * 7) * 4096);
        transaction.store_inode(&mut inode).unwrap();
        transaction.commit().unwrap();
        inode.core.generation.get()
    });
    for (number, byte) in numbers.iter().zip([b'a', b'b']) {
        let inode = file_system.inode(*number).unwrap();
        let geometry = file_system.geometry();
        for extent in file_system.extent_map(&inode, Fork::Data).unwrap().iter() {
            let sector = geometry.sector_of_block(extent.start).unwrap();
            let bytes = vec![byte; extent.length_blocks as usize * 4096];
            file_system.device().write(sector.get() * 512, &bytes).unwrap();
        }
    }
    file_system.close().unwrap();
    [(numbers[0], generations[0]), (numbers[1], generations[1])]
}

#[test]
fn an_exchange_of_contents_is_finished() {
    for (flags, is_one_file) in [(0, false), (2, false), (4, false), (0, true), (4, true)] {
        let Some(image) = image("exchange") else { return };
        let [first, second] = fill_two(&image);
        let second = if is_one_file { first } else { second };
        let mut intent = ExchangeIntent::new_zeroed();
        intent.kind = ItemType::ExchangeIntent.raw().into();
        intent.region_count = 1.into();
        intent.id = 77.into();
        (intent.first_inode, intent.second_inode) = (first.0.get().into(), second.0.get().into());
        (intent.first_generation, intent.second_generation) = (first.1.into(), second.1.into());
        // Whole files where sizes are exchanged, too.
        let is_whole = flags & 2 != 0;
        let (starts, length) = match (is_whole, is_one_file) {
            (true, _) => ((0, 0), 60),
            (_, true) => ((2, 19), 17),
            _ => ((3, 1), 30),
        };
        (intent.first_offset_blocks, intent.second_offset_blocks) = (starts.0.into(), starts.1.into());
        (intent.length_blocks, intent.flags) = (length.into(), flags.into());
        (intent.first_size_bytes, intent.second_size_bytes) = ((53 * 4096).into(), (60 * 4096).into());
        write(&image.path, &[vec![vec![intent.as_bytes().to_vec()]]]);
        as_the_kernel(&image);
    }
}

#[test]
fn mappings_and_freed_blocks_are_finished() {
    let Some(image) = image("mappings") else { return };
    let [first, second] = fill_two(&image);
    let file_system = image.mount_bulk();
    let mut transaction = Transaction::begin(&file_system).unwrap();
    let mut inode = transaction.load_inode(first.0).unwrap();
    let extents = inode.extents(Fork::Data).to_vec();
    // Two extents lose their mapping: one becomes free, one goes to the other file.
    for extent in &extents[..2] {
        transaction.extent_maps().unmap_existing(&mut inode, Fork::Data, extent).unwrap();
    }
    transaction.store_inode(&mut inode).unwrap();
    // Linux frees what lies behind the end of a file.
    let mut other = transaction.load_inode(second.0).unwrap();
    other.set_size_bytes(4000 * 4096);
    transaction.store_inode(&mut other).unwrap();
    transaction.commit().unwrap();
    drop(transaction);
    file_system.close().unwrap();
    drop(file_system);
    let freed = FreedExtent {
        start_block: extents[0].start.get().into(),
        length_blocks: (extents[0].length_blocks as u32).into(),
        padding: 0.into(),
    };
    let map =
        |owner: InodeNumber, extent: &uxfs_format::btree::extent_map::Extent, at: u64, operation: u32| {
            MapExtent {
                owner: owner.get().into(),
                start_block: extent.start.get().into(),
                start_offset_blocks: at.into(),
                length_blocks: (extent.length_blocks as u32).into(),
                flags: operation.into(),
            }
        };
    let free = vec![uxfs_journal::journal::items::intent::free_extents(5, &[freed])];
    let items: Vec<Regions> = vec![
        free,
        extent_map(6, map(second.0, &extents[1], 1000, 1)),
        extent_map(7, map(first.0, &extents[2], extents[2].file_block.get(), 2)),
        // What was unmapped is mapped again, in the other file.
        extent_map(8, map(second.0, &extents[2], 2000, 1)),
        // An intent with its end.
        extent_map(9, map(second.0, &extents[3], 3000, 1)),
    ];
    let done = vec![vec![uxfs_journal::journal::items::intent::done(ItemType::ExtentMapDone, 9)]];
    write(&image.path, &[items, done]);
    as_the_kernel(&image);
}

/// As an exchange leaves it: the new mapping is to be made, and then the old owner to be forgotten, in this order in the log.
#[test]
fn old_owners_go_before_new_ones_come() {
    let Some(image) = image("owners") else { return };
    let [first, second] = fill_two(&image);
    let file_system = image.mount_bulk();
    let mut transaction = Transaction::begin(&file_system).unwrap();
    let mut inode = transaction.load_inode(first.0).unwrap();
    let extent = inode.extents(Fork::Data).get(1).unwrap();
    transaction.extent_maps().unmap_existing(&mut inode, Fork::Data, &extent).unwrap();
    transaction.store_inode(&mut inode).unwrap();
    // Linux frees what lies behind the end of a file.
    let mut other = transaction.load_inode(second.0).unwrap();
    other.set_size_bytes(4000 * 4096);
    transaction.store_inode(&mut other).unwrap();
    transaction.commit().unwrap();
    transaction.defer_map(&inode, Fork::Data, &extent).unwrap();
    transaction.commit().unwrap();
    drop(transaction);
    file_system.close().unwrap();
    drop(file_system);
    let item = |owner: InodeNumber, at: u64, operation: u32| MapExtent {
        owner: owner.get().into(),
        start_block: extent.start.get().into(),
        start_offset_blocks: at.into(),
        length_blocks: (extent.length_blocks as u32).into(),
        flags: operation.into(),
    };
    let forget = item(first.0, extent.file_block.get(), 3);
    let forget = vec![uxfs_journal::journal::items::intent::reverse_maps(7, &[forget])];
    write(&image.path, &[vec![extent_map(6, item(second.0, 1000, 1)), forget]]);
    as_the_kernel(&image);
}

#[test]
fn parent_pointers_are_finished_also_if_they_were_changed_already() {
    use AttributeOperation::{RemoveParent, ReplaceParent, SetParent};
    for is_done in [false, true] {
        let Some(image) = image("parent pointers") else { return };
        let file_system = image.mount_bulk();
        let root = file_system.geometry().root_inode;
        let generation = file_system.inode(root).unwrap().generation();
        let mut value = root.get().to_be_bytes().to_vec();
        value.extend(generation.to_be_bytes());
        let mut items = Vec::new();
        for (index, operation) in [SetParent, RemoveParent, ReplaceParent].into_iter().enumerate() {
            let number = file(&file_system, index);
            let name = format!("file-{index}");
            let pointer = |name| ParentPointer { parent: root, generation, name };
            let right = pointer(name.as_bytes());
            let wrong = pointer(b"wrong");
            let mut transaction = Transaction::begin(&file_system).unwrap();
            let mut inode = transaction.load_inode(number).unwrap();
            if !is_done {
                match operation {
                    SetParent => {
                        transaction.parent_pointers().remove_parent_pointer(&mut inode, right).unwrap()
                    }
                    RemoveParent => {
                        transaction.parent_pointers().add_parent_pointer(&mut inode, wrong).unwrap()
                    }
                    _ => transaction
                        .parent_pointers()
                        .replace_parent_pointer(&mut inode, right, wrong)
                        .unwrap(),
                }
                transaction.store_inode(&mut inode).unwrap();
            }
            transaction.commit().unwrap();
            let is_replaced = operation == ReplaceParent;
            let old: &[u8] = if operation == SetParent { name.as_bytes() } else { b"wrong" };
            let change = AttributeChange {
                operation,
                inode: number,
                generation: inode.core.generation.get(),
                namespace: Namespace::Parent,
                name: old,
                new_name: is_replaced.then_some(name.as_bytes()),
                value: &value,
                new_value: is_replaced.then_some(&value),
            };
            let mut regions = vec![change.format(90 + index as u64).as_bytes().to_vec(), padded(old)];
            regions.extend(change.new_name.map(padded));
            regions.push(value.clone());
            regions.extend(change.new_value.map(<[u8]>::to_vec));
            items.push(regions);
        }
        file_system.close().unwrap();
        drop(file_system);
        write(&image.path, &[items]);
        if is_done {
            // Whether Linux takes this is its affair; the image must be sound.
            assert_eq!(replay(&image.path).unwrap().intents.len(), 3);
            image.must_be_sound();
        } else {
            as_the_kernel(&image);
        }
    }
}

/// Intents to change attributes of an inode: what is to be done, name, value.
fn attribute_intents(inode: InodeNumber, changes: &[(AttributeOperation, &[u8], &[u8])]) -> Vec<Regions> {
    let intents = (1..).zip(changes).map(|(id, &(operation, name, value))| {
        let change = AttributeChange {
            operation,
            inode,
            generation: 0,
            namespace: Namespace::User,
            name,
            new_name: None,
            value,
            new_value: None,
        };
        let mut regions = vec![change.format(id).as_bytes().to_vec(), padded(name)];
        regions.extend((!value.is_empty()).then(|| padded(value)));
        regions
    });
    intents.collect()
}

#[test]
fn attributes_are_finished_and_their_feature_ends_with_the_log() {
    use AttributeOperation::{Remove, Replace, Set};
    let Some(image) = image("attributes") else { return };
    let file_system = image.mount_bulk();
    let number = file(&file_system, 0);
    file_system.close().unwrap();
    drop(file_system);
    change_superblock(&image, |superblock| superblock.log_incompatible.set(1));
    let long = vec![b'v'; 9000];
    let changes: [(AttributeOperation, &[u8], &[u8]); 4] =
        [(Set, b"one", b"1"), (Set, b"long", &long), (Replace, b"one", b"2"), (Remove, b"none", b"")];
    write(&image.path, &[attribute_intents(number, &changes)]);
    assert_eq!(replay(&image.path).unwrap().intents.len(), 4);
    image.must_be_sound();
    let file_system = image.mount();
    assert_eq!(file_system.superblock().log_incompatible.get(), 0);
    let inode = file_system.inode(number).unwrap();
    let get = |name: &[u8]| file_system.attributes(&inode).unwrap().xattr(name).unwrap();
    assert!(get(b"user.one") == b"2" && get(b"user.long") == long);
}

/// Linux marks an attribute in a leaf as incomplete before it removes it. Cut off then, the intent finds it neither there
/// nor gone.
#[test]
fn marked_attributes_are_finished() {
    use AttributeOperation::{Remove, Set};
    let Some(image) = image("marked") else { return };
    let file_system = image.mount_bulk();
    let number = file(&file_system, 0);
    let handle = file_system.open(number).unwrap();
    for index in 0..60 {
        let name = format!("user.attribute-{index}");
        file_system.set_xattr(&handle, name.as_bytes(), &[1; 30], SetMode::Upsert).unwrap();
    }
    let root = handle.read().extents(Fork::Attribute).first().unwrap();
    drop(handle);
    file_system.close().unwrap();
    let geometry = geometry(&image.path);
    let sector = geometry.sector_of_block(root.start).unwrap();
    drop(file_system);
    let mut leaf = read(&image.path, sector, 4096);
    let marked: [&[u8]; 3] = [b"attribute-7", b"attribute-30", b"attribute-55"];
    for name in marked {
        let hash = name_hash::hash(name).to_be_bytes();
        // The entries follow the header of 80 bytes, 8 bytes each; the flags come behind hash and place.
        let entry = (80..80 + 60 * 8).step_by(8).find(|at| leaf[*at..at + 4] == hash).unwrap();
        leaf[entry + 6] |= 0x80;
    }
    checksum::seal(&mut leaf, 12);
    device(&image.path).write(sector.get() * 512, &leaf).unwrap();
    assert!(!verdict::repair_findings(&image.path).unwrap().is_empty());
    change_superblock(&image, |superblock| superblock.log_incompatible.set(1));
    let [first, second, third] = marked;
    let changes = [(Remove, first, &b""[..]), (Remove, second, b""), (Set, third, b"new")];
    write(&image.path, &[attribute_intents(number, &changes)]);
    assert_eq!(replay(&image.path).unwrap().intents.len(), 3);
    image.must_be_sound();
    let file_system = image.mount();
    let inode = file_system.inode(number).unwrap();
    assert_eq!(file_system.attributes(&inode).unwrap().xattr(b"user.attribute-55").unwrap(), b"new");
    assert!(file_system.attributes(&inode).unwrap().xattr(b"user.attribute-7").is_err());
    assert_eq!(file_system.attributes(&inode).unwrap().xattr(b"user.attribute-8").unwrap(), [1; 30]);
}

#[test]
fn a_list_that_leads_to_a_file_with_a_name_is_cut_off() {
    let Some(image) = image("unlinked") else { return };
    let file_system = image.mount_bulk();
    let (named, unlinked) = (file(&file_system, 0), file(&file_system, 1));
    drop(file_system);
    let geometry = geometry(&image.path);
    let sector = geometry.sector_of_group_header(uxfs_format::units::AgNumber::new(0), 2).unwrap();
    let mut header = read(&image.path, sector, 384);
    let inode = named.get() as u32;
    header[40 + inode as usize % 64 * 4..][..4].copy_from_slice(&inode.to_be_bytes());
    write(&image.path, &[vec![buffer(sector.get() as i64, 1, 7 << 11, 0, &header)]]);
    let report = replay(&image.path).unwrap();
    assert_eq!((report.freed_inodes, report.broken_lists), (0, 1));
    image.must_be_sound();
    let file_system = image.mount();
    assert!(file_system.inode(named).is_ok() && file_system.inode(unlinked).is_ok());
}

/// A free block that nothing else is in.
fn free_block(image: &TestImage) -> Sector {
    Sector::new(geometry(&image.path).data_blocks * 8 - 8 * 64)
}

#[test]
fn cancelled_buffers_and_newer_blocks_are_left_alone() {
    let Some(image) = image("cancelled") else { return };
    let place = free_block(&image);
    let (at, text) = (place.get() as i64, vec![0x5a; 128]);
    let transactions = [
        vec![buffer(at, 8, 0, 3, &text)],
        // Of another length, so another buffer.
        vec![buffer(at, 4, 2, 0, &[]), buffer(at + 8, 8, 0, 0, &text)],
        vec![buffer(at, 8, 2, 0, &[]), buffer(at + 16, 8, 0, 0, &text)],
        vec![buffer(at + 24, 8, 2, 0, &[])],
        vec![buffer(at + 24, 8, 0, 0, &text)],
    ];
    write(&image.path, &transactions);
    let report = replay(&image.path).unwrap();
    assert_eq!((report.replay.buffers, report.replay.cancelled), (3, 1));
    let bytes = read(&image.path, place, 4 * 4096);
    let written: Vec<usize> = (0..128).filter(|chunk| bytes[chunk * 128] == 0x5a).collect();
    assert_eq!(written, [32, 64, 96]);
    image.must_satisfy_repair();
}

#[test]
fn quota_records_are_replayed_by_their_numbers() {
    use uxfs_format::quota::{self, QuotaRecord};
    let Some(image) = image("quota") else { return };
    let geometry = geometry(&image.path);
    let place = free_block(&image);
    // A record as new as the newest of the log: where that will lie, a copy says.
    let copy = image.path.with_extension("copy");
    sparse::copy(&image.path, &copy).unwrap();
    write(&copy, &[vec![buffer(place.get() as i64, 8, 1 << 11 | 4, 0, &[0; 4096])], Vec::new()]);
    let uxfs_journal::LogState::Dirty(log) = uxfs_journal::examine(&*device(&copy), &geometry).unwrap()
    else {
        panic!("it is dirty");
    };
    let mut block = vec![0; 4096];
    for (id, bytes) in (0_u32..).zip(block.chunks_exact_mut(QuotaRecord::SIZE_BYTES)) {
        let record = QuotaRecord::prefix_of_mut(bytes).unwrap();
        record.magic = quota::MAGIC.into();
        (record.version, record.record_type) = (quota::VERSION, 1);
        (record.id, record.uuid) = (id.into(), geometry.metadata_uuid);
        if id == 2 {
            record.lsn.set(log.newest.get());
        }
        if id == 3 {
            // Ahead of the log: it says nothing.
            record.lsn.set(u64::from(u32::MAX) << 32);
        }
        checksum::seal(bytes, quota::CHECKSUM_OFFSET_BYTES);
    }
    let item = |id: u32, blocks: u64| {
        let offset = id * QuotaRecord::SIZE_BYTES as u32;
        let mut format = [ItemType::Quota.raw().to_le_bytes(), 2_u16.to_le_bytes()].concat();
        format.extend(id.to_le_bytes());
        format.extend((place.get() as i64).to_le_bytes());
        format.extend(8_i32.to_le_bytes());
        format.extend(offset.to_le_bytes());
        let mut record = block[offset as usize..][..104].to_vec();
        record[40..48].copy_from_slice(&blocks.to_be_bytes());
        vec![format, record]
    };
    let whole = buffer(place.get() as i64, 8, 1 << 11 | 4, 0, &block);
    write(&image.path, &[vec![whole], vec![item(1, 10), item(2, 10), item(3, 10)], vec![item(1, 20)]]);
    let report = replay(&image.path).unwrap();
    assert_eq!((report.replay.quotas, report.replay.newer), (3, 1));
    let bytes = read(&image.path, place, 4096);
    let blocks =
        |id: usize| QuotaRecord::prefix_of(&bytes[id * QuotaRecord::SIZE_BYTES..]).unwrap().blocks.get();
    assert_eq!((blocks(1), blocks(2), blocks(3)), (20, 0, 10));
    for record in bytes.chunks_exact(QuotaRecord::SIZE_BYTES) {
        assert!(checksum::check(record, quota::CHECKSUM_OFFSET_BYTES).is_ok());
    }
}

fn change_superblock(image: &TestImage, change: impl FnOnce(&mut Superblock)) {
    let device = logs::device(&image.path);
    let mut sector = vec![0; 512];
    device.read(0, &mut sector).unwrap();
    change(Superblock::prefix_of_mut(&mut sector).unwrap());
    assert!(checksum::seal(&mut sector, CHECKSUM_OFFSET_BYTES));
    device.write(0, &sector).unwrap();
}

#[test]
fn logs_of_unknown_features_are_refused_by_name() {
    let Some(image) = image("features") else { return };
    let any = buffer(free_block(&image).get() as i64, 8, 0, 0, &[1; 128]);
    write(&image.path, &[vec![any]]);
    let before = fs::read(&image.path).unwrap();
    let refused = |change: fn(&mut Superblock)| {
        fs::write(&image.path, &before).unwrap();
        change_superblock(&image, change);
        match replay(&image.path).unwrap_err() {
            Error::Unsupported(unsupported) => unsupported,
            error => panic!("{error}"),
        }
    };
    let log = refused(|superblock| superblock.log_incompatible.set(4));
    assert_eq!(log, Unsupported::UnknownLogIncompatible { bits: 4 });
    let read_only =
        refused(|superblock| superblock.ro_compatible.set(superblock.ro_compatible.get() | 1 << 20));
    assert_eq!(read_only, Unsupported::UnknownRoCompatible { bits: 1 << 20 });
    let repair = refused(|superblock| superblock.incompatible.set(superblock.incompatible.get() | 0x10));
    assert_eq!(repair, Unsupported::NeedsRepair);
}

#[test]
fn each_check_refuses_its_damage_and_leaves_the_image_alone() {
    let Some(image) = image("damage") else { return };
    let geometry = geometry(&image.path);
    let at = free_block(&image).get() as i64;
    let log = geometry.sector_of_block(geometry.log_start.unwrap()).unwrap().get() as i64;
    let root = geometry.inode_place(geometry.root_inode).unwrap();
    let inodes = geometry.sector_of_group_block(root.group, root.block).unwrap().get();
    let clean = fs::read(&image.path).unwrap();
    let fault_of = |item: Regions| {
        fs::write(&image.path, &clean).unwrap();
        write(&image.path, &[vec![item]]);
        let before = fs::read(&image.path).unwrap();
        let fault = fault(&image.path);
        assert!(before == fs::read(&image.path).unwrap(), "{fault}: the image was changed");
        fault
    };
    let item = ItemType::Buffer;
    let (sector, inode_sector) = (at as u64, inodes);
    let too_long = fault_of(buffer(at, 129, 0, 0, &[1; 128]));
    assert_eq!(too_long, LogItemFault::BufferLength { item, sector, sectors: 129, limit: 128 });
    let inside = fault_of(buffer(log - 4, 8, 0, 0, &[1; 128]));
    assert_eq!(inside, LogItemFault::InsideLog { item, sector: log as u64 - 4 });
    let contents = fault_of(buffer(at, 8, 4 << 11, 0, &[1; 128]));
    assert_eq!(contents, LogItemFault::Contents { sector, said: "btree", found: None });
    let mut next = vec![0xff; 128];
    let nowhere = fault_of(buffer(at, 8, 8 << 11 | 1, 0, &next));
    assert_eq!(nowhere, LogItemFault::NotAnInode { item, sector, offset_bytes: 0 });
    next.fill(0);
    let zero = fault_of(buffer(inodes as i64, 32, 8 << 11 | 1, 4, &next));
    assert_eq!(zero, LogItemFault::NextUnlinked { sector: inode_sector, offset_bytes: 512 });
    let outside = fault_of(buffer(1 << 40, 8, 0, 0, &[1; 128]));
    assert!(matches!(outside, LogItemFault::OutsideFileSystem { .. }), "{outside}");
    // An inode item: that of the root, with a fork that is too long, and at a wrong place.
    let core = read(&image.path, Sector::new(inodes), 176);
    let logged = uxfs_journal::journal::items::inode::logged_core(
        uxfs_format::inode::InodeCore::prefix_of(&core).unwrap(),
    );
    let inode = |offset: i32, data: usize| {
        let regions = 3_u16;
        let mut format = [ItemType::Inode.raw().to_le_bytes(), regions.to_le_bytes()].concat();
        format.extend(3_u32.to_le_bytes());
        format.extend(0_u16.to_le_bytes());
        format.extend((data as u16).to_le_bytes());
        format.extend([0; 4]);
        format.extend(geometry.root_inode.get().to_le_bytes());
        format.extend([0; 16]);
        format.extend((inodes as i64).to_le_bytes());
        format.extend(32_i32.to_le_bytes());
        format.extend(offset.to_le_bytes());
        vec![format, logged.as_bytes().to_vec(), vec![0; data]]
    };
    let fork = fault_of(inode(0, 400));
    let number = geometry.root_inode.get();
    assert!(matches!(fork, LogItemFault::Fork { inode, length_bytes: 400, .. } if inode == number), "{fork}");
    let elsewhere = fault_of(inode(512, 8));
    let item = ItemType::Inode;
    assert_eq!(elsewhere, LogItemFault::NotAnInode { item, sector: inodes, offset_bytes: 512 });
}
