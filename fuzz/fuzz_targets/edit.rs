//! See `uxfs_testkit::fuzz::image`.
#![no_main]

use libfuzzer_sys::fuzz_target;
use uxfs_testkit::fuzz::image;

fuzz_target!(|bytes: &[u8]| image::edit(bytes));
