//! See `uxfs_lab::fuzz::repair`.
#![no_main]

use libfuzzer_sys::fuzz_target;
use uxfs_lab::fuzz::repair;

fuzz_target!(|bytes: &[u8]| repair::undo_file(bytes));
