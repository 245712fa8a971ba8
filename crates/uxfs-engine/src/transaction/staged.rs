//! New blocks that are filled while no transaction is under way.
//!
//! ```text
//! step 1: allocate the blocks; an intent to free them
//!         (neither commit lock nor group is held)          the contents go to the device
//! step 2: map the blocks; the end of the intent
//! ```
//!
//! 1. Nothing leads to staged blocks, and the intent to free them is in the checkpoint in which they leave the free
//!    space. After a crash between the steps recovery, ours and that of Linux, frees them: no block is lost, and no
//!    reader sees what was in them.
//! 2. If one checkpoint holds both steps, the journal drops the intent together with its end.
//! 3. The second step's room in the log is reserved as urgent: the intent may hold the tail of the log.

use uxfs_format::units::FsBlock;

use super::{
    Transaction,
    reservation::Operation,
    steps::{LoggedSteps, NextStep},
};
use crate::engine::EngineRef;
use uxfs_volume::error::Result;

impl Transaction<'_> {
    /// Calls `fill` while the transaction holds neither the commit lock nor a group; `fill` writes the contents of blocks
    /// which the transaction has just allocated. Afterwards the transaction maps the blocks or frees them.
    ///
    /// # Errors
    /// The outer error: damage, or the device failed, now or before, and the transaction is over. The inner result is that
    /// of `fill`.
    pub fn fill_staged<T>(
        &mut self,
        start: FsBlock,
        length_blocks: u64,
        fill: impl FnOnce() -> Result<T>,
    ) -> Result<Result<T>> {
        let EngineRef::Logged(engine) = self.mode else {
            self.give_back_groups();
            return Ok(fill());
        };
        let returned_blocks = length_blocks.min(self.reserved_blocks);
        let mut steps = LoggedSteps::new(self, engine);
        let staged = steps.log_staged_intent(start, length_blocks)?;
        steps.log_intents()?;
        let mapping = Operation::Allocate { blocks: length_blocks };
        let next = NextStep { returned_blocks, log_bytes: mapping.log_bytes(engine.needs()) };
        let filled = steps.roll_around(next, fill)?;
        if let Some(staged) = staged {
            self.intent_done(staged.end, staged.id, &staged.extents);
        }
        Ok(filled)
    }
}
