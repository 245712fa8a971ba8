//! User, groups and capabilities.

use std::io;

use rustix::{
    process::{Gid, Uid, geteuid},
    thread::{
        CapabilitySet, CapabilitySets, remove_capability_from_bounding_set, set_capabilities,
        set_no_new_privs, set_thread_groups, set_thread_res_gid, set_thread_res_uid,
    },
};

/// A user and a group that own nothing.
const UNPRIVILEGED: u32 = 65534;

/// Gives up all privileges of this thread, and of those that it starts.
///
/// # Errors
/// The kernel does not take them back.
pub fn give_up() -> io::Result<()> {
    set_no_new_privs(true)?;
    for capability in CapabilitySet::all().iter() {
        // Newer kernels have more than this list; older ones fewer.
        let _ = remove_capability_from_bounding_set(capability);
    }
    if geteuid().is_root() {
        become_unprivileged();
    }
    // As that user there are none left; in a user namespace that does not map it there are.
    let none = CapabilitySet::empty();
    set_capabilities(None, CapabilitySets { effective: none, permitted: none, inheritable: none })?;
    Ok(())
}

/// A user namespace may not map that user: then the process stays root of it, without capabilities.
fn become_unprivileged() {
    let (uid, gid) = (Uid::from_raw(UNPRIVILEGED), Gid::from_raw(UNPRIVILEGED));
    let _ = set_thread_groups(&[]);
    if set_thread_res_gid(gid, gid, gid).is_ok() {
        let _ = set_thread_res_uid(uid, uid, uid);
    }
}
