//! The crash laboratory: what a file system is after the power went, and after its device failed.
//!
//! ```text
//! workload ──▶ file system ──▶ RecordingDevice ──history──▶ crash states ──▶ recovery ──▶ judges
//!     │                                                        (images)                     │
//!     └───────────────▶ model after each operation ─────────────────────────────────────────┘
//! ```
//!
//! | module | holds |
//! |---|---|
//! | [`image`] | images as values: copies are free |
//! | [`recording`] | a device that remembers requests, flushes and the workload's marks |
//! | [`states`] | every state that a history can leave behind |
//! | [`flaky`] | a device that fails at the n-th request |
//! | [`geometry`] | file systems to try |
//! | [`fill`] | file systems that are nearly full |
//! | [`workload`] | what a workload can do |
//! | [`generator`] | which operation comes next |
//! | [`contents`] | bytes that name the write they are from |
//! | [`model`] | the file system as it should be |
//! | [`volume`] | the file system under test |
//! | [`tree`] | what a file system holds, read quickly |
//! | [`consistency`] | whether structures agree with each other |
//! | [`run`] | a workload, and all of its crash states |
//! | `team` | several threads at once |
//! | `examine` | one crash state, recovered and judged |
//! | `linux` | the kernel's word about a crash state |
//! | [`sweep`] | every kind of operation at every level of fullness |
//! | [`failures`] | a workload whose device fails at the n-th request |
//! | [`kill`] | a process that is killed while it works |
//! | [`judge`] | whether that is the model after some number of operations |

pub mod consistency;
pub mod contents;
mod examine;
pub mod failures;
pub mod fill;
pub mod flaky;
pub mod generator;
pub mod geometry;
pub mod image;
pub mod judge;
pub mod kill;
mod linux;
pub mod model;
pub mod recording;
pub mod run;
pub mod states;
pub mod sweep;
mod team;
pub mod tree;
pub mod volume;
pub mod workload;

/// Each byte of a discarded range.
const DISCARDED: u8 = 0xdc;
