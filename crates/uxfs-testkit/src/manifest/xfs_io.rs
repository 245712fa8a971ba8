//! Asking XFS through `xfs_io` what the system calls do not say: extents and XFS's own flags.
//!
//! Many files go into one process. Each is opened through a symbolic link named by its number, so that no name, however odd,
//! appears in what is printed.

use std::{
    collections::BTreeMap,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result, ensure};

use super::{Extent, XfsFlags, merge_extents};
use crate::{image::memory_folder, judges::Judge};

const SECTOR_BYTES: u64 = 512;
const FILES_PER_PROCESS: usize = 500;
/// `FIEMAP_EXTENT_UNWRITTEN`.
const FIEMAP_UNWRITTEN: u64 = 0x800;
/// `FIEMAP_EXTENT_UNKNOWN` and `FIEMAP_EXTENT_DELALLOC`: no place on the disk.
const FIEMAP_NOWHERE: u64 = 0x6;
/// The flag that `bmap -v` prints for an unwritten extent.
const BMAP_UNWRITTEN: u64 = 0o10000;
/// `FS_XFLAG_HASATTR`.
const HAS_ATTRIBUTES: u32 = 0x8000_0000;

/// Facts of one file by `xfs_io`.
#[derive(Debug, Default, Clone)]
pub(super) struct Facts {
    pub(super) extents: Vec<Extent>,
    pub(super) attribute_extents: Vec<Extent>,
    pub(super) flags: Option<XfsFlags>,
}

/// Asks for all `paths`, which are all directories or all regular files.
pub(super) fn query(paths: &[PathBuf], are_directories: bool) -> Result<Vec<Facts>> {
    let mut all = Vec::with_capacity(paths.len());
    for batch in paths.chunks(FILES_PER_PROCESS) {
        all.extend(query_batch(batch, are_directories)?);
    }
    Ok(all)
}

fn query_batch(paths: &[PathBuf], are_directories: bool) -> Result<Vec<Facts>> {
    // A file system on a disk takes long for thousands of links that come and go.
    let folder = tempfile::tempdir_in(memory_folder())?;
    for (number, path) in paths.iter().enumerate() {
        symlink(path, folder.path().join(number.to_string()))?;
    }
    let ask = |command: &str| run(folder.path(), command, paths.len());
    let data = if are_directories { "bmap -elpv" } else { "fiemap -v" };
    let mut extents = sections(&ask(data)?, are_directories)?;
    let mut attribute_extents = sections(&ask("bmap -aelpv")?, true)?;
    let mut flags = parse_flags(&ask("stat")?)?;
    let facts = |number| Facts {
        extents: extents.remove(&number).unwrap_or_default(),
        attribute_extents: attribute_extents.remove(&number).unwrap_or_default(),
        flags: flags.remove(&number),
    };
    Ok((0..paths.len()).map(facts).collect())
}

fn run(folder: &Path, command: &str, count: usize) -> Result<String> {
    let mut process = Judge::XfsIo.command();
    process.current_dir(folder).args(["-r", "-c", command]);
    process.args((0..count).map(|number| number.to_string()));
    let output = process.output().context("cannot run xfs_io")?;
    let errors = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success() && errors.is_empty(), "xfs_io {command}: {}", errors.trim());
    Ok(String::from_utf8(output.stdout)?)
}

/// Splits the output of `fiemap -v` or `bmap -v` by file.
fn sections(text: &str, is_bmap: bool) -> Result<BTreeMap<usize, Vec<Extent>>> {
    let mut found: BTreeMap<usize, Vec<Extent>> = BTreeMap::new();
    let mut current = None;
    for line in text.lines() {
        if !line.starts_with(' ') && !line.contains('[') {
            let (number, _) = line.split_once(':').with_context(|| format!("not a heading: {line}"))?;
            current = Some(number.parse()?);
        } else if let Some(extent) = parse_extent(line, is_bmap)? {
            found.entry(current.context("an extent before any heading")?).or_default().push(extent);
        }
    }
    Ok(found.into_iter().map(|(number, extents)| (number, merge_extents(extents))).collect())
}

/// `0: [0..7]: 192..199 0 (192..199) 8 000000` or `0: [0..7]: 192..199 8 0x1`; `None` for a hole or the caption.
fn parse_extent(line: &str, is_bmap: bool) -> Result<Option<Extent>> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let [_, file_range, disk_range, .., flags] = words.as_slice() else { return Ok(None) };
    let (Some(file), Some(disk)) = (parse_range(file_range), parse_range(disk_range)) else {
        return Ok(None);
    };
    let (flags, unwritten) = if is_bmap {
        (u64::from_str_radix(flags, 8)?, BMAP_UNWRITTEN)
    } else {
        (u64::from_str_radix(flags.trim_start_matches("0x"), 16)?, FIEMAP_UNWRITTEN)
    };
    ensure!(is_bmap || flags & FIEMAP_NOWHERE == 0, "an extent without a place: {line}");
    Ok(Some(Extent {
        offset_bytes: file.0 * SECTOR_BYTES,
        disk_bytes: disk.0 * SECTOR_BYTES,
        length_bytes: (file.1 - file.0 + 1) * SECTOR_BYTES,
        unwritten: flags & unwritten != 0,
    }))
}

/// `[0..7]:` or `192..199`, last sector included.
fn parse_range(text: &str) -> Option<(u64, u64)> {
    let (first, last) = text.trim_matches(['[', ']', ':']).split_once("..")?;
    Some((first.parse().ok()?, last.parse().ok()?))
}

fn parse_flags(text: &str) -> Result<BTreeMap<usize, XfsFlags>> {
    let mut found = BTreeMap::new();
    for section in text.split("fd.path = \"").skip(1) {
        let (number, rest) = section.split_once('"').context("stat without a path")?;
        let value = |name: &str| {
            let line = rest.lines().find_map(|line| line.strip_prefix(name));
            line.and_then(|line| line.trim_start_matches(" = ").split_whitespace().next())
                .with_context(|| format!("stat prints no {name}"))
        };
        let raw = u32::from_str_radix(value("fsxattr.xflags")?.trim_start_matches("0x"), 16)?;
        let flags = XfsFlags {
            flags: raw & !HAS_ATTRIBUTES,
            project_id: value("fsxattr.projid")?.parse()?,
            extent_size_bytes: value("fsxattr.extsize")?.parse()?,
            cow_extent_size_bytes: value("fsxattr.cowextsize")?.parse()?,
        };
        found.insert(number.parse()?, flags);
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_fiemap() {
        let text = "0:\n EXT: FILE-OFFSET      BLOCK-RANGE      TOTAL FLAGS\n   0: [0..127]:        hole               128\n   \
                    1: [128..135]:      120..127             8 0x2000\n1:\n1000: [256..271]:      104..119            16 0x801\n";
        let found = sections(text, false).unwrap();
        let written = Extent { offset_bytes: 65536, disk_bytes: 61440, length_bytes: 4096, unwritten: false };
        let unwritten =
            Extent { offset_bytes: 131_072, disk_bytes: 53248, length_bytes: 8192, unwritten: true };
        assert_eq!(found, BTreeMap::from([(0, vec![written]), (1, vec![unwritten])]));
    }

    #[test]
    fn reads_bmap() {
        let text = "0: no extents\n1:\n EXT: FILE-OFFSET      BLOCK-RANGE      AG AG-OFFSET        TOTAL FLAGS\n   \
                    0: [0..7]:          192..199          0 (192..199)           8 010000\n";
        let extent = Extent { offset_bytes: 0, disk_bytes: 98304, length_bytes: 4096, unwritten: true };
        assert_eq!(sections(text, true).unwrap(), BTreeMap::from([(1, vec![extent])]));
    }
}
