//! Which passes can find what, for checks that look for a few kinds of finding only.

/// Passes in their order. Each needs those before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum Pass {
    /// Superblocks and allocation groups.
    Groups,
    /// Inodes and their extents, and with them the blocks of groups.
    Inodes,
    /// Directories, attributes, links, parent pointers.
    #[default]
    Names,
}

impl Pass {
    /// The last pass that can give findings with this number: of one that several passes give, or that is not listed here, the last.
    pub fn of_number(number: u16) -> Self {
        match number {
            5 | 8..=11 | 20 | 22..=28 | 34 | 74 | 78 => Self::Groups,
            4 | 21 | 29..=33 | 35..=37 | 40..=46 | 75..=77 | 79 | 81 | 91..=93 => Self::Inodes,
            _ => Self::Names,
        }
    }
}
