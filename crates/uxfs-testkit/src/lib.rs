//! **For the tests of the workspace.** Programs use the crate `uxfs`.
//!
//! Help for the tests of uxfs: outside judges, golden images, and images. A dev-dependency only.
//!
//! | module | holds |
//! |---|---|
//! | [`judges`] | finding xfsprogs and the kernel; what happens where one is missing |
//! | [`mount`] | a loop mount that goes away again, whatever happens |
//! | [`loop_device`] | a loop device that does |
//! | [`xfs_db`] | running `xfs_db` and reading what it prints |
//! | [`golden`] | the golden images: list, unpack, manifest |
//! | [`matrix`] | which golden images there are and how each is made |
//! | [`shapes`] | the one list of sizes and feature bits to try |
//! | [`populate`] | the recipe that fills them |
//! | [`manifest`] | what a file system holds, path by path, in the kernel's words; differences between two |
//! | [`same_tree`] | two trees compared file by file |
//! | [`verdict`] | what the judges say of an image |
//! | [`sparse`] | copying and packing images without their holes |
//! | [`limits`] | running a command with limits of time and memory |
//! | [`structures`] | every metadata structure of a sound image |
//! | [`image`] | fresh images to be changed and judged |
//! | [`inspect_diff`] | what `uxfs inspect` prints of each beside what `xfs_db` prints |
//! | [`walk`] | what the library under test says of an image, in the form of a manifest |
//! | [`ownership`] | models of the owner and the reference count of each block |
//! | [`exclusive`] | work that one test at a time may do |
//! | [`watchdog`] | a bound for tests that mount through FUSE |
//! | [`seeds`] | the seed of a randomised test |
#![forbid(unsafe_code)]

pub mod exclusive;
pub mod golden;
pub mod image;
pub mod inspect_diff;
pub mod judges;
pub mod limits;
pub mod loop_device;
pub mod manifest;
pub mod matrix;
pub mod mount;
pub mod ownership;
pub mod populate;
pub mod same_tree;
pub mod seeds;
pub mod shapes;
pub mod sparse;
pub mod structures;
pub mod verdict;
pub mod walk;
pub mod watchdog;
pub mod xfs_db;
