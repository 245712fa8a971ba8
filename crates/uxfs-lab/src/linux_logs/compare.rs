//! The kernel's recovery of a log beside ours.

use std::{path::Path, time::Instant};

use anyhow::{Context, Result, bail, ensure};
use uxfs_block::engine::{self, OpenOptions};
use uxfs_engine::options::MountOptions;
use uxfs_filesystem::recovery::{self, FinishedIntent, RecoveryReport};
use uxfs_format::log::item::ItemType;

use super::Tally;
use uxfs_testkit::{
    manifest::{self, Details, Extent, Header, Manifest},
    mount::{Access, LoopMount},
    verdict, walk,
};

/// So many extents fit into every inode of 512 bytes beside a few attributes: more may have a tree.
const INLINE_EXTENTS: usize = 8;

/// Copies an image without its holes.
///
/// # Errors
/// The copying fails.
pub fn copy(from: &Path, to: &Path) -> Result<()> {
    let status = std::process::Command::new("cp").args(["--sparse=always"]).arg(from).arg(to).status()?;
    ensure!(status.success(), "cp {}", from.display());
    Ok(())
}

/// Result of recovering a log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Recovery {
    /// There was nothing to recover.
    Clean,
    /// Both came to the same.
    Same,
    /// Linux could not mount what we recovered: its own image has no use any more.
    RefusedByLinux,
}

/// The kernel recovers `image` and we `dirty`, a copy of it: in an overlay, then on the copy.
///
/// # Errors
/// They come to different things, or to something unsound.
pub fn compare(image: &Path, dirty: &Path, author: Author<'_>, tally: &mut Tally) -> Result<Recovery> {
    let options = OpenOptions { writable: true, ..OpenOptions::default() };
    let device = engine::open(dirty, &options)?;
    let mut clock = Instant::now();
    let recovered = recovery::recover(&device, &MountOptions::default(), &mut ()).context("our recovery")?;
    tally.spend("our recovery", &mut clock);
    let kernels = LoopMount::new(image, Access::ReadWrite).and_then(LoopMount::unmount);
    tally.spend("the kernel's recovery", &mut clock);
    let Some(recovered) = recovered else {
        kernels.context("the kernel's recovery")?;
        tally.clean += 1;
        return Ok(Recovery::Clean);
    };
    let file_system = recovered.mount(&MountOptions::default())?;
    let found = walk::from_file_system(&file_system, header("uxfs, through an overlay"))?;
    drop(file_system);
    tally.spend("our tree", &mut clock);
    let found = without_own_ways(found, recovered.report());
    // Where Linux gives up while it frees inodes without names, it mounts, and then cannot be mounted for reading.
    let kernels = kernels.and_then(|()| kernel_manifest(image, "the kernel's recovery"));
    tally.spend("the kernel's tree", &mut clock);
    let (outcome, expected, refusal) = match kernels {
        Ok(kernels) => {
            let mut expected = without_own_ways(kernels, recovered.report());
            tally.losses_of_linux += restore_what_linux_loses(&mut expected, &found, recovered.report());
            verdict::same(&expected, &found).context("the overlay differs from the kernel's recovery")?;
            tally.spend("comparing", &mut clock);
            (Recovery::Same, expected, String::new())
        }
        Err(error) => (Recovery::RefusedByLinux, found, format!("the kernel refuses it: {error:#}")),
    };
    let report = recovered.write().context("carrying the recovery to the image")?;
    drop(device);
    tally.spend("our recovery", &mut clock);
    sound_as(dirty, image, author, report.broken_lists > 0).context(refusal)?;
    tally.spend("xfs_repair", &mut clock);
    all_find(dirty, &expected, &report, tally)?;
    if outcome == Recovery::RefusedByLinux {
        tally.refused_by_linux += 1;
    } else {
        tally.add(&report, expected.entries.len());
    }
    Ok(outcome)
}

/// We and the kernel find the same in an image that we recovered.
fn all_find(image: &Path, expected: &Manifest, report: &RecoveryReport, tally: &mut Tally) -> Result<()> {
    let mut clock = Instant::now();
    let found = walk::from_image(image, header("uxfs, after replay"))?;
    tally.spend("our tree", &mut clock);
    verdict::same(expected, &without_own_ways(found, report))
        .context("the replayed image differs from the recovery in the overlay")?;
    tally.spend("comparing", &mut clock);
    let found = kernel_manifest(image, "the kernel, on ours")?;
    tally.spend("the kernel's tree", &mut clock);
    verdict::same(expected, &without_own_ways(found, report))
        .context("the kernel finds something else in the replayed image")?;
    tally.spend("comparing", &mut clock);
    Ok(())
}

pub(super) fn header(judge: &str) -> Header {
    Header { image: "a log".into(), judge: judge.into(), made_by: "linux_logs".into() }
}

/// The kernel's manifest of a clean image.
pub(super) fn kernel_manifest(image: &Path, judge: &str) -> Result<Manifest> {
    let mount = LoopMount::new(image, Access::ReadOnly)?;
    let manifest = manifest::from_mount(mount.path(), header(judge))?;
    mount.unmount()?;
    Ok(manifest)
}

/// The implementation that wrote a log.
#[derive(Debug, Clone, Copy)]
pub enum Author<'a> {
    /// It may leave attributes unfinished, and trees of attributes that `xfs_repair` does not take.
    Linux,
    /// It leaves nothing for `xfs_repair` to find but what it had found before.
    Uxfs(&'a [String]),
}

/// `xfs_repair` finds nothing in `ours`, but for what the author of the log may have left in trees of attributes: that it finds in
/// `the_kernels`, too, and nothing else there. It is attributes that were being made or removed when the kernel was cut off;
/// leaves without any; and trees that are sound, but whose last node has one child, which `xfs_repair` does not come to. Where a
/// list of inodes without names led to an inode that neither can read, because Linux was freeing it (`has_broken_lists`), it
/// finds nothing that it does not find in `the_kernels`.
pub(super) fn sound_as(
    ours: &Path,
    the_kernels: &Path,
    author: Author<'_>,
    has_broken_lists: bool,
) -> Result<()> {
    let findings = findings_of(ours)?;
    if findings.is_empty() {
        return Ok(());
    }
    let kernels = findings_of(the_kernels)?;
    let is_of_attributes = findings == kernels && are_of_attributes(&findings);
    let is_excused = |finding: &String| match author {
        Author::Linux => has_broken_lists || is_of_attributes || finding.contains("is INCOMPLETE"),
        Author::Uxfs(before) => before.contains(finding),
    };
    if findings.iter().all(|finding| is_excused(finding) && kernels.contains(finding)) {
        return Ok(());
    }
    let [ours, theirs] = [findings, kernels].map(|findings| findings.join("\n"));
    bail!("xfs_repair -n of what we replayed:\n{ours}\nof what the kernel did:\n{theirs}")
}

/// Whether all that was found is about trees of attributes, and what would be missing without those.
fn are_of_attributes(findings: &[String]) -> bool {
    let has_fork = findings.iter().any(|finding| finding.contains("would clear attr fork"));
    let follows = |finding: &String| {
        has_fork && ["bad nblocks", "bad anextents"].iter().any(|words| finding.contains(words))
    };
    let is_of_attributes = |finding: &String| {
        ["attribute ", "attr fork", "empty leaf attr block"].iter().any(|words| finding.contains(words))
    };
    findings.iter().all(|finding| is_of_attributes(finding) || follows(finding))
}

/// Findings of `xfs_repair`, without addresses of its own memory.
pub(super) fn findings_of(image: &Path) -> Result<Vec<String>> {
    let is_place =
        |word: &&str| word.starts_with("0x7f") || word.starts_with("0x55") || word.starts_with("0x56");
    let without_places =
        |finding: &String| finding.split(' ').filter(|word| !is_place(word)).collect::<Vec<_>>().join(" ");
    Ok(verdict::repair_findings(image)?.iter().map(without_places).collect())
}

/// Without what depends on who recovers, and when. Of inodes whose attributes an intent changed: how many blocks these have (Linux
/// joins leaves sooner), where they lie, and when the inode was changed. Of files whose many mappings an intent changed: how many
/// blocks the tree of these has, each being more or less full.
pub(super) fn without_own_ways(mut manifest: Manifest, report: &RecoveryReport) -> Manifest {
    let changed_by = |kinds: &[ItemType], inode: Option<u64>| {
        let mut intents = report.intents.iter().filter(|intent| kinds.contains(&intent.item_type));
        intents.any(|intent| {
            [intent.inode, intent.other_inode].into_iter().flatten().any(|named| Some(named.get()) == inode)
        })
    };
    for entry in &mut manifest.entries {
        let Some(details) = entry.details.as_deref_mut() else { continue };
        if changed_by(&[ItemType::AttributeIntent], entry.inode) {
            (details.change_time, details.attribute_extents, details.sectors) = (None, None, None);
        }
        let may_have_tree = details.extents.as_ref().is_some_and(|extents| extents.len() > INLINE_EXTENTS);
        if may_have_tree && changed_by(&[ItemType::ExtentMapIntent, ItemType::ExchangeIntent], entry.inode) {
            details.sectors = None;
        }
    }
    manifest
}

/// Linux opens the inodes that intents name, and when it closes them it frees what lies behind their ends. Where it goes on
/// with an exchange up to the ends of two files, that is behind the size that the file which grows had before, and it grows all
/// the same: its contents are lost. Such files are to be as we have them, if the extents that Linux left are ours up to there.
/// And it does not look at the sizes that such an intent names, but at those that the files have by then: the one that is to
/// become shorter may keep zeros at its end. Gives how many files are not as they should be.
fn restore_what_linux_loses(kernels: &mut Manifest, ours: &Manifest, report: &RecoveryReport) -> u64 {
    let named = |intent: &FinishedIntent, inode: u64| {
        [intent.inode, intent.other_inode].into_iter().flatten().any(|named| named.get() == inode)
    };
    let mut lost = 0;
    for (theirs, ours) in kernels.entries.iter_mut().zip(&ours.entries) {
        let Some(inode) = theirs.inode else { continue };
        let mut intents = report.intents.iter().filter(|intent| named(intent, inode)).peekable();
        let is_named = intents.peek().is_some();
        let is_exchanged = intents.any(|intent| intent.item_type == ItemType::ExchangeIntent);
        let (Some(theirs), Some(ours)) = (theirs.details.as_deref_mut(), ours.details.as_deref()) else {
            continue;
        };
        if is_exchanged && has_kept_its_size(theirs, ours) {
            theirs.size_bytes = ours.size_bytes;
            theirs.sha256.clone_from(&ours.sha256);
            lost += 1;
        }
        let (Some(left), Some(whole)) = (&theirs.extents, &ours.extents) else { continue };
        if !is_named || left == whole || !is_cut_short(left, whole) {
            continue;
        }
        // Contents are compared all the same, unless it is those that are lost.
        if is_exchanged {
            lost += u64::from(theirs.sha256 != ours.sha256);
            theirs.sha256.clone_from(&ours.sha256);
        }
        (theirs.extents, theirs.sectors) = (ours.extents.clone(), ours.sectors);
    }
    lost
}

/// Whether a file is longer than it should be, and has nothing there.
fn has_kept_its_size(theirs: &Details, ours: &Details) -> bool {
    let (Some(long), Some(short)) = (theirs.size_bytes, ours.size_bytes) else { return false };
    let is_there = |extent: &Extent| {
        let end_bytes = extent.offset_bytes + extent.length_bytes;
        !extent.unwritten && extent.offset_bytes < long && end_bytes > short.next_multiple_of(4096)
    };
    long > short && !theirs.extents.iter().flatten().any(is_there)
}

/// Whether `left` is `whole` up to where it ends.
fn is_cut_short(left: &[Extent], whole: &[Extent]) -> bool {
    let end = left.last().map_or(0, |last| last.offset_bytes + last.length_bytes);
    let kept = whole.iter().filter(|extent| extent.offset_bytes < end).map(|extent| {
        let length_bytes = extent.length_bytes.min(end - extent.offset_bytes);
        Extent { length_bytes, ..*extent }
    });
    kept.eq(left.iter().cloned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_end_may_be_missing() {
        let extent = |offset_bytes, length_bytes| Extent {
            offset_bytes,
            disk_bytes: 100 + offset_bytes,
            length_bytes,
            unwritten: false,
        };
        let whole = [extent(0, 10), extent(20, 10)];
        for left in [&[][..], &[extent(0, 4)], &[extent(0, 10)], &[extent(0, 10), extent(20, 3)]] {
            assert!(is_cut_short(left, &whole), "{left:?}");
        }
        for other in [&[extent(0, 9), extent(20, 10)][..], &[extent(20, 10)], &[extent(0, 11)]] {
            assert!(!is_cut_short(other, &whole), "{other:?}");
        }
    }
}
