//! GETATTR, SETATTR, STATX, STATFS, and access times.

use std::sync::atomic::Ordering::Relaxed;

use rustix::io::Errno;
use uxfs_filesystem::{
    file::Touch,
    inode::table::InodeHandle,
    operations::{
        live::Status,
        set_attributes::{AttributeChanges, TimeSource, Writer, mode_without_set_id},
    },
};
use uxfs_format::inode::{FileType, InodeFlags, Timestamp};

use super::{Answered, Server, VALID, number, put, settings::Settings};
use crate::{
    mounting::options::AccessTimes,
    protocol::{
        flags::{AttributeChanges as Asked, AttributeFlags},
        reply::{Attributes, AttributesReply, EntryReply, StatfsReply, StatxReply},
        request::{
            Caller,
            operation::{SetAttributes, Statx, TimeChange},
        },
    },
    transport::ReplyBuffer,
};

/// Blocks in a reply have so many bytes.
const SECTOR_BYTES: u64 = 512;
/// An access time that is older than this is set anew also with `relatime`.
const DAY_SECONDS: i64 = 24 * 60 * 60;
/// Permissions with set-id bits and the sticky bit.
const PERMISSIONS: u32 = 0o7777;

impl Server {
    pub(super) fn get_attributes(
        &self,
        node: u64,
        handle: Option<u64>,
        reply: &mut ReplyBuffer<'_>,
    ) -> Answered {
        let inode = self.opened(handle.unwrap_or(0), node)?;
        // With a handle it asks because the file is about to be written.
        if handle.is_some() {
            self.full.check(inode.number(), || self.file_system.statistics().free_blocks)?;
        }
        self.told.will_tell(node);
        self.put_attributes(&inode, reply)
    }

    fn put_attributes(&self, inode: &InodeHandle, reply: &mut ReplyBuffer<'_>) -> Answered {
        let status = self.file_system.stat(inode).map_err(number)?;
        put(reply, &AttributesReply { valid: VALID, attributes: self.attributes_of(&status) }.encode())
    }

    pub(super) fn statx(&self, node: u64, asked: &Statx, reply: &mut ReplyBuffer<'_>) -> Answered {
        let inode = self.opened(asked.handle.unwrap_or(0), node)?;
        self.told.will_tell(node);
        let status = self.file_system.stat(&inode).map_err(number)?;
        let attributes = self.attributes_of(&status);
        put(reply, &StatxReply { valid: VALID, attributes, birth: status.creation_time }.encode())
    }

    /// What the kernel shows of an inode.
    pub(super) fn attributes_of(&self, status: &Status) -> Attributes {
        let geometry = self.file_system.geometry();
        let owner = &self.settings.shown_owner;
        let [access, modification, change] = self.lazy_times.shown(status);
        Attributes {
            inode: status.number.get(),
            size_bytes: status.size_bytes,
            sectors: status.blocks.saturating_mul(geometry.block_size() as u64 / SECTOR_BYTES),
            access,
            modification,
            change,
            mode: status.mode.into(),
            link_count: status.link_count,
            user_id: owner.user_id.unwrap_or(status.uid),
            group_id: owner.group_id.unwrap_or(status.gid),
            device: status.device,
            block_size_bytes: geometry.block_size_bytes,
            flags: AttributeFlags::empty(),
        }
    }

    /// The reply that names an inode. The kernel counts it.
    pub(super) fn entry_of(&self, inode: &InodeHandle) -> Result<EntryReply, Errno> {
        let status = self.file_system.stat(inode).map_err(number)?;
        Ok(self.entry_of_status(&status))
    }

    pub(super) fn entry_of_status(&self, status: &Status) -> EntryReply {
        EntryReply {
            node_id: self.nodes.node_of(status.number),
            generation: status.generation,
            entry_valid: VALID,
            attributes_valid: VALID,
            attributes: self.attributes_of(status),
        }
    }

    pub(super) fn set_attributes(
        &self,
        node: u64,
        asked: &SetAttributes,
        caller: Caller,
        reply: &mut ReplyBuffer<'_>,
    ) -> Answered {
        let inode = self.opened(asked.handle.unwrap_or(0), node)?;
        // The kernel is about to write past its cache: see `notifier`.
        if asked.changes.is_empty() && self.settings.has_writeback_cache {
            self.notifier.write_and_drop_contents(node);
        }
        if self.lazy_times.keep(&self.file_system, &inode, asked) {
            return self.put_attributes(&inode, reply);
        }
        self.lazy_times.write(&self.file_system, inode.number());
        let clears_set_id =
            asked.changes.contains(Asked::KILL_SET_ID).then(|| writer(&self.settings, caller, &inode));
        let mut changes = self.changes_of(&inode, asked, clears_set_id)?;
        if let Some(size_bytes) = asked.size_bytes {
            let touch = Touch { time: Some(self.file_system.now()), clears_set_id };
            // ftruncate(2), and open(2) with O_TRUNC, set the times also where the size stays; truncate(2), which has no handle, does not.
            // The kernel gives the times only if it caches writes.
            let is_same = size_bytes == inode.read().size_bytes();
            if is_same && asked.handle.is_some() && changes.modification_time.is_none() {
                changes.modification_time = touch.time;
            }
            self.file_system.set_size(&inode, size_bytes, touch).map_err(number)?;
        }
        if asked.changes.is_empty() && caller.user_id != 0 {
            let status = self.file_system.stat(&inode).map_err(number)?;
            let mode = mode_without_set_id(status.mode, writer(&self.settings, caller, &inode));
            let is_changed = status.file_type == FileType::Regular && mode != status.mode;
            changes.permissions = is_changed.then_some(mode & PERMISSIONS as u16);
            // The kernel has the time of the write for which it asks, and sends it.
            let keeps_time = is_changed && self.settings.has_writeback_cache;
            changes.change_time = keeps_time.then_some(status.change_time);
        }
        if changes != (AttributeChanges { times: changes.times, ..AttributeChanges::default() }) {
            self.file_system.set_attributes(&inode, &changes).map_err(number)?;
        }
        self.put_attributes(&inode, reply)
    }

    fn changes_of(
        &self,
        inode: &InodeHandle,
        asked: &SetAttributes,
        clears_set_id: Option<Writer>,
    ) -> Result<AttributeChanges, Errno> {
        let time_of = |change: TimeChange| match change {
            TimeChange::Now => self.file_system.now(),
            TimeChange::At(time) => time,
        };
        let mut permissions = asked.mode.map(|mode| (mode & PERMISSIONS) as u16);
        let changes_owner = asked.user_id.is_some() || asked.group_id.is_some();
        if let Some(writer) = clears_set_id.filter(|_| changes_owner && permissions.is_none()) {
            let status = self.file_system.stat(inode).map_err(number)?;
            let mode = mode_without_set_id(status.mode, writer);
            let is_changed = status.file_type != FileType::Directory && mode != status.mode;
            permissions = is_changed.then_some(mode & PERMISSIONS as u16);
        }
        Ok(AttributeChanges {
            permissions,
            uid: asked.user_id,
            gid: asked.group_id,
            access_time: asked.access.map(time_of),
            modification_time: asked.modification.map(time_of),
            change_time: asked.change,
            times: self.times_source(inode, asked),
            ..AttributeChanges::default()
        })
    }

    /// Where times come from. With the write cache the kernel gives the times of what it cached, over the handle that is open for writing,
    /// and also says the present as a time of its own. A time of modification that a user chose comes without a handle, and mostly with an
    /// access time.
    fn times_source(&self, inode: &InodeHandle, asked: &SetAttributes) -> TimeSource {
        let is_chosen = |time| matches!(time, Some(TimeChange::At(_)));
        let has_kernel_times =
            self.settings.has_writeback_cache && inode.read().file_type() == Some(FileType::Regular);
        match (asked.access, asked.modification) {
            (None, Some(_)) if has_kernel_times && asked.handle.is_some() => TimeSource::Written,
            (Some(TimeChange::Now), Some(_)) if has_kernel_times => TimeSource::Touch,
            (access, modification) if is_chosen(access) || is_chosen(modification) => TimeSource::Chosen,
            _ => TimeSource::Touch,
        }
    }

    pub(super) fn stat_file_system(&self, reply: &mut ReplyBuffer<'_>) -> Answered {
        let statistics = self.file_system.statistics();
        let of_mount = StatfsReply {
            block_size_bytes: statistics.block_size_bytes,
            blocks: statistics.blocks,
            free_blocks: statistics.free_blocks,
            available_blocks: statistics.free_blocks,
            files: statistics.files,
            free_files: statistics.free_files,
            name_bytes_max: statistics.most_name_bytes,
        };
        put(reply, &of_mount.encode())
    }

    /// Sets the access time of an inode that was read, where the mount wants that. A failure is no failure of the reading.
    pub(super) fn was_read(&self, inode: &InodeHandle) {
        if self.access.is_for_reading()
            || self.is_resting.load(Relaxed)
            || self.settings.access_times == AccessTimes::Never
        {
            return;
        }
        let Ok(status) = self.file_system.stat(inode) else { return };
        let is_directory = status.file_type == FileType::Directory;
        let is_exempt = status.flags.intersects(InodeFlags::NO_ACCESS_TIME | InodeFlags::IMMUTABLE)
            || is_directory && !self.settings.has_directory_access_times;
        let now = self.file_system.now();
        let times = self.lazy_times.shown(&status);
        if !is_exempt
            && is_due(self.settings.access_times, times, now)
            && !self.lazy_times.keep_access(inode, now)
        {
            let changes = AttributeChanges {
                access_time: Some(now),
                change_time: Some(status.change_time),
                times: TimeSource::Touch,
                ..AttributeChanges::default()
            };
            drop(self.file_system.set_attributes(inode, &changes));
        }
    }
}

#[doc(alias = "relatime_need_update")]
fn is_due(access_times: AccessTimes, times: [Timestamp; 3], now: Timestamp) -> bool {
    let [accessed, modified, changed] = times;
    match access_times {
        AccessTimes::Never => false,
        AccessTimes::Always => accessed < now,
        AccessTimes::Relative => {
            accessed <= modified
                || accessed <= changed
                || now.seconds.saturating_sub(accessed.seconds) >= DAY_SECONDS
        }
    }
}

/// Whether the caller counts as a member of the file's group when a change clears set-id bits. The kernel passes only the primary group, so a
/// member by a supplementary group counts as a stranger. That is the safe side: set-group-ID without group execute has no effect.
fn writer(settings: &Settings, caller: Caller, inode: &InodeHandle) -> Writer {
    let shown_group = settings.shown_owner.group_id.unwrap_or_else(|| inode.read().core.gid.get());
    match caller.user_id == 0 || caller.group_id == shown_group {
        true => Writer::OfGroup,
        false => Writer::Stranger,
    }
}
