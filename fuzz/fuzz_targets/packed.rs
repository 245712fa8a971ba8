//! See `uxfs_lab::fuzz::forms`.
#![no_main]

use libfuzzer_sys::fuzz_target;
use uxfs_lab::fuzz::forms;

fuzz_target!(|bytes: &[u8]| forms::packed(bytes));
