//! Entries, and attributes of inodes and of the file system.

use std::time::Duration;

use uxfs_format::inode::{DeviceNumber, Timestamp};

use crate::protocol::{
    device_number::encode_device,
    flags::AttributeFlags,
    wire::{
        attributes::{AttributeRecord, AttributesOut, StatfsOut, StatxOut, StatxRecord, StatxTime},
        names::EntryOut,
    },
};

/// Attributes of statx(2) that every reply has: all of stat(2), and the birth.
#[doc(alias = "STATX_BASIC_STATS")]
#[doc(alias = "STATX_BTIME")]
pub const STATX_MASK: u32 = 0xfff;

/// Attributes of an inode.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Attributes {
    /// Inode number, as stat(2) shows it.
    pub inode: u64,
    /// Bytes of the file.
    pub size_bytes: u64,
    /// Allocated blocks of 512 bytes.
    pub sectors: u64,
    /// Last access.
    pub access: Timestamp,
    /// Last change of the contents.
    pub modification: Timestamp,
    /// Last change of the inode.
    pub change: Timestamp,
    /// File type and permissions.
    pub mode: u32,
    /// Hard links.
    pub link_count: u32,
    /// Owner.
    pub user_id: u32,
    /// Group.
    pub group_id: u32,
    /// Of a device file.
    pub device: DeviceNumber,
    /// Preferred size of I/O: a power of two, or 0 for that of the mount.
    pub block_size_bytes: u32,
    /// For the kernel.
    pub flags: AttributeFlags,
}

impl Attributes {
    /// As they lie in a reply.
    pub fn encode(&self) -> AttributeRecord {
        AttributeRecord {
            inode: self.inode,
            size_bytes: self.size_bytes,
            sectors: self.sectors,
            access_seconds: self.access.seconds.cast_unsigned(),
            modification_seconds: self.modification.seconds.cast_unsigned(),
            change_seconds: self.change.seconds.cast_unsigned(),
            access_nanoseconds: self.access.nanoseconds,
            modification_nanoseconds: self.modification.nanoseconds,
            change_nanoseconds: self.change.nanoseconds,
            mode: self.mode,
            link_count: self.link_count,
            user_id: self.user_id,
            group_id: self.group_id,
            device: encode_device(self.device),
            block_size_bytes: self.block_size_bytes,
            flags: self.flags.bits(),
        }
    }
}

/// Reply to GETATTR and SETATTR.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AttributesReply {
    /// How long the kernel may keep them.
    pub valid: Duration,
    /// The attributes.
    pub attributes: Attributes,
}

impl AttributesReply {
    /// As it lies in a reply.
    pub fn encode(&self) -> AttributesOut {
        AttributesOut {
            valid_seconds: self.valid.as_secs(),
            valid_nanoseconds: self.valid.subsec_nanos(),
            attributes: self.attributes.encode(),
            ..AttributesOut::default()
        }
    }
}

/// Reply to all operations that give a node. The kernel counts a lookup of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct EntryReply {
    /// The node; 0 for a name that does not exist.
    pub node_id: u64,
    /// Tells inodes apart that had the same number one after the other.
    pub generation: u32,
    /// How long the kernel may keep the name.
    pub entry_valid: Duration,
    /// How long the kernel may keep the attributes.
    pub attributes_valid: Duration,
    /// The attributes.
    pub attributes: Attributes,
}

impl EntryReply {
    /// A name that does not exist, which the kernel may remember. An error `ENOENT` is not remembered.
    pub fn missing(entry_valid: Duration) -> Self {
        Self { entry_valid, ..Self::default() }
    }

    /// As it lies in a reply.
    pub fn encode(&self) -> EntryOut {
        EntryOut {
            node_id: self.node_id,
            generation: self.generation.into(),
            entry_valid_seconds: self.entry_valid.as_secs(),
            attributes_valid_seconds: self.attributes_valid.as_secs(),
            entry_valid_nanoseconds: self.entry_valid.subsec_nanos(),
            attributes_valid_nanoseconds: self.attributes_valid.subsec_nanos(),
            attributes: self.attributes.encode(),
        }
    }
}

/// Reply to STATX. The kernel takes no flags of statx(2) from it, and no device of the file system.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StatxReply {
    /// How long the kernel may keep them.
    pub valid: Duration,
    /// The attributes.
    pub attributes: Attributes,
    /// When the inode was made.
    pub birth: Timestamp,
}

impl StatxReply {
    /// As it lies in a reply.
    pub fn encode(&self) -> StatxOut {
        let attributes = &self.attributes;
        StatxOut {
            valid_seconds: self.valid.as_secs(),
            valid_nanoseconds: self.valid.subsec_nanos(),
            attributes: StatxRecord {
                mask: STATX_MASK,
                block_size_bytes: attributes.block_size_bytes,
                link_count: attributes.link_count,
                user_id: attributes.user_id,
                group_id: attributes.group_id,
                // A mode has 16 bits.
                mode: attributes.mode as u16,
                inode: attributes.inode,
                size_bytes: attributes.size_bytes,
                sectors: attributes.sectors,
                access: statx_time(attributes.access),
                birth: statx_time(self.birth),
                change: statx_time(attributes.change),
                modification: statx_time(attributes.modification),
                device_major: attributes.device.major,
                device_minor: attributes.device.minor,
                ..StatxRecord::default()
            },
            ..StatxOut::default()
        }
    }
}

fn statx_time(time: Timestamp) -> StatxTime {
    StatxTime { seconds: time.seconds, nanoseconds: time.nanoseconds, ..StatxTime::default() }
}

/// Reply to STATFS.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct StatfsReply {
    /// Size of the blocks that are counted.
    pub block_size_bytes: u32,
    /// Blocks of the file system.
    pub blocks: u64,
    /// Free ones.
    pub free_blocks: u64,
    /// Free ones, for users other than root.
    pub available_blocks: u64,
    /// Inodes.
    pub files: u64,
    /// Free ones.
    pub free_files: u64,
    /// Longest name.
    pub name_bytes_max: u32,
}

impl StatfsReply {
    /// As it lies in a reply.
    pub fn encode(&self) -> StatfsOut {
        StatfsOut {
            blocks: self.blocks,
            free_blocks: self.free_blocks,
            available_blocks: self.available_blocks,
            files: self.files,
            free_files: self.free_files,
            block_size_bytes: self.block_size_bytes,
            name_bytes_max: self.name_bytes_max,
            fragment_size_bytes: self.block_size_bytes,
            ..StatfsOut::default()
        }
    }
}
