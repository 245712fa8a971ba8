//! Buffers whose blocks were freed somewhere in the log: older changes of them must not be replayed, because the blocks
//! may hold something else by now, and something that the log does not know.

use std::collections::HashMap;

/// How often each buffer (first sector, sectors) is cancelled between here and the head.
#[doc(alias = "xlog_recover_add_buffer_cancelled")]
#[derive(Debug, Default)]
pub struct CancelTable {
    counts: HashMap<(u64, u32), u32>,
}

impl CancelTable {
    /// Notes one more cancellation.
    pub fn add(&mut self, sector: u64, sectors: u32) {
        *self.counts.entry((sector, sectors)).or_default() += 1;
    }

    /// Whether the buffer is cancelled later on.
    pub fn contains(&self, sector: u64, sectors: u32) -> bool {
        self.counts.contains_key(&(sector, sectors))
    }

    /// A cancellation has been passed: what comes behind it counts, unless there is another.
    pub fn pass(&mut self, sector: u64, sectors: u32) {
        if let Some(count) = self.counts.get_mut(&(sector, sectors)) {
            *count -= 1;
            if *count == 0 {
                self.counts.remove(&(sector, sectors));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_buffer_counts_again_behind_its_last_cancellation() {
        let mut table = CancelTable::default();
        table.add(8, 8);
        table.add(8, 8);
        table.add(16, 8);
        table.pass(8, 8);
        assert!(table.contains(8, 8) && !table.contains(8, 16));
        table.pass(8, 8);
        table.pass(8, 8);
        assert!(!table.contains(8, 8) && table.contains(16, 8));
    }
}
