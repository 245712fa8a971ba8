//! What each word of a list of options means.

use std::time::Duration;

use super::{AccessTimes, FuseMountOptions, OptionError, list::Word};
use crate::log::Level;

/// Words for mount(8), fstab and systemd, without a meaning for a file system.
const IGNORED: [&str; 21] = [
    "auto",
    "noauto",
    "user",
    "nouser",
    "users",
    "nousers",
    "owner",
    "noowner",
    "group",
    "nogroup",
    "nofail",
    "_netdev",
    "defaults",
    "comment",
    "loop",
    "helper",
    "uhelper",
    "loud",
    "silent",
    "nomand",
    "noiversion",
];
/// Words of the kernel's table of mounts, which a remount brings back. The values follow from the mount itself.
const FROM_TABLE: [&str; 7] =
    ["fd", "rootmode", "user_id", "group_id", "blksize", "default_permissions", "seclabel"];
/// Options of the kernel's XFS that do not change what programs see: a line of `/etc/fstab` may keep them. Quotas that are off stay off, and the
/// space of removed files is given back by fstrim(8) alone.
const OF_KERNEL_XFS: [&str; 27] = [
    "allocsize",
    "attr2",
    "barrier",
    "discard",
    "filestreams",
    "ikeep",
    "inode64",
    "largeio",
    "logbsize",
    "logbufs",
    "max_open_zones",
    "noalign",
    "noattr2",
    "nobarrier",
    "nodiscard",
    "nogrpid",
    "noikeep",
    "nolargeio",
    "nolifetime",
    "noquota",
    "nouuid",
    "sunit",
    "swalloc",
    "swidth",
    "sysvgroups",
    "lifetime",
    "max_atomic_write",
];
/// Options of the kernel's XFS that turn quotas on.
const QUOTAS: [&str; 16] = [
    "quota",
    "uquota",
    "usrquota",
    "uqnoenforce",
    "qnoenforce",
    "gquota",
    "grpquota",
    "gqnoenforce",
    "pquota",
    "prjquota",
    "pqnoenforce",
    "uqenforce",
    "gqenforce",
    "pqenforce",
    "usrqnoenforce",
    "grpqnoenforce",
];
/// The list of users, whose third field is their number.
const USERS: &str = "/etc/passwd";
/// The list of groups, whose third field is their number.
const GROUPS: &str = "/etc/group";
/// The smallest cache for metadata: a smaller size is a number without its unit.
const LEAST_CACHE_BYTES: u64 = 1 << 20;
/// The largest user or group number: the one above stands for none.
const MOST_ID: u64 = u32::MAX as u64 - 1;
/// Words that stand behind all others in a list of mount(8), wherever they were given: the others count more.
const WEAK: [&str; 2] = ["allow_suid", "allow_dev"];
/// Seconds in a day: the longest time between two commits.
const MOST_COMMIT_SECONDS: u64 = 86_400;

const REASON_ALLOW_ROOT: &str = "the kernel cannot let in root alone (use allow_other, or mount as root)";
const REASON_QUOTA: &str = "uxfs enforces no quotas";
const REASON_GROUPS: &str =
    "new files get the group of the process, or of a set-group-id directory (chmod g+s)";
const REASON_INODE32: &str = "inode numbers have 64 bits";
const REASON_DEVICES: &str = "the log and all data must lie in the image";
const REASON_MANDATORY_LOCKS: &str = "Linux has no mandatory locks any more";

/// Whether a word is one of those that others of the same list contradict, wherever they stand.
pub(super) fn is_weak(key: &str) -> bool {
    WEAK.contains(&key)
}

impl FuseMountOptions {
    pub(super) fn apply_word(&mut self, word: &Word) -> Result<(), OptionError> {
        if is_ignored(&word.key) || self.apply_key(word)? {
            return Ok(());
        }
        let is_flag = self.apply_access(&word.key) || self.apply_time(&word.key) || self.apply_way(&word.key);
        match (is_flag, &word.value, reason_to_refuse(&word.key)) {
            (true, None, _) => Ok(()),
            (true, Some(value), _) => {
                Err(OptionError::NeedsNoValue { key: word.key.clone(), value: value.clone() })
            }
            (false, _, Some(reason)) => Err(OptionError::Refused { word: word.key.clone(), reason }),
            (false, ..) => Err(OptionError::Unknown { word: word.text() }),
        }
    }

    /// Options with a value. Gives whether the word is one.
    fn apply_key(&mut self, word: &Word) -> Result<bool, OptionError> {
        match word.key.as_str() {
            "uid" => self.shown_owner.user_id = Some(word.account_number(USERS, MOST_ID)?),
            "gid" => self.shown_owner.group_id = Some(word.account_number(GROUPS, MOST_ID)?),
            "commit" => {
                let seconds = word.number(0, MOST_COMMIT_SECONDS)?;
                // 0 is the default, as for other file systems.
                self.commit_interval = (seconds > 0).then(|| Duration::from_secs(seconds));
            }
            "cache" => self.cache_size_bytes = Some(word.size_bytes_from(LEAST_CACHE_BYTES)?),
            "offset" => self.offset_bytes = Some(word.size_bytes()?),
            "partition" => self.partition = Some(word.text_value()?),
            "max_read" => self.max_read_bytes = Some(word.small_number(1, u32::MAX.into())?),
            "fsname" => self.source_name = Some(word.text_value()?),
            "log" => self.log_level = word.level()?,
            "subtype" => self.subtype = word.text_value()?,
            "threads" => {
                self.threads = Some(word.small_number::<u16>(1, 1024)?).and_then(std::num::NonZero::new)
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// Flags about what is permitted. Gives whether the word is one.
    fn apply_access(&mut self, flag: &str) -> bool {
        match flag {
            "ro" | "rw" => (self.is_read_only, self.says_access) = (flag == "ro", true),
            "allow_other" => self.allows_other_users = Some(true),
            "no_allow_other" => self.allows_other_users = Some(false),
            // mount(8) knows the short words, and leaves out what it takes for the default.
            "suid" | "allow_suid" => self.allows_set_user_id = true,
            "nosuid" => self.allows_set_user_id = false,
            "dev" | "allow_dev" => self.allows_devices = true,
            "nodev" => self.allows_devices = false,
            "exec" => self.allows_programs = true,
            "noexec" => self.allows_programs = false,
            _ => return false,
        }
        true
    }

    /// Flags about times and about when changes are written. Gives whether the word is one.
    fn apply_time(&mut self, flag: &str) -> bool {
        match flag {
            "noatime" => self.access_times = AccessTimes::Never,
            "atime" | "relatime" | "nostrictatime" => self.access_times = AccessTimes::Relative,
            "strictatime" | "norelatime" => self.access_times = AccessTimes::Always,
            "diratime" => self.has_directory_access_times = true,
            "nodiratime" => self.has_directory_access_times = false,
            "lazytime" => self.has_lazy_times = true,
            "nolazytime" => self.has_lazy_times = false,
            "wsync" => self.has_synchronous_directories = true,
            "sync" => self.is_synchronous = true,
            "async" => self.is_synchronous = false,
            "dirsync" => self.has_synchronous_directories = true,
            _ => return false,
        }
        true
    }

    /// Flags about how the image is mounted. Gives whether the word is one.
    fn apply_way(&mut self, flag: &str) -> bool {
        match flag {
            "remount" => self.is_remount = true,
            "norecovery" => self.ignores_log = true,
            "direct" => self.has_direct_image_io = true,
            "debug" => self.log_level = Level::Debug,
            "writeback_cache" => self.has_writeback_cache = Some(true),
            "no_writeback_cache" => self.has_writeback_cache = Some(false),
            "uring" => self.has_ring = Some(true),
            "nouring" => self.has_ring = Some(false),
            "auto_unmount" => self.has_automatic_unmount = true,
            "fuseblk" => self.may_claim_block_device = true,
            "nofuseblk" => self.may_claim_block_device = false,
            _ => return false,
        }
        true
    }
}

fn is_ignored(key: &str) -> bool {
    key.starts_with("x-")
        || key.starts_with("X-")
        || [&IGNORED[..], &FROM_TABLE, &OF_KERNEL_XFS].iter().any(|words| words.contains(&key))
}

fn reason_to_refuse(key: &str) -> Option<&'static str> {
    match key {
        "allow_root" => Some(REASON_ALLOW_ROOT),
        "mand" => Some(REASON_MANDATORY_LOCKS),
        "grpid" | "bsdgroups" => Some(REASON_GROUPS),
        "inode32" => Some(REASON_INODE32),
        "logdev" | "rtdev" => Some(REASON_DEVICES),
        _ if QUOTAS.contains(&key) => Some(REASON_QUOTA),
        _ => None,
    }
}
