//! Headers and trees of allocation groups, compared with what `xfs_db` prints of the same image: all golden images, and
//! fragmented ones that the kernel makes on the spot, whose trees have two and more levels.

mod damaged;
mod fragmented;
mod printed;

use std::{path::Path, sync::Arc};

use uxfs_block::engine::sync::SyncDevice;
use uxfs_engine::options::MountOptions;
use uxfs_filesystem::mount;
use uxfs_format::{
    btree::{BtreeKind, free_space::ByLength, inode_index::InodeIndex},
    units::{AgNumber, InodeNumber},
};
use uxfs_testkit::{golden::GoldenImage, judges::Judge, require, xfs_db::XfsDb};
use uxfs_volume::allocation_group::free_space::FreeSpaceHistogram;
use uxfs_volume::volume::Volume;

use printed::Printed;

fn mount(image: &Path) -> Volume {
    let device = SyncDevice::open_read_only(image, 0).unwrap();
    let options = MountOptions { ignore_dirty_log: true, ..MountOptions::default() };
    mount::open_volume(Arc::new(device), &options).unwrap()
}

#[test]
fn groups_of_golden_images_read_as_xfs_db_prints_them() {
    require!(Judge::XfsDb);
    for image in GoldenImage::all().unwrap() {
        compare(&image.unpacked().unwrap(), image.name());
    }
}

#[test]
fn groups_of_fragmented_images_read_as_xfs_db_prints_them() {
    require!(Judge::XfsDb, Judge::Mkfs, Judge::Kernel);
    for (name, options, heights) in fragmented::IMAGES {
        let image = fragmented::make(options);
        compare(&image.path, name);
        let header = mount(&image.path).group(AgNumber::new(0)).free_space_header().unwrap();
        let levels = [header.by_block_levels, header.by_length_levels, header.reverse_map_levels]
            .map(|level| level.get());
        assert_eq!(levels, **heights, "{name}: otherwise this tests less than it says");
    }
}

/// Compares all groups of an image.
fn compare(image: &Path, name: &str) {
    let (file_system, db) = (mount(image), XfsDb::new(image));
    for group in file_system.geometry().groups() {
        let printed = Printed { db: &db, group, context: format!("{name}, group {group}") };
        compare_headers(&file_system, &printed);
        compare_free_space(&file_system, &printed);
        compare_inodes(&file_system, &printed);
        compare_owners(&file_system, &printed);
    }
    compare_histogram(&file_system, &db, name);
}

fn compare_headers(file_system: &Volume, printed: &Printed<'_>) {
    let headers = file_system.group(printed.group).headers().unwrap();
    let (space, inodes) = (&headers.free_space, &headers.inodes);
    printed.assert_fields(
        "agf",
        &[
            ("length", space.length_blocks.get()),
            ("bnoroot", space.by_block_root.get()),
            ("cntlevel", space.by_length_levels.get()),
            ("flfirst", space.free_list_first.get()),
            ("freeblks", space.free_blocks.get()),
            ("longest", space.longest_blocks.get()),
            ("btreeblks", space.btree_blocks.get()),
        ],
    );
    printed.assert_fields(
        "agi",
        &[
            ("count", inodes.count.get()),
            ("freecount", inodes.free_count.get()),
            ("root", inodes.root.get()),
            ("level", inodes.levels.get()),
        ],
    );
    let blocks: Vec<u32> = headers.free_list.iter().map(|block| block.get()).collect();
    let (first, slots) = (space.free_list_first.get() as usize, printed.free_list_slots());
    let expected: Vec<u32> =
        slots.iter().cycle().skip(first).take(space.free_list_count.get() as usize).copied().collect();
    assert_eq!(blocks, expected, "{}: free list", printed.context);
}

fn compare_free_space(file_system: &Volume, printed: &Printed<'_>) {
    let group = printed.group;
    let by_block: Vec<_> = file_system.group(group).free_extents().unwrap().map(Result::unwrap).collect();
    let rows = by_block.iter().map(|extent| format!("{},{}", extent.start, extent.length_blocks));
    printed.assert_rows("agf", "bnoroot", rows);

    let tree = file_system.group(group).free_space_by_length().unwrap();
    let by_length: Vec<_> = tree.records().map(|record| record.unwrap().get()).collect();
    let rows = by_length.iter().map(|extent| format!("{},{}", extent.start, extent.length_blocks));
    printed.assert_rows("agf", "cntroot", rows);

    let header = file_system.group(group).free_space_header().unwrap();
    let total: u64 = by_block.iter().map(|extent| u64::from(extent.length_blocks)).sum();
    assert_eq!(total, u64::from(header.free_blocks.get()), "{}", printed.context);
    let mut cursor = tree.cursor();
    let longest = cursor.last().unwrap().map_or(0, |record| record.get().length_blocks);
    assert_eq!(longest, header.longest_blocks.get(), "{}", printed.context);
    // Backwards it is the same.
    let mut backwards = Vec::new();
    let mut record = cursor.last().unwrap();
    while let Some(found) = record {
        backwards.push(found.get());
        record = cursor.previous().unwrap();
    }
    backwards.reverse();
    assert_eq!(backwards, by_length, "{}", printed.context);
    // And every record is found where it lies.
    for extent in &by_length {
        let position = ByLength::position_of_record(&(*extent).into());
        assert_eq!(cursor.at_or_after(position).unwrap().map(|record| record.get()), Some(*extent));
        assert_eq!(cursor.at_or_before(position).unwrap().map(|record| record.get()), Some(*extent));
    }
}

fn compare_inodes(file_system: &Volume, printed: &Printed<'_>) {
    let group = printed.group;
    let is_sparse = file_system.geometry().features.has_sparse_inodes();
    let row = |record: &uxfs_format::btree::inode_index::InodeIndexRecord| {
        let chunk = record.unpack(is_sparse);
        let free = if chunk.free == 0 { "0".to_owned() } else { format!("{:#x}", chunk.free) };
        let holes = if chunk.hole_mask == 0 { "0".to_owned() } else { format!("{:#x}", chunk.hole_mask) };
        match is_sparse {
            true => format!("{},{holes},{},{},{free}", chunk.start, chunk.count, chunk.free_count),
            false => format!("{},{},{free}", chunk.start, chunk.free_count),
        }
    };
    let records: Vec<_> =
        file_system.group(group).inode_index().unwrap().records().map(Result::unwrap).collect();
    printed.assert_rows("agi", "root", records.iter().map(row));
    let header = file_system.group(group).inode_header().unwrap();
    let chunks: Vec<_> = file_system.group(group).inode_chunks().unwrap().map(Result::unwrap).collect();
    assert_eq!(chunks.iter().map(|chunk| chunk.count).sum::<u32>(), header.count.get());
    assert_eq!(chunks.iter().map(|chunk| chunk.free_count).sum::<u32>(), header.free_count.get());
    if let Some(tree) = file_system.group(group).free_inode_index().unwrap() {
        let free: Vec<_> = tree.records().map(Result::unwrap).collect();
        printed.assert_rows("agi", "free_root", free.iter().map(row));
        let with_free: Vec<_> =
            records.iter().filter(|record| record.unpack(is_sparse).free_count > 0).copied().collect();
        assert_eq!(free, with_free, "{}", printed.context);
    }
    compare_lookups(file_system, group, &records);
}

/// Every inode of every chunk is found as what it is, and none between chunks.
fn compare_lookups(file_system: &Volume, group: AgNumber, records: &[<InodeIndex as BtreeKind>::Record]) {
    let geometry = file_system.geometry();
    for chunk in records.iter().map(|record| record.get(geometry)) {
        for index in [0, 1, 31, 63] {
            let number = geometry.inode_number(group, chunk.inode(index));
            let is_allocated = file_system.groups().is_inode_allocated(number).unwrap();
            assert_eq!(is_allocated, chunk.is_allocated(index), "inode {number}");
        }
        let blocks: u32 = chunk.blocks(file_system.geometry()).iter().map(|(_, length)| length).sum();
        assert_eq!(blocks, chunk.count.div_ceil(geometry.inodes_per_block()), "chunk {}", chunk.start);
    }
    assert!(!file_system.groups().is_inode_allocated(InodeNumber::NULL).unwrap());
    assert!(!file_system.groups().is_inode_allocated(InodeNumber::new(0)).unwrap());
}

fn compare_owners(file_system: &Volume, printed: &Printed<'_>) {
    let flag = |is_set| if is_set { 1 } else { 0 };
    if file_system.group(printed.group).reverse_map().unwrap().is_some() {
        let mappings = file_system.group(printed.group).reverse_mappings().unwrap().map(Result::unwrap);
        let rows = mappings.map(|mapping| {
            let (owner, offset) = (mapping.owner.raw().cast_signed(), mapping.file_block);
            let flags =
                [mapping.is_unwritten, mapping.is_attribute_fork, mapping.is_extent_map_block].map(flag);
            let [unwritten, attribute, map] = flags;
            format!(
                "{},{},{owner},{offset},{unwritten},{attribute},{map}",
                mapping.start, mapping.length_blocks
            )
        });
        printed.assert_rows("agf", "rmaproot", rows);
    }
    if file_system.group(printed.group).reference_counts().unwrap().is_some() {
        let extents = file_system.group(printed.group).shared_extents().unwrap().map(Result::unwrap);
        let rows = extents.map(|extent| {
            let (start, length) = (extent.start, extent.length_blocks);
            format!("{start},{length},{},{}", extent.count, flag(extent.is_cow_staging))
        });
        printed.assert_rows("agf", "refcntroot", rows);
    }
}

fn compare_histogram(file_system: &Volume, db: &XfsDb, name: &str) {
    let mut histogram = FreeSpaceHistogram::default();
    for group in file_system.geometry().groups() {
        let mut of_group = FreeSpaceHistogram::default();
        file_system.group(group).add_free_space(&mut of_group).unwrap();
        histogram.merge(&of_group);
    }
    let rows: Vec<[u64; 3]> =
        histogram.buckets().map(|(from, bucket)| [from.into(), bucket.extents, bucket.blocks]).collect();
    assert_eq!(rows, printed::histogram(db), "{name}: from, extents, blocks");
}
