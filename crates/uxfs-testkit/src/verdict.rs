//! Judgements of an image that uxfs made.

use std::{
    collections::BTreeMap,
    fs,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result, bail};

use crate::{
    judges::Judge,
    manifest::{self, FileKind, Header, Manifest},
    mount::{Access, LoopMount},
    walk,
};

/// Lines that `xfs_repair -n -f` prints for every sound image.
const USUAL_LINES: [&str; 6] = [
    "Phase ",
    "        - ",
    "No modify flag set, skipping",
    "Cannot get host filesystem geometry.",
    "Repair may fail if there is a sector size mismatch between",
    "the image and the host filesystem.",
];

/// `xfs_repair -n` finds nothing: exit status 0, and no word beyond its phases.
///
/// # Errors
/// It finds something, with its words.
pub fn repair_is_silent(image: &Path) -> Result<()> {
    let findings = repair_findings(image)?;
    if !findings.is_empty() {
        let shown = findings.iter().take(40).map(String::as_str).collect::<Vec<_>>().join("\n");
        bail!("xfs_repair -n of {}:\n{shown}", image.display());
    }
    Ok(())
}

/// Lines of `xfs_repair -n` beyond its phases; at least its exit status where that is not 0.
///
/// # Errors
/// It cannot be run.
pub fn repair_findings(image: &Path) -> Result<Vec<String>> {
    let output = Judge::XfsRepair.command().args(["-n", "-f"]).arg(image).output()?;
    let mut findings = findings_in(&[output.stdout, output.stderr].concat());
    if !output.status.success() && findings.is_empty() {
        findings.push(output.status.to_string());
    }
    Ok(findings)
}

/// Lines beyond the phases in what `xfs_repair -n` printed.
pub fn findings_in(printed: &[u8]) -> Vec<String> {
    let text = String::from_utf8_lossy(printed);
    let is_usual = |line: &&str| USUAL_LINES.iter().any(|usual| line.starts_with(usual)) || line.is_empty();
    text.lines().filter(|line| !is_usual(line)).map(str::to_owned).collect()
}

/// An image is sound and holds what `source` holds, in the words of `xfs_repair`, of the kernel and of our own reader.
/// Gives the number of paths.
///
/// # Errors
/// Anybody says otherwise.
pub fn holds_the_same(image: &Path, source: &Path) -> Result<usize> {
    compare(image, source, portable)
}

/// As [`holds_the_same`], for images in which access times are when they were made.
///
/// # Errors
/// Anybody says otherwise.
pub fn holds_the_same_but_for_reading(image: &Path, source: &Path) -> Result<usize> {
    compare(image, source, |manifest| {
        let mut manifest = portable(manifest);
        for details in manifest.entries.iter_mut().filter_map(|entry| entry.details.as_deref_mut()) {
            details.access_time = None;
        }
        manifest
    })
}

/// Compares what `kept` leaves of the manifests.
fn compare(image: &Path, source: &Path, kept: fn(Manifest) -> Manifest) -> Result<usize> {
    repair_is_silent(image)?;
    let expected = manifest::from_tree(source, header(source, "the source's file system"))?;
    let expected = kept(with_names_counted(expected));
    let mount = LoopMount::new(image, Access::ReadOnly)?;
    let kernel = manifest::from_mount(mount.path(), header(image, "kernel"))?;
    mount.unmount()?;
    same(&expected, &kept(kernel.clone()))
        .context("the kernel finds something else than the source holds")?;
    let ours = walk::from_image(image, header(image, "uxfs"))?;
    same(&kernel, &ours).context("uxfs reads something else than the kernel")?;
    Ok(expected.entries.len())
}

/// Two manifests say the same.
///
/// # Errors
/// The first differences.
pub fn same(expected: &Manifest, found: &Manifest) -> Result<()> {
    match manifest::report(&manifest::differences(expected, found), 20) {
        None => Ok(()),
        Some(report) => bail!("{report}"),
    }
}

fn header(path: &Path, judge: &str) -> Header {
    let image = path.display().to_string();
    Header { image, judge: judge.into(), made_by: "a test".into() }
}

/// Links as there are names in the tree: a file may have others outside.
fn with_names_counted(mut manifest: Manifest) -> Manifest {
    let mut names: BTreeMap<Option<u64>, u32> = BTreeMap::new();
    for entry in &manifest.entries {
        *names.entry(entry.inode).or_default() += 1;
    }
    for entry in &mut manifest.entries {
        if let Some(details) = entry.details.as_deref_mut() {
            details.link_count = names.get(&entry.inode).copied();
        }
    }
    manifest
}

/// The properties that a copy on another file system keeps: not inode numbers, places, birth times or directory sizes.
/// The access time of a symbolic link cannot be looked at without changing it.
pub fn portable(mut manifest: Manifest) -> Manifest {
    for entry in &mut manifest.entries {
        entry.inode = None;
        let Some(details) = entry.details.as_deref_mut() else { continue };
        details.sectors = None;
        details.extents = None;
        details.extent_count = None;
        details.attribute_extents = None;
        details.birth_time = None;
        details.change_time = None;
        if entry.kind == FileKind::Symlink {
            details.access_time = None;
        }
        if let Some(attributes) = &mut details.attributes {
            // What mkfs.xfs gives the root, and what XFS's ACLs look like beside the names that all file systems know.
            attributes.retain(|attribute| {
                let name = &attribute.name.0;
                *name != b"trusted.xfs:autofsck" && !name.starts_with(b"trusted.SGI_ACL_")
            });
        }
        details.flags = None;
        details.entries = None;
        if entry.kind == FileKind::Directory {
            details.size_bytes = None;
            // Some file systems do not count directories in directories.
            details.link_count = None;
        }
    }
    manifest
}

/// The kernel mounts the image for writing and removes everything in it, in an order that `seed` decides; the image is
/// sound afterwards. Gives how many names were removed.
///
/// # Errors
/// The kernel or `xfs_repair` says no.
pub fn kernel_removes_everything(image: &Path, seed: u64) -> Result<usize> {
    repair_is_silent(image)?;
    let mount = LoopMount::new(image, Access::ReadWrite)?;
    let mut paths = Vec::new();
    collect(mount.path(), &mut paths)?;
    // Deepest first, and among those of one depth in any order; what is not a directory in any order before.
    let mut state = seed;
    let mut keyed: Vec<(usize, u64, PathBuf)> = paths
        .into_iter()
        .map(|(path, is_directory)| {
            state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
            let depth = if is_directory { path.components().count() } else { usize::MAX };
            (usize::MAX - depth, state >> 20, path)
        })
        .collect();
    keyed.sort();
    let count = keyed.len();
    for (key, random, path) in keyed {
        if key == 0
            && fs::symlink_metadata(&path)?.is_file()
            && path.metadata()?.size() > 0
            && random % 2 == 0
        {
            // Some are changed before they go.
            let file = fs::OpenOptions::new().write(true).open(&path)?;
            file.set_len(path.metadata()?.size() / 2 + 1)?;
        }
        let removed = if key == 0 { fs::remove_file(&path) } else { fs::remove_dir(&path) };
        removed.with_context(|| format!("the kernel cannot remove {}", path.display()))?;
    }
    mount.unmount()?;
    repair_is_silent(image).context("after the kernel removed everything")?;
    Ok(count)
}

fn collect(directory: &Path, paths: &mut Vec<(PathBuf, bool)>) -> Result<()> {
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        let is_directory = entry.file_type()?.is_dir();
        if is_directory {
            collect(&entry.path(), paths)?;
        }
        paths.push((entry.path(), is_directory));
    }
    Ok(())
}
