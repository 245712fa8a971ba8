//! The field fuzzer: every field of every structure of an image damaged in eight ways, the checksum sealed again.
//!
//! | module | holds |
//! |---|---|
//! | [`transform`] | the eight ways |
//! | [`sparse_device`] | the image in memory, and damaged copies of it that cost next to nothing |
//! | [`plan`] | which fields are damaged how |
//! | [`mod@slice`] | cases in the process of a test |
//! | [`reading`] | everything that the reading commands ask of a damaged image |
//! | [`editing`] | edits of a damaged image, and what must be as it was afterwards |
//! | [`unknowable`] | the lies that edits cannot see |
//! | [`edits`] | which edits |
//! | [`checking`] | a damaged image before `xfs_repair`, the check and the repair |
//! | [`tree`] | what the kernel reads of a sound image and of a repaired one |
//! | [`witness`] | fields whose value nothing else tells |
//! | [`small`] | a golden image that `xfs_repair` reads quickly |
//! | [`quota`] | an image with quota inodes |
//! | [`holdings`] | what can be read of an image, path by path |

pub mod checking;
pub mod editing;
pub mod edits;
pub mod holdings;
pub mod plan;
pub mod quota;
pub mod reading;
pub mod slice;
pub mod small;
pub mod sparse_device;
pub mod transform;
pub mod tree;
pub mod unknowable;
pub mod witness;
