//! The passes in their order.

use std::ops::ControlFlow;

use uxfs_format::{features::Incompatible, inode::FileType, units::AgNumber};
use uxfs_volume::{
    allocation_group::damage_limit::DamageLimit, error::Error, inode::scan::ScanOptions, tolerant,
    volume::Volume,
};

use crate::{
    allocation_group, attribute,
    block_use::{self, list::UseList},
    counters, directory,
    finding::{Finding, GroupCounter},
    inode, links,
    observed::{groups::Groups, inodes::InodeTable},
    parent_pointer::{self, ParentSums},
    sink::{Sink, TakeFinding},
    sum::Keys,
    superblock,
};

/// How to check.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CheckOptions {
    /// Threads that look at inodes. One alone sees them in order, and so gives findings in one order.
    pub scan: ScanOptions,
}

/// Counts of a check.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CheckSummary {
    /// How many findings there were.
    pub findings: u64,
    /// Allocation groups.
    pub groups: u32,
    /// Inodes in use that could be read.
    pub inodes: u64,
    /// Blocks that are not free, by the free space btrees.
    pub blocks_in_use: u64,
    /// Whether the caller ended the check.
    pub is_stopped: bool,
}

/// Told how many more inodes have been visited. Each inode is visited twice.
pub type ShowProgress<'p> = dyn Fn(u64) + Sync + 'p;

/// Inodes that a thread visits before it tells.
const PROGRESS_STEP_INODES: u64 = 4096;

/// State that all passes share.
pub(crate) struct Context<'c> {
    pub volume: &'c Volume,
    pub keys: Keys,
    pub sink: Sink<'c>,
    pub scan: ScanOptions,
    /// Records extents instead of summing them, while groups are compared.
    pub uses: Option<&'c UseList>,
    pub progress: Option<&'c ShowProgress<'c>>,
}

/// Compares every structure of a file system with every other, and gives `take` a finding for each contradiction, until it breaks.
/// Nothing is written. Of a file system whose log is dirty, this wants a volume on the overlay of its recovery. Metadata that is ahead
/// of the log is found where [`Volume::begin_log_at`] was called.
pub fn check(volume: &Volume, options: &CheckOptions, take: &mut TakeFinding<'_>) -> CheckSummary {
    check_with_progress(volume, options, &|_| {}, take)
}

/// As [`check`], and tells `progress` how far it is.
pub fn check_with_progress(
    volume: &Volume,
    options: &CheckOptions,
    progress: &ShowProgress<'_>,
    take: &mut TakeFinding<'_>,
) -> CheckSummary {
    let context = Context {
        volume,
        keys: Keys::default(),
        sink: Sink::new(take),
        scan: options.scan,
        uses: None,
        progress: Some(progress),
    };
    context.report_left_out();
    let mut table = InodeTable::default();
    let mut groups = Groups::default();
    check_groups(&context, &mut table, &mut groups);
    let inodes = inode::check::check(&context, &table, &mut groups);
    block_use::compare::compare(&context, &groups, inodes.are_complete);
    check_names(&context, &table, inodes.are_complete);
    counters::check::check(&context, &groups);
    context.report_left_out();
    CheckSummary {
        findings: context.sink.findings(),
        groups: u32::try_from(groups.len()).unwrap_or(u32::MAX),
        inodes: inodes.inodes,
        blocks_in_use: blocks_in_use(&context, &groups),
        is_stopped: context.sink.is_stopped(),
    }
}

fn check_groups(context: &Context<'_>, table: &mut InodeTable, groups: &mut Groups) {
    let count = context.volume.geometry().ag_count;
    let mut limit = DamageLimit::default();
    for group in context.volume.groups().with_headers() {
        if context.sink.is_stopped() {
            return;
        }
        if limit.is_reached() {
            context.sink.add(Finding::UncheckedGroups { count: count.saturating_sub(group.get()) });
            return;
        }
        superblock::check::check(context, group);
        let state = allocation_group::check::check(context, group, table);
        limit.count(state.is_complete);
        groups.push(state);
    }
}

/// Directories, attributes, link counts, parent pointers.
fn check_names(context: &Context<'_>, table: &InodeTable, are_inodes_complete: bool) {
    links::check::begin(context, table);
    let states = inode::check::visit(context, NamesFound::default, |found, inode| {
        if inode.file_type() == Some(FileType::Directory) {
            found.is_incomplete |= !directory::check::check(context, table, &inode, &mut found.sums);
        }
        attribute::check::check(context, &inode, &mut found.sums);
    });
    let mut all = NamesFound::default();
    for found in states {
        all.is_incomplete |= found.is_incomplete;
        all.sums.merge(&found.sums);
    }
    links::check::check(context, table, are_inodes_complete && !all.is_incomplete);
    if !all.sums.are_zero() && !context.sink.is_stopped() {
        parent_pointer::compare::compare(context, table, &all.sums);
    }
}

/// Names that one thread has seen.
#[derive(Debug, Default)]
struct NamesFound {
    sums: ParentSums,
    /// Entries of some directory could not be read.
    is_incomplete: bool,
}

fn blocks_in_use(context: &Context<'_>, groups: &Groups) -> u64 {
    let geometry = context.volume.geometry();
    let in_use = groups.iter().map(|(group, state)| {
        let length_blocks = u64::from(geometry.group_length_blocks(group).unwrap_or(0));
        length_blocks.saturating_sub(state.free_extent_blocks)
    });
    in_use.fold(0, u64::saturating_add)
}

impl Context<'_> {
    /// The result, or `None` after the finding that its error is.
    pub fn read<T>(&self, result: Result<T, Error>) -> Option<T> {
        result.map_err(|error| self.sink.add_error(error)).ok()
    }

    /// Compares a number of a header with what there is.
    pub fn count(&self, group: AgNumber, counter: GroupCounter, found: u64, expected: u64) {
        if found != expected {
            self.sink.add(Finding::GroupCount { group, counter, found, expected });
        }
    }

    /// Counts an inode that a thread has visited.
    pub fn count_visit(&self, visited: &mut u64) {
        *visited += 1;
        if visited.is_multiple_of(PROGRESS_STEP_INODES)
            && let Some(progress) = self.progress
        {
            progress(PROGRESS_STEP_INODES);
        }
    }

    /// Whether directory entries hold file types.
    pub fn has_file_types(&self) -> bool {
        self.volume.geometry().features.incompatible.contains(Incompatible::FILE_TYPE)
    }

    /// Turns all faults that a tolerant volume has passed over since the last call into findings. Gives whether there were any.
    pub fn report_left_out(&self) -> bool {
        let Some(findings) = self.volume.findings() else { return false };
        let (list, others) = findings.take();
        let is_any = !list.is_empty() || others > 0;
        for finding in list {
            self.sink.add(match finding {
                tolerant::Finding::LeftOut(error) | tolerant::Finding::AttributeValue { error, .. } => {
                    Finding::of_error(error)
                }
                finding => Finding::Opening { finding },
            });
        }
        if others > 0 {
            self.sink.add(Finding::NotKept { count: others });
        }
        is_any
    }

    /// Runs passes again for the extents that `list` wants. What they find was reported before.
    pub fn again(&self, list: &UseList, passes: impl FnOnce(&Context<'_>)) {
        let mut forget = |_| self.sink.flow();
        let sink = Sink::new(&mut forget);
        passes(&Context {
            volume: self.volume,
            keys: Keys::default(),
            sink,
            scan: self.scan,
            uses: Some(list),
            progress: None,
        });
    }
}

/// Never breaks: for callers that want all findings.
pub fn all(findings: &mut Vec<Finding>) -> impl FnMut(Finding) -> ControlFlow<()> + Send + '_ {
    |finding| {
        findings.push(finding);
        ControlFlow::Continue(())
    }
}
