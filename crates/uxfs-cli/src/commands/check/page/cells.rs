//! The blocks of all allocation groups, divided into a bounded number of cells.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use serde_json::{Value as Json, json};
use uxfs_format::{
    geometry::Geometry,
    units::{AgBlock, AgNumber},
};
use uxfs_repair::{BlockKind, finding::place::Place};

/// Cells of the whole image, whatever its size.
const MOST_CELLS: u32 = 16_384;
/// A share of a cell in one character.
const SHARES: &[u8; 36] = b"0123456789abcdefghijklmnopqrstuvwxyz";

/// Blocks by cell and kind, filled by several threads.
#[derive(Debug)]
pub struct Cells {
    group_count: u32,
    group_blocks: u32,
    last_group_blocks: u32,
    cells_per_group: u32,
    blocks_per_cell: u32,
    /// Where there are more groups than cells.
    groups_per_cell: u32,
    counts: Vec<[AtomicU64; BlockKind::ALL.len()]>,
}

impl Cells {
    /// Of this file system.
    pub fn new(geometry: &Geometry) -> Self {
        let group_count = geometry.ag_count.max(1);
        let groups_per_cell = group_count.div_ceil(MOST_CELLS);
        let group_blocks = geometry.ag_blocks.max(1);
        let most = (MOST_CELLS / group_count).max(1);
        let blocks_per_cell = group_blocks.div_ceil(most);
        let cells_per_group = group_blocks.div_ceil(blocks_per_cell);
        let last = AgNumber::new(group_count - 1);
        let cells = group_count.div_ceil(groups_per_cell) * cells_per_group;
        Self {
            group_count,
            group_blocks,
            last_group_blocks: geometry.group_length_blocks(last).unwrap_or(group_blocks),
            cells_per_group,
            blocks_per_cell,
            groups_per_cell,
            counts: (0..cells).map(|_| std::array::from_fn(|_| AtomicU64::new(0))).collect(),
        }
    }

    /// The cell of a block.
    fn cell(&self, group: AgNumber, block: u32) -> u32 {
        group.get() / self.groups_per_cell * self.cells_per_group
            + (block / self.blocks_per_cell).min(self.cells_per_group - 1)
    }

    /// The first and the last cell of a place.
    pub fn cells_of(&self, place: &Place) -> (u32, u32) {
        let last = place.start.get().saturating_add(place.length_blocks.saturating_sub(1));
        (self.cell(place.group, place.start.get()), self.cell(place.group, last))
    }

    /// Adds blocks. Those that lie outside of a group are left out.
    pub fn add(&self, group: AgNumber, start: AgBlock, length_blocks: u32, kind: BlockKind) {
        let end = start.get().saturating_add(length_blocks).min(self.group_blocks);
        let mut at = start.get();
        let Some(kind) = BlockKind::ALL.iter().position(|other| *other == kind) else { return };
        while at < end {
            let next = (at / self.blocks_per_cell + 1).saturating_mul(self.blocks_per_cell).min(end);
            let cell = self.counts.get(self.cell(group, at) as usize);
            if let Some(count) = cell.and_then(|cell| cell.get(kind)) {
                count.fetch_add(u64::from(next - at), Relaxed);
            }
            at = next;
        }
    }

    /// For the page: nine characters for each cell, the shares of the kinds.
    pub fn document(&self) -> Json {
        let mut shares = String::with_capacity(self.counts.len() * BlockKind::ALL.len());
        for cell in &self.counts {
            let counts = cell.each_ref().map(|count| count.load(Relaxed));
            let all = counts.iter().fold(0_u64, |sum, count| sum.saturating_add(*count)).max(1);
            for count in counts {
                // A cell shows every use that it has.
                let share = (u128::from(count) * 35 / u128::from(all)) as usize;
                let share = if count > 0 { share.max(1) } else { 0 };
                shares.push(SHARES.get(share).copied().map_or('z', char::from));
            }
        }
        json!({
            "groups": self.group_count,
            "group_blocks": self.group_blocks,
            "last_group_blocks": self.last_group_blocks,
            "cells_per_group": self.cells_per_group,
            "blocks_per_cell": self.blocks_per_cell,
            "groups_per_cell": self.groups_per_cell,
            "shares": shares,
        })
    }
}
