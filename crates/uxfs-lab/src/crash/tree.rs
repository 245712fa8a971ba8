//! The tree of a file system, read quickly: each file's facts and contents, and one digest.

use std::{collections::BTreeMap, ops::ControlFlow};

use anyhow::{Context, Result, ensure};
use uxfs_format::units::InodeNumber;
use uxfs_volume::volume::Volume;
use uxfs_volume::{
    attribute::xattr::XattrView,
    file_data::reader::FilePiece,
    inode::{FileType, Inode},
};

use super::model::Facts;
use uxfs_testkit::manifest::Bytes;

/// No workload makes larger files.
const MAX_FILE_BYTES: u64 = 64 << 20;

/// A file that was found.
#[derive(Debug)]
pub struct Found {
    /// All but contents.
    pub facts: Facts,
    /// Of a regular file.
    pub contents: Vec<u8>,
}

/// A whole file system.
#[derive(Debug)]
pub struct Tree {
    /// By number.
    pub files: BTreeMap<u64, Found>,
    /// Equal to that of a model that says the same, but for contents.
    pub digest: u64,
}

impl Tree {
    /// Reads everything that names lead to.
    ///
    /// # Errors
    /// The file system says so, or contradicts itself.
    pub fn read(file_system: &Volume) -> Result<Self> {
        Self::read_below(file_system, file_system.geometry().root_inode)
    }

    /// Reads everything that names in a directory lead to, as if that were the root.
    ///
    /// # Errors
    /// As [`read`](Self::read).
    pub fn read_below(file_system: &Volume, top: InodeNumber) -> Result<Self> {
        let mut tree = Self { files: BTreeMap::new(), digest: 0 };
        let mut waiting = vec![top];
        while let Some(number) = waiting.pop() {
            if tree.files.contains_key(&number.get()) {
                continue;
            }
            let mut found = read_file(file_system, number, &mut waiting)
                .with_context(|| format!("inode {}", number.get()))?;
            if number == top {
                found.facts.names.insert(Bytes(b"..".to_vec()), top.get());
            }
            tree.digest = tree.digest.wrapping_add(found.facts.digest());
            tree.files.insert(number.get(), found);
        }
        Ok(tree)
    }

    /// The subtree of each of these directories, themselves included.
    pub fn split(mut self, roots: impl Iterator<Item = u64>) -> Vec<Self> {
        let mut part_of = |root: u64| {
            let mut part = Self { files: BTreeMap::new(), digest: 0 };
            let mut waiting = vec![root];
            while let Some(number) = waiting.pop() {
                let Some(found) = self.files.remove(&number) else { continue };
                let names = found.facts.names.iter().filter(|(name, _)| name.0 != b"..");
                waiting.extend(names.map(|(_, inode)| *inode));
                part.digest = part.digest.wrapping_add(found.facts.digest());
                part.files.insert(number, found);
            }
            part
        };
        roots.map(&mut part_of).collect()
    }
}

/// The facts of one file, without names.
///
/// # Errors
/// The file system says so.
pub fn facts_of(file_system: &Volume, inode: &Inode) -> Result<Facts> {
    let mut attributes = BTreeMap::new();
    file_system.attributes(inode)?.visit_xattrs(XattrView::Root, |name, value| {
        // Access lists are seen twice, in two forms.
        if !name.starts_with(b"trusted.SGI_ACL_") {
            attributes.insert(Bytes(name.to_vec()), Bytes(value.to_vec()));
        }
        Ok(ControlFlow::Continue(()))
    })?;
    let is_device = matches!(inode.file_type(), Some(FileType::BlockDevice | FileType::CharacterDevice));
    let number = inode.device_number();
    Ok(Facts {
        inode: inode.number.get(),
        kind: inode.file_type().context("an inode not in use")?,
        mode: inode.permissions(),
        owner: (inode.uid(), inode.gid()),
        project: inode.project_id(),
        links: inode.link_count(),
        target: match inode.file_type() {
            Some(FileType::SymbolicLink) => Bytes(file_system.read_symlink(inode)?),
            _ => Bytes::default(),
        },
        device: if is_device { (number.major, number.minor) } else { (0, 0) },
        attributes,
        names: BTreeMap::new(),
    })
}

fn read_file(file_system: &Volume, number: InodeNumber, waiting: &mut Vec<InodeNumber>) -> Result<Found> {
    let inode = file_system.inode(number)?;
    let mut facts = facts_of(file_system, &inode)?;
    let mut contents = Vec::new();
    match inode.file_type() {
        Some(FileType::Directory) => {
            let mut reader = file_system.open_directory(&inode, 0)?;
            while let Some(entry) = reader.next_entry()? {
                if entry.name == b"." {
                    ensure!(entry.inode == number, "`.` leads to {}", entry.inode.get());
                    continue;
                }
                if entry.name != b".." {
                    waiting.push(entry.inode);
                }
                let before = facts.names.insert(Bytes(entry.name.to_vec()), entry.inode.get());
                ensure!(before.is_none(), "{} is there twice", entry.name.escape_ascii());
            }
        }
        Some(FileType::Regular) => {
            ensure!(inode.size_bytes() <= MAX_FILE_BYTES, "{} bytes", inode.size_bytes());
            contents.reserve_exact(inode.size_bytes() as usize);
            let mut reader = file_system.file_reader(&inode)?;
            while let Some(piece) = reader.next_piece()? {
                match piece {
                    FilePiece::Data { bytes, .. } => contents.extend_from_slice(bytes),
                    FilePiece::Hole { length_bytes, .. } => {
                        contents.resize(contents.len() + length_bytes as usize, 0);
                    }
                }
            }
            contents.truncate(inode.size_bytes() as usize);
        }
        _ => {}
    }
    Ok(Found { facts, contents })
}
