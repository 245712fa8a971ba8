//! What the process that reads an image may still do: serve one image and one mount, and nothing else.
//!
//! | module | takes away |
//! |---|---|
//! | here | the order |
//! | [`privileges`] | user, groups, capabilities, all that a program with more rights could give back |
//! | [`paths`] | all paths, new connections, signals to others (Landlock) |
//! | [`system_calls`] | all system calls that serving does not need (seccomp) |
//! | [`descriptors`] | what was open when the process was started |
//! | [`resources`] | address space, core dumps, further descriptors |
//!
//! Invariants:
//! 1. A process is confined before it reads the first byte of an image. What it needs is open by then.
//! 2. It has one thread then: Landlock and credentials are those of a thread, and its children have them.
//! 3. What the kernel cannot take away is told, not passed over.

pub mod descriptors;
pub mod paths;
pub mod privileges;
pub mod resources;
pub mod system_calls;

use std::io;

use thiserror::Error;

pub use self::paths::Paths;
use crate::fork;

/// Why a process is not confined.
#[derive(Debug, Error)]
pub enum ConfinementError {
    /// Other threads would keep what this one gives up.
    #[error("the process has {0} threads; it must have one when it is confined")]
    Threads(usize),
    /// Credentials.
    #[error("privileges cannot be given up: {}", uxfs_block::words::in_words(.0))]
    Privileges(io::Error),
    /// Landlock.
    #[error("paths cannot be taken away: {0}")]
    Paths(String),
    /// seccomp.
    #[error("system calls cannot be taken away: {0}")]
    SystemCalls(String),
    /// Limits.
    #[error("limits cannot be set: {}", uxfs_block::words::in_words(.0))]
    Resources(io::Error),
}

/// How a process was confined.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Confined {
    /// What Landlock takes away; kernels before 5.13 and those without it take nothing.
    pub paths: Paths,
}

/// Confines this process. `address_space_bytes`: what it may map in all.
///
/// # Errors
/// Anything but Landlock cannot be had. What was taken away until then is gone.
pub fn confine(address_space_bytes: u64) -> Result<Confined, ConfinementError> {
    let threads = fork::thread_count();
    if threads != 1 {
        return Err(ConfinementError::Threads(threads));
    }
    resources::limit(address_space_bytes).map_err(ConfinementError::Resources)?;
    privileges::give_up().map_err(ConfinementError::Privileges)?;
    let paths = paths::take_away().map_err(ConfinementError::Paths)?;
    // Last: what came before needs system calls that are gone then.
    system_calls::take_away().map_err(ConfinementError::SystemCalls)?;
    Ok(Confined { paths })
}
