//! What the kernel saw in a sound image, and what a rescue of a damaged one makes of it.

use std::{collections::BTreeMap, sync::Arc};

use anyhow::{Context, Result, bail, ensure};
use uxfs_block::{device::BlockDevice, ranges::RangeSet};
use uxfs_rescue::{
    Record, RescueOptions, State, rescue,
    run::Report,
    view::{View, ViewOptions, device_for},
};
use uxfs_testkit::{golden::GoldenImage, manifest::FileKind};

use super::ledger::{Contents, Found, Ledger};
use crate::field_fuzz::sparse_device::{DamagedImage, SparseImage};

/// What the kernel saw in a sound image.
#[derive(Debug)]
pub struct Truth {
    files: BTreeMap<Vec<u8>, Found>,
    /// One path of each inode.
    paths: BTreeMap<u64, Vec<u8>>,
}

/// How rescues were.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Counts {
    /// Rescues.
    pub rescues: u64,
    /// Of these, those of which nothing could be read.
    pub refused: u64,
    /// Names that the kernel saw.
    pub names: u64,
    /// Names by what they are called.
    pub whole: u64,
    /// As whole, but for what the log may have.
    pub perhaps_older: u64,
    /// Something was guessed.
    pub inferred: u64,
    /// Something is missing.
    pub partial: u64,
    /// Nothing is left.
    pub lost: u64,
    /// Names of which the manifest says nothing.
    pub untold: u64,
    /// Of these, names in directories that are called whole.
    pub untold_in_whole: Vec<String>,
    /// Called whole, and of another type, size or contents, or never there.
    pub wrong: Vec<String>,
    /// Called whole, and of another owner or time, or with other permissions or attributes.
    pub wrong_metadata: Vec<String>,
}

impl Counts {
    /// Adds another's.
    pub fn add(&mut self, other: Self) {
        self.rescues += other.rescues;
        self.refused += other.refused;
        self.names += other.names;
        self.whole += other.whole;
        self.perhaps_older += other.perhaps_older;
        self.inferred += other.inferred;
        self.partial += other.partial;
        self.lost += other.lost;
        self.untold += other.untold;
        self.untold_in_whole.extend(other.untold_in_whole);
        self.wrong.extend(other.wrong);
        self.wrong_metadata.extend(other.wrong_metadata);
    }
}

#[derive(Default)]
struct Lines(Vec<Record>);

impl Report for Lines {
    fn record(&mut self, record: Record) {
        self.0.push(record);
    }
}

/// Rescues everything; `None` where nothing describes a file system.
fn rescue_all(inner: Arc<dyn BlockDevice>, known: &RangeSet) -> Result<Option<(Ledger, Vec<Record>)>> {
    let options = ViewOptions::default();
    let device = device_for(inner, known.iter(), &options);
    let Ok(view) = View::open(&device, &options) else { return Ok(None) };
    let (mut ledger, mut lines) = (Ledger::default(), Lines::default());
    rescue(&device, &view, &mut ledger, &RescueOptions::default(), &mut lines)?;
    Ok(Some((ledger, lines.0)))
}

impl Truth {
    /// Of a golden image: as the sound image is rescued, which must be what the kernel's manifest says.
    ///
    /// # Errors
    /// It is not.
    pub fn of(golden: &GoldenImage, sound: &Arc<SparseImage>) -> Result<Self> {
        let device = Arc::new(DamagedImage::sound(Arc::clone(sound)));
        let (ledger, lines) = rescue_all(device, &RangeSet::default())?.context("no file system")?;
        let doubtful = lines.iter().find(|line| line.verdict.state != State::Whole);
        ensure!(doubtful.is_none(), "of the sound image: {doubtful:?}");
        let files = ledger.into_files();
        let manifest = golden.manifest()?;
        ensure!(manifest.entries.len() == files.len(), "{} names", files.len());
        let mut by_inode = BTreeMap::new();
        for entry in &manifest.entries {
            if let Some(details) = &entry.details {
                by_inode.insert(entry.inode, details.sha256.clone());
            }
        }
        for entry in &manifest.entries {
            let path = entry.path.0.strip_prefix(b"/").unwrap_or(&entry.path.0);
            let Some(found) = files.get(path) else { bail!("{} is missing", path.escape_ascii()) };
            if let (FileKind::Regular, Contents::File { sha256: Some(sum), .. }) = (entry.kind, &found.body) {
                let sum: String = sum.iter().map(|byte| format!("{byte:02x}")).collect();
                let expected = by_inode.get(&entry.inode).cloned().flatten();
                ensure!(expected.is_none_or(|expected| expected == sum), "{}", path.escape_ascii());
            }
        }
        let paths = files.iter().map(|(path, found)| (found.metadata.inode, path.clone())).collect();
        Ok(Self { files, paths })
    }

    /// Rescues all of a damaged device and compares.
    ///
    /// # Errors
    /// The target fails, which it does not.
    pub fn judge(&self, device: Arc<dyn BlockDevice>, known: &RangeSet) -> Result<Counts> {
        let mut counts = Counts { rescues: 1, names: self.files.len() as u64, ..Counts::default() };
        let Some((ledger, lines)) = rescue_all(device, known)? else {
            counts.refused = 1;
            return Ok(counts);
        };
        let told: BTreeMap<&[u8], State> =
            lines.iter().map(|line| (line.path.as_slice(), line.verdict.state)).collect();
        for line in &lines {
            let count = match line.verdict.state {
                State::Whole => &mut counts.whole,
                State::PerhapsOlder => &mut counts.perhaps_older,
                State::Inferred => &mut counts.inferred,
                State::Partial => &mut counts.partial,
                State::Lost => &mut counts.lost,
            };
            *count += 1;
            if line.verdict.state == State::Whole {
                self.judge_whole(line, &told, &ledger, &mut counts);
            }
        }
        for path in self.files.keys().filter(|path| !told.contains_key(path.as_slice())) {
            counts.untold += 1;
            let end = path.iter().rposition(|byte| *byte == b'/').unwrap_or(0);
            if told.get(&path[..end]) == Some(&State::Whole) {
                counts.untold_in_whole.push(path.escape_ascii().to_string());
            }
        }
        Ok(counts)
    }

    fn judge_whole(
        &self,
        line: &Record,
        told: &BTreeMap<&[u8], State>,
        ledger: &Ledger,
        counts: &mut Counts,
    ) {
        let path = line.path.escape_ascii();
        // The state of a directory is that of its names: below one that is not whole a file is known by its number.
        let by_number = || {
            line.inode.filter(|_| !has_sure_path(&line.path, told)).and_then(|inode| self.paths.get(&inode))
        };
        let known = self.files.get(&line.path).or_else(|| by_number().and_then(|path| self.files.get(path)));
        let Some(expected) = known else {
            counts.wrong.push(format!("{path}: never was"));
            return;
        };
        let Some(found) = line.output.as_ref().and_then(|output| ledger.at(output)) else {
            counts.wrong.push(format!("{path}: is nowhere"));
            return;
        };
        if found.body != expected.body {
            counts.wrong.push(format!("{path}: {:?}, not {:?}", found.body, expected.body));
            return;
        }
        let kept = |found: &Found| {
            let Found { metadata, attributes, .. } = found;
            (metadata.permissions, metadata.user, metadata.group, metadata.modified, attributes.clone())
        };
        if kept(&found) != kept(expected) {
            let (found, expected) = (kept(&found), kept(expected));
            counts.wrong_metadata.push(format!("{path}: {found:?}, not {expected:?}"));
        }
    }
}

/// Whether all directories that lead to a path are whole.
fn has_sure_path(path: &[u8], told: &BTreeMap<&[u8], State>) -> bool {
    let slashes = path.iter().enumerate().filter(|(_, byte)| **byte == b'/').map(|(place, _)| place);
    std::iter::once(0).chain(slashes).all(|end| told.get(&path[..end]) == Some(&State::Whole))
}
