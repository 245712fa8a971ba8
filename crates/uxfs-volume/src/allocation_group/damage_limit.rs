//! Where a walk over all groups ends that goes on past damaged ones.

/// Damaged groups that a walk looks at beyond as many as were sound.
const MOST_DAMAGED: u32 = 1000;

/// Counts the groups that a walk has met. The superblock of a small sparse image may claim 2²⁸ groups that are not there:
/// the walk ends where it has met so many more damaged than sound groups that most of the rest cannot be expected to exist.
/// So its work is bounded by what the image really holds.
#[derive(Debug, Clone, Copy, Default)]
pub struct DamageLimit {
    sound: u32,
    damaged: u32,
}

impl DamageLimit {
    /// Counts a group.
    pub fn count(&mut self, is_sound: bool) {
        let counter = if is_sound { &mut self.sound } else { &mut self.damaged };
        *counter = counter.saturating_add(1);
    }

    /// Whether the walk is to end.
    pub fn is_reached(&self) -> bool {
        self.damaged >= self.sound.saturating_add(MOST_DAMAGED)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sound_groups_allow_for_as_many_damaged_ones() {
        let mut limit = DamageLimit::default();
        (0..500).for_each(|_| limit.count(true));
        (0..1499).for_each(|_| limit.count(false));
        assert!(!limit.is_reached());
        limit.count(false);
        assert!(limit.is_reached());
        limit.count(true);
        assert!(!limit.is_reached());
    }
}
