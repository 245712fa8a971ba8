//! See `uxfs_lab::fuzz::superblock`.
#![no_main]

use libfuzzer_sys::fuzz_target;
use uxfs_lab::fuzz::superblock;

fuzz_target!(|bytes: &[u8]| superblock::superblock(bytes));
