//! One changed bit in each of many structures: the repair gives the very bytes that were there, without a copy in the log.
#![allow(clippy::unwrap_used)]

mod common;

use std::{fs, os::unix::fs::FileExt, path::Path};

use uxfs_block::engine::sync::SyncDevice;
use uxfs_format::fault::Structure;
use uxfs_testkit::{
    golden::GoldenImage,
    image::memory_folder,
    seeds::{Random, Seed},
    structures::{self, Instance},
};

use common::repair_image_without_log;

/// Structures that get a changed bit in one image.
const STRUCTURES: usize = 60;

#[test]
fn changed_bits_are_found_by_the_checksum() {
    let seed = Seed::from_environment("changed_bits_are_found_by_the_checksum", 15);
    let mut random = seed.random();
    for name in ["default", "no-parent", "block-1k", "no-rmapbt"] {
        let folder = tempfile::tempdir_in(memory_folder()).unwrap();
        let image = folder.path().join("image");
        GoldenImage::named(name).unwrap().unpack_to(&image).unwrap();
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
        let (offset, length) = instance.pieces[0];
        let sound = instance.read(&device).unwrap();
        let bit = random.index(length as usize * 8);
        let at = offset + bit as u64 / 8;
        let mut byte = [0];
        file.read_exact_at(&mut byte, at).unwrap();
        file.write_all_at(&[byte[0] ^ (0x80 >> (bit % 8))], at).unwrap();
        flipped.push((instance, sound));
    }
    flipped
}
