//! Whether the program checks its own rules while it runs: the order of locks, the log space that a transaction claimed, no contents
//! moved under a transaction.
//!
//! They are on where `UXFS_SELF_CHECKS` is set, as `cargo xtask test` does, and in builds with debug assertions. A release build thus
//! is tested as users get it. Where they are off, each costs a load and a branch.

use std::{
    env,
    sync::atomic::{AtomicU8, Ordering::Relaxed},
};

/// Turns the checks on. `0` is as if it were not set.
pub const VARIABLE: &str = "UXFS_SELF_CHECKS";

const UNKNOWN: u8 = 0;
const OFF: u8 = 1;
const ON: u8 = 2;

static STATE: AtomicU8 = AtomicU8::new(UNKNOWN);

/// Whether they are on. The environment is asked once.
#[inline]
pub fn are_on() -> bool {
    match STATE.load(Relaxed) {
        UNKNOWN => ask(),
        state => state == ON,
    }
}

#[cold]
fn ask() -> bool {
    let are_on = cfg!(any(debug_assertions, test)) || env::var_os(VARIABLE).is_some_and(|value| value != "0");
    STATE.store(if are_on { ON } else { OFF }, Relaxed);
    are_on
}

/// [`assert!`] where the checks are on.
#[macro_export]
macro_rules! self_check {
    ($($rule:tt)*) => {
        if $crate::self_checks::are_on() {
            assert!($($rule)*);
        }
    };
}
