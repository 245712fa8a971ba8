//! Little changed in each of many structures: the repair gives the very bytes that were there, without a copy in the log.

use std::{collections::HashSet, fs, os::unix::fs::FileExt, path::Path};

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

/// What every structure says of itself is known, so that the checksum proves the rest: of what has a wrong uuid, and of what has a few more
/// changed bits.
#[test]
fn known_values_and_a_few_bits_are_put_right_by_the_checksum() {
    let seed = Seed::from_environment("known_values_and_a_few_bits_are_put_right_by_the_checksum", 17);
    let mut random = seed.random();
    for name in ["default", "block-1k"] {
        let folder = tempfile::tempdir_in(memory_folder()).unwrap();
        let image = folder.path().join("image");
        GoldenImage::lean(name).unwrap().unpack_to(&image).unwrap();
        let device = SyncDevice::open_read_only(&image, 0).unwrap();
        let (_, mut all) = structures::list(&device).unwrap();
        all.retain(|instance| uuid_offset_bytes(instance.structure).is_some() && instance.pieces.len() == 1);
        let file = fs::File::options().read(true).write(true).open(&image).unwrap();
        let (mut changed, mut kinds) = (Vec::new(), HashSet::new());
        for number in 0..STRUCTURES {
            let instance = all.swap_remove(random.index(all.len()));
            let (sound, (offset, length)) = (instance.read(&device).unwrap(), instance.pieces[0]);
            let uuid = uuid_offset_bytes(instance.structure).unwrap();
            let at = offset + uuid + random.below(16);
            match number % 4 {
                0 => flip_bits_of_byte(&file, at, 0x15),
                1 => {
                    flip_bits_of_byte(&file, at, 0x15);
                    flip_bit(&file, (offset, length), &mut random);
                }
                2 => flip_bits_of_byte(&file, offset + random.below(length.into()), 0xa7),
                // In larger structures other damage may look like two bits.
                _ if instance.structure == Structure::Inode => {
                    flip_bit(&file, (offset, length / 2), &mut random);
                    flip_bit(&file, (offset + u64::from(length / 2), length / 2), &mut random);
                }
                _ => flip_bits_of_byte(&file, at, 0xff),
            }
            kinds.insert(instance.structure);
            changed.push((instance, sound));
        }
        assert!(kinds.len() > 3, "{kinds:?}");
        let staged = repair_image_without_log(&image);
        assert!(staged.remaining.is_empty(), "{name}: {:?}", staged.remaining);
        for (instance, sound) in &changed {
            let bytes = instance.read(staged.overlay.as_ref()).unwrap();
            assert!(bytes == *sound, "{name}: {instance:?}: {:?}", staged.actions);
        }
    }
}

/// Where the uuid lies, of structures that have one.
fn uuid_offset_bytes(structure: Structure) -> Option<u64> {
    use Structure as S;
    Some(match structure {
        S::FreeSpaceHeader => 64,
        S::InodeHeader => 296,
        S::FreeList => 8,
        S::AttributeRemoteValue | S::Symlink => 16,
        S::DirectoryBlock | S::DirectoryData | S::DirectoryFreeIndex => 24,
        S::DirectoryLeaf | S::DirectoryLeafNode | S::DirectoryNode => 32,
        S::AttributeLeaf | S::AttributeNode => 32,
        S::ExtentMap => 40,
        S::Inode => 160,
        structure if structure.is_group_btree() => 32,
        _ => return None,
    })
}

/// Nothing leads to the inodes of the group any more, so that no finding names these blocks: the repair goes on all the same.
#[test]
fn changed_bits_are_found_behind_lost_headers() {
    let seed = Seed::from_environment("changed_bits_are_found_behind_lost_headers", 16);
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
            // Only the walk over all chunks finds them.
            Structure::Inode if random.below(8) == 0 => {
                let sound = instance.read(&device).unwrap();
                flip_bits_of_byte(&file, offset + 160, 0x15);
                flip_bit(&file, (offset, length), &mut random);
                flipped.push((instance, sound));
            }
            Structure::FreeSpaceHeader | Structure::InodeHeader | Structure::ReverseMap => {
                file.write_all_at(&vec![0; length as usize], offset).unwrap();
            }
            _ => {}
        }
    }
    for structure in [Structure::ExtentMap, Structure::Inode] {
        assert!(flipped.iter().any(|(instance, _)| instance.structure == structure), "{structure:?}");
    }
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
    flip_bits_of_byte(file, offset + bit as u64 / 8, 0x80 >> (bit % 8));
}

fn flip_bits_of_byte(file: &fs::File, at: u64, bits: u8) {
    let mut byte = [0];
    file.read_exact_at(&mut byte, at).unwrap();
    file.write_all_at(&[byte[0] ^ bits], at).unwrap();
}
