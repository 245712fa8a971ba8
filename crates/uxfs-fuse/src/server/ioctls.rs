//! Ioctls about inodes: flags, projects, generation; statistics.
//!
//! The kernel passes structures whose size is in the number of the ioctl, and asks for permission itself.

use rustix::io::Errno;
use uxfs_filesystem::{
    filesystem::FileSystem,
    inode::table::InodeHandle,
    operations::{
        live::Status,
        set_attributes::{AttributeChanges, FlagChanges},
    },
};
use uxfs_format::inode::{Fork, InodeFlags, InodeFlags2};

use super::{Answered, Server, file_system_ioctls, number, put};
use crate::{
    protocol::{
        request::{Request, operation::Ioctl},
        wire::ioctl::IoctlOut,
    },
    statistics::{query, snapshot::Snapshot},
    transport::ReplyBuffer,
};

/// Numbers of ioctls on 64-bit systems.
#[doc(alias = "FS_IOC_GETFLAGS")]
const GET_FLAGS: u32 = 0x8008_6601;
#[doc(alias = "FS_IOC_SETFLAGS")]
const SET_FLAGS: u32 = 0x4008_6602;
#[doc(alias = "FS_IOC_FSGETXATTR")]
const GET_EXTENDED_FLAGS: u32 = 0x801c_581f;
#[doc(alias = "FS_IOC_FSSETXATTR")]
const SET_EXTENDED_FLAGS: u32 = 0x401c_5820;
#[doc(alias = "FS_IOC_GETVERSION")]
const GET_GENERATION: u32 = 0x8008_7601;

/// Those that change something.
pub(super) const CHANGES: [u32; 2] = [SET_FLAGS, SET_EXTENDED_FLAGS];

const STATISTICS: u32 = query::STATISTICS as u32;

/// The structure of extended flags: flags, extent size hint, extents, project, hint for copies on write, padding.
#[doc(alias = "fsxattr")]
const EXTENDED_FLAGS_BYTES: usize = 28;

/// A flag of an inode, as XFS shows it and as lsattr(1) does.
type Flag = (InodeFlags, u32, u32);

const FLAGS: &[Flag] = &[
    (InodeFlags::REALTIME, 0x1, 0),
    (InodeFlags::PREALLOCATED, 0x2, 0),
    (InodeFlags::IMMUTABLE, 0x8, 0x10),
    (InodeFlags::APPEND, 0x10, 0x20),
    (InodeFlags::SYNCHRONOUS, 0x20, 0x8),
    (InodeFlags::NO_ACCESS_TIME, 0x40, 0x80),
    (InodeFlags::NO_DUMP, 0x80, 0x40),
    (InodeFlags::REALTIME_INHERIT, 0x100, 0),
    (InodeFlags::PROJECT_INHERIT, 0x200, 0x2000_0000),
    (InodeFlags::NO_SYMLINKS, 0x400, 0),
    (InodeFlags::EXTENT_SIZE, 0x800, 0),
    (InodeFlags::EXTENT_SIZE_INHERIT, 0x1000, 0),
    (InodeFlags::NO_DEFRAGMENT, 0x2000, 0),
    (InodeFlags::FILE_STREAM, 0x4000, 0),
];
const DIRECT_ACCESS: u32 = 0x8000;
const DIRECT_ACCESS_AS_SHOWN: u32 = 0x0200_0000;
const COPY_HINT: u32 = 0x1_0000;
/// It has attributes: only shown.
const HAS_ATTRIBUTES: u32 = 0x8000_0000;

impl Server {
    pub(super) fn ioctl(
        &self,
        request: &Request<'_>,
        ioctl: &Ioctl<'_>,
        reply: &mut ReplyBuffer<'_>,
    ) -> Answered {
        if ioctl.command == STATISTICS {
            return put_output(&statistics_of(self).encode(), ioctl, reply);
        }
        let inode = self.opened(ioctl.handle, request.node_id)?;
        match ioctl.command {
            GET_FLAGS => {
                let status = self.file_system.stat(&inode).map_err(number)?;
                put_output(&shown_flags(&status).to_ne_bytes(), ioctl, reply)
            }
            SET_FLAGS => {
                set_shown_flags(&self.file_system, &inode, word(ioctl.input, 0).ok_or(Errno::INVAL)?)?;
                put_output(&[], ioctl, reply)
            }
            GET_EXTENDED_FLAGS => {
                let mut bytes = [0; EXTENDED_FLAGS_BYTES];
                let places = bytes.chunks_exact_mut(4);
                let words = extended_flags(&self.file_system, &inode)?;
                places.zip(words).for_each(|(place, word)| place.copy_from_slice(&word.to_ne_bytes()));
                put_output(&bytes, ioctl, reply)
            }
            SET_EXTENDED_FLAGS => {
                // What the kernel has cached counts: a file with data takes no hint.
                if self.settings.has_writeback_cache && self.open_files.have_writer(inode.number()) {
                    self.notifier.write_and_drop_contents(request.node_id);
                }
                set_extended_flags(&self.file_system, &inode, ioctl.input)?;
                put_output(&[], ioctl, reply)
            }
            GET_GENERATION => {
                let status = self.file_system.stat(&inode).map_err(number)?;
                put_output(&status.generation.to_ne_bytes(), ioctl, reply)
            }
            _ => file_system_ioctls::answer(self, request, ioctl, reply),
        }
    }
}

/// Flags that this ioctl does not have stay; those that XFS does not have are refused.
fn set_shown_flags(file_system: &FileSystem, inode: &InodeHandle, shown: u32) -> Answered {
    let known = FLAGS.iter().fold(DIRECT_ACCESS_AS_SHOWN, |known, (.., as_shown)| known | as_shown);
    if shown & !known != 0 {
        return Err(Errno::OPNOTSUPP);
    }
    let status = file_system.stat(inode).map_err(number)?;
    let mut flags = status.flags;
    for (flag, _, as_shown) in FLAGS.iter().filter(|(_, _, as_shown)| *as_shown != 0) {
        flags.set(*flag, shown & as_shown != 0);
    }
    let mut flags2 = status.flags2 & (InodeFlags2::DAX | InodeFlags2::COPY_ON_WRITE_EXTENT_SIZE);
    flags2.set(InodeFlags2::DAX, shown & DIRECT_ACCESS_AS_SHOWN != 0);
    let hints = [status.extent_size_blocks, status.cow_extent_size_blocks];
    let [extent_size_bytes, cow_extent_size_bytes] = hints.map(|blocks| bytes_of(file_system, blocks));
    let flags = FlagChanges { flags, flags2, extent_size_bytes, cow_extent_size_bytes };
    let changes = AttributeChanges { flags: Some(flags), ..AttributeChanges::default() };
    file_system.set_attributes(inode, &changes).map_err(number)
}

fn extended_flags(file_system: &FileSystem, inode: &InodeHandle) -> Result<[u32; 7], Errno> {
    let status = file_system.stat(inode).map_err(number)?;
    let (extents, has_attributes) = {
        let inode = inode.read();
        let count = u32::try_from(inode.extent_count(Fork::Data)).unwrap_or(u32::MAX);
        (count, inode.core.fork_offset != 0)
    };
    let known = FLAGS.iter().filter(|(flag, ..)| status.flags.contains(*flag));
    let mut flags = known.fold(0, |flags, (_, bit, _)| flags | bit);
    let has_copy_hint = status.flags2.contains(InodeFlags2::COPY_ON_WRITE_EXTENT_SIZE);
    let others = [
        (status.flags2.contains(InodeFlags2::DAX), DIRECT_ACCESS),
        (has_copy_hint, COPY_HINT),
        (has_attributes, HAS_ATTRIBUTES),
    ];
    others.iter().filter(|(has, _)| *has).for_each(|(_, bit)| flags |= bit);
    let [extent_size, copy_size] = [status.extent_size_blocks, status.cow_extent_size_blocks]
        .map(|blocks| bytes_of(file_system, blocks));
    Ok([flags, extent_size, extents, status.project_id, copy_size, 0, 0])
}

fn set_extended_flags(file_system: &FileSystem, inode: &InodeHandle, input: &[u8]) -> Answered {
    let read = |index| word(input, index).ok_or(Errno::INVAL);
    let (bits, project_id) = (read(0)?, read(3)?);
    let mut flags = InodeFlags::empty();
    for (flag, bit, _) in FLAGS {
        flags.set(*flag, bits & bit != 0);
    }
    let mut flags2 = InodeFlags2::empty();
    flags2.set(InodeFlags2::DAX, bits & DIRECT_ACCESS != 0);
    flags2.set(InodeFlags2::COPY_ON_WRITE_EXTENT_SIZE, bits & COPY_HINT != 0);
    let flags = FlagChanges { flags, flags2, extent_size_bytes: read(1)?, cow_extent_size_bytes: read(4)? };
    let changes =
        AttributeChanges { flags: Some(flags), project_id: Some(project_id), ..AttributeChanges::default() };
    file_system.set_attributes(inode, &changes).map_err(number)
}

fn bytes_of(file_system: &FileSystem, blocks: u32) -> u32 {
    blocks.saturating_mul(file_system.geometry().block_size_bytes)
}

/// All counters of a mount.
fn statistics_of(server: &Server) -> Snapshot {
    let cache = server.file_system.cache().counters();
    let journal = server.file_system.journal().map(|journal| journal.counters()).unwrap_or_default();
    let numbers = [
        server.nodes.count() as u64,
        server.open_files.count() as u64,
        cache.budget_bytes,
        cache.resident_bytes,
        cache.hits,
        cache.misses,
        cache.evictions,
        cache.bytes_read,
        cache.prefetched,
        cache.prefetch_used,
        journal.transactions,
        journal.checkpoints,
        journal.log_bytes,
        journal.changed_bytes,
        journal.forces,
        journal.force_nanoseconds,
        journal.buffers_written_back,
    ];
    Snapshot { counted: server.statistics.snapshot(), numbers }
}

/// As lsattr(1) shows them.
fn shown_flags(status: &Status) -> u32 {
    let known = FLAGS.iter().filter(|(flag, ..)| status.flags.contains(*flag));
    let flags = known.fold(0, |flags, (_, _, shown)| flags | shown);
    if status.flags2.contains(InodeFlags2::DAX) { flags | DIRECT_ACCESS_AS_SHOWN } else { flags }
}

fn word(input: &[u8], index: usize) -> Option<u32> {
    input.get(index.checked_mul(4)?..)?.first_chunk().map(|bytes| u32::from_ne_bytes(*bytes))
}

pub(super) fn put_output(output: &[u8], ioctl: &Ioctl<'_>, reply: &mut ReplyBuffer<'_>) -> Answered {
    put(reply, &IoctlOut::new(0))?;
    let output = output.get(..output.len().min(ioctl.output_bytes as usize)).unwrap_or_default();
    reply.push(output)
}
