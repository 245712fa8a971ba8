//! See `uxfs_lab::fuzz::quota`.
#![no_main]

use libfuzzer_sys::fuzz_target;
use uxfs_lab::fuzz::quota;

fuzz_target!(|bytes: &[u8]| quota::quota(bytes));
