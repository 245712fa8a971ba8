//! One thread: its directory, its names in the shared directory, its model, and what it does.

use std::{
    collections::{BTreeMap, BTreeSet},
    ffi::OsStr,
    os::{fd::OwnedFd, unix::ffi::OsStrExt},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use anyhow::{Context, Result, anyhow, bail, ensure};
use rustix::{
    fs::{self, AtFlags, Dir, Mode, OFlags, XattrFlags},
    io::Errno,
};
use uxfs_volume::inode::FileType;

use super::{
    action::{Action, Call, Way, loses_capability},
    generator::Generator,
    hands::{Hands, read_at, through},
    history::{History, unlike},
    times::{Modified, now_of_files},
    walk::{Observed, Part, facts_of_shared, observe},
};
use crate::crash::{
    contents::{Contents, describe},
    failures::made_by,
    judge::differing,
    model::{Facts, Model, Outcome},
    workload::{NodeId, Operation, ROOT},
};
use uxfs_testkit::seeds::Random;

/// Numbers of files in what a thread writes; the next thread's begin behind them.
pub const FILES_OF_MEMBER: u32 = 8192;

/// How the work of a thread ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// All is done.
    Finished,
    /// The mount is dead.
    Dead,
}

/// A thread.
#[derive(Debug)]
pub struct Member {
    index: u32,
    prefix: Vec<u8>,
    shared: NodeId,
    /// The number of the root of the file system.
    above: u64,
    hands: Option<Hands>,
    generator: Generator,
    history: History,
    modified: Modified,
    /// Actions so far.
    number: usize,
    /// What the last action, during which the mount died, would have done.
    begun: Vec<Operation>,
    umask: u16,
    /// Names are durable when a call returns; contents, too.
    is_durable: (bool, bool),
}

impl Member {
    /// Makes the directory of a thread in a fresh file system. The shared one is there.
    ///
    /// # Errors
    /// The kernel's.
    pub fn new(mount: &OwnedFd, index: u32, seed: u64, umask: u16) -> Result<Self> {
        let (name, prefix) = (directory_name(index), format!("t{index}.").into_bytes());
        fs::mkdirat(mount, &*name, Mode::from_raw_mode(0o755))?;
        let facts = |name: &str| fs::statat(mount, name, AtFlags::empty());
        let (above, top, shared) = (facts(".")?, facts(&name)?, facts(SHARED)?);
        let root = Facts::new(top.st_ino, FileType::Directory, (top.st_mode & 0o7777) as u16, (0, 0));
        let mut model = Model::within(root, above.st_ino).with_files_from(index * FILES_OF_MEMBER);
        let shared = model.add_beside(facts_of_shared(shared.st_ino));
        let mut member = Self {
            index,
            shared,
            above: above.st_ino,
            hands: None,
            generator: Generator::new(Random::new(seed).next_u64() ^ u64::from(index), shared, &prefix),
            prefix,
            history: History::new(model),
            modified: Modified::default(),
            number: 0,
            begun: Vec::new(),
            umask,
            is_durable: (false, false),
        };
        member.take(mount)?;
        Ok(member)
    }

    /// What options of the mount make durable.
    pub fn mount_promises(&mut self, options: &str) {
        let has = |word: &str| options.split(',').any(|option| option == word);
        self.is_durable = (has("sync") || has("dirsync"), has("sync"));
        self.modified = Modified::new(!has("sync") && !has("no_writeback_cache"));
    }

    /// Takes hold of its directories in a fresh mount.
    ///
    /// # Errors
    /// The kernel's.
    pub fn take(&mut self, mount: &OwnedFd) -> Result<()> {
        let [top, shared] = open_directories(mount, self.index)?;
        self.hands = Some(Hands::new(top, (shared, self.shared)));
        Ok(())
    }

    /// Closes everything, so that the mount can go.
    pub fn release(&mut self) {
        self.hands = None;
        self.generator.forget();
        self.history.close_all();
    }

    /// Forgets how the present state came to be.
    pub fn start_anew(&mut self) {
        self.history = History::new(self.history.last().clone());
    }

    /// What was done to a file.
    pub fn history_of(&self, inode: u64) -> Option<String> {
        let (id, _) = self.history.last().nodes().find(|(_, node)| node.inode() == inode)?;
        Some(format!("thread {}, file {id}:\n    {}", self.index, self.history.of_file(id)))
    }

    /// The mount is dead: what was open is gone.
    pub fn lose(&mut self) {
        self.hands = None;
    }

    /// How many files it ever had.
    pub fn made(&self) -> usize {
        self.history.last().made()
    }

    /// How many actions it has done.
    pub fn actions(&self) -> usize {
        self.number
    }

    /// Does so many actions, or until the mount dies, which it may once `may_die` is set.
    ///
    /// # Errors
    /// A call failed that should not, or showed what is not so.
    pub fn work(&mut self, actions: usize, may_die: &AtomicBool) -> Result<End> {
        for _ in 0..actions {
            let action = self.generator.next(self.history.last());
            let done = self.step(&action);
            let Err(error) = done else { continue };
            let errno = error.downcast_ref::<Errno>().copied();
            if may_die.load(Ordering::SeqCst) && errno.is_some_and(tells_death) {
                self.begun = action.effects(self.history.last(), self.umask);
                return Ok(End::Dead);
            }
            let file = files_of(&action.call).first().map(|file| self.history.of_file(*file));
            let mut shown = format!("{action:?}");
            shown.truncate(400);
            return Err(error).with_context(|| {
                format!(
                    "thread {}, action {}: {shown}\n  the file before it:\n    {}",
                    self.index,
                    self.number,
                    file.unwrap_or_default()
                )
            });
        }
        Ok(End::Finished)
    }

    fn step(&mut self, action: &Action) -> Result<()> {
        let hands = self.hands.as_mut().context("no mount")?;
        let model = self.history.last();
        let number = self.number;
        let begun = now_of_files();
        let outcome = hands.perform(action, model, number)?;
        self.modified.note(&action.call, model, begun);
        self.number += 1;
        match &action.call {
            Call::Read { node, offset, length } => return self.read(*node, *offset, *length),
            Call::List { node } => return self.list(*node),
            Call::Look { node } => return self.look(*node),
            Call::Refused { parent, name } => return self.is_refused(*parent, name),
            Call::Sync { node, only_data } => self.history.synced(*node, *only_data),
            _ => {}
        }
        let sets_size = match action.call {
            Call::Truncate { .. } | Call::Reshape { .. } | Call::Copy { .. } => true,
            Call::Write { way, .. } => way == Way::Direct,
            _ => false,
        };
        if let Call::Write { way, .. } = action.call {
            self.history.note(&format!("{way:?}{}", if action.is_by_user { " by the user" } else { "" }));
        }
        let effects = action.effects(self.history.last(), self.umask);
        for operation in effects {
            self.history.push(number, operation, outcome, sets_size);
        }
        match action.call {
            Call::Write { node, offset, length, way }
                if way == Way::Synchronous || self.is_durable.1 && way != Way::Mapped =>
            {
                self.history.synced_bytes(node, offset..offset + length);
            }
            Call::Create { .. } | Call::Link { .. } | Call::Remove { .. } | Call::Rename { .. }
                if self.is_durable.0 =>
            {
                self.history.all_is_durable();
            }
            _ => {}
        }
        Ok(())
    }

    fn hands(&self) -> Result<&Hands> {
        self.hands.as_ref().context("no mount")
    }

    fn read(&self, node: NodeId, offset: u64, length: u64) -> Result<()> {
        let model = self.history.last();
        let file = self.hands()?.opened(model, node, OFlags::empty())?;
        let found = read_at(&file, offset, usize::try_from(length)?)?;
        let expected = model.node(node).context("no such file")?;
        let end = expected.size.min(offset + length).max(offset);
        let mut bytes = vec![0; usize::try_from(end - offset)?];
        expected.contents.read(offset, &mut bytes);
        ensure!(found.len() == bytes.len(), "{} bytes are read, not {}", found.len(), bytes.len());
        match found.iter().zip(&bytes).position(|(found, expected)| found != expected) {
            None => Ok(()),
            Some(at) => bail!(
                "byte {} of {} holds {}, not {}",
                offset + at as u64,
                expected.size,
                describe(&found, at),
                describe(&bytes, at)
            ),
        }
    }

    fn list(&self, node: NodeId) -> Result<()> {
        let model = self.history.last();
        let directory = self.hands()?.directory(model, node)?;
        let found = self.entries(&directory, node)?;
        let children = &model.node(node).context("no such directory")?.children;
        let inode = |id: NodeId| model.node(id).map_or(0, |child| child.inode());
        let expected: BTreeMap<_, _> = children.iter().map(|(name, id)| (name.clone(), inode(*id))).collect();
        if found == expected {
            return Ok(());
        }
        // Tells a stale cached listing from a wrong reply of the server.
        let again = self.entries(&directory, node)?;
        let names = found.keys().chain(expected.keys()).collect::<BTreeSet<_>>().into_iter();
        let wrong = names.filter(|name| found.get(*name) != expected.get(*name)).take(4);
        let described = wrong.map(|name| {
            let status = fs::statat(&directory, OsStr::from_bytes(name), AtFlags::SYMLINK_NOFOLLOW);
            format!(
                "{} as {:?}, not {:?}; listed again: {:?}; stat: {:?}",
                name.escape_ascii(),
                found.get(name),
                expected.get(name),
                again.get(name),
                status.map(|status| status.st_ino)
            )
        });
        bail!("a directory lists {}", described.collect::<Vec<_>>().join("\n    "))
    }

    /// What a directory lists of this thread: names, and inode numbers.
    fn entries(&self, directory: &OwnedFd, node: NodeId) -> Result<BTreeMap<Vec<u8>, u64>> {
        let mut found = BTreeMap::new();
        for entry in Dir::read_from(super::walk::reopen(directory)?)? {
            let entry = entry?;
            let name = entry.file_name().to_bytes();
            let is_own = node != self.shared || name.starts_with(&self.prefix);
            if is_own && name != b"." && name != b".." {
                let before = found.insert(name.to_vec(), entry.ino());
                ensure!(before.is_none(), "a directory lists {} twice", name.escape_ascii());
            }
        }
        Ok(found)
    }

    fn look(&self, node: NodeId) -> Result<()> {
        let model = self.history.last();
        let (parent, name) = self.hands()?.place(model, node)?;
        let found = fs::statat(&parent, &name, AtFlags::SYMLINK_NOFOLLOW)?;
        let expected = model.facts(model.node(node).context("no such file")?);
        let shown = (
            found.st_ino,
            (found.st_mode & 0o7777) as u16,
            (found.st_uid, found.st_gid),
            found.st_nlink as u32,
        );
        let right = (expected.inode, expected.mode, expected.owner, expected.links);
        ensure!(shown == right, "inode, mode, owner, links: {shown:?}, not {right:?}");
        if expected.kind == FileType::Regular {
            let size = model.node(node).map_or(0, |file| file.size);
            ensure!(found.st_size as u64 == size, "{} bytes, not {size}", found.st_size);
        }
        let path = std::path::PathBuf::from(through(&parent)).join(&name);
        for (name, value) in expected.attributes.iter().take(3) {
            let mut bytes = vec![0; value.0.len() + 1];
            let length = fs::lgetxattr(&path, OsStr::from_bytes(&name.0), &mut *bytes)?;
            ensure!(bytes.get(..length) == Some(&value.0), "attribute {name} has another value");
        }
        Ok(())
    }

    /// Calls that must fail, and do so without any effect.
    fn is_refused(&self, parent: NodeId, name: &[u8]) -> Result<()> {
        let model = self.history.last();
        let directory = self.hands()?.directory(model, parent)?;
        let there = OsStr::from_bytes(name);
        let missing = OsStr::from_bytes(b"missing");
        let child = model.node(parent).and_then(|found| found.children.get(name));
        let child = child.and_then(|child| model.node(*child)).context("no such name")?;
        let mode = Mode::from_raw_mode(0o644);
        let refused = |done: Result<(), Errno>, expected: Errno| match done {
            Err(error) if error == expected => Ok(()),
            Err(error) if tells_death(error) => Err(error.into()),
            other => Err(anyhow!("{other:?}, not {expected:?}, for {}", name.escape_ascii())),
        };
        refused(fs::mkdirat(&directory, there, mode), Errno::EXIST)?;
        refused(fs::symlinkat("target", &directory, there), Errno::EXIST)?;
        refused(fs::unlinkat(&directory, missing, AtFlags::empty()), Errno::NOENT)?;
        let flags = fs::RenameFlags::NOREPLACE;
        refused(fs::renameat_with(&directory, there, &directory, there, flags), Errno::EXIST)?;
        let path = std::path::PathBuf::from(through(&directory)).join(there);
        refused(fs::lremovexattr(&path, "trusted.missing"), Errno::NODATA)?;
        refused(fs::lsetxattr(&path, "trusted.missing", b"", XattrFlags::REPLACE), Errno::NODATA)?;
        if child.kind() == FileType::Directory && !child.children.is_empty() {
            refused(fs::unlinkat(&directory, there, AtFlags::REMOVEDIR), Errno::NOTEMPTY)?;
        }
        Ok(())
    }

    /// What it has, as a mount shows it.
    ///
    /// # Errors
    /// The kernel's.
    pub fn observe(&self, mount: &OwnedFd) -> Result<Observed> {
        let [top, shared] = open_directories(mount, self.index)?;
        let part = Part { directory: &shared, prefix: &self.prefix, above: self.history.last().root_inode() };
        observe(&top, self.above, part).with_context(|| format!("thread {}", self.index))
    }

    /// Whether that is what the model has.
    ///
    /// # Errors
    /// It is not.
    pub fn compare(&self, observed: &Observed) -> Result<()> {
        let (model, tree) = (self.history.last(), &observed.tree);
        let mut lines = differing(model, tree);
        for (node, size) in unlike(model, tree) {
            lines.push(self.describe_contents(node, size, observed));
        }
        for (id, node) in model.nodes().filter(|(id, node)| *id != self.shared && node.is_visible()) {
            let found = tree.files.get(&node.inode());
            if found.is_some_and(|found| found.facts != model.facts(node)) {
                lines.push(format!("file {id}:\n    {}", self.history.of_file(id)));
            }
            let times = observed.times.get(&node.inode());
            let complaint = times.and_then(|found| self.modified.complaint(id, found));
            lines.extend(complaint.map(|words| format!("{words}\n    {}", self.history.of_file(id))));
        }
        if lines.is_empty() && model.digest() == tree.digest {
            return Ok(());
        }
        let count = lines.len();
        lines.truncate(6);
        bail!("thread {}: {count} differences\n  {}", self.index, lines.join("\n  "))
    }

    fn describe_contents(&self, node: NodeId, size: u64, observed: &Observed) -> String {
        let model = self.history.last();
        let Some(file) = model.node(node) else { return String::new() };
        let found = observed.tree.files.get(&file.inode()).map_or(&[][..], |found| &found.contents);
        let mut expected = vec![0; file.size as usize];
        file.contents.read(0, &mut expected);
        let at = found.iter().zip(&expected).position(|(a, b)| a != b);
        let what = at.map_or(String::new(), |at| {
            format!(": byte {at} holds {}, not {}", describe(found, at), describe(&expected, at))
        });
        format!(
            "file {node} (inode {}) has {size} bytes of {}{what}\n    {}",
            file.inode(),
            file.size,
            self.history.of_file(node)
        )
    }

    /// Makes all that it has durable: what a crash must leave of it.
    ///
    /// # Errors
    /// The kernel's.
    pub fn settle(&mut self) -> Result<()> {
        let model = self.history.last().clone();
        let hands = self.hands.as_ref().context("no mount")?;
        for (id, node) in model.nodes() {
            if node.kind() == FileType::Regular && (node.is_visible() || node.is_open) {
                fs::fsync(hands.opened(&model, id, OFlags::empty())?)?;
            }
        }
        // The last change of all: what was before it is in the log before it.
        let mode = model.node(ROOT).map_or(0o755, |root| root.mode());
        let top = super::walk::reopen(&hands.top)?;
        fs::fchmod(&top, Mode::from_raw_mode(mode.into()))?;
        fs::fsync(&top)?;
        self.history = History::new(model);
        Ok(())
    }

    /// After a crash: which state was found. The model goes on from it.
    ///
    /// # Errors
    /// A state that cannot be.
    pub fn judge(&mut self, observed: &Observed) -> Result<usize> {
        let tree = &observed.tree;
        for operation in std::mem::take(&mut self.begun) {
            let inode = made_by(&operation, self.history.last(), tree);
            self.history.push(self.number, operation, Outcome { inode, written: None }, false);
        }
        self.number += 1;
        let done = self.history.judge(tree);
        let done = done.map_err(|difference| anyhow!("thread {}: {difference}", self.index))?;
        let lost = self.history.done() - done;
        let mut model = self.history.model(done).clone();
        model.close_all();
        self.history = History::new(model);
        self.modified.forget();
        self.generator.forget();
        Ok(lost)
    }

    /// After a crash: files that hold something that no state has are emptied.
    ///
    /// # Errors
    /// The kernel's.
    pub fn mend(&mut self, observed: &Observed) -> Result<()> {
        let mut model = self.history.last().clone();
        let hands = self.hands.as_ref().context("no mount")?;
        for node in unlike(&model, &observed.tree).into_keys() {
            fs::ftruncate(hands.opened(&model, node, OFlags::empty())?, 0)?;
            model.set_contents(node, 0, Arc::new(Contents::default()));
            if let Some(lost) = loses_capability(&model, node) {
                model.apply(self.number, &lost, Outcome::default());
            }
        }
        self.history = History::new(model);
        Ok(())
    }
}

/// The shared directory.
pub const SHARED: &str = "shared";

fn directory_name(index: u32) -> String {
    format!("thread-{index}")
}

fn open_directories(mount: &OwnedFd, index: u32) -> Result<[OwnedFd; 2]> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let open = |name: &str| fs::openat(mount, name, flags, Mode::empty());
    Ok([open(&directory_name(index))?, open(SHARED)?])
}

/// What a call on a mount whose server has gone may fail with. With rings the kernel copies a request in the name of the server: where that is
/// being killed, the request fails with EINTR or ECANCELED.
fn tells_death(error: Errno) -> bool {
    [Errno::NOTCONN, Errno::CONNABORTED, Errno::CANCELED, Errno::INTR, Errno::IO].contains(&error)
}

fn files_of(call: &Call) -> Vec<NodeId> {
    match call {
        Call::Link { node, .. }
        | Call::Chmod { node, .. }
        | Call::Chown { node, .. }
        | Call::SetXattr { node, .. }
        | Call::RemoveXattr { node, .. }
        | Call::Write { node, .. }
        | Call::Truncate { node, .. }
        | Call::Reshape { node, .. }
        | Call::SetTimes { node, .. }
        | Call::Sync { node, .. }
        | Call::Read { node, .. }
        | Call::Look { node } => vec![*node],
        Call::Copy { source, target, .. } => vec![*target, *source],
        _ => Vec::new(),
    }
}
