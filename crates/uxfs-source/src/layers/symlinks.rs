//! Symbolic links on the way to a path, followed as on a system whose root the tree is.
//!
//! An archive may name `bin/hello` where `bin` is a symbolic link to `usr/bin`, made by it or by a layer below. GNU tar, umoci and
//! containerd then put the file at `usr/bin/hello`, and so is it here: before an item is learned, the directories of its path
//! are resolved, and those of a hard link's target. What a path itself is, is not followed.
//!
//! 1. A target that begins with a slash begins at the root of the tree, and `..` does not lead out of it. A directory that is
//!    not there is taken as if it were: it is made, as for any path.
//! 2. What counts is the tree before the item, by the rules of [`plan`](super::plan). Links alone are kept for that, with the cuts
//!    of the directories above them: in memory up to a bound, behind it in temporary files, so that nothing depends on how paths
//!    are kept.

use std::hash::{BuildHasher, RandomState};

use uxfs_block::spill::{
    SpillError,
    map::{Key, SpillMap, Value},
    records::Records,
};

use super::{paths::components, plan::Time};
use crate::{
    entry::Kind,
    error::{LayerFault, Shown, SourceError},
    path,
    stream::{MAX_PATH_BYTES, StreamItem},
};

/// Most links on one path, as in Linux.
const MAX_FOLLOWED: u32 = 40;

/// The symbolic links of the tree so far.
pub(super) struct Symlinks {
    /// Two keyed hashes make a key: neither chance nor an author of archives finds paths of one key.
    hashers: [RandomState; 2],
    /// The time and the record of each link, by path.
    links: SpillMap,
    targets: Records,
    cuts: Cuts,
    /// Where directories do not replace links to directories: what each path is.
    kinds: Option<SpillMap>,
    /// The directory that was resolved last.
    last: Option<Resolved>,
    scratch: Vec<u8>,
}

/// Cuts of paths that have links below, and those of whiteouts.
struct Cuts {
    /// The two times of [`plan`](super::plan), and [`ABOVE`].
    times: SpillMap,
}

/// The path has something below that matters; so have all above it.
const ABOVE: u64 = 1;

/// Values of [`Symlinks::kinds`].
const DIRECTORY: u64 = 1;
const OTHER: u64 = 0;

#[derive(Debug, Clone, Copy, Default)]
struct Cut {
    itself: Time,
    below: Time,
    is_above: bool,
}

impl Cuts {
    fn get(&self, key: Key) -> Result<Cut, SpillError> {
        let (times, flag) = self.times.get(key)?.unwrap_or_default();
        Ok(Cut { itself: (times >> 32) as Time, below: times as Time, is_above: flag == ABOVE })
    }

    fn set(&mut self, key: Key, cut: Cut) -> Result<(), SpillError> {
        let times = u64::from(cut.itself) << 32 | u64::from(cut.below);
        self.times.insert(key, (times, if cut.is_above { ABOVE } else { 0 }))
    }
}

struct Resolved {
    /// As an item has it.
    path: Box<[u8]>,
    /// Where it leads.
    place: Box<[u8]>,
}

/// A path that is being resolved.
struct Walk {
    path: Vec<u8>,
    /// For the root and each name of the path: what lies below is gone if it is older than that.
    cuts: Vec<Time>,
    followed: u32,
}

impl Symlinks {
    /// None yet. About `memory_bytes` are taken.
    pub(super) fn new(memory_bytes: usize, keeps_directory_symlinks: bool) -> Self {
        let share = memory_bytes / 4;
        Self {
            hashers: [RandomState::new(), RandomState::new()],
            links: SpillMap::new(share),
            targets: Records::new(share),
            cuts: Cuts { times: SpillMap::new(share) },
            kinds: keeps_directory_symlinks.then(|| SpillMap::new(share)),
            last: None,
            scratch: Vec::new(),
        }
    }

    /// Gives the item of this time the paths to which links lead, and learns of it; `began` is the time of its layer's first.
    /// `false`: it does nothing, because a link is kept in its place.
    ///
    /// # Errors
    /// Links in a circle; a path that becomes too long; temporary files.
    pub(super) fn resolve(
        &mut self,
        item: &mut StreamItem,
        time: Time,
        began: Time,
    ) -> Result<bool, SourceError> {
        if !self.links.is_empty() {
            match item {
                StreamItem::Entry(entry) => {
                    self.follow_directory(&mut entry.path)?;
                    if let Kind::HardLink { target } = &mut entry.kind {
                        self.follow_directory(target)?;
                    }
                }
                StreamItem::Whiteout(path) => self.follow_directory(path)?,
                StreamItem::Opaque(path) => *path = self.follow(path, path)?,
            }
        }
        if let StreamItem::Entry(entry) = &*item
            && matches!(entry.kind, Kind::Directory(_))
            && self.is_kept(&entry.path)?
        {
            return Ok(false);
        }
        self.learn(item, time, began)?;
        Ok(true)
    }

    fn key(&self, path: &[u8]) -> Key {
        let [first, second] = self.hashers.each_ref().map(|hasher| hasher.hash_one(path));
        (first, second)
    }

    /// Follows the links above a path.
    fn follow_directory(&mut self, path: &mut Box<[u8]>) -> Result<(), SourceError> {
        let (directory, name) = path::split(path);
        if directory.is_empty() {
            return Ok(());
        }
        let resolved = match &self.last {
            Some(Resolved { path, place }) if **path == *directory => place.clone(),
            _ => {
                let resolved = self.follow(directory, path)?;
                self.last = Some(Resolved { path: directory.into(), place: resolved.clone() });
                resolved
            }
        };
        if *resolved != *directory {
            let whole = path::join(&resolved, name);
            if whole.len() > MAX_PATH_BYTES {
                return Err(fault(path, LayerFault::TooLong));
            }
            *path = whole;
        }
        Ok(())
    }

    /// Follows all links in a directory's path; errors name `whole`.
    fn follow(&mut self, directory: &[u8], whole: &[u8]) -> Result<Box<[u8]>, SourceError> {
        let mut walk = Walk { path: Vec::new(), cuts: Vec::new(), followed: 0 };
        self.go_to_root(&mut walk)?;
        // Names still to come, the next one last.
        let mut names: Vec<Box<[u8]>> = components(directory).rev().map(Box::from).collect();
        while let Some(name) = names.pop() {
            match &*name {
                b"." => continue,
                b".." => {
                    walk.leave();
                    continue;
                }
                _ => {}
            }
            let Some(target) = self.enter(&mut walk, &name)? else {
                if walk.path.len() > MAX_PATH_BYTES {
                    return Err(fault(whole, LayerFault::TooLong));
                }
                continue;
            };
            walk.followed += 1;
            if walk.followed > MAX_FOLLOWED {
                return Err(fault(whole, LayerFault::TooManySymlinks));
            }
            walk.leave();
            if target.starts_with(b"/") {
                self.go_to_root(&mut walk)?;
            }
            names.extend(components(&target).rev().map(Box::from));
        }
        Ok(walk.path.into())
    }

    fn go_to_root(&self, walk: &mut Walk) -> Result<(), SpillError> {
        let cut = self.cuts.get(self.key(b""))?;
        walk.path.clear();
        walk.cuts.clear();
        walk.cuts.push(cut.itself.max(cut.below));
        Ok(())
    }

    /// Goes on to a name; gives the target if it is a link.
    fn enter(&mut self, walk: &mut Walk, name: &[u8]) -> Result<Option<Vec<u8>>, SpillError> {
        if !walk.path.is_empty() {
            walk.path.push(b'/');
        }
        walk.path.extend_from_slice(name);
        let key = self.key(&walk.path);
        let cut = self.cuts.get(key)?;
        let above = walk.cuts.last().copied().unwrap_or(0);
        walk.cuts.push(above.max(cut.itself).max(cut.below));
        match self.links.get(key)? {
            Some((time, place)) if time >= u64::from(above.max(cut.itself)) => {
                Ok(Some(self.targets.read(place, &mut self.scratch)?.to_vec()))
            }
            _ => Ok(None),
        }
    }

    /// The link at a path, as it is kept, and the time since which nothing there is gone.
    fn link_at(&self, path: &[u8]) -> Result<(Option<Value>, Time), SpillError> {
        let mut since = 0;
        let ends = path.iter().enumerate().filter(|(_, byte)| **byte == b'/').map(|(at, _)| at);
        for end in std::iter::once(0).chain(ends).filter(|_| !path.is_empty()) {
            let cut = self.cuts.get(self.key(path.get(..end).unwrap_or_default()))?;
            since = since.max(cut.itself).max(cut.below);
        }
        let key = self.key(path);
        since = since.max(self.cuts.get(key)?.itself);
        Ok((self.links.get(key)?.filter(|(time, _)| *time >= u64::from(since)), since))
    }

    /// Whether a link to a directory is kept in the place of a directory.
    fn is_kept(&mut self, path: &[u8]) -> Result<bool, SourceError> {
        if self.kinds.is_none() || self.links.is_empty() || self.link_at(path)?.0.is_none() {
            return Ok(false);
        }
        let Ok(target) = self.follow(path, path) else { return Ok(false) };
        if target.is_empty() {
            return Ok(true);
        }
        let key = self.key(&target);
        let (_, since) = self.link_at(&target)?;
        let kind = self.kinds.as_ref().map(|kinds| kinds.get(key)).transpose()?.flatten();
        Ok(match kind.filter(|(time, _)| *time >= u64::from(since)) {
            Some((_, kind)) => kind == DIRECTORY,
            // Something below it was named, but not it.
            None => self.cuts.get(key)?.is_above,
        })
    }

    fn learn(&mut self, item: &StreamItem, time: Time, began: Time) -> Result<(), SpillError> {
        let entry = match item {
            StreamItem::Entry(entry) => entry,
            // They speak of layers below, whose links are known.
            StreamItem::Whiteout(path) | StreamItem::Opaque(path) => {
                if !self.links.is_empty() || self.kinds.is_some() {
                    let key = self.key(path);
                    let mut cut = self.cuts.get(key)?;
                    let time = if matches!(item, StreamItem::Whiteout(_)) {
                        &mut cut.itself
                    } else {
                        &mut cut.below
                    };
                    *time = (*time).max(began);
                    self.cuts.set(key, cut)?;
                    self.last = None;
                }
                return Ok(());
            }
        };
        // A hard link may replace the directory that its target lies in.
        let place = match &entry.kind {
            Kind::Symlink { target } => Some(self.targets.append(target)?),
            Kind::HardLink { target } if !self.links.is_empty() => {
                self.link_at(target)?.0.map(|(_, place)| place)
            }
            _ => None,
        };
        let key = self.key(&entry.path);
        let is_directory = matches!(entry.kind, Kind::Directory(_));
        if !is_directory {
            let cut = self.cuts.get(key)?;
            if cut.is_above {
                self.cuts.set(key, Cut { itself: time, ..cut })?;
                self.last = None;
            }
        }
        if let Some(kinds) = &mut self.kinds {
            kinds.insert(key, (time.into(), if is_directory { DIRECTORY } else { OTHER }))?;
        }
        if place.is_some() || self.kinds.is_some() {
            self.mark_above(&entry.path)?;
        }
        match place {
            Some(place) => self.links.insert(key, (time.into(), place))?,
            None if self.links.is_empty() || self.links.remove(key)?.is_none() => return Ok(()),
            None => {}
        }
        self.last = None;
        Ok(())
    }

    /// Files in the place of these directories cut what lies below.
    fn mark_above(&mut self, path: &[u8]) -> Result<(), SpillError> {
        let mut directory = path;
        while !directory.is_empty() {
            directory = path::split(directory).0;
            let key = self.key(directory);
            let cut = self.cuts.get(key)?;
            if cut.is_above {
                break;
            }
            self.cuts.set(key, Cut { is_above: true, ..cut })?;
        }
        Ok(())
    }
}

impl Walk {
    /// Goes back to the directory above; from the root to itself.
    fn leave(&mut self) {
        let length = path::split(&self.path).0.len();
        self.path.truncate(length);
        if self.cuts.len() > 1 {
            self.cuts.pop();
        }
    }
}

fn fault(path: &[u8], fault: LayerFault) -> SourceError {
    SourceError::Layer { path: Shown::from(path), fault }
}
