//! Every golden image that the kernel mounts, extracted to a directory and through GNU tar and bsdtar, is what the kernel
//! says it is: names, types, modes, owners, times, contents, holes, hard links, attributes, ACLs.

use std::{
    fs::{self, File},
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::Arc,
};

use anyhow::{Context, Result, ensure};
use tempfile::TempDir;
use uxfs_block::engine::sync::SyncDevice;
use uxfs_core::{filesystem::FileSystem, mount::MountOptions};
use uxfs_extract::{
    directory::{DirectoryOptions, DirectorySink},
    report::{Aspect, Collector, Severity},
    tar::stream::TarSink,
    walk::{ExtractOptions, Start, extract},
};
use uxfs_testkit::{
    golden::GoldenImage,
    judges::Judge,
    manifest::{self, Bytes, FileKind, Header, Manifest, Timestamp},
    mount::{Access, LoopMount},
    require, sparse,
};

fn open(image: &Path) -> Result<FileSystem> {
    let device = SyncDevice::open_read_only(image, 0)?;
    Ok(FileSystem::mount(Arc::new(device), &MountOptions::default())?)
}

fn whole(filesystem: &FileSystem) -> Start {
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

/// What a tree holds, as far as a copy can have it.
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

/// Where the regular files have data, in order of paths.
fn data_runs(root: &Path) -> Result<Vec<DataRuns>> {
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
                all.push((path, runs));
            }
        }
    }
    all.sort();
    Ok(all)
}

fn compare(name: &str, source: &Path, copy: &Path, change: impl Fn(&mut Manifest)) -> Result<()> {
    // First, since the kernel takes blocks that were never written for data once they have been read.
    for (expected, found) in data_runs(source)?.iter().zip(data_runs(copy)?) {
        ensure!(*expected == found, "{name}: data runs {expected:?} became {found:?}");
    }
    let (mut expected, mut found) = (describe(source)?, describe(copy)?);
    change(&mut expected);
    change(&mut found);
    let differences = manifest::differences(&expected, &found);
    if let Some(report) = manifest::report(&differences, 20) {
        anyhow::bail!("{name}:\n{report}");
    }
    Ok(())
}

fn unescaped(name: &Bytes) -> Bytes {
    Bytes(String::from_utf8_lossy(&name.0).replace("%3D", "=").replace("%25", "%").into_bytes())
}

/// Disks are slow.
fn folder_in_memory() -> Result<TempDir> {
    let memory = Path::new("/dev/shm");
    Ok(if memory.is_dir() { TempDir::new_in(memory)? } else { TempDir::new()? })
}

/// Every image that the kernel mounts, with that mount.
fn each_image(mut test: impl FnMut(&str, &FileSystem, &Path, &Path) -> Result<()>) -> Result<()> {
    for golden in GoldenImage::all()? {
        let folder = folder_in_memory()?;
        // An image of its own: mounts of the same file share what the kernel has cached.
        let image = folder.path().join("source.img");
        golden.unpack_to(&image)?;
        let filesystem = open(&image).context(golden.name().to_owned())?;
        // What this kernel cannot mount, others judge.
        let Ok(mount) = LoopMount::new(&image, Access::ReadOnlyNoRecovery) else {
            eprintln!("{}: not mounted by this kernel, left to xfs_db", golden.name());
            continue;
        };
        let target = target(folder.path(), filesystem.geometry().block_size_bytes)?;
        let copy = target.join("copy");
        fs::create_dir(&copy)?;
        test(golden.name(), &filesystem, mount.path(), &copy)?;
        target.unmount()?;
        mount.unmount()?;
    }
    Ok(())
}

fn check_directories() -> Result<()> {
    each_image(|name, filesystem, source, copy| {
        let mut sink = DirectorySink::create(copy, DirectoryOptions::default())?;
        let mut collector = Collector::default();
        extract(filesystem, &whole(filesystem), &ExtractOptions::default(), &mut sink, &mut collector)?;
        for problem in &collector.problems {
            ensure!(problem.aspect == Aspect::InodeFlags, "{name}: {problem:?}");
        }
        compare(name, source, copy, |_| {})
    })
}

fn check_tar(judge: Judge, arguments: &[&str], lacks: impl Fn(&mut Manifest)) -> Result<()> {
    each_image(|name, filesystem, source, copy| {
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
        ensure!(output.status.success() && words.is_empty(), "{name}: {}: {words}", judge.name());
        for problem in &collector.problems {
            ensure!(problem.severity == Severity::LeftOut, "{name}: {problem:?}");
        }
        compare(name, source, copy, |manifest| {
            manifest.entries.retain(|entry| entry.kind != FileKind::Socket);
            lacks(manifest);
        })
    })
}

#[test]
fn a_directory_equals_the_kernels_mount() {
    require!(Judge::Kernel, Judge::Mkfs);
    check_directories().unwrap();
}

#[test]
fn what_gnu_tar_restores_equals_the_kernels_mount() {
    require!(Judge::Kernel, Judge::Mkfs, Judge::GnuTar);
    // It tells of every time in the future, and of the word that says that a name is not UTF-8.
    let quiet = ["--warning=no-timestamp", "--warning=no-unknown-keyword"];
    let all = ["-xpf", "-", "--numeric-owner", "--xattrs", "--xattrs-include=*", "--acls"];
    check_tar(Judge::GnuTar, &[quiet.as_slice(), &all].concat(), |manifest| {
        let details = manifest.entries.iter_mut().filter_map(|entry| entry.details.as_mut());
        details.for_each(|details| details.access_time = None);
    })
    .unwrap();
}

#[test]
fn what_bsdtar_restores_equals_the_kernels_mount() {
    require!(Judge::Kernel, Judge::Mkfs, Judge::BsdTar);
    check_tar(Judge::BsdTar, &["-xpf", "-", "--numeric-owner"], |manifest| {
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
    .unwrap();
}
