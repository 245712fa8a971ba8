//! The file system behind a mount: each request becomes an operation of [`FileSystem`].
//!
//! | module | holds |
//! |---|---|
//! | here | the server, and which function answers which request |
//! | [`listings`] | whether a listing gives attributes, too |
//! | [`full`] | files whose cached bytes found no room |
//! | [`nodes`] | inodes that the kernel remembers |
//! | [`notifier`] | asks the kernel to write and drop what it has cached |
//! | [`open_files`] | files that are open |
//! | [`read_only`] | what a mount for reading refuses, until it takes changes |
//! | [`settings`] | what a mount asks of its server |
//! | `attributes` | GETATTR, SETATTR, STATX, STATFS; access times |
//! | `names` | LOOKUP, and what makes, moves and removes names |
//! | `directories` | READDIR and READDIRPLUS |
//! | `contents` | OPEN, READ, WRITE and what else changes contents |
//! | `extended_attributes` | extended attributes and access control lists |
//! | [`effort`] | how long answering a request may take |
//! | [`lazy_times`] | times that are written late |
//! | [`told`] | attributes that the kernel may be about to learn |
//! | [`trouble`] | damage and failures, told in the log |
//! | `request_log` | a line for each request |
//! | `ioctls` | flags and projects of inodes, statistics |
//! | `file_system_ioctls` | geometry, counters, label, trimming, resting, shutdown |
//!
//! Invariants:
//! 1. The kernel is the only one that changes the file system while it is mounted: what it caches stays true.
//! 2. Permissions are the kernel's work (`default_permissions`). The flags of inodes, which the kernel does not know, are asked here.
//! 3. An error of one object is an error of the request. The server goes on. So does it after a panic: each request has its answer.

mod attributes;
mod contents;
mod directories;
pub mod effort;
mod extended_attributes;
mod file_system_ioctls;
pub mod full;
mod ioctls;
pub mod lazy_times;
pub mod listings;
mod names;
pub mod nodes;
pub mod notifier;
pub mod open_files;
pub mod read_only;
mod request_log;
pub mod settings;
pub mod told;
pub mod trouble;

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use rustix::io::Errno;
use uxfs_filesystem::{filesystem::FileSystem, inode::table::InodeHandle};
use uxfs_volume::error::Error;
use zerocopy::{FromBytes, Immutable, IntoBytes};

use self::{
    full::{FullFiles, Leaving},
    lazy_times::LazyTimes,
    listings::Listings,
    nodes::Nodes,
    notifier::Notifier,
    open_files::OpenFiles,
    read_only::Access,
    settings::Settings,
    told::Told,
    trouble::Trouble,
};
use crate::{
    log::{Level, Log},
    protocol::{
        directory::nodes_of,
        initialization::{InitAnswer, InitRequest, Negotiated},
        opcode::Opcode,
        request::{Operation, Request},
        wire::{header::InHeader, names::EntryOut},
    },
    session::Served,
    statistics::Statistics,
    transport::{Answer, Outcome, ReplyBuffer, Service, turns::Effort},
};

/// How long the kernel may keep what it knows: nothing else changes the file system.
pub const VALID: Duration = Duration::from_secs(1 << 30);

/// Result of answering a request: the reply is in its buffer.
pub type Answered = Result<(), Errno>;

/// What answers the requests of one mount.
#[derive(Debug)]
pub struct Server {
    pub(crate) file_system: Arc<FileSystem>,
    pub(crate) nodes: Nodes,
    pub(crate) listings: Listings,
    pub(crate) notifier: Notifier,
    pub(crate) told: Told,
    pub(crate) open_files: OpenFiles,
    pub(crate) full: FullFiles,
    pub(crate) leaving: Leaving,
    pub(crate) settings: Settings,
    pub(crate) statistics: Statistics,
    /// Its log, and what it has told there.
    pub trouble: Trouble,
    /// Times that are written late.
    pub lazy_times: LazyTimes,
    /// Whether it takes changes.
    pub access: Access,
    negotiated: OnceLock<Negotiated>,
    has_rings: AtomicBool,
    is_destroyed: AtomicBool,
    /// The kernel lets nothing be changed.
    is_resting: AtomicBool,
}

impl Server {
    /// Of a file system.
    #[must_use]
    pub fn new(file_system: Arc<FileSystem>, settings: Settings) -> Self {
        let nodes = Nodes::new(file_system.geometry().root_inode);
        Self {
            file_system,
            nodes,
            listings: Listings::default(),
            notifier: Notifier::default(),
            told: Told::default(),
            open_files: OpenFiles::default(),
            full: FullFiles::default(),
            leaving: Leaving::default(),
            settings,
            statistics: Statistics::default(),
            trouble: Trouble::new(Log::new(settings.log_level)),
            lazy_times: LazyTimes::new(settings.has_lazy_times),
            access: Access::fixed(settings.is_read_only),
            negotiated: OnceLock::new(),
            has_rings: AtomicBool::new(false),
            is_destroyed: AtomicBool::new(false),
            is_resting: AtomicBool::new(false),
        }
    }

    /// Forgets all nodes and open files, frees unlinked inodes, and closes the file system.
    ///
    /// # Errors
    /// The device; damage.
    pub fn close(&self) -> Result<(), Error> {
        self.lazy_times.write_all(&self.file_system);
        self.open_files.clear();
        self.nodes.forget_all();
        self.file_system.close()
    }

    /// The file system that is served.
    #[must_use]
    pub fn file_system(&self) -> &Arc<FileSystem> {
        &self.file_system
    }

    /// Opens the inode of a node.
    pub(crate) fn open_node(&self, node: u64) -> Result<InodeHandle, Errno> {
        self.file_system.open(self.nodes.inode_of(node)).map_err(number)
    }

    /// The inode of an open file, or of the node where it was not opened.
    pub(crate) fn opened(&self, handle: u64, node: u64) -> Result<InodeHandle, Errno> {
        match self.open_files.get(handle) {
            Some(file) => Ok(file),
            None => self.open_node(node),
        }
    }

    fn initialize(&self, request: &InitRequest, reply: &mut ReplyBuffer<'_>) -> Answered {
        let has_rings = self.has_rings.load(Ordering::Acquire);
        match self.settings.init_reply(request, has_rings).answer(request) {
            InitAnswer::Accepted { reply: bytes, negotiated } => {
                let _ = self.negotiated.set(negotiated);
                put(reply, &bytes)
            }
            InitAnswer::OtherMajor { reply: bytes } => put(reply, &bytes),
            InitAnswer::TooOld => Err(Errno::PROTO),
        }
    }

    fn dispatch(&self, request: &Request<'_>, reply: &mut ReplyBuffer<'_>) -> Answered {
        use Operation as O;
        let node = request.node_id;
        if self.access.is_for_reading() && read_only::is_change(&request.operation) {
            return Err(Errno::ROFS);
        }
        self.lazy_times.write_before(&self.file_system, &self.nodes, node, &request.operation);
        match &request.operation {
            O::Initialize(init) => self.initialize(init, reply),
            O::Lookup(name) => self.lookup(request, name, reply),
            O::GetAttributes(handle) => self.get_attributes(node, *handle, reply),
            O::SetAttributes(changes) => self.set_attributes(node, changes, request.caller, reply),
            O::Statx(statx) => self.statx(node, statx, reply),
            O::StatFileSystem => self.stat_file_system(reply),
            O::ReadLink => self.read_link(node, reply),
            O::SymbolicLink(link) => self.make_symbolic_link(request, link, reply),
            O::MakeNode(make) => self.make_node(request, make, reply),
            O::MakeDirectory(make) => self.make_directory(request, make, reply),
            O::Create(create) => self.create(request, create, reply),
            O::TemporaryFile(create) => self.create_temporary(request, create, reply),
            O::Link(link) => self.link(node, link, reply),
            O::Unlink(name) => self.unlink(node, name),
            O::RemoveDirectory(name) => self.remove_directory(node, name),
            O::Rename(rename) | O::Rename2(rename) => self.rename(request, rename),
            O::Open(open) => self.open(node, open, reply),
            O::OpenDirectory(_) => self.open_directory(node, reply),
            O::Read(read) => self.read(node, read, reply),
            O::Write(write) => self.write(node, write, reply),
            O::Release(release) | O::ReleaseDirectory(release) => self.release(release),
            O::Fsync(fsync) | O::FsyncDirectory(fsync) => self.fsync(node, fsync),
            O::SyncFileSystem => self.file_system.force().map_err(number),
            O::Fallocate(fallocate) => self.fallocate(node, fallocate),
            O::Seek(seek) => self.seek(node, seek, reply),
            O::CopyFileRange(copy) => self.copy_file_range(node, copy, false, reply),
            O::CopyFileRange64(copy) => self.copy_file_range(node, copy, true, reply),
            O::ReadDirectory(read) => self.read_directory(node, read, reply),
            O::ReadDirectoryPlus(read) => self.read_directory_plus(request, read, reply),
            O::SetExtendedAttribute(set) => self.set_extended_attribute(node, set),
            O::GetExtendedAttribute(get) => self.get_extended_attribute(node, get, reply),
            O::ListExtendedAttributes(room) => self.list_extended_attributes(request, *room, reply),
            O::RemoveExtendedAttribute(name) => self.remove_extended_attribute(node, name),
            O::Ioctl(ioctl) => self.ioctl(request, ioctl, reply),
            O::Destroy => {
                self.is_destroyed.store(true, Ordering::Release);
                self.file_system.force().map_err(number)
            }
            // The kernel keeps locks and checks access itself, closing writes nothing that has not been written, files are always ready,
            // and requests are short.
            O::GetLock(_)
            | O::SetLock(_)
            | O::SetLockWait(_)
            | O::Access(_)
            | O::Flush(_)
            | O::Poll(_)
            | O::BlockMap(_)
            | O::Interrupt(_)
            | O::Unknown(..) => Err(Errno::NOSYS),
            O::Forget(_) | O::BatchForget(_) | O::NotifyReply(_) => Ok(()),
        }
    }

    fn forget(&self, node: u64, lookups: u64) {
        self.lazy_times.write(&self.file_system, self.nodes.inode_of(node));
        if self.nodes.forget(node, lookups) {
            // What cannot be freed now stays in the list of unlinked inodes.
            drop(self.file_system.inactivate_pending());
        }
    }
}

impl Served for Server {
    fn settings(&self) -> &Settings {
        &self.settings
    }

    fn negotiated(&self) -> Option<Negotiated> {
        self.negotiated.get().copied()
    }

    fn offer_rings(&self) {
        self.has_rings.store(true, Ordering::Release);
    }

    fn notifier(&self) -> &Notifier {
        &self.notifier
    }

    fn failed(&self) {
        self.trouble.fail();
    }
}

impl Service for Server {
    fn answer(&self, request: &[u8], reply: &mut ReplyBuffer<'_>) -> Answer {
        // A request without an answer would let its caller wait for ever, and a thread that is gone the whole mount.
        let answered = catch_unwind(AssertUnwindSafe(|| answer(self, request, reply)));
        answered
            .unwrap_or_else(|panic| self.trouble.tell_of_panic(&self.file_system, request, panic.as_ref()))
    }

    fn effort(&self, request: &[u8]) -> Effort {
        effort::of(request)
    }

    fn answered(&self, request: &[u8], outcome: &Outcome) {
        if let Ok((header, _)) = InHeader::read_from_prefix(request) {
            let is_error = matches!(outcome.answer, Answer::Error(_));
            self.statistics.count(Opcode::from_number(header.opcode), outcome.way, outcome.elapsed, is_error);
            if self.trouble.log.tells(Level::Debug) {
                request_log::tell(self, request, outcome);
            }
        }
        // A host without room looks as an image without room.
        if let Answer::Error(error @ (Errno::UCLEAN | Errno::IO | Errno::NOSPC)) = outcome.answer {
            self.trouble.tell(&self.file_system, request, error);
        }
    }

    fn not_taken(&self, reply: &[u8], request: &[u8]) {
        let Ok((header, _)) = InHeader::read_from_prefix(request) else { return };
        let opcode = Opcode::from_number(header.opcode);
        if opcode == Opcode::ReadDirectoryPlus {
            nodes_of(reply).for_each(|node| self.forget(node, 1));
        } else if names_an_entry(opcode)
            && let Ok((entry, _)) = EntryOut::read_from_prefix(reply)
            && entry.node_id != 0
        {
            self.forget(entry.node_id, 1);
        }
    }
}

fn answer(server: &Server, request: &[u8], reply: &mut ReplyBuffer<'_>) -> Answer {
    let negotiated = server.negotiated().unwrap_or_default();
    let request = match Request::parse(request, negotiated) {
        Ok(request) => request,
        Err(error) if error.unanswered().is_some() => return Answer::Error(Errno::INVAL),
        Err(_) => return Answer::Nothing,
    };
    match &request.operation {
        Operation::Forget(lookups) => {
            server.forget(request.node_id, *lookups);
            return Answer::Nothing;
        }
        Operation::BatchForget(list) => {
            list.into_iter().for_each(|forgotten| server.forget(forgotten.node_id, forgotten.lookups));
            return Answer::Nothing;
        }
        Operation::NotifyReply(_) => return Answer::Nothing,
        _ => {}
    }
    let answered = server.dispatch(&request, reply);
    let changes_names = listings::changes_names(&request);
    for node in told::uncounted_nodes(&request).into_iter().flatten() {
        let has_changed = server.told.has_changed(node);
        if changes_names && server.nodes.was_listed(node) {
            server.notifier.forget_listing(node);
        } else if has_changed {
            server.notifier.forget_attributes(node);
        }
    }
    match answered {
        Ok(()) => Answer::Reply,
        Err(error) => Answer::Error(error),
    }
}

/// Whether the reply begins with an entry, which the kernel counts.
fn names_an_entry(opcode: Opcode) -> bool {
    use Opcode as O;
    matches!(
        opcode,
        O::Lookup | O::Create | O::MakeNode | O::MakeDirectory | O::SymbolicLink | O::Link | O::TemporaryFile
    )
}

/// The number of an error.
pub(crate) fn number(error: Error) -> Errno {
    let number = Errno::from_raw_os_error(error.errno());
    trouble::note(&error, number);
    number
}

/// Adds a structure to a reply.
///
/// # Errors
/// It has no room for it.
pub fn put<T: IntoBytes + Immutable>(reply: &mut ReplyBuffer<'_>, structure: &T) -> Answered {
    reply.push(structure.as_bytes())
}
