//! An image as a repair would leave it, for commands that read.

use std::sync::Arc;

use uxfs_block::{device::BlockDevice, engine::overlay::OverlayDevice};
use uxfs_repair::{
    commit::{PlanFacts, Planned},
    repair::{RepairOptions, repair},
};
use uxfs_volume::error::Result;

use crate::{kind::Note, output::notice, text::counted};

/// A repair that is seen and not written.
pub(crate) struct Repaired {
    /// The image with the changes of the repair on top.
    pub device: Arc<dyn BlockDevice>,
    /// A check of it finds nothing. Otherwise it has to be read tolerantly.
    pub is_whole: bool,
}

/// Repairs in memory, and says how much there was to do.
///
/// # Errors
/// As [`repair`].
pub(crate) fn stage(device: &Arc<dyn BlockDevice>, options: &RepairOptions) -> Result<Repaired> {
    let staged = repair(device, options)?;
    staged.show_errors();
    let (actions, remaining) = (staged.actions.len() as u64, staged.remaining.len() as u64);
    tell(staged.is_clean(), actions, remaining);
    Ok(Repaired { device: staged.overlay, is_whole: remaining == 0 })
}

/// The image with what a plan writes, and says how much that is.
pub(crate) fn planned(plan: &Planned) -> Repaired {
    let PlanFacts { actions, remaining, .. } = *plan.facts();
    tell(plan.is_done() && remaining == 0, actions.into(), remaining.into());
    let device: Arc<dyn BlockDevice> = Arc::<OverlayDevice>::clone(plan.overlay());
    Repaired { device, is_whole: remaining == 0 }
}

fn tell(is_clean: bool, actions: u64, remaining: u64) {
    if is_clean {
        notice!(Note::AsRepaired, "--repaired: there is nothing to repair");
    } else if remaining == 0 {
        let changes = counted(actions, "change");
        notice!(Note::AsRepaired, "shown as a repair would leave it: {changes}; nothing is written");
    } else {
        let (changes, findings) = (counted(actions, "change"), counted(remaining, "finding"));
        notice!(
            Note::AsRepaired,
            "shown as a repair would leave it: {changes}, {findings} left; nothing is written"
        );
    }
}
