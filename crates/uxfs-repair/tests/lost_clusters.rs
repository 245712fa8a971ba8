//! An inode cluster of which nothing is left, in a group whose inode btrees and reverse map are gone as well: beside its sound neighbours it looks
//! like a hole of a sparse chunk. What names its inodes tells that it is none.

use std::{
    collections::BTreeSet,
    fs,
    ops::{ControlFlow, Range},
    os::unix::fs::FileExt,
    path::Path,
    sync::Arc,
};

use uxfs_block::engine::sync::SyncDevice;
use uxfs_format::{fault::Structure, geometry::Geometry};
use uxfs_testkit::{
    golden::GoldenImage,
    image::{make, memory_folder},
    judges::Judge,
    mount::{Access, LoopMount},
    require,
    shapes::Shape,
    structures::{self, Instance, Owner},
    verdict::repair_is_silent,
};
use uxfs_volume::volume::{Volume, VolumeOptions};

use crate::common::{repair_image, repair_image_without_log};

/// The names in the root directory, with their inodes.
fn names_in_the_root(image: &Path) -> BTreeSet<(String, u64)> {
    let device = Arc::new(SyncDevice::open_read_only(image, 0).unwrap());
    let volume = Volume::open(device, &VolumeOptions::default()).unwrap();
    let root = volume.inode(volume.geometry().root_inode).unwrap();
    let mut names = BTreeSet::new();
    volume
        .read_directory(&root, 0, |entry| {
            names.insert((String::from_utf8_lossy(entry.name).into_owned(), entry.inode.get()));
            ControlFlow::Continue(())
        })
        .unwrap();
    names
}

/// Zeros over the cluster of the root directory, and over all that tells which chunks its group has. Gives the inodes of the cluster.
fn lose_the_root_cluster(image: &Path) -> Range<u64> {
    let (geometry, all) = structures::list(&SyncDevice::open_read_only(image, 0).unwrap()).unwrap();
    let group_bytes = u64::from(geometry.ag_blocks) << geometry.block_log;
    let file = fs::File::options().write(true).open(image).unwrap();
    let of_group =
        [Structure::InodeHeader, Structure::InodeIndex, Structure::FreeInodeIndex, Structure::ReverseMap];
    for instance in all.iter().filter(|instance| of_group.contains(&instance.structure)) {
        let (offset, length) = instance.pieces[0];
        if offset < group_bytes {
            file.write_all_at(&vec![0; length as usize], offset).unwrap();
        }
    }
    let place = geometry.inode_place(geometry.root_inode).unwrap();
    let (block, length_blocks) = geometry.inode_cluster_of(place.group, place.block).unwrap();
    let sector = geometry.sector_of_group_block(place.group, block).unwrap();
    let zeros = vec![0; (length_blocks as usize) << geometry.block_log];
    file.write_all_at(&zeros, Geometry::byte_of_sector(sector)).unwrap();
    let first = u64::from(block.get() << geometry.inodes_per_block_log);
    first..first + u64::from(length_blocks << geometry.inodes_per_block_log)
}

#[test]
fn a_lost_cluster_is_no_hole_of_a_sparse_chunk() {
    require!(Judge::XfsRepair);
    let folder = tempfile::tempdir_in(memory_folder()).unwrap();
    let image = folder.path().join("image");
    GoldenImage::lean("default").unwrap().unpack_to(&image).unwrap();
    let before = names_in_the_root(&image);
    let cluster = lose_the_root_cluster(&image);
    let staged = repair_image_without_log(&image);
    assert!(staged.remaining.is_empty(), "{:#?}", staged.remaining);
    repair_is_silent(&image).unwrap();
    let after = names_in_the_root(&image);
    // Of what lay in the cluster itself, entry and parent pointer were both lost.
    let mut elsewhere =
        before.iter().filter(|(name, inode)| !name.starts_with('.') && !cluster.contains(inode));
    assert!(elsewhere.clone().count() > 2, "{before:?}");
    assert!(elsewhere.all(|name| after.contains(name)), "{after:?} of {before:?}");
}

/// Without sparse inodes chunks may begin at any cluster. One is gone, with all that tells where it began but the log.
#[test]
fn a_lost_chunk_begins_where_the_log_made_it() {
    require!(Judge::Mkfs, Judge::XfsRepair, Judge::Kernel);
    let folder = tempfile::tempdir_in(memory_folder()).unwrap();
    let image = folder.path().join("image");
    make(&image, 64 << 20, &Shape::named("no-feature").words().collect::<Vec<_>>()).unwrap();
    let mount = LoopMount::new(&image, Access::ReadWrite).unwrap();
    for file in 0..400 {
        // Their blocks lie between the chunks.
        fs::write(mount.path().join(format!("file {file}")), vec![1; file % 7 * 4096]).unwrap();
    }
    mount.unmount().unwrap();
    let in_use = || -> BTreeSet<u64> {
        let device = SyncDevice::open_read_only(&image, 0).unwrap();
        let (_, all) = structures::list(&device).unwrap();
        let in_use = all.iter().filter(|instance| instance.read(&device).unwrap()[2..4] != [0, 0]);
        in_use.filter_map(number_of).collect()
    };
    let before = in_use();
    let (geometry, all) = structures::list(&SyncDevice::open_read_only(&image, 0).unwrap()).unwrap();
    let file = fs::File::options().write(true).open(&image).unwrap();
    let zero = |instance: &Instance| {
        let (offset, length) = instance.pieces[0];
        file.write_all_at(&vec![0; length as usize], offset).unwrap();
    };
    let index = [Structure::InodeHeader, Structure::InodeIndex, Structure::FreeInodeIndex];
    all.iter().filter(|instance| index.contains(&instance.structure)).for_each(zero);
    // The inodes of chunks that begin between two multiples of 64.
    let mut starts: Vec<u64> = Vec::new();
    for inode in all.iter().filter_map(number_of) {
        if starts.last().is_none_or(|start| inode >= start + 64) {
            starts.push(inode);
        }
    }
    let odd: Vec<u64> = starts.into_iter().filter(|start| start % 64 != 0).collect();
    assert!(!odd.is_empty());
    let is_lost = |inode: u64| odd.iter().any(|start| (*start..start + 64).contains(&inode));
    all.iter().filter(|instance| number_of(instance).is_some_and(is_lost)).for_each(zero);
    let staged = repair_image(&image);
    assert!(staged.remaining.is_empty(), "{odd:?} {:?}", staged.remaining);
    repair_is_silent(&image).unwrap();
    let lost: Vec<u64> = before.difference(&in_use()).copied().collect();
    assert!(lost.is_empty(), "{odd:?} of {}: {lost:?}", geometry.ag_count);
}

/// The number of an inode; `None` for anything else.
fn number_of(instance: &Instance) -> Option<u64> {
    match (instance.structure, instance.owner) {
        (Structure::Inode, Owner::Inode(number)) => Some(number),
        _ => None,
    }
}
