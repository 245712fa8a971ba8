//! Descriptions laid over another source.

use std::{collections::BTreeSet, io::Read, path::Path};

use uxfs_block::cache::pressure::default_budget_bytes;

use super::{
    DescribedKind, Description, Reader,
    described::{ALL_ATTRIBUTES, Described, OPTIONAL, USED},
};
use crate::{
    entry::{Kind, Metadata},
    error::{Shown, SourceError, TextFault},
    host_names::HostNames,
};

/// Owners, modes, times and attributes by path.
#[derive(Debug)]
pub struct Overlay {
    described: Described,
}

/// Paths that are described, not as optional, and were never met with that kind of file.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Unmatched {
    /// The first ones in byte order.
    pub first: Vec<Box<[u8]>>,
    /// How many there are.
    pub count: u64,
}

/// Effect of an overlay on a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Applied {
    /// It does not describe the file.
    Nothing,
    /// The file has now what it says.
    Changed,
    /// It describes a file of another kind there; nothing was changed.
    OtherKind(DescribedKind),
}

impl Overlay {
    /// Reads a manifest. Of its descriptions about `memory_bytes` are kept in memory, the rest in temporary files. `names` are
    /// the users and groups that it may name.
    ///
    /// # Errors
    /// It cannot be read, or a line means nothing; temporary files.
    pub fn open(path: &Path, names: &HostNames, memory_bytes: u64) -> Result<Self, SourceError> {
        Self::read(Reader::open(path, names.clone())?, memory_bytes)
    }

    /// Reads a manifest from a stream, with as much memory as the cache of an image takes by default.
    ///
    /// # Errors
    /// As for [`open`](Self::open).
    pub fn from_stream(name: &str, stream: impl Read + Send + 'static) -> Result<Self, SourceError> {
        let reader = Reader::new(Shown::from(name.as_bytes()), Box::new(stream));
        Self::read(reader, default_budget_bytes())
    }

    fn read(mut reader: Reader, memory_bytes: u64) -> Result<Self, SourceError> {
        let memory_bytes = usize::try_from(memory_bytes).unwrap_or(usize::MAX);
        let mut described = Described::new(memory_bytes);
        while let Some(description) = reader.next()? {
            // The target's own line describes the file.
            if description.kind == Some(DescribedKind::HardLink) {
                continue;
            }
            let known = described.find(&description.path)?;
            // Several full entries may describe one file, each a part of it.
            if let Ok(known) = &known {
                let (kind, other) = (known.kind(), description.kind);
                if known.has(ALL_ATTRIBUTES) || (kind.is_some() && other.is_some() && kind != other) {
                    return Err(reader.error(TextFault::Twice(Shown(description.path))));
                }
            }
            described.add(known, &description)?;
        }
        Ok(Self { described })
    }

    /// Whether it describes nothing.
    pub fn is_empty(&self) -> bool {
        self.described.is_empty()
    }

    /// Gives a file what is described. `path` is clean: below the root, without slashes at its ends, empty for the root.
    ///
    /// # Errors
    /// Temporary files.
    pub fn apply(
        &mut self,
        path: &[u8],
        kind: &Kind,
        metadata: &mut Metadata,
    ) -> Result<Applied, SourceError> {
        let Ok(found) = self.described.find(path)? else { return Ok(Applied::Nothing) };
        if let Some(described) = found.kind().filter(|described| !described.is_kind(kind)) {
            return Ok(Applied::OtherKind(described));
        }
        self.described.mark_used(found)?;
        self.described.description(found)?.change(metadata);
        Ok(Applied::Changed)
    }

    /// The paths that are described, not as optional, and were never met: misspelt ones, most likely. The first `most` of
    /// them come back, and the number of all.
    ///
    /// # Errors
    /// Temporary files.
    pub fn unmatched(&mut self, most: usize) -> Result<Unmatched, SourceError> {
        let (mut first, mut count): (BTreeSet<Box<[u8]>>, u64) = (BTreeSet::new(), 0);
        self.described.visit(|path, found| {
            if found.has(USED) || found.has(OPTIONAL) {
                return;
            }
            count += 1;
            let is_among_first = first.len() < most || first.last().is_some_and(|last| path < &**last);
            if is_among_first {
                first.insert(path.into());
                if first.len() > most {
                    first.pop_last();
                }
            }
        })?;
        Ok(Unmatched { first: first.into_iter().collect(), count })
    }
}

impl Description {
    /// Gives a file what is described.
    fn change(&self, metadata: &mut Metadata) {
        metadata.user = self.user.unwrap_or(metadata.user);
        metadata.group = self.group.unwrap_or(metadata.group);
        metadata.times.modification = self.modification.unwrap_or(metadata.times.modification);
        if self.has_all_attributes {
            metadata.attributes.clone_from(&self.attributes);
        }
        if let Some(mode) = self.mode {
            metadata.change_mode(mode);
        }
        if !self.has_all_attributes {
            for attribute in &self.attributes {
                metadata.set_attribute(&attribute.name, &attribute.value);
            }
        }
        // Where the manifest has an ACL of its own, it says more than the mode.
        if self.attributes.iter().any(|attribute| &*attribute.name == crate::entry::ACL_ACCESS) {
            metadata.follow_acl();
        }
    }
}

impl DescribedKind {
    fn is_kind(self, kind: &Kind) -> bool {
        match kind {
            Kind::Directory(_) => self == Self::Directory,
            Kind::Regular { .. } => self == Self::Regular,
            Kind::Symlink { .. } => self == Self::Symlink,
            Kind::CharacterDevice(_) => self == Self::CharacterDevice,
            Kind::BlockDevice(_) => self == Self::BlockDevice,
            Kind::Fifo => self == Self::Fifo,
            Kind::Socket => self == Self::Socket,
            // Of whatever kind its file is.
            Kind::HardLink { .. } => true,
        }
    }
}
