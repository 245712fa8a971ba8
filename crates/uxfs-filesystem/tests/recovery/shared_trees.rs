//! Intents that make a tree of reference counts lower: what recovery does afterwards finds its new root.

use uxfs_engine::{extent_map::map::Mapping, transaction::Transaction};
use uxfs_filesystem::file::{Touch, share::CloneRange};
use uxfs_format::{
    log::intent::PhysicalExtent,
    units::{AgNumber, FileBlock},
};
use uxfs_journal::journal::items::intent::reference_counts;
use uxfs_testkit::image::file;
use uxfs_volume::inode::Fork;

use super::{
    as_the_kernel, image,
    logs::{Regions, write},
};

/// More than a block of the tree holds.
const EXTENTS: u64 = 700;
const DECREASE: u32 = 2;

#[test]
fn a_tree_of_reference_counts_that_becomes_lower_is_found() {
    let Some(image) = image("shared") else { return };
    let file_system = image.mount_bulk();
    let numbers = [0, 1].map(|index| file(&file_system, index));
    let mut transaction = Transaction::begin(&file_system).unwrap();
    let mut source = transaction.load_inode(numbers[0]).unwrap();
    for block in 0..EXTENTS {
        let at = FileBlock::new(2 * block);
        transaction.extent_maps().map_blocks(&mut source, Fork::Data, at, 1, Mapping::default()).unwrap();
    }
    source.set_size_bytes(2 * EXTENTS * 4096);
    transaction.store_inode(&mut source).unwrap();
    transaction.commit().unwrap();
    drop(transaction);
    let [from, to] = numbers.map(|number| file_system.open(number).unwrap());
    let all = CloneRange { source_bytes: 0, target_bytes: 0, length_bytes: 0 };
    file_system.clone_range(&from, &to, &all, Touch::NOTHING).unwrap();
    drop((from, to));
    // The clone's extents have lost their mappings; that their blocks are shared by one less is yet to be said.
    let mut transaction = Transaction::begin(&file_system).unwrap();
    let mut clone = transaction.load_inode(numbers[1]).unwrap();
    let extents = clone.extents(Fork::Data).to_vec();
    for extent in &extents {
        transaction.extent_maps().unmap_existing(&mut clone, Fork::Data, extent).unwrap();
    }
    transaction.store_inode(&mut clone).unwrap();
    transaction.commit().unwrap();
    drop(transaction);
    file_system.close().unwrap();
    drop(file_system);
    let levels =
        image.mount().group(AgNumber::new(0)).free_space_header().unwrap().reference_count_levels.get();
    assert_eq!(levels, 2, "otherwise nothing becomes lower");
    let intents: Vec<Regions> = (1..)
        .zip(&extents)
        .map(|(id, extent)| {
            let less = PhysicalExtent {
                start_block: extent.start.get().into(),
                length_blocks: (extent.length_blocks as u32).into(),
                flags: DECREASE.into(),
            };
            vec![reference_counts(id, &[less])]
        })
        .collect();
    write(&image.path, &[intents]);
    as_the_kernel(&image);
}
