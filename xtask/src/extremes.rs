//! `cargo xtask extremes`: images that are too large for a test, judged by xfs_repair and the kernel.

use std::{
    fs::{self, File},
    io::{BufWriter, Write},
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
    process::Command,
    time::Instant,
};

use anyhow::{Context, Result, ensure};
use uxfs_testkit::{
    mount::{Access, LoopMount},
    same_tree,
    verdict::{holds_the_same, kernel_removes_everything, repair_is_silent},
};

use crate::{bench, process};

/// Arguments of `cargo xtask extremes`.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// Folder for sources and images, best in memory
    #[arg(long, default_value = "/dev/shm")]
    directory: PathBuf,
    /// Run only the cases whose names contain this
    #[arg(long, default_value = "")]
    only: String,
    /// Run with the full size divided by this
    #[arg(long, default_value_t = 1)]
    part: u32,
    /// The uxfs binary; built unless given
    #[arg(long)]
    uxfs: Option<PathBuf>,
}

type Make = fn(&Path, u32) -> Result<()>;

const CASES: [(&str, &str, Make); 6] = [
    ("million-empty-files", "4g", empty_files),
    ("million-names", "4g", names),
    ("hundred-thousand-links", "1g", links),
    ("hole-of-a-tebibyte", "1g", hole),
    ("twenty-thousand-extents", "1g", extents),
    ("usr", "16g", usr),
];

/// The case whose source is an archive.
const ATTRIBUTES: &str = "hundred-thousand-attributes";

/// Names of all cases.
pub fn cases() -> impl Iterator<Item = &'static str> {
    CASES.iter().map(|case| case.0).chain([ATTRIBUTES])
}

/// Runs all cases.
pub fn run(arguments: &Arguments) -> Result<()> {
    let uxfs = arguments.uxfs.clone().map_or_else(bench::build, Ok)?;
    let work = tempfile::Builder::new().prefix("uxfs-extremes-").tempdir_in(&arguments.directory)?;
    for (name, size, make) in CASES.iter().filter(|case| case.0.contains(&arguments.only)) {
        let (source, image) = (work.path().join("source"), work.path().join("image"));
        fs::create_dir(&source)?;
        make(&source, arguments.part)?;
        let source = if *name == "usr" { PathBuf::from("/usr") } else { source };
        fill(&uxfs, &source, &image, size)?;
        judge(name, &image, &source)?;
        fs::remove_file(&image)?;
        let own = work.path().join("source");
        fs::remove_dir_all(own)?;
    }
    if ATTRIBUTES.contains(&arguments.only) {
        attributes(&uxfs, work.path(), 100_000 / arguments.part)?;
    }
    Ok(())
}

fn fill(uxfs: &Path, source: &Path, image: &Path, size: &str) -> Result<()> {
    let started = Instant::now();
    let mut command = Command::new(uxfs);
    process::run(command.args(["mkfs", "-q", "--atime", "--size", size, "--from"]).arg(source).arg(image))?;
    println!("{:>8.2} s to fill from {}", started.elapsed().as_secs_f64(), source.display());
    Ok(())
}

fn judge(name: &str, image: &Path, source: &Path) -> Result<()> {
    let what = if name.starts_with("million") {
        // Manifests of so many would be too large.
        repair_is_silent(image)?;
        let mount = LoopMount::new(image, Access::ReadOnly)?;
        let names = same_tree::compare(source, mount.path()).context(name.to_owned())?;
        mount.unmount()?;
        format!("{names} names with all that belongs to them equal")
    } else {
        format!("{} paths equal", holds_the_same(image, source).context(name.to_owned())?)
    };
    let removed = kernel_removes_everything(image, 1).context(name.to_owned())?;
    println!("{name}: xfs_repair silent, {what}; the kernel removed {removed} names, xfs_repair silent");
    Ok(())
}

fn empty_files(root: &Path, part: u32) -> Result<()> {
    for directory in 0..1000 / part {
        let path = root.join(format!("d{directory:04}"));
        fs::create_dir(&path)?;
        for file in 0..1000 {
            File::create(path.join(format!("file-{file:04}")))?;
        }
    }
    Ok(())
}

fn names(root: &Path, part: u32) -> Result<()> {
    let path = root.join("all");
    fs::create_dir(&path)?;
    for file in 0..1_000_000 / part {
        File::create(path.join(format!("a name of some length {file:07}")))?;
    }
    Ok(())
}

fn links(root: &Path, part: u32) -> Result<()> {
    fs::write(root.join("0"), "one file")?;
    for number in 1..100_000 / part {
        fs::hard_link(root.join("0"), root.join(number.to_string()))?;
    }
    Ok(())
}

fn hole(root: &Path, _: u32) -> Result<()> {
    File::create(root.join("hole"))?.set_len(1 << 40)?;
    let file = File::create(root.join("ends"))?;
    file.write_all_at(b"begin", 0)?;
    Ok(file.write_all_at(b"end", (1 << 40) - 3)?)
}

fn extents(root: &Path, part: u32) -> Result<()> {
    let file = File::create(root.join("extents"))?;
    for number in 0..u64::from(20_000 / part) {
        file.write_all_at(&number.to_le_bytes(), number * 8192)?;
    }
    Ok(())
}

fn usr(_: &Path, _: u32) -> Result<()> {
    Ok(())
}

/// No host holds them all in one listing: they come from an archive, and the kernel is asked for each.
fn attributes(uxfs: &Path, work: &Path, count: u32) -> Result<()> {
    let (archive, image) = (work.join("attributes.tar"), work.join("image"));
    let mut records = Vec::new();
    for number in 0..count {
        let value = format!("value of {number}");
        let text = format!(" SCHILY.xattr.user.attribute-{number:06}={value}\n");
        // The length counts its own digits.
        let mut length = text.len() + 2;
        while length.to_string().len() + text.len() != length {
            length = length.to_string().len() + text.len();
        }
        records.extend_from_slice(format!("{length}{text}").as_bytes());
    }
    let mut file = BufWriter::new(File::create(&archive)?);
    file.write_all(&header("PaxHeader", records.len() as u64, b'x'))?;
    file.write_all(&records)?;
    file.write_all(&vec![0; records.len().next_multiple_of(512) - records.len()])?;
    file.write_all(&header("file", 0, b'0'))?;
    file.write_all(&[0; 1024])?;
    file.flush()?;
    fill(uxfs, &archive, &image, "1g")?;
    repair_is_silent(&image)?;
    let mount = LoopMount::new(&image, Access::ReadOnly)?;
    let mut buffer = [0; 64];
    for number in 0..count {
        let name = format!("user.attribute-{number:06}");
        let length = rustix::fs::getxattr(mount.join("file"), name.as_str(), &mut buffer)?;
        ensure!(buffer[..length] == *format!("value of {number}").as_bytes(), "{name}");
    }
    // No host lists so many; the next number must not be there.
    let beyond = format!("user.attribute-{count:06}");
    let answer = rustix::fs::getxattr(mount.join("file"), beyond.as_str(), &mut buffer);
    ensure!(answer == Err(rustix::io::Errno::NODATA), "{beyond}: {answer:?}");
    mount.unmount()?;
    let removed = kernel_removes_everything(&image, 1)?;
    println!("{ATTRIBUTES}: the kernel reads all {count}; removed {removed} name, xfs_repair silent");
    Ok(())
}

/// A tar header.
fn header(name: &str, size_bytes: u64, kind: u8) -> [u8; 512] {
    let mut header = [0; 512];
    let mut put = |at: usize, bytes: &[u8]| header[at..at + bytes.len()].copy_from_slice(bytes);
    put(0, name.as_bytes());
    put(100, b"0000644\0");
    put(108, b"0000000\0");
    put(116, b"0000000\0");
    put(124, format!("{size_bytes:011o}\0").as_bytes());
    put(136, b"14000000000\0");
    put(148, b"        ");
    put(156, &[kind]);
    put(257, b"ustar\x0000");
    let sum: u32 = header.iter().map(|byte| u32::from(*byte)).sum();
    header[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
    header
}
