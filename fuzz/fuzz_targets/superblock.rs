//! See `uxfs_testkit::fuzz::superblock`.
#![no_main]

use libfuzzer_sys::fuzz_target;
use uxfs_testkit::fuzz::superblock;

fuzz_target!(|bytes: &[u8]| superblock::superblock(bytes));
