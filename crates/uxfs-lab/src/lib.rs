//! **For the tests of the workspace.** Programs use the crate `uxfs`.
//!
//! The laboratories of uxfs: crashes, crowds of threads, logs of kernels, damaged fields, fuzzing. A dev-dependency only.
//!
//! | module | holds |
//! |---|---|
//! | [`crash`] | crash states, failing devices, workloads and the model that they are compared with |
//! | [`crowd`] | several threads at once, each with a model of its own directory |
//! | [`mounted`] | the model through a mount: system calls of many threads, and deaths of the mount's processes |
//! | [`linux_logs`] | logs that kernel mounts leave behind when they are cut off |
//! | [`field_fuzz`] | every field of every structure, damaged in eight ways |
//! | [`repair_fuzz`] | several damages at once, the repair, and edits of what it made |
//! | [`hostile`] | structures that lie, with the right checksums |
//! | [`rescue_fuzz`] | rescues of damaged images and failing devices, beside what the kernel saw |
//! | [`fuzz`] | what the coverage-guided fuzz targets run |

pub mod crash;
pub mod crowd;
pub mod field_fuzz;
pub mod fuzz;
pub mod hostile;
pub mod linux_logs;
pub mod mounted;
pub mod repair_fuzz;
pub mod rescue_fuzz;
