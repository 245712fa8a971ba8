//! Any btree.
//!
//! | module | holds |
//! |---|---|
//! | [`mod@walk`] | visiting all blocks of a tree; records that another tree lacks |
//! | [`build`] | a sound tree from sorted records |
//! | [`search`] | trees that no header leads to |

pub(crate) mod build;
pub(crate) mod search;
pub(crate) mod walk;

pub(crate) use walk::{TreeOwner, records_without_equal, visit_sound_blocks, walk, walk_optional};
