//! What the sample holds beside the recipe of the golden images: a tree of small files, and files and free space in many
//! pieces, so that every btree of a group has several levels where the block size allows it. The second round changes it.

use std::{
    fs::{self, File},
    os::unix::fs::{FileExt, symlink},
    path::{Path, PathBuf},
};

use anyhow::Result;
use rustix::fs::{FallocateFlags, XattrFlags, fallocate, ioctl_ficlone, lsetxattr, syncfs};
use uxfs_testkit::{
    populate::{Recipe, pattern},
    seeds::Random,
};

/// Directories of the tree: so many, with so many each.
const OUTER: u64 = 45;
const INNER: u64 = 4;
/// Directories of several blocks, with so many long names each.
const LONG: u64 = 24;
const LONG_NAMES: u64 = 45;
/// Blocks of the files in pieces.
const PIECES: u64 = 2400;

/// Makes the tree and the files in pieces.
pub fn first_round(root: &Path, recipe: &Recipe) -> Result<()> {
    let mut random = Random::new(1);
    for outer in 0..OUTER {
        for inner in 0..INNER {
            let folder = inner_directory(root, outer, inner);
            fs::create_dir_all(&folder)?;
            for file in 0..2 + random.below(14) {
                make_file(&folder, outer * 1000 + inner * 100 + file, file, &mut random)?;
            }
            if random.below(4) == 0 {
                symlink("elsewhere/".repeat(3 + random.index(50)), folder.join("symbolic-link"))?;
            }
        }
    }
    for index in 0..LONG {
        let folder = long_directory(root, index);
        fs::create_dir_all(&folder)?;
        for name in 0..LONG_NAMES {
            let file = File::create_new(folder.join(long_name(name)))?;
            file.write_all_at(&pattern(4096, 4_000_000 + index * 100 + name, 0, random.below(3000)), 0)?;
        }
    }
    pieces(root, recipe)
}

fn long_directory(root: &Path, index: u64) -> PathBuf {
    root.join(format!("long-names/directory-{index:02}"))
}

fn long_name(index: u64) -> String {
    format!("{}{index:03}", "a-long-name-".repeat(16))
}

fn inner_directory(root: &Path, outer: u64, inner: u64) -> PathBuf {
    root.join(format!("tree/part-{outer:02}/section-{outer:02}-{inner}"))
}

fn make_file(folder: &Path, number: u64, index: u64, random: &mut Random) -> Result<()> {
    let path = folder.join(format!("some-file-name-{index:03}.text"));
    let file = File::create_new(&path)?;
    let length = match random.below(20) {
        0 => 0,
        1 => random.below(100 << 10),
        _ => random.below(8 << 10),
    };
    file.write_all_at(&pattern(4096, 1_000_000 + number, 0, length), 0)?;
    match random.below(30) {
        0..4 => set_attribute(&path, "user.small", 20, random)?,
        4 => set_attribute(&path, "user.leaf", 2000, random)?,
        5 => set_attribute(&path, "user.remote", 20_000, random)?,
        6 => (0..40).try_for_each(|each| set_attribute(&path, &format!("user.many-{each}"), 200, random))?,
        7 => fs::hard_link(&path, folder.join(format!("second-name-{index:03}")))?,
        _ => {}
    }
    Ok(())
}

fn set_attribute(path: &Path, name: &str, length: usize, random: &mut Random) -> Result<()> {
    let mut value = vec![0; length];
    random.fill(&mut value);
    Ok(lsetxattr(path, name, &value, XattrFlags::empty())?)
}

/// A file with a hole in every second block, and files that share every second block.
fn pieces(root: &Path, recipe: &Recipe) -> Result<()> {
    let block = recipe.block_size_bytes;
    let whole = pattern(block, 2_000_000, 0, PIECES * block);
    fs::create_dir(root.join("pieces"))?;
    let holes = File::create_new(root.join("pieces/holes"))?;
    holes.write_all_at(&whole, 0)?;
    let original = File::create_new(root.join("pieces/original"))?;
    original.write_all_at(&whole, 0)?;
    syncfs(File::open(root)?)?;
    punch(&holes, block, 0, PIECES)?;
    if recipe.has_reflink {
        let shared = File::create_new(root.join("pieces/shared"))?;
        ioctl_ficlone(&shared, &original)?;
        overwrite(&shared, block, 0, PIECES / 2)?;
    }
    Ok(syncfs(File::open(root)?)?)
}

fn punch(file: &File, block: u64, from: u64, to: u64) -> Result<()> {
    let punch = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
    (from..to).step_by(2).try_for_each(|index| Ok(fallocate(file, punch, index * block, block)?))
}

fn overwrite(file: &File, block: u64, from: u64, to: u64) -> Result<()> {
    (from..to).step_by(2).try_for_each(|index| {
        Ok(file.write_all_at(&pattern(block, 3_000_000, index * block, block), index * block)?)
    })
}

/// Changes a good part of it, so that most metadata has an older version.
pub fn second_round(root: &Path, recipe: &Recipe) -> Result<()> {
    let mut random = Random::new(2);
    for outer in 0..OUTER {
        for inner in 0..INNER {
            let folder = inner_directory(root, outer, inner);
            let first = folder.join("some-file-name-000.text");
            match random.below(3) {
                0 => {
                    fs::remove_file(&first)?;
                    make_file(&folder, 500_000 + outer, 900, &mut random)?;
                    make_file(&folder, 600_000 + outer, 901, &mut random)?;
                }
                1 => {
                    fs::rename(&first, folder.join("renamed-file"))?;
                    set_attribute(&folder.join("some-file-name-001.text"), "user.later", 3000, &mut random)?;
                }
                _ => {
                    let file = File::options().write(true).open(&first)?;
                    let length = random.below(20 << 10);
                    file.set_len(0)?;
                    file.write_all_at(&pattern(4096, 700_000 + outer, 0, length), 0)?;
                }
            }
        }
    }
    for index in 0..LONG {
        let folder = long_directory(root, index);
        fs::remove_file(folder.join(long_name(random.below(LONG_NAMES))))?;
        File::create_new(folder.join(long_name(LONG_NAMES)))?;
    }
    let block = recipe.block_size_bytes;
    let holes = File::options().write(true).open(root.join("pieces/holes"))?;
    punch(&holes, block, 1, PIECES / 4)?;
    if recipe.has_reflink {
        let shared = File::options().write(true).open(root.join("pieces/shared"))?;
        overwrite(&shared, block, PIECES / 2, PIECES)?;
    }
    Ok(syncfs(File::open(root)?)?)
}
