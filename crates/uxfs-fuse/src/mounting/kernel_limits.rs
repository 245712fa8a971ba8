//! Limits of the kernel for one mount, which only root can set, and only once it is mounted.
//!
//! The kernel reads 128 KiB ahead and lets a FUSE mount fill one hundredth of the memory for written pages. Both are far
//! too little for a file system on a local disk.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use thiserror::Error;
use uxfs_block::words::in_words;

use super::mount_table::DeviceNumber;

const SYSFS: &str = "/sys/class/bdi";

/// Limits to set; `None` leaves the kernel's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct KernelLimits {
    /// How far buffered reads run ahead.
    #[doc(alias = "read_ahead_kb")]
    pub read_ahead_kibibytes: Option<u32>,
    /// The mount's part of the memory for written pages.
    #[doc(alias = "max_ratio")]
    pub written_pages_percent: Option<u8>,
    /// Whether that part is a limit even while other memory is free.
    #[doc(alias = "strict_limit")]
    pub is_strict: Option<bool>,
}

/// A limit that stays as it was. The mount works, but may be slower.
#[derive(Debug, Error)]
#[error("{} cannot be set to {value}: {}", .path.display(), in_words(.source))]
pub struct LimitError {
    /// The file of sysfs.
    pub path: PathBuf,
    /// What was to be written.
    pub value: String,
    /// The kernel's error.
    pub source: io::Error,
}

impl KernelLimits {
    /// Sets the limits of a mounted file system. The server must have answered INIT before.
    #[must_use]
    pub fn set(&self, device: DeviceNumber, is_block_device: bool) -> Vec<LimitError> {
        self.set_below(Path::new(SYSFS), device, is_block_device)
    }

    fn set_below(&self, sysfs: &Path, device: DeviceNumber, is_block_device: bool) -> Vec<LimitError> {
        let suffix = if is_block_device { "-fuseblk" } else { "" };
        let folder = sysfs.join(format!("{device}{suffix}"));
        let values = [
            ("read_ahead_kb", self.read_ahead_kibibytes.map(|value| value.to_string())),
            ("strict_limit", self.is_strict.map(|is_strict| u8::from(is_strict).to_string())),
            ("max_ratio", self.written_pages_percent.map(|value| value.to_string())),
        ];
        let given = values.into_iter().filter_map(|(name, value)| Some((folder.join(name), value?)));
        given.filter_map(|(path, value)| write(path, value).err()).collect()
    }
}

fn write(path: PathBuf, value: String) -> Result<(), LimitError> {
    // Not created where it is missing: older kernels have no strict_limit.
    let file = fs::OpenOptions::new().write(true).open(&path);
    let written = file.and_then(|mut file| io::Write::write_all(&mut file, value.as_bytes()));
    written.map_err(|source| LimitError { path, value, source })
}

#[cfg(test)]
mod tests {
    use super::*;

    const DEVICE: DeviceNumber = DeviceNumber { major: 0, minor: 53 };
    const LIMITS: KernelLimits = KernelLimits {
        read_ahead_kibibytes: Some(4096),
        written_pages_percent: Some(40),
        is_strict: Some(false),
    };

    #[test]
    fn limits_are_written_to_the_folder_of_the_mount() {
        let sysfs = tempfile::tempdir().unwrap();
        for (name, is_block_device) in [("0:53", false), ("0:53-fuseblk", true)] {
            let folder = sysfs.path().join(name);
            fs::create_dir(&folder).unwrap();
            let files = ["read_ahead_kb", "max_ratio", "strict_limit"].map(|name| folder.join(name));
            files.iter().for_each(|file| fs::write(file, "").unwrap());
            assert!(LIMITS.set_below(sysfs.path(), DEVICE, is_block_device).is_empty());
            assert_eq!(files.map(|file| fs::read_to_string(file).unwrap()), ["4096", "40", "0"]);
        }
    }

    #[test]
    fn each_limit_that_cannot_be_set_is_told() {
        let sysfs = tempfile::tempdir().unwrap();
        let errors = LIMITS.set_below(sysfs.path(), DEVICE, false);
        assert_eq!(errors.len(), 3);
        let text = errors[0].to_string();
        assert!(
            text.ends_with("0:53/read_ahead_kb cannot be set to 4096: No such file or directory"),
            "{text}"
        );
        assert!(KernelLimits::default().set_below(sysfs.path(), DEVICE, false).is_empty());
    }
}
