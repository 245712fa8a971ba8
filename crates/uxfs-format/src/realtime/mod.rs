//! The realtime section: recognised and verified, not read.
//!
//! With realtime groups (part of the metadata directory feature) its bitmap and summary blocks describe themselves, and
//! its first block is a superblock of its own. Without them bitmap and summary are bare words that nothing can verify.
//!
//! | module | holds |
//! |---|---|
//! | [`block`] | headers of bitmap and summary blocks |
//! | [`group_superblock`] | superblock of the realtime section |

pub mod block;
pub mod group_superblock;
