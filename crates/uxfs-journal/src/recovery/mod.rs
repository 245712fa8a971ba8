//! From bytes in the log to transactions.
//!
//! ```text
//! find_head_tail        read_records               transactions
//!   the ring   ──────►  tail … head  ──records──►  operations ──items, commits──►  sink
//! ```

pub mod find_head_tail;
pub mod read_records;
pub(crate) mod search;
pub mod transactions;
