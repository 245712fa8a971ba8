//! All integration tests of `uxfs-lab` in one program, so that they share what one of them unpacked or made.
#![allow(clippy::unwrap_used)] // Without its image a test has nothing to say.

mod check_damaged;
mod crash;
mod crash_failures;
mod field_fuzz_check;
mod field_fuzz_edits;
mod field_fuzz_slice;
mod fuzz_replay;
mod inode_index_grows;
mod linux_logs;
mod mounted_model;
mod repair_robust;
mod rescue_fuzz;
mod smallest_log;
