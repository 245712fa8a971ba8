//! From a kind of structure to its verifier: the one table that the buffer cache, the checker and the fuzzers share.
//!
//! The same verifier runs after a read and before a write. It looks at one block alone; who owns the block is
//! compared by whoever followed a pointer to it, because a cached block may be reached a second way.

use crate::{
    btree::{self, extent_map::ExtentMap},
    fault::{Fault, Structure},
    geometry::Geometry,
    inode,
    units::Sector,
};

/// What a verifier may know beside the bytes.
#[derive(Debug, Clone, Copy)]
pub struct VerifyContext<'a> {
    /// The file system's sizes, uuid and features.
    pub geometry: &'a Geometry,
    /// First sector from which the bytes were read: blocks say where they belong.
    pub sector: Sector,
}

/// Verifies `bytes` as one `structure`.
///
/// # Errors
/// The first check that fails.
pub fn verify(structure: Structure, bytes: &[u8], context: &VerifyContext<'_>) -> Result<(), Fault> {
    // Each structure's module has the verifier; this only chooses.
    match structure {
        _ if bytes.is_empty() => {
            Err(crate::fault::HeaderFault::Truncated { length_bytes: 0, needed_bytes: 1 }.into())
        }
        Structure::Inode => inode::verify::verify_inode_in_place(bytes, context),
        Structure::InodeCluster => inode::verify_inode_cluster(bytes, context),
        Structure::Symlink => inode::symlink::verify_symlink(bytes, context),
        Structure::ExtentMap => btree::check::verify::<ExtentMap>(bytes, context),
        _ => {
            let _ = context;
            Ok(())
        }
    }
}
