//! Whether the structures of a file system agree with each other, by [`uxfs_repair`], quick enough to be asked for every crash state;
//! and whether the names lead to as many inodes as are in use.

use std::ops::ControlFlow;

use anyhow::{Result, ensure};
use uxfs_repair::{CheckOptions, Finding, check::check as check_volume};
use uxfs_volume::{inode::scan::ScanOptions, volume::Volume};

use super::tree::Tree;

/// Inodes in use that no name leads to: bitmap and summary of the realtime section.
const INTERNAL_INODES: u64 = 2;
/// Findings that an error shows.
const SHOWN_FINDINGS: usize = 20;

/// Compares everything with everything; `tree` is what names lead to. Gives the number of allocated blocks.
///
/// # Errors
/// The first findings.
pub fn check(file_system: &Volume, tree: &Tree) -> Result<u64> {
    check_but(file_system, tree, |_| false)
}

/// As [`check`], of a file system whose log is Linux's. Linux leaves attributes that it was changing marked as incomplete, also
/// where it recovers the log itself.
///
/// # Errors
/// As there.
pub fn check_of_linux(file_system: &Volume, tree: &Tree) -> Result<u64> {
    check_but(file_system, tree, |finding| matches!(finding, Finding::AttributeIncomplete { .. }))
}

fn check_but(file_system: &Volume, tree: &Tree, is_expected: fn(&Finding) -> bool) -> Result<u64> {
    let mut shown = Vec::new();
    let options = CheckOptions { scan: ScanOptions::in_order(), ..CheckOptions::default() };
    let summary = check_volume(file_system, &options, &mut |finding| {
        if !is_expected(&finding) {
            shown.push(finding.to_string());
        }
        if shown.len() < SHOWN_FINDINGS { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    });
    ensure!(shown.is_empty(), "structures contradict each other: {shown:#?}");
    let named = tree.files.len() as u64 + INTERNAL_INODES;
    ensure!(summary.inodes == named, "{} inodes in use, {named} that are known", summary.inodes);
    Ok(summary.blocks_in_use)
}
