//! FUSE over io_uring is turned off unless an administrator turns it on: tests do so while they need it.

use std::fs;

use uxfs_testkit::exclusive::Exclusive;

const PARAMETER: &str = "/sys/module/fuse/parameters/enable_uring";

/// It is on until this is dropped. Other tests that need it wait.
#[derive(Debug)]
pub struct TurnedOn {
    before: String,
    _one: Exclusive,
}

/// Turns it on. `None` where the kernel has no such thing.
pub fn turned_on() -> Option<TurnedOn> {
    let one = Exclusive::wait_for("fuse-rings").unwrap();
    let before = fs::read_to_string(PARAMETER).ok()?;
    fs::write(PARAMETER, "Y").unwrap();
    Some(TurnedOn { before, _one: one })
}

impl Drop for TurnedOn {
    fn drop(&mut self) {
        drop(fs::write(PARAMETER, self.before.trim()));
    }
}
