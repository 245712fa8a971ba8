//! Log space of an inode.
//!
//! A checkpoint logs an inode once, as its last change left it: the core, and each fork that has changed. So a change
//! reserves only the space beyond earlier reservations for the inode in the same checkpoint.

use uxfs_journal::journal::items::inode::{CORE_LOG_BYTES, fork_log_bytes};

use super::{EditInode, InodeFork, store::ForkChanges};

/// Log space reserved for an inode in the checkpoint that changed it last. An inode that is loaded anew has none and
/// reserves all again: too much is safe, and is given back at the checkpoint switch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct InodeLogReservation {
    sequence: u64,
    data_bytes: u32,
    attribute_bytes: u32,
}

impl InodeLogReservation {
    /// The additional log space to reserve in checkpoint `sequence`, where the forks that are given have changed.
    pub fn raise(&mut self, sequence: u64, data: Option<&InodeFork>, attribute: Option<&InodeFork>) -> u64 {
        let mut more = 0;
        if self.sequence != sequence {
            *self = Self { sequence, ..Self::default() };
            more = CORE_LOG_BYTES;
        }
        for (claimed, fork) in [(&mut self.data_bytes, data), (&mut self.attribute_bytes, attribute)] {
            let bytes = fork.map_or(0, fork_bytes);
            more += bytes.saturating_sub(*claimed);
            *claimed = bytes.max(*claimed);
        }
        more.into()
    }
}

impl EditInode {
    /// The additional log space to reserve in checkpoint `sequence` for what has changed.
    pub(crate) fn raise_log_reservation(&mut self, sequence: u64, changes: ForkChanges) -> u64 {
        let Self { inode, log_reservation, .. } = self;
        let data = changes.has_data.then_some(&inode.data);
        let attribute = inode.attribute.as_ref().filter(|_| changes.has_attribute);
        log_reservation.raise(sequence, data, attribute)
    }
}

/// Log space of a fork, with the header of its region.
fn fork_bytes(fork: &InodeFork) -> u32 {
    let bytes = match fork {
        InodeFork::Device(_) => 0,
        InodeFork::Local(bytes) => bytes.len(),
        InodeFork::Extents(extents) => match &extents.root {
            Some(root) => return fork_log_bytes(root.keys.len() * 16, true),
            None => extents.extents.len() * 16,
        },
    };
    fork_log_bytes(bytes, false)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_grows_in_a_checkpoint_is_claimed() {
        let (short, long) = (InodeFork::Local(vec![1; 10]), InodeFork::Local(vec![1; 30]));
        let mut reserve = InodeLogReservation::default();
        assert_eq!(reserve.raise(7, None, None), u64::from(CORE_LOG_BYTES));
        assert_eq!(reserve.raise(7, None, None), 0);
        assert_eq!(reserve.raise(7, Some(&short), None), 12 + 12);
        assert_eq!(reserve.raise(7, Some(&long), Some(&short)), 20 + 24);
        assert_eq!(reserve.raise(7, Some(&short), Some(&short)), 0);
        assert_eq!(reserve.raise(7, Some(&long), None), 0, "the longest has been claimed");
        assert_eq!(
            reserve.raise(8, Some(&short), None),
            u64::from(CORE_LOG_BYTES) + 24,
            "the next checkpoint"
        );
    }
}
