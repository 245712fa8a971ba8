//! File systems without space: what finds none leaves files whole, and what is given back is there again.

use std::sync::Arc;

use uxfs_engine::{inode::edit::EditInode, options::LogOptions, transaction::Transaction};
use uxfs_filesystem::{
    file::{Touch, space::SizeChange},
    filesystem::FileSystem,
};
use uxfs_testkit::{
    image::{TestImage, file},
    judges::{Judge, judged},
    require,
};
use uxfs_volume::error::{Error, OperationError};

use super::{linux_reads, model::Model, random::World};

const FILES: usize = 4;
const LEVELS: [u64; 12] = [0, 1, 2, 3, 5, 8, 13, 30, 60, 150, 400, 1000];

const KINDS: &[(&str, u64, usize, &[&str])] = &[
    ("default", 48, 120, &["-d", "agcount=2"]),
    ("block-1k", 48, 300, &["-b", "size=1024", "-d", "agcount=3"]),
    ("no-reverse-map", 48, 120, &["-m", "rmapbt=0"]),
    ("no-reservations", 48, 120, &["-m", "reflink=0,rmapbt=0,finobt=0", "-n", "parent=0"]),
];

fn load(file_system: &FileSystem, index: usize) -> EditInode {
    Transaction::begin(file_system).unwrap().load_inode(file(file_system, index)).unwrap()
}

/// Takes all there is.
fn fill(file_system: &FileSystem, filler: &mut EditInode) {
    let block = u64::from(file_system.geometry().block_size_bytes);
    for blocks in [256, 16, 1] {
        loop {
            let end = filler.extents(uxfs_format::inode::Fork::Data).last();
            let end = end.map_or(0, |extent| extent.end().get());
            let mut edit = file_system.edit_file(filler).unwrap();
            match edit.allocate_range(end * block, blocks * block, SizeChange::Grow, Touch::NOTHING) {
                Ok(()) => {}
                Err(Error::Operation(OperationError::NoSpace)) => break,
                Err(error) => panic!("{error:?}"),
            }
        }
    }
}

#[test]
fn full_file_systems_at_many_levels() {
    require!(Judge::Mkfs, Judge::XfsRepair);
    for (name, size, most_blocks, options) in KINDS {
        let image = TestImage::new(&format!("full, {name}"), *size, options, FILES + 1);
        let mut models = vec![Model::default(); FILES];
        let (mut operations, mut full) = (0, 0);
        for (round, level) in LEVELS.into_iter().enumerate() {
            // Every other time with the journal, where what is freed is not free at once.
            let file_system = match round % 2 {
                0 => Arc::new(image.mount_bulk()),
                _ => image.mount_logged(LogOptions::default()),
            };
            let mut filler = load(&file_system, FILES);
            fill(&file_system, &mut filler);
            let block = u64::from(file_system.geometry().block_size_bytes);
            let size = filler.size_bytes().saturating_sub(level * block);
            file_system.edit_file(&mut filler).unwrap().set_size(size, Touch::NOTHING).unwrap();
            let mut world = World::new(&file_system, models, *most_blocks, 77 + round as u64);
            for _ in 0..150 {
                world.step();
            }
            world.check_all();
            operations += world.done.iter().sum::<u64>();
            full += world.full;
            models = world.models;
            file_system.close().unwrap();
            image.must_be_sound();
            linux_reads(&image, &models);
        }
        let file_system = image.mount_bulk();
        for index in 0..=FILES {
            let mut inode = load(&file_system, index);
            file_system.edit_file(&mut inode).unwrap().set_size(0, Touch::NOTHING).unwrap();
            assert_eq!(inode.blocks(), 0);
        }
        file_system.close().unwrap();
        image.must_be_sound();
        let found = image.mount().superblock().free_data_blocks.get();
        let fresh = TestImage::new(&format!("fresh, {name}"), *size, options, FILES + 1)
            .mount()
            .superblock()
            .free_data_blocks
            .get();
        // What the trees of groups have grown to they may keep.
        assert!(found <= fresh && found + 16 >= fresh, "{name}: {found} of {fresh} blocks are free again");
        assert!(full > 20, "{name}: otherwise this tests less than it says: {full}");
        judged("model", &format!("{name}: {operations} operations, {full} without space"));
    }
}
