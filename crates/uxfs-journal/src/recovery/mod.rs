//! From bytes in the log to transactions, and from transactions to where their changes belong.
//!
//! ```text
//! find_head_tail        read_records               transactions
//!   the ring   ──────►  tail … head  ──records──►  operations ──items, commits──►  sink: listing, replay
//! ```
//!
//! | module | holds |
//! |---|---|
//! | [`find_head_tail`] | where the log ends, and from where it must be replayed |
//! | `search` | binary search by cycle numbers |
//! | [`read_records`] | records one after the other |
//! | [`transactions`] | regions, items and commits |
//! | [`mod@replay`] | making the changes |
//! | [`cancel_table`] | buffers that were freed later on |
//! | [`intents`] | what was begun and not finished |
//! | `packed` | items in memory |
//! | [`stale`] | what lies ahead of the head |
//! | [`before_changes`] | what a log must be before anything is written behind its head |

pub mod before_changes;
pub mod cancel_table;
pub mod find_head_tail;
pub mod intents;
pub(crate) mod packed;
pub mod read_records;
pub mod replay;
pub(crate) mod search;
pub mod stale;
pub mod transactions;
