//! FUSE over io_uring is turned off unless an administrator turns it on: tests do so while they need it.

use std::{
    fs,
    sync::{Mutex, PoisonError},
};

const PARAMETER: &str = "/sys/module/fuse/parameters/enable_uring";

/// How many tests have it on, and how it was before.
static USERS: Mutex<(usize, String)> = Mutex::new((0, String::new()));

/// It is on until this is dropped.
#[derive(Debug)]
pub struct TurnedOn;

/// Turns it on. `None` where the kernel has no such thing.
pub fn turned_on() -> Option<TurnedOn> {
    let before = fs::read_to_string(PARAMETER).ok()?;
    let mut users = USERS.lock().unwrap_or_else(PoisonError::into_inner);
    if users.0 == 0 {
        users.1 = before;
        fs::write(PARAMETER, "Y").unwrap();
    }
    users.0 += 1;
    Some(TurnedOn)
}

impl Drop for TurnedOn {
    fn drop(&mut self) {
        let mut users = USERS.lock().unwrap_or_else(PoisonError::into_inner);
        users.0 -= 1;
        if users.0 == 0 {
            drop(fs::write(PARAMETER, users.1.trim()));
        }
    }
}
