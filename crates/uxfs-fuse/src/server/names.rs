//! LOOKUP, and what makes, moves and removes names.

use rustix::{fs::OFlags, io::Errno};
use uxfs_engine::bulk::create::NewKind;
use uxfs_filesystem::{
    inode::table::InodeHandle,
    operations::{create::NewFile, rename::RenameOptions},
};
use uxfs_format::inode::FileType;
use uxfs_volume::error::{Error, OperationError};

use super::{Answered, Server, VALID, number, put};
use crate::{
    protocol::{
        flags::{AccessMode, OpenReplyFlags, RenameFlags},
        reply::{CreateReply, EntryReply, OpenReply},
        request::{
            Request,
            operation::{Create, Link, MakeDirectory, MakeNode, Rename, SymbolicLink},
        },
    },
    transport::ReplyBuffer,
};

/// Permissions with set-id bits and the sticky bit.
const PERMISSIONS: u32 = 0o7777;
/// The bits of a mode that hold the file type.
const FILE_TYPE: u32 = 0o170_000;
/// The file type of directories.
const DIRECTORY: u32 = 0o040_000;

impl Server {
    pub(super) fn lookup(&self, request: &Request<'_>, name: &[u8], reply: &mut ReplyBuffer<'_>) -> Answered {
        let node = request.node_id;
        let directory = match name {
            // A file handle from outside: the number may be out of date.
            b"." | b".." => {
                self.file_system.open_if_in_use(self.nodes.inode_of(node)).map_err(|_| Errno::STALE)?
            }
            _ => self.open_node(node)?,
        };
        if name == b"." {
            self.told.will_tell(node);
            return self.put_entry(&directory, reply);
        }
        match self.file_system.find(&directory, name) {
            Ok(found) => {
                self.told.will_tell(self.nodes.node_of(found.number()));
                let entry = self.counted_entry(&found)?;
                if entry.attributes.mode & FILE_TYPE != DIRECTORY {
                    self.listings.looks_at_a_file(request.caller.process_id);
                }
                put(reply, &entry.encode())
            }
            Err(Error::Operation(OperationError::NotFound)) => {
                put(reply, &EntryReply::missing(VALID).encode())
            }
            Err(error) => Err(number(error)),
        }
    }

    fn put_entry(&self, inode: &InodeHandle, reply: &mut ReplyBuffer<'_>) -> Answered {
        let entry = self.counted_entry(inode)?;
        put(reply, &entry.encode())
    }

    /// The reply that names an inode, which counts it.
    pub(super) fn counted_entry(&self, inode: &InodeHandle) -> Result<EntryReply, Errno> {
        let moment = self.nodes.moment(inode.number());
        let status = self.file_system.stat(inode).map_err(number)?;
        self.nodes.remember(status.number, (!status.may_have_attributes).then_some(moment));
        Ok(self.entry_of_status(&status))
    }

    pub(super) fn read_link(&self, node: u64, reply: &mut ReplyBuffer<'_>) -> Answered {
        let link = self.open_node(node)?;
        let target = self.file_system.read_link(&link).map_err(number)?;
        self.was_read(&link);
        reply.push(&target)
    }

    pub(super) fn make_symbolic_link(
        &self,
        request: &Request<'_>,
        link: &SymbolicLink<'_>,
        reply: &mut ReplyBuffer<'_>,
    ) -> Answered {
        let new = new_file(request, NewKind::Symlink(link.target), 0o777, 0);
        let made = self.make(request.node_id, link.name, &new)?;
        self.put_entry(&made, reply)
    }

    pub(super) fn make_node(
        &self,
        request: &Request<'_>,
        make: &MakeNode<'_>,
        reply: &mut ReplyBuffer<'_>,
    ) -> Answered {
        let file_type = FileType::from_mode((make.mode & FILE_TYPE) as u16).ok_or(Errno::INVAL)?;
        let kind = match file_type {
            FileType::Regular => NewKind::Regular,
            file_type if file_type.is_special() => NewKind::Special(file_type, make.device),
            _ => return Err(Errno::PERM),
        };
        let new = new_file(request, kind, make.mode, make.umask);
        let made = self.make(request.node_id, make.name, &new)?;
        self.put_entry(&made, reply)
    }

    pub(super) fn make_directory(
        &self,
        request: &Request<'_>,
        make: &MakeDirectory<'_>,
        reply: &mut ReplyBuffer<'_>,
    ) -> Answered {
        let new = new_file(request, NewKind::Directory, make.mode, make.umask);
        let made = self.make(request.node_id, make.name, &new)?;
        self.put_entry(&made, reply)
    }

    fn make(&self, parent: u64, name: &[u8], new: &NewFile<'_>) -> Result<InodeHandle, Errno> {
        let directory = self.open_node(parent)?;
        let made = self.file_system.create(&directory, name, new).map_err(number)?;
        self.names_changed()?;
        Ok(made)
    }

    /// Makes names durable, where the mount asks for it.
    fn names_changed(&self) -> Answered {
        if self.settings.has_synchronous_directories {
            self.file_system.force().map_err(number)?;
        }
        Ok(())
    }

    pub(super) fn create(
        &self,
        request: &Request<'_>,
        create: &Create<'_>,
        reply: &mut ReplyBuffer<'_>,
    ) -> Answered {
        let new = new_file(request, NewKind::Regular, create.mode, create.umask);
        let made = self.make(request.node_id, create.name, &new)?;
        let entry = self.counted_entry(&made)?;
        self.put_created(entry, made, create.flags, reply)
    }

    pub(super) fn create_temporary(
        &self,
        request: &Request<'_>,
        create: &Create<'_>,
        reply: &mut ReplyBuffer<'_>,
    ) -> Answered {
        let directory = self.open_node(request.node_id)?;
        let new = new_file(request, NewKind::Regular, create.mode, create.umask);
        let may_get_name = !create.flags.contains(OFlags::EXCL);
        let made = self.file_system.create_temporary(&directory, &new, may_get_name).map_err(number)?;
        let entry = self.entry_of(&made)?;
        self.nodes.remember_unnamed(&made);
        self.put_created(entry, made, create.flags, reply)
    }

    fn put_created(
        &self,
        entry: EntryReply,
        made: InodeHandle,
        flags: OFlags,
        reply: &mut ReplyBuffer<'_>,
    ) -> Answered {
        let handle = self.open_files.insert(made, AccessMode::of(flags).can_write());
        let open = OpenReply { handle, flags: OpenReplyFlags::KEEP_CACHE };
        put(reply, &CreateReply { entry, open }.encode())
    }

    pub(super) fn link(&self, parent: u64, link: &Link<'_>, reply: &mut ReplyBuffer<'_>) -> Answered {
        let (directory, inode) = (self.open_node(parent)?, self.open_node(link.old_node_id)?);
        self.file_system.link(&inode, &directory, link.new_name).map_err(number)?;
        self.names_changed()?;
        self.put_entry(&inode, reply)
    }

    pub(super) fn unlink(&self, parent: u64, name: &[u8]) -> Answered {
        let directory = self.open_node(parent)?;
        let found = self.file_system.find(&directory, name).map_err(number)?;
        self.file_system.unlink(&directory, name).map_err(number)?;
        self.lost_a_name(found);
        self.names_changed()
    }

    pub(super) fn remove_directory(&self, parent: u64, name: &[u8]) -> Answered {
        let directory = self.open_node(parent)?;
        let found = self.file_system.find(&directory, name).map_err(number)?;
        self.file_system.remove_directory(&directory, name).map_err(number)?;
        self.lost_a_name(found);
        self.names_changed()
    }

    /// Holds an inode without names until the kernel forgets it.
    fn lost_a_name(&self, inode: InodeHandle) {
        if inode.read().link_count() == 0 {
            self.leaving.note();
            self.nodes.hold(&inode);
            drop(inode);
            // What cannot be freed now stays in the list of unlinked inodes.
            drop(self.file_system.inactivate_pending());
        }
    }

    pub(super) fn rename(&self, request: &Request<'_>, rename: &Rename<'_>) -> Answered {
        if !RenameFlags::all().contains(rename.flags) {
            return Err(Errno::INVAL);
        }
        let has = |flag| rename.flags.contains(flag);
        let whiteout = (request.caller.user_id, request.caller.group_id);
        let options = RenameOptions {
            no_replace: has(RenameFlags::NO_REPLACE),
            exchange: has(RenameFlags::EXCHANGE),
            whiteout: has(RenameFlags::WHITEOUT).then_some(whiteout),
        };
        let (from, to) = (self.open_node(request.node_id)?, self.open_node(rename.new_parent)?);
        let replaced = match options.no_replace || options.exchange {
            true => None,
            false => self.file_system.find(&to, rename.new_name).ok(),
        };
        self.file_system.rename(&from, rename.name, &to, rename.new_name, &options).map_err(number)?;
        if let Some(replaced) = replaced {
            self.lost_a_name(replaced);
        }
        self.names_changed()
    }
}

fn new_file<'a>(request: &Request<'_>, kind: NewKind<'a>, mode: u32, umask: u32) -> NewFile<'a> {
    NewFile {
        umask: (umask & PERMISSIONS) as u16,
        uid: request.caller.user_id,
        gid: request.caller.group_id,
        ..NewFile::new(kind, (mode & PERMISSIONS) as u16)
    }
}
