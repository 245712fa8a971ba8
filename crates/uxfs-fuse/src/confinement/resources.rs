//! Limits of the process.

use std::io;

use rustix::process::{DumpableBehavior, Resource, Rlimit, set_dumpable_behavior, setrlimit};

/// Sets the limits. A process that parses an image leaves no core, and other processes of its user may not look into it.
///
/// # Errors
/// The kernel.
pub fn limit(address_space_bytes: u64) -> io::Result<()> {
    let exactly = |most| Rlimit { current: Some(most), maximum: Some(most) };
    setrlimit(Resource::As, exactly(address_space_bytes))?;
    setrlimit(Resource::Core, exactly(0))?;
    set_dumpable_behavior(DumpableBehavior::NotDumpable)?;
    Ok(())
}
