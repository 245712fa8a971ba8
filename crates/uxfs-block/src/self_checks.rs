//! Run-time checks of internal invariants: lock order, log reservations, no I/O of contents inside a transaction.
//!
//! Set `UXFS_SELF_CHECKS=1` to turn them on, as `cargo xtask test` does; builds with debug assertions always have them. So the
//! tests check the release build. A check that is off costs a load and a branch.

use std::{
    env,
    sync::atomic::{AtomicU8, Ordering::Relaxed},
};

/// Environment variable that turns the checks on; `0` leaves them off.
pub const VARIABLE: &str = "UXFS_SELF_CHECKS";

const UNKNOWN: u8 = 0;
const OFF: u8 = 1;
const ON: u8 = 2;

static STATE: AtomicU8 = AtomicU8::new(UNKNOWN);

/// Whether self-checks are on. Reads the environment once.
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

/// [`assert!`], if self-checks are on.
#[macro_export]
macro_rules! self_check {
    ($($rule:tt)*) => {
        if $crate::self_checks::are_on() {
            assert!($($rule)*);
        }
    };
}
