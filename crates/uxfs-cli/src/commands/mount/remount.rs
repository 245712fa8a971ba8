//! `-o remount`: changes whether a mount takes changes.

use std::fs;

use uxfs_block::claim::refuse_users;
use uxfs_fuse::mounting::{
    self, MountError, StaysReadOnly, mount_table::MountTable, options::FuseMountOptions,
};

use super::Target;
use crate::failure::{Exit, Failure, Outcome};

/// Changes the mount that `target` names.
pub(super) fn run(target: &Target, options: &FuseMountOptions) -> Outcome {
    mounting::remount(&target.directory, options).map(|()| Exit::Success).map_err(|error| {
        let user = match error {
            MountError::StaysReadOnly(StaysReadOnly::InUse) => other_user(target),
            _ => None,
        };
        user.unwrap_or_else(|| Failure::caused_by(&error)).at_host(&target.directory)
    })
}

/// What uses the image of a mount beside it, as a new mount would say.
fn other_user(target: &Target) -> Option<Failure> {
    let directory = fs::canonicalize(&target.directory).ok()?;
    let table = MountTable::read().ok()?;
    let entry = table.at(&directory)?;
    let metadata = fs::metadata(&entry.source).ok()?;
    let error = refuse_users(&metadata, Some(entry.device.number())).err()?;
    Some(Failure::caused_by(&error))
}
