//! See `uxfs_lab::fuzz::image`.
#![no_main]

use libfuzzer_sys::fuzz_target;
use uxfs_lab::fuzz::image;

fuzz_target!(|bytes: &[u8]| image::edit(bytes));
