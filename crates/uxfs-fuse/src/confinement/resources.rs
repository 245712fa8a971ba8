//! Limits of the process.

use std::io;

use rustix::process::{DumpableBehavior, Resource, Rlimit, getrlimit, set_dumpable_behavior, setrlimit};

/// Sets the limits. A process that parses an image leaves no core, and other processes of its user may not look into it.
///
/// # Errors
/// The kernel.
pub fn limit(address_space_bytes: u64) -> io::Result<()> {
    let exactly = |most| Rlimit { current: Some(most), maximum: Some(most) };
    // A limit that is there already may be lower; it cannot be raised.
    let present = getrlimit(Resource::As).maximum.unwrap_or(u64::MAX);
    setrlimit(Resource::As, exactly(address_space_bytes.min(present)))?;
    setrlimit(Resource::Core, exactly(0))?;
    set_dumpable_behavior(DumpableBehavior::NotDumpable)?;
    Ok(())
}
