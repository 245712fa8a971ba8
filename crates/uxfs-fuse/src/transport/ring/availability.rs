//! Whether a mount can have rings.

use std::fs;

use thiserror::Error;

use super::entry::Submissions;

/// Where an administrator lets mounts have rings.
const PARAMETER: &str = "/sys/module/fuse/parameters/enable_uring";
/// Processors that the machine may ever have.
const POSSIBLE_PROCESSORS: &str = "/sys/devices/system/cpu/possible";

/// Why a mount can have no rings.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum Unavailable {
    /// The kernel has no rings for FUSE.
    #[error("this kernel has no FUSE over io_uring (Linux 6.14 has)")]
    Kernel,
    /// They are turned off.
    #[error("FUSE over io_uring is turned off (as root: echo Y > {PARAMETER})")]
    TurnedOff,
    /// This process may not use io_uring.
    #[error(
        "this process may not use io_uring (see the sysctl kernel.io_uring_disabled, and seccomp in containers)"
    )]
    NotPermitted,
    /// The number of queues is not known.
    #[error("{POSSIBLE_PROCESSORS} does not tell the number of processors")]
    Processors,
}

/// The number of queues that a mount needs: the kernel waits until each has an entry.
///
/// # Errors
/// There are no rings for mounts.
pub fn queues() -> Result<u16, Unavailable> {
    let parameter = fs::read_to_string(PARAMETER).map_err(|_| Unavailable::Kernel)?;
    if !parameter.starts_with(['Y', '1']) {
        return Err(Unavailable::TurnedOff);
    }
    if !Submissions::are_permitted() {
        return Err(Unavailable::NotPermitted);
    }
    let possible = fs::read_to_string(POSSIBLE_PROCESSORS).map_err(|_| Unavailable::Processors)?;
    count_of(possible.trim()).ok_or(Unavailable::Processors)
}

/// One more than the last number of a list such as `0-3` or `0,2-5`.
fn count_of(list: &str) -> Option<u16> {
    let last = list.rsplit([',', '-']).next()?;
    last.parse::<u16>().ok()?.checked_add(1)
}

#[cfg(test)]
mod tests {
    use super::count_of;

    #[test]
    fn processors_are_counted_to_the_last() {
        for (list, count) in
            [("0", Some(1)), ("0-1", Some(2)), ("0,2-5", Some(6)), ("", None), ("0-65535", None)]
        {
            assert_eq!(count_of(list), count, "{list}");
        }
    }
}
