//! Descriptions laid over another source.

use std::{collections::HashMap, io::Read, path::Path};

use super::{DescribedKind, Description, Reader};
use crate::{
    entry::{Kind, Metadata},
    error::{Shown, SourceError, TextFault},
};

/// Most that a manifest may describe: it is kept in memory.
const MAX_DESCRIPTIONS: usize = 32 << 20;

/// Owners, modes, times and attributes by path.
#[derive(Debug, Default)]
pub struct Overlay {
    described: HashMap<Box<[u8]>, Patch>,
}

#[derive(Debug)]
struct Patch {
    description: Description,
    is_used: bool,
}

/// What an overlay did to a file.
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
    /// Reads a manifest.
    ///
    /// # Errors
    /// It cannot be read, or a line means nothing.
    pub fn open(path: &Path) -> Result<Self, SourceError> {
        Self::read(Reader::open(path)?)
    }

    /// Reads a manifest from a stream.
    ///
    /// # Errors
    /// It cannot be read, or a line means nothing.
    pub fn from_stream(name: &str, stream: impl Read + Send + 'static) -> Result<Self, SourceError> {
        Self::read(Reader::new(Shown::from(name.as_bytes()), Box::new(stream)))
    }

    fn read(mut reader: Reader) -> Result<Self, SourceError> {
        let mut overlay = Self::default();
        while let Some(description) = reader.next()? {
            // The target's own line describes the file.
            if description.kind == Some(DescribedKind::HardLink) {
                continue;
            }
            if overlay.described.len() >= MAX_DESCRIPTIONS {
                return Err(reader.error(TextFault::TooMuch("descriptions")));
            }
            match overlay.described.get_mut(&description.path) {
                // Several full entries may describe one file, each a part of it.
                Some(known) => known.description.add(description).map_err(|fault| reader.error(fault))?,
                None => {
                    let path = description.path.clone();
                    overlay.described.insert(path, Patch { description, is_used: false });
                }
            }
        }
        Ok(overlay)
    }

    /// Whether it describes nothing.
    pub fn is_empty(&self) -> bool {
        self.described.is_empty()
    }

    /// Gives a file what is described. `path` is clean: below the root, without slashes at its ends, empty for the root.
    pub fn apply(&mut self, path: &[u8], kind: &Kind, metadata: &mut Metadata) -> Applied {
        let Some(patch) = self.described.get_mut(path) else { return Applied::Nothing };
        patch.is_used = true;
        let description = &patch.description;
        if let Some(described) = description.kind.filter(|described| !described.is_kind(kind)) {
            return Applied::OtherKind(described);
        }
        metadata.user = description.user.unwrap_or(metadata.user);
        metadata.group = description.group.unwrap_or(metadata.group);
        metadata.times.modification = description.modification.unwrap_or(metadata.times.modification);
        if description.has_all_attributes {
            metadata.attributes.clone_from(&description.attributes);
        }
        if let Some(mode) = description.mode {
            metadata.change_mode(mode);
        }
        if !description.has_all_attributes {
            for attribute in &description.attributes {
                metadata.set_attribute(&attribute.name, &attribute.value);
            }
        }
        // Where the manifest has an ACL of its own, it says more than the mode.
        if description.attributes.iter().any(|attribute| &*attribute.name == crate::entry::ACL_ACCESS) {
            metadata.follow_acl();
        }
        Applied::Changed
    }

    /// What is described, not as optional, and was never met: misspelt paths, most likely. In order.
    pub fn unmatched(&self) -> Vec<&[u8]> {
        let unmatched =
            self.described.iter().filter(|(_, patch)| !patch.is_used && !patch.description.is_optional);
        let mut paths: Vec<&[u8]> = unmatched.map(|(path, _)| &**path).collect();
        paths.sort_unstable();
        paths
    }
}

impl Description {
    /// Adds what another line says of the same path; where both say something, `/set` included, the later one holds.
    fn add(&mut self, other: Self) -> Result<(), TextFault> {
        let contradicts = self.has_all_attributes
            || (self.kind.is_some() && other.kind.is_some() && self.kind != other.kind);
        if contradicts {
            return Err(TextFault::Twice(Shown(other.path)));
        }
        self.kind = other.kind.or(self.kind);
        self.mode = other.mode.or(self.mode);
        self.user = other.user.or(self.user);
        self.group = other.group.or(self.group);
        self.modification = other.modification.or(self.modification);
        self.is_optional |= other.is_optional;
        for attribute in other.attributes {
            self.attributes.retain(|known| known.name != attribute.name);
            self.attributes.push(attribute);
        }
        self.attributes.sort();
        Ok(())
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
