//! Changing a file system.
//!
//! An operation begins a [`Transaction`], changes what it must through it, and commits. The same code changes structures in
//! bulk mode (making and filling images: nothing is logged) and in logged mode. What only a logged transaction does has
//! types of its own: [`LoggedSteps`](steps) divides one into steps, and a [`CheckpointTransaction`](checkpoint) is what a
//! checkpoint switch changes itself.
//!
//! ```text
//! operation ──▶ Transaction ──▶ groups: headers and trees of an allocation group, locked until the commit
//!                    │      └──▶ buffers: metadata to be changed, each change marking its range
//!                    └────────▶ deferred: work that must come after what the operation did itself, in order
//! ```
//!
//! | module | holds |
//! |---|---|
//! | here | beginning; holding groups |
//! | `commit` | the end of a transaction, and of each of its steps |
//! | [`allocate`] | allocating blocks wherever there are some |
//! | `inodes` | loading and storing inodes |
//! | [`deferred`] | work that comes after what an operation did itself |
//! | [`reservation`] | what each kind of operation may take |
//! | `staged` | new blocks that are filled between two steps |
//! | `steps` | a logged transaction in several steps |
//! | [`checkpoint`] | what a checkpoint switch changes |
//!
//! Invariants:
//! 1. A group's headers and trees are changed only by the transaction that holds the group's lock.
//! 2. A transaction waits for a group only while it holds no higher one: where it needs a lower one that another
//!    transaction has, it first releases all that it holds. Deferred work is sorted by group, so that this is rare.
//! 3. Only the holder of an [`EditInode`](crate::inode::edit::EditInode) changes that inode; it becomes visible to
//!    others by [`Transaction::store_inode`].
//! 4. A transaction that is dropped without a commit leaves nothing behind. Where it has changed a buffer, a group in
//!    memory, a counter or has put off work, or where an earlier step of it is committed, the drop shuts the journal down with
//!    the first cause; no checkpoint is written from then on, and what was committed before is as safe as before. Where it has
//!    changed nothing of these, the file system goes on; inodes that were changed and not stored are read anew when their
//!    locks go (invariant 7 of the inode table). In bulk mode an image is abandoned after an error, and
//!    says itself that it is unfinished.
//! 5. An inode is stored only when its fields pass the verifier that readers and recovery use; the journal verifies the other
//!    structures when their checkpoint takes them, and of an inode cluster only what all its inodes share.

pub mod allocate;
pub mod checkpoint;
mod commit;
pub mod deferred;
mod inodes;
pub mod reservation;
mod staged;
mod steps;

use uxfs_block::self_check;
use uxfs_format::units::AgNumber;
use uxfs_journal::transaction::TransactionBuffers;

use self::{deferred::queue::DeferredWork, reservation::Operation};
pub use crate::allocation_group::group_edit::{CounterChanges, GroupEdit};
use crate::allocation_group::state::{GroupGuard, GroupState};
use crate::engine::{AnyEngine, BulkEngine, Engine, EngineRef, LoggedEngine};
use uxfs_volume::error::{OperationError, Result};

/// Changes that belong together.
#[doc(alias = "xfs_trans")]
pub struct Transaction<'fs> {
    engine: &'fs Engine,
    mode: EngineRef<'fs>,
    buffers: TransactionBuffers<'fs>,
    /// Groups whose locks it holds, few.
    groups: Vec<GroupGuard>,
    counters: CounterChanges,
    deferred: DeferredWork,
    /// Blocks that it may still take.
    reserved_blocks: u64,
    /// Something has changed that its buffers and groups do not show any more: an earlier step has ended, or a group with
    /// changes was given back.
    has_begun: bool,
    /// Contents of files were written that it makes visible, or says the time of.
    has_written_contents: bool,
    /// This transaction adds an attribute fork; the first such fork sets the attribute bit in the superblock.
    pub makes_attribute_fork: bool,
}

impl<'fs> Transaction<'fs> {
    /// Begins with nothing changed: in bulk mode, where one transaction may do everything; in logged mode for work that
    /// takes no blocks.
    ///
    /// # Errors
    /// The journal has been shut down.
    pub fn begin(engine: &'fs AnyEngine) -> Result<Self> {
        match engine.by_mode() {
            EngineRef::Bulk(engine) => Ok(Self::bulk(engine)),
            EngineRef::Logged(engine) => Self::logged(engine, Operation::Release),
        }
    }

    /// Begins for one operation, once there is room for all that it may take. The caller has locked the inodes that it
    /// will change: a transaction under way waits for no inode.
    ///
    /// # Errors
    /// [`OperationError::NoSpace`], with nothing changed; the journal has been shut down.
    #[inline]
    pub fn begin_for(engine: &'fs AnyEngine, operation: Operation) -> Result<Self> {
        match engine.by_mode() {
            EngineRef::Bulk(engine) => {
                let blocks = operation.blocks(engine.needs());
                engine.require_blocks(blocks, operation.leaves(engine.kept_blocks()))?;
                Ok(Self::bulk(engine))
            }
            EngineRef::Logged(engine) => Self::logged(engine, operation),
        }
    }

    /// Begins in bulk mode.
    pub fn bulk(engine: &'fs BulkEngine) -> Self {
        let buffers = TransactionBuffers::bulk(engine.cache(), engine.geometry(), engine.newest_lsn());
        Self::new(EngineRef::Bulk(engine), buffers)
    }

    /// Begins for one operation through the log, once there is room for all that it may take.
    ///
    /// # Errors
    /// As [`begin_for`](Self::begin_for).
    pub fn logged(engine: &'fs LoggedEngine, operation: Operation) -> Result<Self> {
        let needs = engine.needs();
        let (blocks, log_bytes) = (operation.blocks(needs), operation.log_bytes(needs));
        engine.reserve_blocks(blocks, operation.leaves(engine.kept_blocks()))?;
        let mut transaction = Self::before_ticket(engine);
        transaction.reserved_blocks = blocks;
        transaction.buffers.set_ticket(engine.begin_ticket(log_bytes, operation.reserve())?);
        Ok(transaction)
    }

    /// A transaction through the log that may change something once it has a ticket.
    fn before_ticket(engine: &'fs LoggedEngine) -> Self {
        let buffers = TransactionBuffers::logged(engine.cache(), engine.geometry());
        Self::new(EngineRef::Logged(engine), buffers)
    }

    fn new(mode: EngineRef<'fs>, buffers: TransactionBuffers<'fs>) -> Self {
        uxfs_volume::cause::begin();
        let (groups, counters, deferred) = (Vec::new(), CounterChanges::default(), DeferredWork::default());
        let engine = mode.engine();
        Self {
            engine,
            mode,
            buffers,
            groups,
            counters,
            deferred,
            reserved_blocks: 0,
            has_begun: false,
            has_written_contents: false,
            makes_attribute_fork: false,
        }
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

    /// Locks a group unless that has been done, reads its headers unless they are in memory, and returns it to be changed.
    ///
    /// # Errors
    /// No such group; damage; the device.
    pub fn group(&mut self, group: AgNumber) -> Result<GroupEdit<'_, 'fs>> {
        let position = match self.groups.iter().position(|state| state.group() == group) {
            Some(position) => position,
            None => {
                let state = self.wait_for_group(group)?;
                self.hold_group(state);
                self.groups.len() - 1
            }
        };
        let Self { engine, buffers, groups, counters, deferred, .. } = self;
        let state = groups.get_mut(position).ok_or(OperationError::NoSuchGroup)?;
        if !state.is_loaded() {
            state.load(engine)?;
        }
        let (volume, needs) = (engine.volume(), engine.needs());
        Ok(GroupEdit { volume, needs, state, buffers, counters, deferred })
    }

    /// Locks a group that it does not hold. Where it holds a higher one and another transaction has this one, it first
    /// releases all that it holds (invariant 2): each change of a group is whole when the next group is locked.
    fn wait_for_group(&mut self, group: AgNumber) -> Result<GroupGuard> {
        let state = self.engine.group_state(group)?;
        if self.groups.iter().any(|held| held.group() > group) {
            if let Some(state) = GroupState::try_lock(state, group) {
                return Ok(state);
            }
            self.give_back_groups();
        }
        Ok(GroupState::lock(state, group))
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
            match GroupState::try_lock(state, group) {
                Some(state) => self.hold_group(state),
                None => return Ok(None),
            }
        }
        self.group(group).map(Some)
    }

    fn hold_group(&mut self, mut state: GroupGuard) {
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
        self_check!(
            matches!(self.mode, EngineRef::Bulk(_))
                || self.groups.iter().skip(held).all(|group| is_untouched(group)),
            "the next checkpoint switch must know of groups that have changed"
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
