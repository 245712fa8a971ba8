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

pub mod flaky;
pub mod image;
pub mod recording;
pub mod states;

/// What is found where a device was told that nobody needs the contents.
const DISCARDED: u8 = 0xdc;
