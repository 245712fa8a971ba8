//! Every structure of a sound image as `uxfs inspect` prints it, beside what `xfs_db` prints of it.

use std::{collections::BTreeMap, path::Path};

use anyhow::{Context, Result, ensure};
use uxfs_block::device::BlockDevice;
use uxfs_format::{
    describe::{describe, text},
    fault::Structure,
    geometry::Geometry,
};

use crate::{
    structures::{self, Instance, Owner},
    xfs_db::XfsDb,
};

/// Structures that one `xfs_db` process prints.
const BATCH: usize = 256;
/// Differences kept for the report.
const KEPT_DIFFERENCES: usize = 20;
const SEPARATOR: &str = "----structure";

/// Counts of a comparison.
#[derive(Debug, Default)]
pub struct Report {
    /// Structures and values, by kind of structure.
    pub compared: BTreeMap<&'static str, (u64, u64)>,
    /// The first differences, in words.
    pub differences: Vec<String>,
    /// All differences.
    pub difference_count: u64,
}

impl Report {
    /// Values compared.
    pub fn values(&self) -> u64 {
        self.compared.values().map(|(_, values)| values).sum()
    }

    /// Structures compared.
    pub fn structures(&self) -> u64 {
        self.compared.values().map(|(structures, _)| structures).sum()
    }
}

/// Which structures of a kind are compared.
#[derive(Debug, Clone, Copy)]
pub struct Choice {
    /// The first so many.
    pub first: usize,
    /// Beyond them each so-many-th.
    pub step: usize,
}

/// Compares the structures of the image at `path`, which `device` reads. Of those of one kind it takes what `choice` says.
///
/// # Errors
/// The image cannot be walked or `xfs_db` cannot be run.
pub fn compare(device: &dyn BlockDevice, path: &Path, choice: Choice) -> Result<Report> {
    let (geometry, instances) = structures::list(device)?;
    let database = XfsDb::new(path);
    let mut report = Report::default();
    let mut seen: BTreeMap<&str, usize> = BTreeMap::new();
    let chosen: Vec<&Instance> = instances
        .iter()
        .filter(|instance| {
            let count = seen.entry(instance.structure.name()).or_default();
            *count += 1;
            *count <= choice.first || (*count).is_multiple_of(choice.step)
        })
        .collect();
    for batch in chosen.chunks(BATCH) {
        let commands: Vec<String> = batch.iter().flat_map(|instance| commands(instance)).collect();
        let output = database.run(&commands)?;
        let printed: Vec<&str> = output.split(SEPARATOR).skip(1).collect();
        ensure!(printed.len() == batch.len(), "{} structures printed of {}", printed.len(), batch.len());
        for (instance, theirs) in batch.iter().zip(printed) {
            let bytes = instance.read(device)?;
            compare_one(instance, &bytes, &geometry, theirs.trim_start_matches([' ', '\n']), &mut report)
                .with_context(|| format!("{instance:?}"))?;
        }
    }
    Ok(report)
}

/// The commands that print one structure behind a separator.
fn commands(instance: &Instance) -> Vec<String> {
    let group = match instance.owner {
        Owner::Group(group) => u64::from(group),
        Owner::Inode(_) => 0,
    };
    let inode = match instance.owner {
        Owner::Inode(inode) => inode,
        Owner::Group(_) => 0,
    };
    let fs_block = instance.fs_block.unwrap_or(0);
    let file_block = instance.file_block.unwrap_or(0);
    let tree = |kind: &str| vec![format!("fsblock {fs_block}"), format!("type {kind}")];
    let data = || vec![format!("inode {inode}"), format!("dblock {file_block}")];
    let attributes = || vec![format!("inode {inode}"), format!("ablock {file_block}")];
    let mut commands = match instance.structure {
        Structure::Superblock => vec![format!("sb {group}")],
        Structure::FreeSpaceHeader => vec![format!("agf {group}")],
        Structure::InodeHeader => vec![format!("agi {group}")],
        Structure::FreeList => vec![format!("agfl {group}")],
        Structure::FreeSpaceByBlock => tree("bnobt"),
        Structure::FreeSpaceByLength => tree("cntbt"),
        Structure::InodeIndex => tree("inobt"),
        Structure::FreeInodeIndex => tree("finobt"),
        Structure::ReverseMap => tree("rmapbt"),
        Structure::ReferenceCount => tree("refcntbt"),
        Structure::ExtentMap => tree("bmapbtd"),
        Structure::Inode => vec![format!("inode {inode}")],
        Structure::AttributeLeaf | Structure::AttributeNode | Structure::AttributeRemoteValue => attributes(),
        _ => data(),
    };
    commands.push(format!("echo {SEPARATOR}"));
    commands.push("print".to_owned());
    commands
}

fn compare_one(
    instance: &Instance,
    bytes: &[u8],
    geometry: &Geometry,
    theirs: &str,
    report: &mut Report,
) -> Result<()> {
    let mut ours = String::new();
    text::write(&describe(instance.structure, bytes, geometry), bytes, &mut ours)?;
    let is_long_symlink = instance.structure == Structure::Symlink && bytes.len() > geometry.block_size();
    let ours = with_their_escapes(&ours);
    let ours = comparable(&ours, is_long_symlink);
    let theirs = comparable(theirs, is_long_symlink);
    let counts = report.compared.entry(instance.structure.name()).or_default();
    counts.0 += 1;
    counts.1 += theirs.iter().map(|line| values_in(line)).sum::<u64>();
    let mut pairs = ours.iter().zip(&theirs).filter(|(one, other)| one != other);
    let difference = match pairs.next() {
        Some((one, other)) => Some(format!("uxfs: {one}\n  xfs_db: {other}")),
        None if ours.len() != theirs.len() => {
            let end = |lines: &[&str]| lines.get(ours.len().min(theirs.len())).map(|line| (*line).to_owned());
            Some(format!("uxfs: {:?}\n  xfs_db: {:?}", end(&ours), end(&theirs)))
        }
        None => None,
    };
    if let Some(difference) = difference {
        report.difference_count += 1;
        if report.differences.len() < KEPT_DIFFERENCES {
            report.differences.push(format!(
                "{} of {:?}: {difference}",
                instance.structure.name(),
                instance.owner
            ));
        }
    }
    Ok(())
}

/// The lines without those in which `xfs_db` is known to be wrong:
/// * it prints a file type of free regions in directories, which have none;
/// * it reads one block of a long symbolic link, whose checksum and text span all blocks of the extent;
/// * it prints the first byte of the superblock's padding.
fn comparable(text: &str, is_long_symlink: bool) -> Vec<&str> {
    let mut lines: Vec<&str> = Vec::new();
    let mut free_region = "";
    for line in text.lines() {
        let entry = line.split_once("].").map_or("", |(entry, _)| entry);
        if line.contains("].freetag = ") {
            free_region = entry;
        }
        let is_type_of_free = !entry.is_empty() && entry == free_region && line.contains("].filetype = ");
        let is_symlink_quirk = is_long_symlink && (line.starts_with("crc = ") || line.starts_with("data = "));
        if !is_type_of_free && !is_symlink_quirk && line != "pad = 0" {
            lines.push(line);
        }
    }
    lines
}

/// `xfs_db` numbers the control characters from `\a` on by letters, so that a newline is `\d`.
fn with_their_escapes(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut letters = text.chars();
    while let Some(letter) = letters.next() {
        out.push(letter);
        if letter == '\\' {
            out.extend(letters.next().map(|escaped| match escaped {
                't' => 'c',
                'n' => 'd',
                'v' => 'e',
                'r' => 'g',
                other => other,
            }));
        }
    }
    out
}

/// Values in one line: columns of a record, elements of an array, or one.
fn values_in(line: &str) -> u64 {
    let Some((_, value)) = line.split_once(" = ") else {
        return line.split(',').count() as u64;
    };
    if value.starts_with('[') {
        return 0;
    }
    if line.contains("] = ") && !value.starts_with('"') {
        return value.split_whitespace().count().max(1) as u64;
    }
    1
}
