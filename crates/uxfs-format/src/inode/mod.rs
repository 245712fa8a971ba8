//! Inodes: the fixed core, the two forks behind it, and long symbolic links.
//!
//! ```text
//! 0          100   104                  176                    176 + 8 × fork offset        inode size
//! | core ... | crc | ... number, uuid | | data fork            | attribute fork (if any)    |
//! ```
//!
//! | module | holds |
//! |---|---|
//! | [`core`](mod@self::core) | the 176-byte core and what its fields mean together |
//! | [`flags`] | the two words of flags |
//! | [`file_type`] | mode bits, file types, device numbers |
//! | [`timestamp`] | the two encodings of time |
//! | [`fork`] | formats and bytes of the forks |
//! | [`fields`] | field lists as `xfs_db` prints an inode |
//! | [`verify`] | the verifiers of an inode and of a buffer of inodes |
//! | [`fault`] | what they can find |
//! | [`symlink`] | blocks of a symbolic link that does not fit its inode |

pub mod core;
pub mod fault;
pub mod fields;
pub mod file_type;
pub mod flags;
pub mod fork;
#[cfg(test)]
pub(crate) mod golden;
pub mod symlink;
pub mod timestamp;
pub mod verify;

pub use self::{
    core::InodeCore,
    fault::InodeFault,
    file_type::{DeviceNumber, FileType},
    flags::{InodeFlags, InodeFlags2},
    fork::{Fork, ForkFormat},
    timestamp::Timestamp,
    verify::{verify_inode, verify_inode_cluster, verify_inode_fields},
};
