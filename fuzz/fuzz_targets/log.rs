//! See `uxfs_lab::fuzz::log`.
#![no_main]

use libfuzzer_sys::fuzz_target;
use uxfs_lab::fuzz::log;

fuzz_target!(|bytes: &[u8]| log::log(bytes));
