//! Every golden image that the kernel mounts, extracted to a directory and through GNU tar and bsdtar, is what the kernel
//! says it is: names, types, modes, owners, times, contents, holes, hard links, attributes, ACLs. Those that differ from others in what lies
//! below the files alone go one of the ways.

use std::{
    fs::{self, File},
    panic::resume_unwind,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::{Arc, Mutex},
    thread,
};

use anyhow::{Context, Result, ensure};
use tempfile::TempDir;
use uxfs_block::engine::sync::SyncDevice;
use uxfs_engine::options::MountOptions;
use uxfs_extract::{
    directory::{DirectoryOptions, DirectorySink},
    report::{Aspect, Collector, Severity},
    tar::stream::TarSink,
    walk::{ExtractOptions, Start, extract},
};
use uxfs_filesystem::mount;
use uxfs_testkit::{
    golden::GoldenImage,
    judges::Judge,
    manifest::{self, Bytes, FileKind, Header, Manifest, Timestamp},
    mount::{Access, LoopMount},
    require,
    seeds::Part,
    sparse,
};
use uxfs_volume::volume::Volume;

fn open(image: &Path) -> Result<Volume> {
    let device = SyncDevice::open_read_only(image, 0)?;
    // As the kernel is told to.
    let options = MountOptions { ignore_dirty_log: true, ..MountOptions::default() };
    Ok(mount::open_volume(Arc::new(device), &options)?)
}

fn whole(filesystem: &Volume) -> Start {
    Start { inode: filesystem.geometry().root_inode, name: None }
}

/// An empty XFS with the same block size, on which all that an XFS has can be restored.
fn target(folder: &Path, block_size_bytes: u32) -> Result<LoopMount> {
    let image = folder.join("target.img");
    File::create(&image)?.set_len(2 << 30)?;
    let made = Judge::Mkfs
        .command()
        .args(["-q", "-f", "-b", &format!("size={block_size_bytes}")])
        .arg(&image)
        .status()?;
    ensure!(made.success(), "mkfs.xfs failed");
    let mount = LoopMount::new(&image, Access::ReadWrite)?;
    // Looking at the copy must not change it.
    let quiet = Command::new("mount").args(["-o", "remount,noatime"]).arg(mount.path()).status()?;
    ensure!(quiet.success(), "cannot mount without access times");
    Ok(mount)
}

/// The manifest of a tree, without the facts that a copy cannot have.
fn describe(root: &Path) -> Result<Manifest> {
    let header = Header { image: String::new(), judge: String::new(), made_by: String::new() };
    let mut manifest = manifest::from_tree(root, header)?;
    for entry in &mut manifest.entries {
        entry.inode = None;
        if let Some(details) = &mut entry.details {
            details.sectors = None;
            details.change_time = None;
            details.birth_time = None;
            details.entries = None;
            // Of the file system's making, not the copy's.
            if entry.kind == FileKind::Directory {
                details.size_bytes = None;
            }
        }
    }
    Ok(manifest)
}

/// A path and its runs of data, offset and length.
type DataRuns = (PathBuf, Vec<(u64, u64)>);

/// Unit in which the kernel writes.
const PAGE_BYTES: u64 = 4096;

/// The pages that have data. A copy comes through the page cache: where blocks are smaller than pages, the kernel may allocate
/// the holes within a page too, as it likes and the more the busier the machine is. That they hold zeros is compared apart.
fn in_pages(runs: &[(u64, u64)]) -> Vec<(u64, u64)> {
    let mut pages: Vec<(u64, u64)> = Vec::new();
    for (offset, length) in runs {
        let (start, end) = (offset - offset % PAGE_BYTES, (offset + length).next_multiple_of(PAGE_BYTES));
        match pages.last_mut() {
            Some((last, length)) if *last + *length >= start => *length = end.max(*last + *length) - *last,
            _ => pages.push((start, end - start)),
        }
    }
    pages
}

/// Where the regular files have data, in order of paths.
fn data_runs(root: &Path) -> Result<Vec<DataRuns>> {
    rustix::fs::syncfs(File::open(root)?)?;
    let mut all = Vec::new();
    let mut directories = vec![PathBuf::new()];
    while let Some(directory) = directories.pop() {
        for entry in fs::read_dir(root.join(&directory))? {
            let entry = entry?;
            let path = directory.join(entry.file_name());
            if entry.file_type()?.is_dir() {
                directories.push(path);
            } else if entry.file_type()?.is_file() {
                let runs = sparse::data_runs(&File::open(entry.path())?)?;
                all.push((path, in_pages(&runs)));
            }
        }
    }
    all.sort();
    Ok(all)
}

/// The kernel's view of the source: every copy must be the same.
struct Source {
    name: String,
    manifest: Manifest,
    data_runs: Vec<DataRuns>,
}

impl Source {
    fn compare(&self, to: &str, copy: &Path, lacks: impl Fn(&mut Manifest)) -> Result<()> {
        let name = format!("{} {to}", self.name);
        for (expected, found) in self.data_runs.iter().zip(data_runs(copy)?) {
            ensure!(*expected == found, "{name}: data runs {expected:?} became {found:?}");
        }
        let (mut expected, mut found) = (self.manifest.clone(), describe(copy)?);
        lacks(&mut expected);
        lacks(&mut found);
        let differences = manifest::differences(&expected, &found);
        match manifest::report(&differences, 20) {
            Some(report) => anyhow::bail!("{name}:\n{report}"),
            None => Ok(()),
        }
    }
}

/// Longest extended header that bsdtar reads.
const BSD_TAR_HEADER_BYTES: usize = 1 << 20;

/// Bytes of attribute values of the file that has the most.
fn attribute_bytes_most(manifest: &Manifest) -> usize {
    let details = manifest.entries.iter().filter_map(|entry| entry.details.as_ref());
    // Values are in hexadecimal.
    let bytes = |attributes: &Vec<manifest::Attribute>| attributes.iter().map(|a| a.value.len() / 2).sum();
    details.filter_map(|details| details.attributes.as_ref().map(bytes)).max().unwrap_or(0)
}

fn unescaped(name: &Bytes) -> Bytes {
    Bytes(String::from_utf8_lossy(&name.0).replace("%3D", "=").replace("%25", "%").into_bytes())
}

/// Disks are slow.
fn folder_in_memory() -> Result<TempDir> {
    let memory = Path::new("/dev/shm");
    Ok(if memory.is_dir() { TempDir::new_in(memory)? } else { TempDir::new()? })
}

/// Extracts an image in all three ways, or a lean one in one of them.
fn check_image(golden: &GoldenImage, number: usize) -> Result<()> {
    let folder = folder_in_memory()?;
    // An image of its own: mounts of the same file share what the kernel has cached.
    let image = folder.path().join("source.img");
    golden.unpack_to(&image)?;
    let filesystem = open(&image)?;
    // What this kernel cannot mount, others judge.
    let Ok(mount) = LoopMount::new(&image, Access::ReadOnlyNoRecovery) else {
        eprintln!("{}: not mounted by this kernel, left to others", golden.name());
        return Ok(());
    };
    let source = Source {
        name: golden.name().to_owned(),
        // First, since the kernel takes blocks that were never written for data once they have been read.
        data_runs: data_runs(mount.path())?,
        manifest: describe(mount.path())?,
    };
    mount.unmount()?;
    let target = target(folder.path(), filesystem.geometry().block_size_bytes)?;
    for (way, check) in [check_directory, check_gnu_tar, check_bsd_tar].into_iter().enumerate() {
        if !golden.is_lean() || way == number % 3 {
            check(&filesystem, &source, &target.join(way.to_string()))?;
        }
    }
    target.unmount()
}

fn check_directory(filesystem: &Volume, source: &Source, copy: &Path) -> Result<()> {
    let mut sink = DirectorySink::create(copy, DirectoryOptions::default())?;
    let mut collector = Collector::default();
    extract(filesystem, &whole(filesystem), &ExtractOptions::default(), &mut sink, &mut collector)?;
    for problem in &collector.problems {
        ensure!(problem.aspect == Aspect::InodeFlags, "{}: {problem:?}", source.name);
    }
    source.compare("to a directory", copy, |_| {})
}

fn check_gnu_tar(filesystem: &Volume, source: &Source, copy: &Path) -> Result<()> {
    // It tells of every time in the future, and of the word that says that a name is not UTF-8.
    let quiet = ["--warning=no-timestamp", "--warning=no-unknown-keyword"];
    let all = ["-xpf", "-", "--numeric-owner", "--xattrs", "--xattrs-include=*", "--acls"];
    through_tar(Judge::GnuTar, &[quiet.as_slice(), &all].concat(), filesystem, copy)?;
    source.compare("through GNU tar", copy, |manifest| {
        lacks_sockets(manifest);
        let details = manifest.entries.iter_mut().filter_map(|entry| entry.details.as_mut());
        details.for_each(|details| details.access_time = None);
    })
}

fn check_bsd_tar(filesystem: &Volume, source: &Source, copy: &Path) -> Result<()> {
    if attribute_bytes_most(&source.manifest) > BSD_TAR_HEADER_BYTES {
        eprintln!("{}: more attributes on one file than bsdtar takes", source.name);
        return Ok(());
    }
    through_tar(Judge::BsdTar, &["-xpf", "-", "--numeric-owner"], filesystem, copy)?;
    source.compare("through bsdtar", copy, |manifest| {
        lacks_sockets(manifest);
        for entry in &mut manifest.entries {
            let Some(details) = &mut entry.details else { continue };
            // It leaves the time of the place itself,
            if entry.path.0 == b"/" {
                details.modification_time = None;
            }
            // takes the fraction of a negative number for a positive one,
            for time in [&mut details.access_time, &mut details.modification_time] {
                *time = time.filter(|Timestamp(seconds, nanoseconds)| *seconds >= 0 || *nanoseconds == 0);
            }
            // and names of attributes as they are, where GNU tar escapes `=`.
            let attributes = details.attributes.iter_mut().flatten();
            attributes.for_each(|attribute| attribute.name = unescaped(&attribute.name));
        }
    })
}

fn lacks_sockets(manifest: &mut Manifest) {
    manifest.entries.retain(|entry| entry.kind != FileKind::Socket);
}

/// Pipes the archive into a tar, which must not complain.
fn through_tar(judge: Judge, arguments: &[&str], filesystem: &Volume, copy: &Path) -> Result<()> {
    fs::create_dir(copy)?;
    let mut command = judge.command();
    command.args(arguments).current_dir(copy).env("LC_ALL", "C.UTF-8");
    let mut tar = command.stdin(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
    let mut sink = TarSink::new(tar.stdin.take().context("no pipe")?);
    let mut collector = Collector::default();
    let options = ExtractOptions { workers: 2 };
    extract(filesystem, &whole(filesystem), &options, &mut sink, &mut collector)?;
    drop(sink.into_inner());
    let output = tar.wait_with_output()?;
    let words = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success() && words.is_empty(), "{}: {words}", judge.name());
    for problem in &collector.problems {
        ensure!(problem.severity == Severity::LeftOut, "{problem:?}");
    }
    Ok(())
}

/// All images, or those whose name is in `UXFS_GOLDEN`, two at a time.
fn check_all() -> Result<()> {
    let mut images = GoldenImage::all_mostly_lean()?;
    if let Ok(names) = std::env::var("UXFS_GOLDEN") {
        images.retain(|image| names.split(',').any(|name| name == image.name()));
    }
    // The same tree in another geometry.
    let part = Part::of_run(3);
    images = images
        .into_iter()
        .enumerate()
        .filter(|(number, image)| !image.is_lean() || part.has(*number))
        .map(|(_, image)| image)
        .collect();
    let waiting = Mutex::new(images.into_iter().enumerate());
    let work = || -> Result<()> {
        loop {
            let next = waiting.lock().ok().and_then(|mut waiting| waiting.next());
            let Some((number, golden)) = next else { return Ok(()) };
            check_image(&golden, number).with_context(|| golden.name().to_owned())?;
        }
    };
    thread::scope(|scope| {
        let threads = [scope.spawn(work), scope.spawn(work)];
        threads.into_iter().try_for_each(|thread| thread.join().unwrap_or_else(|panic| resume_unwind(panic)))
    })
}

#[test]
fn every_copy_equals_the_kernels_mount() {
    require!(Judge::Kernel, Judge::Mkfs, Judge::GnuTar, Judge::BsdTar);
    check_all().unwrap();
}
