//! The options of a mount, as `mount -o` and `/etc/fstab` give them.
//!
//! Later words win over earlier ones. A word that is not known is an error; words that mount(8) deals with itself, and words
//! that the kernel's table of mounts gives for a FUSE mount (a remount brings them back), are ignored.
//!
//! | module | holds |
//! |---|---|
//! | `list` | splitting a list into words, values of words |
//! | `words` | what each word means |
//! | [`kernel`] | the options for mount(2) and fusermount3 |

pub mod kernel;
mod list;
mod words;

use std::{num::NonZeroU16, time::Duration};

use thiserror::Error;

use crate::log::Level;

/// Why a list of options is refused.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum OptionError {
    /// No option has this name.
    #[error("unknown mount option `{word}`")]
    Unknown {
        /// The word as it was given.
        word: String,
    },
    /// The option takes no value.
    #[error("mount option `{key}` takes no value, but `{value}` was given")]
    NeedsNoValue {
        /// The option.
        key: String,
        /// What stood behind the `=`.
        value: String,
    },
    /// The option needs a value.
    #[error("mount option `{key}` needs a value: {key}=VALUE")]
    NeedsValue {
        /// The option.
        key: String,
    },
    /// The option does not take this value.
    #[error("mount option `{key}={value}`: the value must be {wanted}")]
    BadValue {
        /// The option.
        key: String,
        /// What stood behind the `=`.
        value: String,
        /// The values that it takes.
        wanted: String,
    },
    /// The option exists, but not here.
    #[error("mount option `{word}` is not supported: {reason}")]
    Refused {
        /// The option.
        word: String,
        /// Why, and what to do instead.
        reason: &'static str,
    },
}

/// When reading a file changes its access time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum AccessTimes {
    /// Never.
    #[doc(alias = "noatime")]
    Never,
    /// Where it is older than the last change, or older than a day.
    #[default]
    #[doc(alias = "relatime")]
    Relative,
    /// Always.
    #[doc(alias = "strictatime")]
    Always,
}

/// The owner that all files are shown with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ShownOwner {
    /// In place of the owner on disk.
    pub user_id: Option<u32>,
    /// In place of the group on disk.
    pub group_id: Option<u32>,
}

/// Options of a mount through FUSE.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FuseMountOptions {
    /// `ro`: no changes.
    pub is_read_only: bool,
    /// `ro` or `rw` was said.
    pub says_access: bool,
    /// `remount`: changes the options of a mount that is there.
    pub is_remount: bool,
    /// `norecovery`: ignore the log.
    pub ignores_log: bool,
    /// `allow_other`: all users may enter. `None`: they may where the kernel is asked directly, and may not through
    /// fusermount3, whose configuration must permit it.
    pub allows_other_users: Option<bool>,
    /// `suid`: programs may run as their owner.
    pub allows_set_user_id: bool,
    /// `dev`: device nodes work.
    pub allows_devices: bool,
    /// `exec`: programs may run.
    pub allows_programs: bool,
    /// `uid=`, `gid=`
    pub shown_owner: ShownOwner,
    /// `noatime`, `relatime`, `strictatime`
    pub access_times: AccessTimes,
    /// Not `nodiratime`: the access times of directories change as those of files do.
    pub has_directory_access_times: bool,
    /// `lazytime`: times alone are written late.
    pub has_lazy_times: bool,
    /// `sync`: a write is on disk when it returns.
    pub is_synchronous: bool,
    /// `dirsync`: a change of a directory is on disk when it returns.
    pub has_synchronous_directories: bool,
    /// `commit=`: the longest time that a change stays out of the log; `None` for the default.
    pub commit_interval: Option<Duration>,
    /// `cache=`: memory for metadata; `None` for the default.
    pub cache_size_bytes: Option<u64>,
    /// `offset=`: where the file system begins in the image.
    pub offset_bytes: Option<u64>,
    /// `partition=`: the partition of the image.
    pub partition: Option<String>,
    /// `direct`: the image is read and written past the page cache.
    pub has_direct_image_io: bool,
    /// `log=`: what the mount tells; `debug`: each request, too.
    pub log_level: Level,
    /// `max_read=`: the longest read that the kernel asks for.
    pub max_read_bytes: Option<u32>,
    /// `fsname=`: the source that the table of mounts names, in place of the image.
    pub source_name: Option<String>,
    /// `subtype=`: behind `fuse.` in the type of the file system.
    pub subtype: String,
    /// `threads=`: threads that answer requests; `None` for the default.
    pub threads: Option<NonZeroU16>,
    /// `writeback_cache`, `no_writeback_cache`: the kernel collects writes; `None` for the default.
    pub has_writeback_cache: Option<bool>,
    /// `uring`, `nouring`: requests come through io_uring; `None` for the default.
    pub has_ring: Option<bool>,
    /// `auto_unmount`: the file system is unmounted when the server ends, however it ends.
    pub has_automatic_unmount: bool,
    /// Not `nofuseblk`: a block device that is mounted for reading has the type `fuseblk`.
    pub may_claim_block_device: bool,
}

impl FuseMountOptions {
    /// The subtype where none is given.
    pub const DEFAULT_SUBTYPE: &str = "uxfs";

    /// The options that a list gives, on top of the defaults.
    ///
    /// # Errors
    /// A word that is not known or has a wrong value.
    pub fn parse(list: &str) -> Result<Self, OptionError> {
        let mut options = Self::default();
        options.apply(list)?;
        Ok(options)
    }

    /// Changes the options by a further list: each `-o` of a command line brings one.
    ///
    /// # Errors
    /// A word that is not known or has a wrong value; the words before it are applied.
    pub fn apply(&mut self, list: &str) -> Result<(), OptionError> {
        let (weak, others): (Vec<_>, Vec<_>) =
            list::split(list).into_iter().partition(|word| words::is_weak(&word.key));
        weak.iter().chain(&others).try_for_each(|word| self.apply_word(word))
    }
}

impl Default for FuseMountOptions {
    fn default() -> Self {
        Self {
            is_read_only: false,
            says_access: false,
            is_remount: false,
            ignores_log: false,
            allows_other_users: None,
            allows_set_user_id: false,
            allows_devices: false,
            allows_programs: true,
            shown_owner: ShownOwner::default(),
            access_times: AccessTimes::default(),
            has_directory_access_times: true,
            has_lazy_times: false,
            is_synchronous: false,
            has_synchronous_directories: false,
            commit_interval: None,
            cache_size_bytes: None,
            offset_bytes: None,
            partition: None,
            has_direct_image_io: false,
            log_level: Level::Warning,
            max_read_bytes: None,
            source_name: None,
            subtype: Self::DEFAULT_SUBTYPE.to_owned(),
            threads: None,
            has_writeback_cache: None,
            has_ring: None,
            has_automatic_unmount: false,
            may_claim_block_device: true,
        }
    }
}

#[cfg(test)]
#[path = "options_tests.rs"]
mod tests;
