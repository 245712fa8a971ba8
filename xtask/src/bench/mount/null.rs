//! A file system that stores nothing, on the transport of uxfs: the ceiling of what any server can reach there.
//!
//! It has names, types, sizes and modes in memory. Contents are dropped and read as zeros, attributes do not exist, nothing becomes durable.

use std::{
    collections::{BTreeMap, HashMap},
    path::PathBuf,
    sync::atomic::{AtomicBool, Ordering},
    sync::{Mutex, MutexGuard, OnceLock, PoisonError},
};

use anyhow::{Result, anyhow};
use rustix::io::Errno;
use uxfs_format::inode::FileType;
use uxfs_fuse::{
    mounting::{self, options::FuseMountOptions},
    protocol::{
        directory::{DirectoryBuffer, DirectoryEntry},
        flags::OpenReplyFlags,
        initialization::{InitAnswer, InitRequest, Negotiated},
        reply::{Attributes, AttributesReply, CreateReply, EntryReply, OpenReply, StatfsReply, StatxReply},
        request::{
            Operation, Request,
            operation::{Read, SetAttributes},
        },
        wire::files::WriteOut,
    },
    server::{VALID, effort, listings::Listings, notifier::Notifier, put, settings::Settings},
    session::{self, Served},
    transport::{Answer, Outcome, ReplyBuffer, Service, turns::Effort},
};

const ROOT: u64 = 1;
const DIRECTORY: u32 = 0o040_000;
const REGULAR: u32 = 0o100_000;
const FILE_TYPE: u32 = 0o170_000;
/// Sizes in the reply to statfs.
const MANY: u64 = 1 << 40;

type Replied = Result<(), Errno>;

/// Arguments of `cargo xtask bench null`.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// Directory to mount on
    directory: PathBuf,
    /// Options of the mount
    #[arg(short, default_value = "nouring")]
    options: String,
}

#[derive(Debug, Default)]
struct Node {
    mode: u32,
    size_bytes: u64,
    links: u32,
    names: HashMap<Vec<u8>, (u64, u64)>,
    order: BTreeMap<u64, Vec<u8>>,
    next_cookie: u64,
}

/// The server.
#[derive(Debug)]
struct Null {
    nodes: Mutex<Vec<Node>>,
    listings: Listings,
    settings: Settings,
    negotiated: OnceLock<Negotiated>,
    has_rings: AtomicBool,
    notifier: Notifier,
}

/// Serves until it is unmounted.
pub fn run(arguments: &Arguments) -> Result<()> {
    // As the server of uxfs. The scheduler treats threads of one session as a group, and serves callers in it otherwise than others.
    let _ = rustix::process::setsid();
    let options = FuseMountOptions::parse(&arguments.options).map_err(|error| anyhow!("{error}"))?;
    let root = Node { mode: DIRECTORY | 0o777, links: 2, next_cookie: 1, ..Node::default() };
    let null = Null {
        nodes: Mutex::new(vec![Node::default(), root]),
        listings: Listings::default(),
        settings: Settings::of(&options),
        negotiated: OnceLock::new(),
        has_rings: AtomicBool::new(false),
        notifier: Notifier::default(),
    };
    let prepared = session::prepare(&null.settings, None);
    let mut mounted = mounting::mount("null".as_ref(), &arguments.directory, &options)?;
    let devices = session::devices(&mut mounted, None)?;
    Ok(session::serve(&null, devices, prepared, || session::set_kernel_limits(&mounted))?)
}

impl Served for Null {
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

    fn failed(&self) {}
}

impl Service for Null {
    fn answer(&self, request: &[u8], reply: &mut ReplyBuffer<'_>) -> Answer {
        let Ok(request) = Request::parse(request, self.negotiated().unwrap_or_default()) else {
            return Answer::Error(Errno::INVAL);
        };
        match &request.operation {
            Operation::Forget(_) | Operation::BatchForget(_) | Operation::NotifyReply(_) => Answer::Nothing,
            _ => self.dispatch(&request, reply).map_or_else(Answer::Error, |()| Answer::Reply),
        }
    }

    fn effort(&self, request: &[u8]) -> Effort {
        effort::of(request)
    }

    fn answered(&self, _request: &[u8], _outcome: &Outcome) {}

    fn not_taken(&self, _reply: &[u8], _request: &[u8]) {}
}

impl Null {
    fn nodes(&self) -> MutexGuard<'_, Vec<Node>> {
        self.nodes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn dispatch(&self, request: &Request<'_>, reply: &mut ReplyBuffer<'_>) -> Replied {
        use Operation as O;
        let node = request.node_id;
        match &request.operation {
            O::Initialize(asked) => self.initialize(asked, reply),
            O::Lookup(name) => self.lookup(request, name, reply),
            O::GetAttributes(_) => {
                let attributes = attributes_of(&self.nodes(), node)?;
                put(reply, &AttributesReply { valid: VALID, attributes }.encode())
            }
            O::Statx(_) => {
                let attributes = attributes_of(&self.nodes(), node)?;
                put(reply, &StatxReply { valid: VALID, attributes, birth: attributes.change }.encode())
            }
            O::SetAttributes(asked) => self.set_attributes(node, asked, reply),
            O::MakeDirectory(make) => {
                let entry = self.make(node, make.name, DIRECTORY | make.mode & 0o7777 & !make.umask)?;
                put(reply, &entry.encode())
            }
            O::MakeNode(make) => put(reply, &self.make(node, make.name, make.mode & !make.umask)?.encode()),
            O::Create(create) => {
                let mode = REGULAR | create.mode & 0o7777 & !create.umask;
                let entry = self.make(node, create.name, mode)?;
                let open = OpenReply { handle: entry.node_id, flags: OpenReplyFlags::KEEP_CACHE };
                put(reply, &CreateReply { entry, open }.encode())
            }
            O::Unlink(name) | O::RemoveDirectory(name) => self.remove(node, name),
            O::Rename(rename) | O::Rename2(rename) => {
                self.rename((node, rename.name), (rename.new_parent, rename.new_name))
            }
            O::Open(_) => put(reply, &OpenReply { handle: node, flags: OpenReplyFlags::KEEP_CACHE }.encode()),
            // As a mount of uxfs: the kernel opens directories itself.
            O::OpenDirectory(_) => Err(Errno::NOSYS),
            O::ReadDirectory(read) => self.list(request, read, false, reply),
            O::ReadDirectoryPlus(read) => {
                let wants_attributes = self.listings.lists(request.caller.process_id);
                self.list(request, read, wants_attributes, reply)
            }
            O::Read(read) => self.read(node, read, reply),
            O::Write(write) => {
                let mut nodes = self.nodes();
                let written = node_of(&mut nodes, node)?;
                written.size_bytes = written.size_bytes.max(write.offset_bytes + write.data.len() as u64);
                put(reply, &WriteOut::new(write.data.len() as u32))
            }
            O::Release(_)
            | O::ReleaseDirectory(_)
            | O::Fsync(_)
            | O::FsyncDirectory(_)
            | O::SyncFileSystem => Ok(()),
            O::SetExtendedAttribute(_) | O::RemoveExtendedAttribute(_) | O::Destroy => Ok(()),
            O::GetExtendedAttribute(_) => Err(Errno::NODATA),
            O::StatFileSystem => put_statistics(reply),
            _ => Err(Errno::NOSYS),
        }
    }

    fn initialize(&self, asked: &InitRequest, reply: &mut ReplyBuffer<'_>) -> Replied {
        let has_rings = self.has_rings.load(Ordering::Acquire);
        match self.settings.init_reply(asked, has_rings).answer(asked) {
            InitAnswer::Accepted { reply: bytes, negotiated } => {
                let _ = self.negotiated.set(negotiated);
                put(reply, &bytes)
            }
            InitAnswer::OtherMajor { reply: bytes } => put(reply, &bytes),
            InitAnswer::TooOld => Err(Errno::PROTO),
        }
    }

    fn set_attributes(&self, node: u64, asked: &SetAttributes, reply: &mut ReplyBuffer<'_>) -> Replied {
        let mut nodes = self.nodes();
        let changed = node_of(&mut nodes, node)?;
        changed.size_bytes = asked.size_bytes.unwrap_or(changed.size_bytes);
        changed.mode = asked.mode.map_or(changed.mode, |mode| changed.mode & FILE_TYPE | mode & 0o7777);
        let attributes = attributes_of(&nodes, node)?;
        put(reply, &AttributesReply { valid: VALID, attributes }.encode())
    }

    fn lookup(&self, request: &Request<'_>, name: &[u8], reply: &mut ReplyBuffer<'_>) -> Replied {
        let nodes = self.nodes();
        let parent = nodes.get(request.node_id as usize).ok_or(Errno::STALE)?;
        let Some((_, node)) = parent.names.get(name) else {
            return put(reply, &EntryReply::missing(VALID).encode());
        };
        let entry = entry_of(&nodes, *node)?;
        if entry.attributes.mode & FILE_TYPE != DIRECTORY {
            self.listings.looks_at_a_file(request.caller.process_id);
        }
        put(reply, &entry.encode())
    }

    fn make(&self, parent: u64, name: &[u8], mode: u32) -> Result<EntryReply, Errno> {
        let mut nodes = self.nodes();
        let number = nodes.len() as u64;
        let directory = node_of(&mut nodes, parent)?;
        let cookie = directory.next_cookie;
        directory.next_cookie += 1;
        if directory.names.insert(name.to_vec(), (cookie, number)).is_some() {
            return Err(Errno::EXIST);
        }
        directory.order.insert(cookie, name.to_vec());
        let links = if mode & FILE_TYPE == DIRECTORY { 2 } else { 1 };
        nodes.push(Node { mode, links, next_cookie: 1, ..Node::default() });
        entry_of(&nodes, number)
    }

    fn remove(&self, parent: u64, name: &[u8]) -> Replied {
        let mut nodes = self.nodes();
        let number =
            nodes.get(parent as usize).and_then(|parent| parent.names.get(name)).map(|(_, node)| *node);
        let removed = node_of(&mut nodes, number.ok_or(Errno::NOENT)?)?;
        if !removed.names.is_empty() {
            return Err(Errno::NOTEMPTY);
        }
        removed.links = 0;
        let directory = node_of(&mut nodes, parent)?;
        if let Some((cookie, _)) = directory.names.remove(name) {
            directory.order.remove(&cookie);
        }
        Ok(())
    }

    fn rename(&self, (parent, name): (u64, &[u8]), (new_parent, new_name): (u64, &[u8])) -> Replied {
        let mut nodes = self.nodes();
        let directory = node_of(&mut nodes, parent)?;
        let (cookie, number) = directory.names.remove(name).ok_or(Errno::NOENT)?;
        directory.order.remove(&cookie);
        let directory = node_of(&mut nodes, new_parent)?;
        let cookie = directory.next_cookie;
        directory.next_cookie += 1;
        if let Some((replaced, _)) = directory.names.insert(new_name.to_vec(), (cookie, number)) {
            directory.order.remove(&replaced);
        }
        directory.order.insert(cookie, new_name.to_vec());
        Ok(())
    }

    fn read(&self, node: u64, read: &Read, reply: &mut ReplyBuffer<'_>) -> Replied {
        let left = self.nodes().get(node as usize).map_or(0, |node| node.size_bytes);
        let left = left.saturating_sub(read.offset_bytes).min(read.size_bytes.into());
        let room = reply.room(left as usize);
        room.fill(0);
        let count = room.len();
        reply.advance(count);
        Ok(())
    }

    fn list(
        &self,
        request: &Request<'_>,
        read: &Read,
        wants_attributes: bool,
        reply: &mut ReplyBuffer<'_>,
    ) -> Replied {
        let is_plus = matches!(request.operation, Operation::ReadDirectoryPlus(_));
        let nodes = self.nodes();
        let directory = nodes.get(request.node_id as usize).ok_or(Errno::STALE)?;
        let mut buffer = DirectoryBuffer::new(reply.room(read.size_bytes as usize));
        for (cookie, name) in directory.order.range(read.offset_bytes + 1..) {
            let Some((_, node)) = directory.names.get(name) else { continue };
            let mode = nodes.get(*node as usize).map_or(0, |node| node.mode);
            let record = DirectoryEntry {
                name,
                inode: *node,
                file_type: FileType::from_mode((mode & FILE_TYPE) as u16),
                next_offset: *cookie,
            };
            let entry = if wants_attributes { Some(entry_of(&nodes, *node)?) } else { None };
            let pushed = match is_plus {
                true => buffer.push_plus(&record, entry.as_ref()).map(drop),
                false => buffer.push(&record),
            };
            if pushed.is_err() {
                break;
            }
        }
        let used_bytes = buffer.used_bytes();
        reply.advance(used_bytes);
        Ok(())
    }
}

fn put_statistics(reply: &mut ReplyBuffer<'_>) -> Replied {
    let statistics = StatfsReply {
        block_size_bytes: 4096,
        blocks: MANY,
        free_blocks: MANY,
        available_blocks: MANY,
        files: MANY,
        free_files: MANY,
        name_bytes_max: 255,
    };
    put(reply, &statistics.encode())
}

fn node_of(nodes: &mut [Node], number: u64) -> Result<&mut Node, Errno> {
    nodes.get_mut(number as usize).ok_or(Errno::STALE)
}

fn attributes_of(nodes: &[Node], number: u64) -> Result<Attributes, Errno> {
    let node = nodes.get(number as usize).ok_or(Errno::STALE)?;
    Ok(Attributes {
        inode: number,
        size_bytes: node.size_bytes,
        sectors: node.size_bytes.div_ceil(512),
        mode: node.mode,
        link_count: node.links,
        block_size_bytes: 4096,
        ..Attributes::default()
    })
}

fn entry_of(nodes: &[Node], number: u64) -> Result<EntryReply, Errno> {
    Ok(EntryReply {
        node_id: number,
        generation: if number == ROOT { 0 } else { 1 },
        entry_valid: VALID,
        attributes_valid: VALID,
        attributes: attributes_of(nodes, number)?,
    })
}
