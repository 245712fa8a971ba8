//! Changing a file system.
//!
//! An operation opens a [`Transaction`], changes what it must through it, and commits. The same code runs in bulk mode
//! (making and filling images: nothing is logged) and in logged mode.
//!
//! ```text
//! operation ──▶ Transaction ──▶ groups: headers and trees of an allocation group, locked until the commit
//!                    │      └──▶ buffers: metadata to be changed, each change marking its range
//!                    └────────▶ deferred: work that must come after what the operation did itself, in order
//! ```
//!
//! Invariants:
//! 1. A group's headers and trees are changed only by the transaction that holds the group's lock.
//! 2. Groups are locked in ascending order by whoever locks more than one; a later transaction step that needs a lower
//!    one goes through deferred work, which runs after the locks were given back.
//! 3. An inode is changed only by who holds its [`EditInode`](crate::inode::edit::EditInode); it becomes visible to
//!    others by [`Transaction::store_inode`].
//! 4. A transaction that is dropped without a commit leaves nothing behind. Where it has changed a buffer, a group in
//!    memory, a counter or has put off work, or where an earlier step of it is committed, the drop shuts the journal down with
//!    the first cause; no checkpoint is written from then on, and what was committed before is as safe as before. Where it has
//!    changed nothing of these, the file system goes on; inodes that its thread holds locked are read anew when it unlocks
//!    them (invariant 7 of the inode table). In bulk mode an image is abandoned after an error, and
//!    says itself that it is unfinished.

pub mod allocate;
mod commit;
pub mod deferred;
pub mod reservation;

use parking_lot::{ArcMutexGuard, Mutex, RawMutex};
use uxfs_format::units::AgNumber;
use uxfs_journal::{
    journal::Ticket,
    transaction::{Mode, TransactionBuffers},
};

use self::{deferred::queue::DeferredWork, reservation::Operation};
use crate::allocation_group::state::GroupState;
use crate::engine::Engine;
use uxfs_volume::error::{OperationError, Result};

/// Changes of superblock counters that a transaction has made so far.
#[doc(alias = "xfs_trans_mod_sb")]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CounterChanges {
    /// Inodes that exist, in use or free.
    pub inodes: i64,
    /// Inodes that are free.
    pub free_inodes: i64,
    /// Free blocks.
    pub free_blocks: i64,
}

/// Changes that belong together.
#[doc(alias = "xfs_trans")]
pub struct Transaction<'fs> {
    engine: &'fs Engine,
    buffers: TransactionBuffers<'fs>,
    /// Groups whose locks it holds, few.
    groups: Vec<ArcMutexGuard<RawMutex, GroupState>>,
    counters: CounterChanges,
    deferred: DeferredWork,
    /// Blocks that it may still take.
    reserved_blocks: u64,
    /// Something has changed that its buffers and groups do not show any more: an earlier step has ended, or a group with
    /// changes was given back.
    has_begun: bool,
    /// Contents of files were written that it makes visible, or says the time of.
    has_written_contents: bool,
}

/// A group that a transaction holds, with what is needed to change it.
#[derive(Debug)]
pub struct GroupEdit<'t, 'fs> {
    /// The file system.
    pub engine: &'fs Engine,
    /// Headers of the group in memory.
    pub state: &'t mut GroupState,
    /// For the blocks of its trees.
    pub buffers: &'t mut TransactionBuffers<'fs>,
    /// For the superblock's counters.
    pub counters: &'t mut CounterChanges,
    /// For what follows from changes.
    pub deferred: &'t mut DeferredWork,
}

impl<'fs> Transaction<'fs> {
    /// Begins with nothing changed: in bulk mode, where one transaction may do everything.
    ///
    /// # Errors
    /// The file system is not mounted for changes.
    pub fn begin(engine: &'fs Engine) -> Result<Self> {
        match engine.mode() {
            Mode::Bulk => Ok(Self::new(engine, Mode::Bulk, None)),
            _ => Self::begin_for(engine, Operation::Release),
        }
    }

    fn new(engine: &'fs Engine, mode: Mode, ticket: Option<Ticket<'fs>>) -> Self {
        uxfs_volume::cause::begin();
        let buffers = TransactionBuffers::new(engine.cache(), engine.geometry(), mode, ticket);
        let (groups, counters, deferred) = (Vec::new(), CounterChanges::default(), DeferredWork::default());
        Self {
            engine,
            buffers,
            groups,
            counters,
            deferred,
            reserved_blocks: 0,
            has_begun: false,
            has_written_contents: false,
        }
    }

    /// Begins for one operation, once there is room for all that it may take. Whoever changes inodes has locked them
    /// before: a transaction under way waits for no inode.
    ///
    /// # Errors
    /// [`OperationError::NoSpace`], with nothing changed; the file system is not mounted for changes, or no longer.
    pub fn begin_for(engine: &'fs Engine, operation: Operation) -> Result<Self> {
        let mode = engine.mode();
        let needs = engine.needs();
        let (blocks, log_bytes) = (operation.blocks(needs), operation.log_bytes(needs));
        engine.reserve_blocks(blocks, operation.leaves(engine.kept_blocks()))?;
        let mut transaction = Self::new(engine, mode, None);
        transaction.reserved_blocks = blocks;
        if let Some(ticket) = engine.begin_ticket(log_bytes, operation.reserve())? {
            transaction.buffers.set_ticket(ticket);
        }
        Ok(transaction)
    }

    /// The file system.
    pub fn engine(&self) -> &'fs Engine {
        self.engine
    }

    /// Changes of the superblock's counters that are not among those of the file system yet.
    pub fn counter_changes(&self) -> CounterChanges {
        self.counters
    }

    /// The buffers it changes.
    pub fn buffers(&mut self) -> &mut TransactionBuffers<'fs> {
        &mut self.buffers
    }

    /// Locks a group unless that has been done, reads its headers if nobody has, and gives what changing it takes.
    ///
    /// # Errors
    /// No such group; damage; the device.
    pub fn group(&mut self, group: AgNumber) -> Result<GroupEdit<'_, 'fs>> {
        let position = match self.groups.iter().position(|state| state.group() == group) {
            Some(position) => position,
            None => {
                let state = self.engine.group_state(group)?;
                self.hold_group(GroupState::lock(state));
                self.groups.len() - 1
            }
        };
        let Self { engine, buffers, groups, counters, deferred, .. } = self;
        let state = groups.get_mut(position).ok_or(OperationError::NoSuchGroup)?;
        if !state.is_loaded() {
            state.load(engine)?;
        }
        Ok(GroupEdit { engine, state, buffers, counters, deferred })
    }

    /// As [`group`](Self::group), but where waiting for the group could wait for ever (a higher one is locked already) and
    /// another transaction has it, gives `None`.
    ///
    /// # Errors
    /// As [`group`](Self::group).
    pub fn try_group(&mut self, group: AgNumber) -> Result<Option<GroupEdit<'_, 'fs>>> {
        let is_held = self.groups.iter().any(|state| state.group() == group);
        if !is_held && self.groups.iter().any(|state| state.group() > group) {
            let state = self.engine.group_state(group)?;
            match Mutex::try_lock_arc(state) {
                Some(state) => self.hold_group(state),
                None => return Ok(None),
            }
        }
        self.group(group).map(Some)
    }

    fn hold_group(&mut self, mut state: ArcMutexGuard<RawMutex, GroupState>) {
        state.has_changed = false;
        self.groups.push(state);
    }

    /// Whether dropping it now would leave half a change.
    fn is_half_done(&self) -> bool {
        self.has_begun
            || self.counters != CounterChanges::default()
            || !self.deferred.is_empty()
            || self.groups.iter().any(|state| state.has_changed)
            || self.buffers.have_changed()
    }

    /// How many groups it holds.
    pub fn held_groups(&self) -> usize {
        self.groups.len()
    }

    /// Gives back the groups behind the first `held`, in which nothing has been changed.
    pub fn give_back_untouched(&mut self, held: usize) {
        let is_untouched = |state: &GroupState| state.is_listed || !state.needs_settling();
        debug_assert!(
            !self.buffers.mode().is_logged()
                || self.groups.iter().skip(held).all(|group| is_untouched(group)),
            "the next cut must know of groups that have changed"
        );
        self.groups.truncate(held);
    }
}

impl std::fmt::Debug for Transaction<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let groups: Vec<AgNumber> = self.groups.iter().map(|state| state.group()).collect();
        f.debug_struct("Transaction")
            .field("groups", &groups)
            .field("counters", &self.counters)
            .finish_non_exhaustive()
    }
}
