//! Why an image is not mounted, and what can be done about it.

use std::path::Path;

use rustix::io::Errno;
use uxfs_block::device::BlockDevice;
use uxfs_format::fault::Structure;
use uxfs_fuse::mounting::{mount_point::MountPointError, options::FuseMountOptions};
use uxfs_volume::error::Error;

use super::confined::selector;
use crate::{
    failure::Failure,
    image::{is_no_file_system, is_of_another_form, is_of_log, needed_bytes, no_file_system},
    kind::Kind,
    partitions::Disk,
};

/// Why a directory cannot be mounted on.
pub fn no_mount_point(error: &MountPointError, directory: &Path) -> Failure {
    Failure::caused_by(error).at_host(directory)
}

/// Why it is not mounted, and what can be done.
pub fn refused(error: Error, options: &FuseMountOptions, disk: &Disk, device: &dyn BlockDevice) -> Failure {
    if let Some(needed_bytes) = needed_bytes(&error) {
        return too_short(needed_bytes, options, device.size_bytes());
    }
    let is_none = is_no_file_system(&error);
    let by_partitions = match selector(options) {
        Ok(Some(selector)) => disk.has_no_file_system_in(&selector),
        _ if options.offset_bytes.unwrap_or(0) == 0 => disk.is_no_file_system("-o partition="),
        _ => None,
    };
    let other = || match selector(options) {
        Ok(None) if is_none => disk.other_contents(options.offset_bytes.unwrap_or(0)),
        _ => None,
    };
    if let Some(failure) = by_partitions.filter(|_| is_none).or_else(other) {
        return failure;
    }
    if device.size_bytes() == 0 {
        return Failure::refused(
            Kind::NotAFileSystem,
            match options.offset_bytes {
                Some(offset @ 1..) => format!("no file system there: the image ends before byte {offset}"),
                _ => "not an XFS file system: the file is empty".to_owned(),
            },
        );
    }
    let number = Errno::from_raw_os_error(error.errno());
    let is_of_another_form = is_of_another_form(&error);
    let remedy = if is_none || is_of_another_form { None } else { remedy_of_damage(&error, options) };
    let failure = no_file_system(error).with_option("--partition or --offset", "-o partition= or -o offset=");
    match number {
        Errno::NOSPC => failure.with_remedy("the file system that holds it is full; -o ro mounts it"),
        _ => match remedy {
            Some(remedy) => failure.with_remedy(remedy),
            None => failure,
        },
    }
}

/// What helps with a damaged image. Nothing mounts one whose superblock is wrong.
fn remedy_of_damage(error: &Error, options: &FuseMountOptions) -> Option<&'static str> {
    let Error::Corrupt(corruption) = error else { return None };
    Some(match corruption.structure {
        _ if is_of_log(error) => {
            "uxfs repair makes a new log; -o ro,norecovery shows the image without what only the log has"
        }
        Structure::Superblock => "uxfs repair mends it; uxfs ls --tolerant shows what can be read",
        _ if options.ignores_log => return None,
        _ => "uxfs repair mends it; -o ro,norecovery shows what can be read",
    })
}

/// The file system is longer than what holds it, and cannot be mounted in any way.
fn too_short(needed_bytes: u64, options: &FuseMountOptions, found_bytes: u64) -> Failure {
    let holder = if options.partition.is_some() { "partition" } else { "image" };
    let message = format!("the file system needs {needed_bytes} bytes, and the {holder} has {found_bytes}");
    Failure::corruption(message).with_remedy(&format!(
        "make the {holder} longer; uxfs rescue saves the files that are in it, uxfs ls --tolerant shows them"
    ))
}
