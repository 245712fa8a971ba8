//! Damaged trees that are changed: an error or nothing, but no panic and no wait without end.

use std::{
    fs::File,
    os::unix::fs::FileExt,
    sync::mpsc::{RecvTimeoutError, channel},
    thread,
    time::Duration,
};

use uxfs_engine::{
    allocation_group::free_space::{Purpose, choose::GroupRequest},
    transaction::Transaction,
};
use uxfs_filesystem::filesystem::FileSystem;
use uxfs_format::{
    btree::{
        BtreeKind,
        free_space::{ByBlock, ByLength},
        inode_index::{InodeIndex, InodeIndexRecord},
        reverse_map::{Mapping, Owner, ReverseMap},
    },
    checksum,
    units::{AgBlock, AgInode, AgNumber, FileBlock, InodeNumber},
};
use uxfs_testkit::{
    image::TestImage,
    judges::Judge,
    require,
    seeds::{Random, Seed},
};
use uxfs_volume::error::Error;
use zerocopy::big_endian::{U16, U32, U64};

use super::check::blocks_of;

const GROUP: AgNumber = AgNumber::new(1);
const BLOCK_BYTES: usize = 1024;
/// Chunks of 64 inodes, two to a block, from this inode on.
const FIRST_INODE: u32 = 32_000;
const CHUNKS: u32 = 150;

fn chunk(number: u32) -> InodeIndexRecord {
    // Holes of nothing, one inode free: what the verifier wants.
    InodeIndexRecord {
        start: U32::new(FIRST_INODE + number * 64),
        hole_mask: U16::new(0),
        count: 64,
        free_count: 1,
        free: U64::new(1),
    }
}

fn mapping(block: u32, owner: u64) -> Mapping {
    Mapping {
        start: AgBlock::new(block),
        length_blocks: 1,
        owner: Owner::Inode(InodeNumber::new(owner)),
        file_block: FileBlock::new(0),
        is_attribute_fork: false,
        is_extent_map_block: false,
        is_unwritten: false,
    }
}

/// Bytes that have a checksum.
#[derive(Clone, Copy)]
struct Target {
    offset_bytes: u64,
    length_bytes: usize,
    checksum_offset_bytes: u32,
}

/// An image whose group has trees of several levels, and where their blocks and the headers lie.
fn high_trees() -> (TestImage, Vec<Target>) {
    let image = TestImage::new("damaged trees", 64, &["-b", "size=1024", "-d", "agcount=2"], 0);
    let file_system = image.mount_bulk();
    let geometry = file_system.geometry();
    let mut transaction = Transaction::begin(&file_system).unwrap();
    let mut group = transaction.group(GROUP).unwrap();
    for block in (1000..9000).step_by(2) {
        let near = Some(AgBlock::new(block));
        let request = GroupRequest { near, is_exact: true, ..GroupRequest::blocks(1) };
        if group.allocate(&request).unwrap().is_some() {
            let record = mapping(block, 128 + u64::from(block)).into();
            group.tree::<ReverseMap>().insert(&record).unwrap();
        }
    }
    // The blocks of the chunks, two inodes each, are not free.
    let near = Some(AgBlock::new(FIRST_INODE / 2));
    let request = GroupRequest { near, is_exact: true, ..GroupRequest::blocks(CHUNKS * 64 / 2) };
    assert!(group.allocate(&request).unwrap().is_some());
    for number in 0..CHUNKS {
        group.tree::<InodeIndex>().insert(&chunk(number)).unwrap();
    }
    let mut blocks = blocks_of::<ByBlock>(&mut group);
    blocks.extend(blocks_of::<ByLength>(&mut group));
    blocks.extend(blocks_of::<ReverseMap>(&mut group));
    blocks.extend(blocks_of::<InodeIndex>(&mut group));
    let levels = group.state.headers().unwrap().free_space;
    assert!(levels.by_block_levels.get() >= 2 && levels.reverse_map_levels.get() >= 3);
    transaction.commit().unwrap();
    file_system.close().unwrap();
    let block = |block: u64| {
        let sector = geometry.sector_of_group_block(GROUP, AgBlock::new(block as u32)).unwrap();
        Target { offset_bytes: sector.get() * 512, length_bytes: BLOCK_BYTES, checksum_offset_bytes: 52 }
    };
    let mut targets: Vec<Target> = blocks.into_iter().map(block).collect();
    // The headers are few: as often as a tenth of the blocks.
    for index in 0..targets.len() / 10 {
        let (header, checksum_offset_bytes) = [(1, 216), (2, 312), (3, 32)][index % 3];
        let sector = geometry.sector_of_group_header(GROUP, header).unwrap();
        targets.push(Target { offset_bytes: sector.get() * 512, length_bytes: 512, checksum_offset_bytes });
    }
    (image, targets)
}

/// Many changes of all trees, until something is found to be wrong.
fn work(file_system: &FileSystem, random: &mut Random) -> Result<(), Error> {
    let mut transaction = Transaction::begin(file_system)?;
    let mut deleted = Vec::new();
    for _ in 0..60 {
        let mut group = transaction.group(GROUP)?;
        let block = AgBlock::new(500 + random.below(9000) as u32);
        match random.below(5) {
            0 => {
                let (near, purpose) = (Some(block), Purpose::Data);
                let request = GroupRequest { near, purpose, min_blocks: 1, ..GroupRequest::blocks(5) };
                group.allocate(&request)?;
            }
            1 => {
                group.allocate(&GroupRequest::blocks(1 + random.below(30) as u32))?;
            }
            2 => {
                let start = block.get() & !1;
                let record = mapping(start, 128 + u64::from(start)).into();
                let mut cursor = group.tree::<ReverseMap>();
                if cursor.seek_exact(ReverseMap::position_of_record(&record))?.is_some() {
                    cursor.delete()?;
                    drop(cursor);
                    group.free(AgBlock::new(start), 1)?;
                }
            }
            3 => {
                group.fill_free_list()?;
                let mut cursor = group.tree::<ReverseMap>();
                let owner = 500 + random.below(9000);
                let sought = mapping(block.get(), owner).into();
                if cursor.seek_at_or_after(ReverseMap::position_of_record(&sought))?.is_some() {
                    cursor.delete()?;
                }
                // Blocks of chunks, which stay in use: a free block must have no owner.
                let in_use = FIRST_INODE / 2 + random.below(u64::from(CHUNKS) * 32) as u32;
                cursor.insert(&mapping(in_use, owner).into())?;
            }
            _ => {
                let mut cursor = group.tree::<InodeIndex>();
                let start = AgInode::new(FIRST_INODE + random.below(u64::from(CHUNKS) * 64) as u32);
                if let Some(record) = cursor.seek_at_or_before(start)? {
                    deleted.push(record);
                    cursor.delete()?;
                }
                // Other chunks would lie over free space.
                if deleted.len() > 4 {
                    cursor.insert(&deleted.swap_remove(random.index(deleted.len())))?;
                }
            }
        }
    }
    Ok(())
}

/// Changes bytes of one block or header, sealed again, and works on the trees. Nothing is written.
fn one_case(image: &TestImage, file: &File, targets: &[Target], random: &mut Random) -> bool {
    let target = targets[random.below(targets.len() as u64) as usize];
    let mut bytes = vec![0; target.length_bytes];
    file.read_exact_at(&mut bytes, target.offset_bytes).unwrap();
    let sound = bytes.clone();
    for _ in 0..1 + random.below(2) {
        // Half of the time near the front; numbers of other blocks are likelier to do harm than noise.
        let end = target.length_bytes as u64 - 4;
        let at = if random.below(2) == 0 { 4 + random.below(56) } else { random.below(end) };
        let at = at as usize & !3;
        let other = targets[random.below(targets.len() as u64) as usize];
        let number = match random.below(3) {
            0 => random.below(70_000) as u32,
            1 => (other.offset_bytes / BLOCK_BYTES as u64 % 32_768) as u32,
            _ => random.next_u64() as u32,
        };
        bytes[at..at + 4].copy_from_slice(&number.to_be_bytes());
    }
    checksum::seal(&mut bytes, target.checksum_offset_bytes);
    file.write_all_at(&bytes, target.offset_bytes).unwrap();
    let result = image.try_mount_bulk().map(|file_system| work(&file_system, random));
    file.write_all_at(&sound, target.offset_bytes).unwrap();
    // The mount already reads some of these blocks.
    let result = result.unwrap_or_else(|error| Err(error.downcast().unwrap()));
    match result {
        Ok(()) => false,
        Err(Error::Corrupt(_)) => true,
        // Counts and pointers may say that there is nothing left.
        Err(Error::Operation(_)) => false,
        Err(other) => panic!("{other:?}"),
    }
}

#[test]
fn damage_is_an_error_and_not_a_panic_or_a_wait() {
    require!(Judge::Mkfs);
    const CASES: u32 = 1500;
    let seed = Seed::from_environment("damaged trees", 9);
    let mut random = seed.random();
    let (image, targets) = high_trees();
    let sound = work(&image.mount_bulk(), &mut random);
    assert!(sound.is_ok(), "sound so far: {sound:?}");
    let (done, progress) = channel();
    let worker = thread::spawn(move || {
        let file = File::options().read(true).write(true).open(image.path.as_path()).unwrap();
        for _ in 0..CASES {
            let is_found = one_case(&image, &file, &targets, &mut random);
            if done.send(is_found).is_err() {
                return;
            }
        }
    });
    let mut found = 0;
    loop {
        match progress.recv_timeout(Duration::from_secs(60)) {
            Ok(is_found) => found += u32::from(is_found),
            Err(RecvTimeoutError::Disconnected) => break,
            Err(RecvTimeoutError::Timeout) => panic!("a damaged tree makes it wait for ever"),
        }
    }
    worker.join().unwrap();
    assert!(found > CASES / 4, "only {found} of {CASES} were found");
}
