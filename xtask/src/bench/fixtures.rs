//! What benchmarks work on: images made by mkfs.xfs and the kernel, and the same trees as plain directories. Kept
//! between runs: making them takes a minute.

use std::{
    fs,
    io::{BufWriter, Write},
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
    process::Command,
    thread,
};

use anyhow::{Context, Result};
use uxfs_testkit::{
    judges::Judge,
    mount::{Access, LoopMount},
    seeds::Random,
};

use crate::process::run;

/// An image with `count` empty files in directories of 1,000. Made once.
pub fn inodes_image(directory: &Path, count: u32) -> Result<PathBuf> {
    make(directory, &format!("inodes-{count}"), 16 << 30, |root| fill_with_empty_files(root, count))
}

/// An image with `count` empty files in directories of `names`, which uxfs makes of a manifest. Made once.
pub fn bulk_image(uxfs: &Path, directory: &Path, count: u32, names: u32) -> Result<PathBuf> {
    fs::create_dir_all(directory)?;
    let image = directory.join(format!("bulk-{count}-{names}.img"));
    let complete = directory.join(format!("bulk-{count}-{names}.complete"));
    if complete.exists() {
        return Ok(image);
    }
    eprintln!("bench: making {} (once)", image.display());
    let manifest = directory.join("bulk.mtree");
    let mut lines = BufWriter::new(fs::File::create(&manifest)?);
    lines.write_all(b"#mtree\n/set type=file uid=0 gid=0 mode=0644 time=1700000000.0 size=0\n")?;
    for directory in 0..count.div_ceil(names) {
        writeln!(lines, "./d{directory:05} type=dir mode=0755")?;
        for file in 0..names.min(count - directory * names) {
            writeln!(lines, "./d{directory:05}/file-{file:04}")?;
        }
    }
    lines.into_inner()?;
    // An inode and its name take some 560 bytes. Inodes may take more than the quarter that mkfs allows them.
    let mebibytes = u64::from(count) * 1024 / (1 << 20) + 1024;
    let mut command = Command::new(uxfs);
    run(command
        .args(["mkfs", "-f", "-i", "maxpct=0", "--size", &format!("{mebibytes}M"), "--from"])
        .arg(&manifest)
        .arg(&image))?;
    fs::remove_file(&manifest)?;
    fs::File::create(&complete)?.write_all(b"made by xtask bench\n")?;
    Ok(image)
}

/// A copy of an image with one block of directory entries zeroed, the one in the middle.
pub fn without_directory_block(image: &Path) -> Result<PathBuf> {
    const BLOCK_BYTES: u64 = 4096;
    let damaged = image.with_extension("damaged");
    run(Command::new("cp").arg("--sparse=always").arg(image).arg(&damaged))?;
    let file = fs::File::options().read(true).write(true).open(&damaged)?;
    let mut magic = [0; 4];
    let mut found = Vec::new();
    for start in (0..file.metadata()?.len()).step_by(BLOCK_BYTES as usize) {
        file.read_exact_at(&mut magic, start)?;
        if &magic == b"XDD3" {
            found.push(start);
        }
    }
    let middle = found.get(found.len() / 2).context("the image has no block of directory entries")?;
    file.write_all_at(&[0; BLOCK_BYTES as usize], *middle)?;
    Ok(damaged)
}

/// An image with a tree of about `count` files and `bytes` bytes of contents that do not compress: many small files,
/// a few large ones, as in an operating system image. Made once.
pub fn tree_image(directory: &Path, count: u32, bytes: u64) -> Result<PathBuf> {
    make(directory, &format!("tree-{count}-{}m", bytes >> 20), bytes * 2 + (1 << 30), |root| {
        fill_with_tree(root, count, bytes)
    })
}

/// The same empty files as a directory. Made once.
pub fn empty_files(directory: &Path, count: u32) -> Result<PathBuf> {
    make_directory(directory, &format!("empty-{count}"), |root| fill_with_empty_files(root, count))
}

/// The same tree as a directory. Made once.
pub fn tree(directory: &Path, count: u32, bytes: u64) -> Result<PathBuf> {
    make_directory(directory, &format!("source-{count}-{}m", bytes >> 20), |root| {
        fill_with_tree(root, count, bytes)
    })
}

fn fill_with_empty_files(root: &Path, count: u32) -> Result<()> {
    in_two_threads(|thread| {
        for directory in (thread..count.div_ceil(1000)).step_by(2) {
            let path = root.join(format!("d{directory:05}"));
            fs::create_dir(&path)?;
            for file in 0..1000.min(count - directory * 1000) {
                fs::File::create(path.join(format!("file-{file:04}")))?;
            }
        }
        Ok(())
    })
}

fn fill_with_tree(root: &Path, count: u32, bytes: u64) -> Result<()> {
    in_two_threads(|thread| {
        let mut random = Random::new(u64::from(thread) + 1);
        let mut contents = vec![0; 64 << 20];
        random.fill(&mut contents);
        let average = bytes / u64::from(count);
        for directory in (thread..count.div_ceil(50)).step_by(2) {
            let path = root.join(format!("a{:02}/b{:02}/c{directory:05}", directory % 16, directory % 64));
            fs::create_dir_all(&path)?;
            for file in 0..50.min(count - directory * 50) {
                let size = size_of_file(&mut random, average);
                let start = random.below(contents.len() as u64 - size) as usize;
                let file = fs::File::create(path.join(format!("some-file-name-{file:03}.dat")))?;
                file.write_all_at(&contents[start..start + size as usize], 0)?;
            }
        }
        Ok(())
    })
}

fn make_directory(directory: &Path, name: &str, fill: impl FnOnce(&Path) -> Result<()>) -> Result<PathBuf> {
    let (root, complete) = (directory.join(name), directory.join(format!("{name}.complete")));
    if complete.exists() {
        return Ok(root);
    }
    eprintln!("bench: making {} (once)", root.display());
    if root.exists() {
        fs::remove_dir_all(&root)?;
    }
    fs::create_dir_all(&root)?;
    fill(&root)?;
    fs::File::create(&complete)?.write_all(b"made by xtask bench\n")?;
    Ok(root)
}

/// Nine of ten files are a fifth of the average, the tenth holds the rest.
fn size_of_file(random: &mut Random, average: u64) -> u64 {
    let small = average / 5;
    match random.below(10) {
        0 => random.below(2 * (average * 10 - 9 * small)),
        _ => random.below(2 * small),
    }
}

fn in_two_threads(work: impl Fn(u32) -> Result<()> + Sync) -> Result<()> {
    thread::scope(|scope| {
        let other = scope.spawn(|| work(1));
        work(0)?;
        other.join().map_err(|_| anyhow::anyhow!("a thread that fills the image panicked"))?
    })
}

fn make(
    directory: &Path,
    name: &str,
    size_bytes: u64,
    fill: impl FnOnce(&Path) -> Result<()>,
) -> Result<PathBuf> {
    fs::create_dir_all(directory)?;
    let image = directory.join(format!("{name}.img"));
    let complete = directory.join(format!("{name}.complete"));
    if complete.exists() {
        return Ok(image);
    }
    eprintln!("bench: making {} (once)", image.display());
    fs::File::create(&image)?.set_len(size_bytes)?;
    run(Judge::Mkfs.command().args(["-q", "-f", "-m", "rmapbt=1", "-n", "parent=1"]).arg(&image))?;
    let mount = LoopMount::new(&image, Access::ReadWrite)?;
    fill(mount.path())?;
    mount.unmount()?;
    fs::File::create(&complete)?.write_all(b"made by xtask bench\n")?;
    Ok(image)
}
