//! The passes in their order.

use std::{ops::ControlFlow, sync::atomic::AtomicBool};

use uxfs_format::{
    features::Incompatible,
    inode::FileType,
    units::{AgBlock, AgNumber},
};
use uxfs_volume::{
    allocation_group::damage_limit::DamageLimit, error::Error, inode::scan::ScanOptions,
    metadata::CompareMetadata, tolerant, volume::Volume,
};

use crate::{
    allocation_group, attribute,
    block_use::{self, list::UseList},
    counters, directory,
    finding::{Finding, GroupCounter},
    inode, links,
    memory::Memory,
    metadata_directory,
    observed::{
        block_kinds::{BlockKind, SeeBlocks},
        groups::{GroupState, Groups},
        inodes::InodeTable,
    },
    parent_pointer::{self, ParentSums},
    pass::Pass,
    sink::{Sink, TakeFinding},
    sum::Keys,
    superblock,
};

/// How to check.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CheckOptions {
    /// Threads that look at inodes. One alone sees them in order, and so gives findings in one order.
    pub scan: ScanOptions,
    /// What it may keep in memory.
    pub memory: Memory,
    /// Passes after this one are left out.
    pub last_pass: Pass,
    /// The only allocation group to be looked at, where passes over inodes are left out.
    pub group: Option<AgNumber>,
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
    pub memory: Memory,
    /// Records extents instead of summing them, while groups are compared.
    pub uses: Option<&'c UseList>,
    /// Some group has a shared extent, as far as groups were looked at.
    pub has_shared_extents: AtomicBool,
    pub progress: Option<&'c ShowProgress<'c>>,
    pub see: Option<&'c SeeBlocks<'c>>,
}

/// Compares every structure of a file system with every other, and gives `take` a finding for each contradiction, until it breaks.
/// Nothing is written. Of a file system whose log is dirty, this wants a volume on the overlay of its recovery. Metadata that is ahead
/// of the log is found where [`Volume::begin_log_at`] was called.
pub fn check(volume: &Volume, options: &CheckOptions, take: &mut TakeFinding<'_>) -> CheckSummary {
    check_watched(volume, options, &Watch { progress: &|_| {}, see: None }, take)
}

/// As [`check`], and tells `progress` how far it is.
pub fn check_with_progress(
    volume: &Volume,
    options: &CheckOptions,
    progress: &ShowProgress<'_>,
    take: &mut TakeFinding<'_>,
) -> CheckSummary {
    check_watched(volume, options, &Watch { progress, see: None }, take)
}

/// What a caller is told beside findings.
pub struct Watch<'w> {
    /// How far the check is.
    pub progress: &'w ShowProgress<'w>,
    /// Blocks and what they are used for.
    pub see: Option<&'w SeeBlocks<'w>>,
}

/// As [`check`], watched by the caller.
pub fn check_watched(
    volume: &Volume,
    options: &CheckOptions,
    watch: &Watch<'_>,
    take: &mut TakeFinding<'_>,
) -> CheckSummary {
    let _damaged = volume.metadata().remember_damaged();
    let context = Context {
        volume,
        keys: Keys::default(),
        sink: Sink::new(take),
        scan: options.scan,
        memory: options.memory,
        uses: None,
        has_shared_extents: AtomicBool::default(),
        progress: Some(watch.progress),
        see: watch.see,
    };
    context.report_left_out();
    let mut table = InodeTable::new(options.memory.table_bytes());
    let mut groups = Groups::default();
    let only = options.group.filter(|_| options.last_pass == Pass::Groups);
    check_groups(&context, only, &mut table, &mut groups);
    let mut inodes =
        groups.iter().fold(0, |sum, (_, state)| sum + state.inodes.saturating_sub(state.free_inodes));
    if options.last_pass >= Pass::Inodes {
        let found = inode::check::check(&context, &table, &mut groups);
        block_use::compare::compare(&context, &groups, found.are_complete);
        if options.last_pass >= Pass::Names {
            check_names(&context, &table, found.are_complete);
        }
        inodes = found.inodes;
    }
    counters::check::check(&context, &groups);
    context.report_left_out();
    context.report_older();
    let count = if only.is_some() { 1 } else { groups.len() };
    CheckSummary {
        findings: context.sink.findings(),
        groups: u32::try_from(count).unwrap_or(u32::MAX),
        inodes,
        blocks_in_use: blocks_in_use(&context, &groups),
        is_stopped: context.sink.is_stopped(),
    }
}

fn check_groups(context: &Context<'_>, only: Option<AgNumber>, table: &mut InodeTable, groups: &mut Groups) {
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
        if only.is_some_and(|only| only != group) {
            // Groups are counted from 0 on.
            table.begin_group();
            groups.push(GroupState::left_out(context.volume.geometry().group_length_blocks(group)));
            continue;
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
    metadata_directory::check::check(context);
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
    if let Some(error) = table.take_failure() {
        // What it says about names is wrong.
        context.sink.add(Finding::NotCompared { error });
    } else {
        links::check::check(context, table, are_inodes_complete && !all.is_incomplete);
    }
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

    /// Tells the caller about blocks, where it wants to know.
    pub fn see_blocks(&self, group: AgNumber, (start, length_blocks): (AgBlock, u32), kind: BlockKind) {
        if let Some(see) = self.see {
            see(group, start, length_blocks, kind);
        }
    }

    /// Whether directory entries hold file types.
    pub fn has_file_types(&self) -> bool {
        self.volume.geometry().features.incompatible.contains(Incompatible::FILE_TYPE)
    }

    /// Turns all faults that a tolerant volume has passed over since the last call, for any thread, into findings.
    pub fn report_left_out(&self) {
        let Some(findings) = self.volume.findings() else { return };
        let (list, others) = findings.take();
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
    }

    /// Turns what is older than the log says into findings.
    pub fn report_older(&self) {
        let older = self.volume.newest_lsn().comparison().map(CompareMetadata::take_older);
        for older in older.into_iter().flatten() {
            self.sink.add(Finding::OlderThanLog { older });
        }
        let contradicted = self.volume.newest_lsn().comparison().map(CompareMetadata::take_contradicted);
        for contradicted in contradicted.into_iter().flatten() {
            self.sink.add(Finding::InodeAgainstLog(contradicted));
        }
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
            memory: self.memory,
            uses: Some(list),
            has_shared_extents: AtomicBool::default(),
            progress: None,
            see: None,
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
