//! One changed bit in each of many structures: the repair gives the very bytes that were there, without a copy in the log.

use std::{fs, os::unix::fs::FileExt, path::Path};

use uxfs_block::engine::sync::SyncDevice;
use uxfs_format::fault::Structure;
use uxfs_testkit::{
    golden::GoldenImage,
    image::memory_folder,
    seeds::{Random, Seed},
    structures::{self, Instance},
};

use crate::common::repair_image_without_log;

/// Structures that get a changed bit in one image.
const STRUCTURES: usize = 60;

#[test]
fn changed_bits_are_found_by_the_checksum() {
    let seed = Seed::from_environment("changed_bits_are_found_by_the_checksum", 15);
    let mut random = seed.random();
    for name in ["default", "no-parent", "block-1k", "no-rmapbt"] {
        let folder = tempfile::tempdir_in(memory_folder()).unwrap();
        let image = folder.path().join("image");
        GoldenImage::lean(name).unwrap().unpack_to(&image).unwrap();
        let flipped = flip_bits(&image, &mut random);
        assert!(flipped.len() > STRUCTURES / 2);
        let staged = repair_image_without_log(&image);
        assert!(staged.remaining.is_empty(), "{name}: {:?}", staged.remaining);
        for (instance, sound) in &flipped {
            let bytes = instance.read(staged.overlay.as_ref()).unwrap();
            assert!(bytes == *sound, "{name}: {instance:?}: {:?}", staged.actions);
        }
    }
}

/// Nothing leads to the inodes of the group any more, so that no finding names these blocks: the repair goes on all the same.
#[test]
fn changed_bits_in_extent_maps_are_found_behind_lost_headers() {
    let seed = Seed::from_environment("changed_bits_in_extent_maps_are_found_behind_lost_headers", 16);
    let mut random = seed.random();
    let folder = tempfile::tempdir_in(memory_folder()).unwrap();
    let image = folder.path().join("image");
    GoldenImage::lean("default").unwrap().unpack_to(&image).unwrap();
    let device = SyncDevice::open_read_only(&image, 0).unwrap();
    let (geometry, all) = structures::list(&device).unwrap();
    let group_bytes = u64::from(geometry.ag_blocks) << geometry.block_log;
    let group_of = |instance: &Instance| instance.pieces[0].0 / group_bytes;
    let group = group_of(all.iter().find(|instance| instance.structure == Structure::ExtentMap).unwrap());
    let file = fs::File::options().read(true).write(true).open(&image).unwrap();
    let mut flipped = Vec::new();
    for instance in all.into_iter().filter(|instance| group_of(instance) == group) {
        let (offset, length) = instance.pieces[0];
        match instance.structure {
            Structure::ExtentMap => {
                let sound = instance.read(&device).unwrap();
                flip_bit(&file, (offset, length), &mut random);
                flipped.push((instance, sound));
            }
            Structure::FreeSpaceHeader | Structure::InodeHeader | Structure::ReverseMap => {
                file.write_all_at(&vec![0; length as usize], offset).unwrap();
            }
            _ => {}
        }
    }
    assert!(!flipped.is_empty());
    let staged = repair_image_without_log(&image);
    assert!(staged.remaining.is_empty(), "{:?}", staged.remaining);
    for (instance, sound) in &flipped {
        assert!(instance.read(staged.overlay.as_ref()).unwrap() == *sound, "{instance:?}");
    }
}

/// Gives the structures, and their bytes before.
fn flip_bits(image: &Path, random: &mut Random) -> Vec<(Instance, Vec<u8>)> {
    let device = SyncDevice::open_read_only(image, 0).unwrap();
    let (_, mut all) = structures::list(&device).unwrap();
    // Superblocks are written from their copies. Blocks of directories in several pieces are not put together.
    all.retain(|instance| instance.structure != Structure::Superblock && instance.pieces.len() == 1);
    let file = fs::File::options().read(true).write(true).open(image).unwrap();
    let mut flipped = Vec::new();
    for _ in 0..STRUCTURES {
        let instance = all.swap_remove(random.index(all.len()));
        let sound = instance.read(&device).unwrap();
        flip_bit(&file, instance.pieces[0], random);
        flipped.push((instance, sound));
    }
    flipped
}

fn flip_bit(file: &fs::File, (offset, length): (u64, u32), random: &mut Random) {
    let bit = random.index(length as usize * 8);
    let at = offset + bit as u64 / 8;
    let mut byte = [0];
    file.read_exact_at(&mut byte, at).unwrap();
    file.write_all_at(&[byte[0] ^ (0x80 >> (bit % 8))], at).unwrap();
}
