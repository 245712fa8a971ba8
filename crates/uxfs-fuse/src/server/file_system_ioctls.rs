//! Ioctls about the file system as a whole: geometry, counters, label, trimming, shutdown.
//!
//! The kernel asks for no permission here, and tells no capabilities: what needs one is for root of the mount's user namespace.

use std::sync::atomic::Ordering::Relaxed;

use rustix::io::Errno;
use uxfs_filesystem::{filesystem::FileSystem, identity, operations::close, trim};
use uxfs_format::{
    features::{Incompatible, RoCompatible},
    superblock::Superblock,
};

use super::{Answered, Server, ioctls::put_output, number};
use crate::{
    log::Level,
    protocol::request::{Request, operation::Ioctl},
    statistics::query,
    transport::ReplyBuffer,
};

#[doc(alias = "XFS_IOC_FSGEOMETRY_V1")]
const GEOMETRY_1: u32 = 0x8070_5864;
#[doc(alias = "XFS_IOC_FSGEOMETRY_V4")]
const GEOMETRY_4: u32 = 0x8070_587c;
#[doc(alias = "XFS_IOC_FSGEOMETRY")]
const GEOMETRY_5: u32 = 0x8100_587e;
#[doc(alias = "XFS_IOC_FSCOUNTS")]
const COUNTS: u32 = 0x8020_5871;
#[doc(alias = "FS_IOC_GETFSLABEL")]
const GET_LABEL: u32 = 0x8100_9431;
#[doc(alias = "FS_IOC_SETFSLABEL")]
const SET_LABEL: u32 = 0x4100_9432;
const TRIM: u32 = 0xc018_5879;
/// Its argument says whether the log is written before. The direction in its number is the wrong one, so FUSE does not carry the argument.
#[doc(alias = "XFS_IOC_GOINGDOWN")]
const SHUT_DOWN: u32 = 0x8004_587d;

const REST: u32 = query::REST as u32;
const GO_ON: u32 = query::GO_ON as u32;

/// Those that change something.
pub(super) const CHANGES: [u32; 3] = [SET_LABEL, TRIM, SHUT_DOWN];

/// Bytes of the structure of a label.
const LABEL_BYTES: usize = 256;
/// Bytes of the newest structure of the geometry.
const GEOMETRY_BYTES: usize = 256;

/// Ioctls that are not about one inode.
pub(super) fn answer(
    server: &Server,
    request: &Request<'_>,
    ioctl: &Ioctl<'_>,
    reply: &mut ReplyBuffer<'_>,
) -> Answered {
    let superblock = server.file_system.superblock();
    match ioctl.command {
        GEOMETRY_1 => put_output(&geometry(superblock, 1), ioctl, reply),
        GEOMETRY_4 => put_output(&geometry(superblock, 4), ioctl, reply),
        GEOMETRY_5 => put_output(&geometry(superblock, 5), ioctl, reply),
        COUNTS => {
            let statistics = server.file_system.statistics();
            let (inodes, free) = (server.file_system.inode_count(), server.file_system.free_inode_count());
            let counts = [statistics.free_blocks, 0, free, inodes];
            put_output(counts.map(u64::to_ne_bytes).as_flattened(), ioctl, reply)
        }
        GET_LABEL => {
            let mut bytes = [0; LABEL_BYTES];
            let label = server.file_system.label();
            bytes.iter_mut().zip(label).for_each(|(place, byte)| *place = byte);
            put_output(&bytes, ioctl, reply)
        }
        SET_LABEL => {
            require_root(request)?;
            // Trimming and shutting down are good at rest, too.
            if server.is_resting.load(Relaxed) {
                return Err(Errno::ROFS);
            }
            let label = ioctl.input.split(|byte| *byte == 0).next().unwrap_or_default();
            identity::set_label(&server.file_system, label).map_err(number)?;
            put_output(&[], ioctl, reply)
        }
        TRIM => {
            require_root(request)?;
            let mut output = ioctl.input.to_vec();
            let trimmed_bytes = trim(&server.file_system, ioctl.input)?;
            if let Some(place) = output.get_mut(8..16) {
                place.copy_from_slice(&trimmed_bytes.to_ne_bytes());
            }
            put_output(&output, ioctl, reply)
        }
        REST | GO_ON if request.caller.user_id != 0 => Err(Errno::PERM),
        REST => {
            rest(server)?;
            put_output(&[], ioctl, reply)
        }
        GO_ON => {
            server.access.take_changes()?;
            server.is_resting.store(false, Relaxed);
            put_output(&[], ioctl, reply)
        }
        SHUT_DOWN => {
            require_root(request)?;
            shut_down(server, request.caller.process_id);
            put_output(&[], ioctl, reply)
        }
        _ => Err(Errno::NOTTY),
    }
}

fn require_root(request: &Request<'_>) -> Answered {
    if request.caller.user_id == 0 { Ok(()) } else { Err(Errno::PERM) }
}

/// Start, length and shortest extent are numbers of bytes.
fn trim(file_system: &FileSystem, input: &[u8]) -> Result<u64, Errno> {
    let words = input.chunks_exact(8).filter_map(|bytes| bytes.try_into().ok().map(u64::from_ne_bytes));
    let words: Vec<u64> = words.collect();
    let &[start, length, least] = words.as_slice() else { return Err(Errno::INVAL) };
    let geometry = file_system.geometry();
    if start >= geometry.data_size_bytes() || length < geometry.block_size() as u64 {
        return Err(Errno::INVAL);
    }
    trim::trim(file_system, &(start..start.saturating_add(length)), least).map_err(number)
}

/// Writes the log, and changes nothing any more.
fn shut_down(server: &Server, process: u32) {
    // What cannot be written is lost: that is what was asked for.
    drop(server.file_system.force());
    if let Some(journal) = server.file_system.journal() {
        let reason = format!("process {process} asked for it");
        journal.shut_down(&reason.as_str());
    }
    server.trouble.log.tell(Level::Warning, format_args!("process {process} shuts the file system down"));
    server.trouble.tell_of_shutdown(&server.file_system);
}

/// The kernel lets nothing be changed until it says otherwise: all is written back, and the log is clean.
fn rest(server: &Server) -> Answered {
    // Nothing has been changed.
    if server.access.is_for_reading() {
        return Ok(());
    }
    server.is_resting.store(true, Relaxed);
    server.lazy_times.write_all(&server.file_system);
    close::rest(&server.file_system).map_err(number)
}

/// The structure that this version of the ioctl has.
#[doc(alias = "xfs_fsop_geom")]
fn geometry(superblock: &Superblock, version: u32) -> Vec<u8> {
    let s = superblock;
    let is_4 = version >= 4;
    let mut bytes = Vec::with_capacity(GEOMETRY_BYTES);
    let mut words = |words: &[u32]| words.iter().for_each(|word| bytes.extend(word.to_ne_bytes()));
    let long = |number: u64| -> [u32; 2] { zerocopy::transmute!(number) };
    words(&[
        s.block_size_bytes.get(),
        s.realtime_extent_size_blocks.get(),
        s.ag_blocks.get(),
        s.ag_count.get(),
        s.log_blocks.get(),
        s.sector_size_bytes.get().into(),
        s.inode_size_bytes.get().into(),
        s.inode_max_percent.into(),
    ]);
    for number in [s.data_blocks, s.realtime_blocks, s.realtime_extents, s.log_start] {
        words(&long(number.get()));
    }
    let uuid: [u32; 4] = zerocopy::transmute!(s.uuid.0);
    words(&uuid);
    let flags = flags(s, is_4);
    let log_sector_bytes = if flags & SECTOR != 0 { s.log_sector_size_bytes.get().into() } else { 512 };
    words(&[
        s.stripe_unit_blocks.get(),
        s.stripe_width_blocks.get(),
        if version >= 5 { version } else { 0 },
        flags,
        log_sector_bytes,
        s.block_size_bytes.get(),
        s.block_size_bytes.get() << s.directory_block_log,
        if is_4 { s.log_stripe_unit_bytes.get() } else { 0 },
    ]);
    if version >= 5 {
        // Nothing is known to be sick, and nothing has been looked for.
        words(&[0, 0, s.realtime_group_extents.get(), s.realtime_group_count.get()]);
        words(&long(s.realtime_start.get()));
        words(&long(s.realtime_reserved.get()));
        bytes.resize(GEOMETRY_BYTES, 0);
    }
    bytes
}

const SECTOR: u32 = 1 << 9;

#[doc(alias = "XFS_FSOP_GEOM_FLAGS")]
fn flags(superblock: &Superblock, is_4: bool) -> u32 {
    use Incompatible as I;
    use RoCompatible as R;
    let version = u32::from(superblock.version_number.get());
    let has = |bit: u32| version & bit != 0;
    let r = R::from_bits_retain(superblock.ro_compatible.get());
    let i = I::from_bits_retain(superblock.incompatible.get());
    // Names in directories of version 2, large counts of links, unwritten extents, aligned inodes, and what version 5 implies.
    let always = 1 << 1 | 1 << 3 | 1 << 6 | 1 << 7 | 1 << 10 | 1 << 11 | 1 << 14 | 1 << 15;
    let others = [
        (has(0x10), 0),
        (has(0x40), 2),
        (has(0x100) || superblock.stripe_unit_blocks.get() != 0, 4),
        (is_4, 8),
        (has(0x800), 9),
        (has(0x4000), 12),
        (i.contains(I::FILE_TYPE), 16),
        (r.contains(R::FREE_INODE_BTREE), 17),
        (i.contains(I::SPARSE_INODES), 18),
        (r.contains(R::REVERSE_MAP_BTREE), 19),
        (r.contains(R::REFLINK), 20),
        (i.contains(I::BIG_TIME), 21),
        (r.contains(R::INODE_BTREE_COUNTS), 22),
        (i.contains(I::LARGE_EXTENT_COUNTS), 23),
        (i.contains(I::EXCHANGE_RANGE), 24),
        (i.contains(I::PARENT_POINTERS), 25),
        (i.contains(I::METADATA_DIRECTORY), 26),
        (i.contains(I::ZONED), 27),
    ];
    others.iter().filter(|(has, _)| *has).fold(always, |flags, (_, bit)| flags | 1 << bit)
}
