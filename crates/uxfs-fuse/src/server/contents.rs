//! OPEN, READ, WRITE and what else changes contents.

use std::time::Instant;

use rustix::{fs::OFlags, io::Errno, param::page_size};
use uxfs_filesystem::{
    file::{
        Touch,
        handles::{self, with_data, write_opened},
        share::CloneRange,
        space::SizeChange,
    },
    inode::table::InodeHandle,
    operations::set_attributes::Writer,
};
use uxfs_format::inode::{InodeFlags, Timestamp};

use super::{Answered, Server, number, put};
use crate::{
    protocol::{
        flags::{AccessMode, FallocateMode, FsyncFlags, OpenReplyFlags, WriteFlags},
        reply::OpenReply,
        request::operation::{CopyFileRange, Fallocate, Fsync, Open, Read, Release, Seek, SeekTarget, Write},
        wire::files::{CopyFileRangeOut, SeekOut, WriteOut},
    },
    transport::{
        ReplyBuffer,
        lending::{Filled, Lender},
    },
};

/// Shorter contents are copied: that takes fewer calls.
const LEAST_LENT_BYTES: u32 = 64 << 10;
/// Bytes that are copied at once, where blocks cannot be shared.
const COPY_BYTES: usize = 1 << 20;
/// One copy copies no more: its caller waits.
const MOST_COPIED_BYTES: u64 = 1 << 30;

impl Server {
    pub(super) fn open(&self, node: u64, open: &Open, reply: &mut ReplyBuffer<'_>) -> Answered {
        let inode = self.open_node(node)?;
        let can_write = AccessMode::of(open.flags).can_write();
        if can_write {
            let flags = inode.read().flags();
            check_flags(flags, open.flags)?;
            // Of what the kernel caches no write could tell later that it is not supported.
            if flags.contains(InodeFlags::REALTIME) {
                return Err(Errno::OPNOTSUPP);
            }
        }
        let handle = self.open_files.insert(inode, can_write);
        put(reply, &OpenReply { handle, flags: OpenReplyFlags::KEEP_CACHE }.encode())
    }

    pub(super) fn release(&self, release: &Release) -> Answered {
        let file = self.open_files.remove(release.handle).map(|file| file.number());
        if let Some(inode) = file.filter(|inode| !self.open_files.have_writer(*inode)) {
            self.full.forget(inode);
        }
        // Frees what was allocated ahead. What cannot be freed now is freed when the file is opened and closed again.
        drop(self.file_system.inactivate_pending());
        Ok(())
    }

    pub(super) fn read(&self, node: u64, read: &Read, reply: &mut ReplyBuffer<'_>) -> Answered {
        let file = self.opened(read.handle, node)?;
        if let Some(lender) = reply.lender()
            && read.size_bytes >= LEAST_LENT_BYTES
            && self.lend(&file, read, lender)?
        {
            self.was_read(&file);
            return Ok(());
        }
        let room = reply.room(read.size_bytes as usize);
        let count = self.file_system.read(&file, read.offset_bytes, room).map_err(number)?;
        reply.advance(count);
        self.was_read(&file);
        Ok(())
    }

    /// Sends contents without copying them into this process. Gives whether that was possible: where there is a hole it is not.
    fn lend(&self, file: &InodeHandle, read: &Read, lender: &mut Lender<'_>) -> Result<bool, Errno> {
        let (start_bytes, length_bytes) = (read.offset_bytes, u64::from(read.size_bytes));
        // While the file is held its blocks stay its own.
        let lent =
            with_data(&self.file_system, file, start_bytes, length_bytes, |ranges, end_bytes, device| {
                let length = end_bytes.saturating_sub(start_bytes) as usize;
                let (mut position, mut pages) = (start_bytes, 0);
                for range in ranges.clone() {
                    if range.offset_bytes != position {
                        return false;
                    }
                    position = range.end_bytes();
                    // Neither its first page nor its last need be whole.
                    pages += range.length_bytes as usize / page_size() + 2;
                }
                if position != end_bytes || length == 0 || pages > lender.room_pages() {
                    return false;
                }
                lender.send(length, |pipe| {
                    for range in ranges {
                        match device.lend(range.device_offset_bytes, range.length_bytes as usize, pipe) {
                            Some(Ok(count)) if count as u64 == range.length_bytes => {}
                            Some(_) => return Filled::InPart,
                            None => return Filled::Never,
                        }
                    }
                    Filled::Whole
                })
            });
        lent.map_err(number)
    }

    /// The time that a change of contents gives a file. A kernel that caches writes has the times of files, and sends them: another time
    /// here would stay where the kernel takes its own for sent.
    fn time_of_change(&self) -> Option<Timestamp> {
        (!self.settings.has_writeback_cache).then(|| self.file_system.now())
    }

    pub(super) fn write(&self, node: u64, write: &Write<'_>, reply: &mut ReplyBuffer<'_>) -> Answered {
        let file = self.opened(write.handle, node)?;
        let is_from_cache = write.write_flags.contains(WriteFlags::CACHE);
        // A stranger's write comes after a SETATTR without changes, which has taken set-group-ID away. The kernel, which knows all groups of the
        // user, sends none for a member of the file's group.
        let clears_set_id = write.write_flags.contains(WriteFlags::KILL_SET_ID).then_some(Writer::OfGroup);
        let touch = Touch { time: self.time_of_change(), clears_set_id };
        let (mut done, mut without_room_since) = (0, None);
        while done < write.data.len() {
            let (at, rest) = (write.offset_bytes.saturating_add(done as u64), write.data.get(done..));
            match write_opened(&self.file_system, &file, at, rest.unwrap_or_default(), touch) {
                Ok(0) => return Err(Errno::IO),
                Ok(count) => done += count,
                // A short count of what was cached would lose the rest without a word.
                Err(_) if done > 0 && !is_from_cache => break,
                Err(error) => {
                    let error = number(error);
                    if error == Errno::NOSPC && !self.full.has(file.number()) {
                        let begun = *without_room_since.get_or_insert_with(Instant::now);
                        if self.leaving.wait(begun) {
                            drop(self.file_system.inactivate_pending());
                            continue;
                        }
                    }
                    if is_from_cache {
                        found_no_room(self, node, &file, error);
                    }
                    return Err(error);
                }
            }
        }
        if self.settings.is_synchronous || write.flags.intersects(OFlags::SYNC | OFlags::DSYNC) {
            self.file_system.sync_file_data(&file).map_err(number)?;
        }
        put(reply, &WriteOut::new(u32::try_from(done).map_err(|_| Errno::INVAL)?))
    }

    pub(super) fn fsync(&self, node: u64, fsync: &Fsync) -> Answered {
        let file = self.opened(fsync.handle, node)?;
        let synced = match fsync.flags.contains(FsyncFlags::DATA_ONLY) {
            true => self.file_system.sync_file_data(&file),
            false => self.file_system.sync_file(&file),
        };
        synced.map_err(number)
    }

    pub(super) fn fallocate(&self, node: u64, asked: &Fallocate) -> Answered {
        use FallocateMode as M;
        let file = self.opened(asked.handle, node)?;
        let (offset, size) = (asked.offset_bytes, asked.size_bytes);
        let touch = Touch { time: self.time_of_change(), clears_set_id: None };
        let size_change = if asked.mode.contains(M::KEEP_SIZE) { SizeChange::Keep } else { SizeChange::Grow };
        let kind = asked.mode - M::KEEP_SIZE;
        // A file that is only appended to keeps its contents.
        if !kind.is_empty() && file.read().flags().contains(InodeFlags::APPEND) {
            return Err(Errno::PERM);
        }
        let file_system = &self.file_system;
        let changed = if kind.is_empty() {
            file_system.allocate_range(&file, offset, size, size_change, touch)
        } else if kind == M::PUNCH_HOLE && size_change == SizeChange::Keep {
            file_system.punch_range(&file, offset, size, touch)
        } else if kind == M::ZERO_RANGE {
            file_system.zero_range(&file, offset, size, size_change, touch)
        } else if kind == M::UNSHARE_RANGE {
            file_system.unshare_range(&file, offset, size, size_change, touch)
        } else if asked.mode == M::COLLAPSE_RANGE {
            file_system.collapse_range(&file, offset, size, touch)
        } else if asked.mode == M::INSERT_RANGE {
            file_system.insert_range(&file, offset, size, touch)
        } else {
            return Err(Errno::OPNOTSUPP);
        };
        changed.map_err(number)
    }

    pub(super) fn seek(&self, node: u64, seek: &Seek, reply: &mut ReplyBuffer<'_>) -> Answered {
        let file = self.opened(seek.handle, node)?;
        // The kernel asks without writing its cache back: a hole here may hold data there.
        let may_lack_data =
            || self.settings.has_writeback_cache && self.open_files.have_writer(file.number());
        if may_lack_data() && !self.notifier.write_and_drop_contents(node) {
            // From now on the kernel finds data everywhere: that is true always.
            return Err(Errno::NOSYS);
        }
        let target = match seek.target {
            SeekTarget::Data => handles::Seek::Data,
            SeekTarget::Hole => handles::Seek::Hole,
        };
        let offset_bytes = self.file_system.seek(&file, seek.offset_bytes, target).map_err(number)?;
        put(reply, &SeekOut::new(offset_bytes))
    }

    pub(super) fn copy_file_range(
        &self,
        node: u64,
        copy: &CopyFileRange,
        is_long: bool,
        reply: &mut ReplyBuffer<'_>,
    ) -> Answered {
        if copy.flags != 0 {
            return Err(Errno::INVAL);
        }
        let source = self.opened(copy.source_handle, node)?;
        let target = self.opened(copy.target_handle, copy.target_node_id)?;
        // As Linux, also where it was opened before it got the flag.
        if target.read().flags().contains(InodeFlags::IMMUTABLE) {
            return Err(Errno::PERM);
        }
        let count = match self.share(&source, &target, copy) {
            Some(count) => count,
            None => self.copy_contents(&source, &target, copy)?,
        };
        match is_long {
            true => put(reply, &CopyFileRangeOut::new(count)),
            false => put(reply, &WriteOut::new(u32::try_from(count).map_err(|_| Errno::INVAL)?)),
        }
    }

    /// Shares blocks instead of copying them. `None` where that cannot be.
    fn share(&self, source: &InodeHandle, target: &InodeHandle, copy: &CopyFileRange) -> Option<u64> {
        let left = source.read().size_bytes().checked_sub(copy.source_offset_bytes)?;
        let length_bytes = copy.size_bytes.min(left).min(MOST_COPIED_BYTES);
        if length_bytes == 0 {
            return Some(0);
        }
        let range = CloneRange {
            source_bytes: copy.source_offset_bytes,
            target_bytes: copy.target_offset_bytes,
            length_bytes,
        };
        let touch = Touch { time: self.time_of_change(), clears_set_id: None };
        self.file_system.clone_range(source, target, &range, touch).ok()
    }

    fn copy_contents(
        &self,
        source: &InodeHandle,
        target: &InodeHandle,
        copy: &CopyFileRange,
    ) -> Result<u64, Errno> {
        let touch = Touch { time: self.time_of_change(), clears_set_id: None };
        let most_bytes = copy.size_bytes.min(MOST_COPIED_BYTES).min(i32::MAX as u64);
        let mut buffer = vec![0; COPY_BYTES.min(usize::try_from(most_bytes).unwrap_or(COPY_BYTES))];
        let mut done = 0;
        while done < most_bytes {
            let count = (most_bytes - done).min(buffer.len() as u64) as usize;
            let Some(bytes) = buffer.get_mut(..count) else { break };
            let (from, to) = (copy.source_offset_bytes + done, copy.target_offset_bytes + done);
            let outcome = self.file_system.read(source, from, bytes).and_then(|count| match count {
                0 => Ok(0),
                count => {
                    let bytes = bytes.get(..count).unwrap_or_default();
                    write_opened(&self.file_system, target, to, bytes, touch)
                }
            });
            match outcome {
                Ok(0) => break,
                Ok(count) => done += count as u64,
                Err(_) if done > 0 => break,
                Err(error) => return Err(number(error)),
            }
        }
        Ok(done)
    }
}

/// Cached bytes of a file are lost: the next write(2) is to hear of it. Without the write cache reads would hear of it, too.
fn found_no_room(server: &Server, node: u64, file: &InodeHandle, error: Errno) {
    let can_be_told = server.settings.has_writeback_cache && server.open_files.have_writer(file.number());
    let free_blocks = server.file_system.statistics().free_blocks;
    if can_be_told && server.full.refuse(file.number(), error, free_blocks) {
        server.notifier.forget_attributes_soon(node);
    }
}

/// Flags that the kernel does not know, and asks for in other file systems when a file is opened for changes.
fn check_flags(flags: InodeFlags, open: OFlags) -> Answered {
    let is_append = open.contains(OFlags::APPEND) && !open.contains(OFlags::TRUNC);
    let is_forbidden =
        flags.contains(InodeFlags::IMMUTABLE) || flags.contains(InodeFlags::APPEND) && !is_append;
    if is_forbidden { Err(Errno::PERM) } else { Ok(()) }
}
