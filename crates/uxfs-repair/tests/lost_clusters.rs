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
    golden::GoldenImage, image::memory_folder, judges::Judge, require, structures, verdict::repair_is_silent,
};
use uxfs_volume::volume::{Volume, VolumeOptions};

use crate::common::repair_image_without_log;

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
