//! See `uxfs_lab::fuzz::blocks`.
#![no_main]

use libfuzzer_sys::fuzz_target;
use uxfs_lab::fuzz::blocks;

fuzz_target!(|bytes: &[u8]| blocks::block(blocks::BTREE, bytes));
