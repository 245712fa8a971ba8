//! READDIR and READDIRPLUS.

use std::ops::ControlFlow;

use rustix::io::Errno;
use uxfs_filesystem::inode::table::InodeHandle;
use uxfs_format::{inode::FileType, units::InodeNumber};

use super::{Answered, Server, number, put};
use crate::{
    protocol::{
        directory::{DirectoryBuffer, DirectoryEntry, RecordRefused},
        flags::OpenReplyFlags,
        initialization::Capabilities,
        reply::OpenReply,
        request::{Request, operation::Read},
    },
    transport::ReplyBuffer,
};

/// An entry that was read: attributes are asked when the directory is not locked any more.
struct ReadEntry {
    /// Where its name lies among all names.
    name: std::ops::Range<usize>,
    inode: InodeNumber,
    file_type: Option<FileType>,
    next_cookie: u64,
}

impl Server {
    /// Refused where the kernel can do without: it then opens and closes directories itself and never asks again. Nothing is lost, because a
    /// cookie says where a listing goes on, and a removed directory stays while the kernel remembers it (invariant 2 of
    /// [`nodes`](super::nodes)).
    pub(super) fn open_directory(&self, node: u64, reply: &mut ReplyBuffer<'_>) -> Answered {
        let negotiated = self.negotiated.get();
        if negotiated.is_some_and(|both| both.capabilities.contains(Capabilities::NO_OPENDIR_SUPPORT)) {
            return Err(Errno::NOSYS);
        }
        let directory = self.open_node(node)?;
        let handle = self.open_files.insert(directory, false);
        let flags = OpenReplyFlags::KEEP_CACHE | OpenReplyFlags::CACHE_DIRECTORY;
        put(reply, &OpenReply { handle, flags }.encode())
    }

    pub(super) fn read_directory(&self, node: u64, read: &Read, reply: &mut ReplyBuffer<'_>) -> Answered {
        self.read_names(node, read, reply, |buffer, record| buffer.push(record))
    }

    /// Names in the records of READDIRPLUS, without attributes.
    fn read_names_plus(&self, node: u64, read: &Read, reply: &mut ReplyBuffer<'_>) -> Answered {
        self.read_names(node, read, reply, |buffer, record| buffer.push_plus(record, None).map(drop))
    }

    fn read_names(
        &self,
        node: u64,
        read: &Read,
        reply: &mut ReplyBuffer<'_>,
        push: impl Fn(&mut DirectoryBuffer<'_>, &DirectoryEntry<'_>) -> Result<(), RecordRefused>,
    ) -> Answered {
        let directory = self.opened(read.handle, node)?;
        let mut buffer = DirectoryBuffer::new(reply.room(read.size_bytes as usize));
        let mut refused = None;
        let visit = |entry: uxfs_volume::directory::DirectoryEntry<'_>| {
            let record = DirectoryEntry {
                name: entry.name,
                inode: entry.inode.get(),
                file_type: entry.file_type,
                next_offset: entry.next_cookie,
            };
            match push(&mut buffer, &record) {
                Ok(()) => ControlFlow::Continue(()),
                Err(error) => {
                    refused = Some(error);
                    ControlFlow::Break(())
                }
            }
        };
        self.nodes.will_list(node);
        self.file_system.read_entries(&directory, read.offset_bytes, visit).map_err(number)?;
        let used_bytes = filled(&buffer, refused)?;
        reply.advance(used_bytes);
        self.was_read(&directory);
        Ok(())
    }

    pub(super) fn read_directory_plus(
        &self,
        request: &Request<'_>,
        read: &Read,
        reply: &mut ReplyBuffer<'_>,
    ) -> Answered {
        let node = request.node_id;
        if !self.listings.lists(request.caller.process_id) {
            return self.read_names_plus(node, read, reply);
        }
        let directory = self.opened(read.handle, node)?;
        let room = reply.room(read.size_bytes as usize);
        self.nodes.will_list(node);
        let (names, entries) = self.entries_for(&directory, read.offset_bytes, room.len())?;
        let mut buffer = DirectoryBuffer::new(room);
        let mut refused = None;
        for entry in &entries {
            let name = names.get(entry.name.clone()).unwrap_or_default();
            if !buffer.has_room_plus(name.len()) {
                break;
            }
            let moment = self.nodes.moment(entry.inode);
            self.told.will_tell(self.nodes.node_of(entry.inode));
            let status = match name {
                b"." | b".." => None,
                _ => self.file_system.open(entry.inode).and_then(|inode| self.file_system.stat(&inode)).ok(),
            };
            let record = DirectoryEntry {
                name,
                inode: entry.inode.get(),
                file_type: status.map(|status| status.file_type).or(entry.file_type),
                next_offset: entry.next_cookie,
            };
            let reply_entry = status.map(|status| self.entry_of_status(&status));
            // It counts before the kernel can forget it.
            if let Some(status) = status {
                self.nodes.remember(entry.inode, (!status.may_have_attributes).then_some(moment));
            }
            match buffer.push_plus(&record, reply_entry.as_ref()) {
                Ok(is_counted) => {
                    if reply_entry.is_some() && !is_counted {
                        self.nodes.forget(self.nodes.node_of(entry.inode), 1);
                    }
                }
                Err(error) => {
                    if reply_entry.is_some() {
                        self.nodes.forget(self.nodes.node_of(entry.inode), 1);
                    }
                    refused = Some(error);
                    break;
                }
            }
        }
        let used_bytes = filled(&buffer, refused)?;
        reply.advance(used_bytes);
        self.was_read(&directory);
        Ok(())
    }

    /// The entries from a cookie on whose records may fit into so many bytes, and their names.
    fn entries_for(
        &self,
        directory: &InodeHandle,
        cookie: u64,
        most_bytes: usize,
    ) -> Result<(Vec<u8>, Vec<ReadEntry>), Errno> {
        let (mut names, mut entries, mut left) = (Vec::new(), Vec::new(), most_bytes);
        let visit = |entry: uxfs_volume::directory::DirectoryEntry<'_>| {
            let start = names.len();
            names.extend_from_slice(entry.name);
            let name = start..names.len();
            entries.push(ReadEntry {
                name,
                inode: entry.inode,
                file_type: entry.file_type,
                next_cookie: entry.next_cookie,
            });
            left = left.saturating_sub(PLUS_RECORD_BYTES + entry.name.len());
            if left == 0 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        };
        self.file_system.read_entries(directory, cookie, visit).map_err(number)?;
        Ok((names, entries))
    }
}

/// A record of READDIRPLUS without its name.
const PLUS_RECORD_BYTES: usize = 152;

/// Bytes of a reply. A buffer for not even one record is an error.
fn filled(buffer: &DirectoryBuffer<'_>, refused: Option<RecordRefused>) -> Result<usize, Errno> {
    match refused {
        Some(RecordRefused::Full { .. }) if buffer.is_empty() => Err(Errno::INVAL),
        Some(RecordRefused::BadName | RecordRefused::BadOffset { .. }) if buffer.is_empty() => {
            Err(Errno::UCLEAN)
        }
        _ => Ok(buffer.used_bytes()),
    }
}
