//! The model through a real mount: threads of random operations of every kind, as system calls, equal to a model; also when the
//! mount's processes are killed.
//!
//! ```text
//! thread ──▶ generator ──▶ action ──▶ system calls ──▶ kernel ──FUSE──▶ uxfs mount ──▶ image ──▶ xfs_repair, check, the kernel's XFS
//!                            │                            │                                              │
//!                            └──▶ model, history ◀────────┴─── comparison: calls, the whole tree ────────┘
//! ```
//!
//! Each thread has a directory of its own, and in a shared directory the names that begin with its prefix: so its model is exact.
//!
//! | module | holds |
//! |---|---|
//! | [`life`] | an image: rounds, kills, judges |
//! | [`mount`] | the command, its processes, their deaths |
//! | [`watchdog`] | a hang becomes a failure |
//! | [`member`] | a thread |
//! | [`generator`] | which action comes next |
//! | [`action`] | what an action is, and does to the model |
//! | [`hands`] | actions as system calls |
//! | [`mapping`] | writing through a shared mapping |
//! | [`history`] | states of the model, and what of them a crash must leave |
//! | [`times`] | when contents were changed last |
//! | [`walk`] | a tree as system calls show it |

pub mod action;
pub mod generator;
pub mod hands;
pub mod history;
pub mod life;
pub mod mapping;
pub mod member;
pub mod mount;
pub mod times;
pub mod walk;
pub mod watchdog;
