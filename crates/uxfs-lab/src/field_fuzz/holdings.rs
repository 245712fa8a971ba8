//! All readable things of an image, path by path, for a comparison before and after edits.
//!
//! Nothing of what the edits rely on is asked here: no reverse map, no free space, no lookups. What cannot be read is absent.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    ops::ControlFlow,
    sync::Arc,
};

use uxfs_block::device::BlockDevice;
use uxfs_engine::options::MountOptions;
use uxfs_filesystem::recovery;
use uxfs_volume::volume::Volume;
use uxfs_volume::{
    attribute::AttributeValue,
    error::Result,
    file_data::reader::FilePiece,
    inode::{FileType, Inode},
};

/// Contents that are read of one file.
const FILE_BYTES: u64 = 8 << 20;
/// Contents that are read of all files: damage may make many large ones.
const ALL_BYTES: u64 = 256 << 20;
/// The same after edits, which add some: nothing that was read before is left out afterwards.
const ALL_BYTES_AFTER: u64 = 2 * ALL_BYTES;
/// Paths; damage may make circles.
const MOST_PATHS: usize = 100_000;
const CACHE_BYTES: u64 = 16 << 20;

/// The readable things of one path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Holding {
    /// The inode.
    pub inode: u64,
    /// Type, permissions, owner, generation.
    core: (u16, u32, u32, u32),
    /// Of contents, or of a link's target: length and hash.
    contents: Option<(u64, u64)>,
    /// Of all attributes but parent pointers, in any order.
    attributes: Option<u64>,
    /// Whether it is a directory.
    pub is_directory: bool,
}

/// Changes that edits may have made at a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum May {
    /// Anything: they named it.
    Change,
    /// They named a directory above it, which may be elsewhere.
    Move,
    /// Nothing.
    Nothing,
}

/// The readable things of an image.
#[derive(Debug, Default)]
pub struct Holdings {
    /// By path.
    pub paths: BTreeMap<Vec<u8>, Holding>,
}

impl Holdings {
    /// Reads all; a dirty log is recovered in memory.
    ///
    /// # Errors
    /// The image cannot be opened for reading.
    pub fn read(device: &Arc<dyn BlockDevice>) -> Result<Self> {
        Self::read_up_to(device, ALL_BYTES)
    }

    /// As [`read`](Self::read), after edits.
    ///
    /// # Errors
    /// As there.
    pub fn read_after(device: &Arc<dyn BlockDevice>) -> Result<Self> {
        Self::read_up_to(device, ALL_BYTES_AFTER)
    }

    fn read_up_to(device: &Arc<dyn BlockDevice>, left_bytes: u64) -> Result<Self> {
        let options = MountOptions { cache_budget_bytes: Some(CACHE_BYTES), ..MountOptions::default() };
        let (filesystem, _) = recovery::mount_recovered(device, &options)?;
        let mut reader =
            Reader { filesystem: &filesystem, left_bytes, holdings: Self::default(), linked: HashMap::new() };
        reader.all();
        Ok(reader.holdings)
    }

    /// Paths that could be read here, and are unreadable or different in `after`.
    pub fn lost_in(&self, after: &Self, may: impl Fn(&[u8], u64) -> May) -> Option<String> {
        let by_inode: HashMap<u64, &Holding> =
            after.paths.values().map(|holding| (holding.inode, holding)).collect();
        for (path, before) in &self.paths {
            let now = match may(path, before.inode) {
                May::Change => continue,
                May::Move => by_inode.get(&before.inode).copied(),
                May::Nothing => after.paths.get(path),
            };
            let shown = path.escape_ascii();
            let Some(now) = now else { return Some(format!("{shown} is gone")) };
            if (before.inode, before.core) != (now.inode, now.core) {
                return Some(format!("{shown} is another: {before:?}, now {now:?}"));
            }
            if before.contents.is_some() && before.contents != now.contents {
                return Some(format!("contents of {shown}: {:?}, now {:?}", before.contents, now.contents));
            }
            if before.attributes.is_some() && before.attributes != now.attributes {
                return Some(format!("attributes of {shown}"));
            }
        }
        None
    }
}

struct Reader<'a> {
    filesystem: &'a Volume,
    left_bytes: u64,
    holdings: Holdings,
    /// Files with several names, which are read once.
    linked: HashMap<u64, Holding>,
}

impl Reader<'_> {
    fn all(&mut self) {
        let Ok(root) = self.filesystem.root() else { return };
        let mut entered = HashSet::from([root.number]);
        let mut waiting = vec![(Vec::new(), root)];
        while let Some((path, directory)) = waiting.pop() {
            for (name, number) in self.entries(&directory) {
                if self.holdings.paths.len() >= MOST_PATHS {
                    return;
                }
                let path = [path.as_slice(), b"/", &name].concat();
                let Ok(inode) = self.filesystem.inode_of_entry(&directory, number) else { continue };
                let holding = match self.linked.get(&inode.number.get()) {
                    Some(holding) => holding.clone(),
                    None => self.holding(&inode),
                };
                if inode.link_count() > 1 && !holding.is_directory {
                    self.linked.insert(holding.inode, holding.clone());
                }
                self.holdings.paths.insert(path.clone(), holding);
                if inode.file_type() == Some(FileType::Directory) && entered.insert(inode.number) {
                    waiting.push((path, inode));
                }
            }
        }
    }

    /// As far as the directory can be read.
    fn entries(&self, directory: &Arc<Inode>) -> Vec<(Vec<u8>, uxfs_format::units::InodeNumber)> {
        let mut entries = Vec::new();
        let _ = self.filesystem.read_directory(directory, 0, |entry| {
            if !matches!(entry.name, b"." | b"..") {
                entries.push((entry.name.to_vec(), entry.inode));
            }
            ControlFlow::Continue(())
        });
        entries
    }

    fn holding(&mut self, inode: &Arc<Inode>) -> Holding {
        let contents = match inode.file_type() {
            Some(FileType::Regular) => self.file(inode),
            Some(FileType::SymbolicLink) => {
                let target = self.filesystem.read_symlink(inode).ok();
                target.map(|target| (target.len() as u64, hash_of(&target)))
            }
            _ => None,
        };
        Holding {
            inode: inode.number.get(),
            core: (inode.mode(), inode.uid(), inode.gid(), inode.generation()),
            contents,
            attributes: self.attributes(inode),
            is_directory: inode.file_type() == Some(FileType::Directory),
        }
    }

    fn attributes(&self, inode: &Inode) -> Option<u64> {
        let mut sum = 0_u64;
        let attributes = self.filesystem.attributes(inode).ok()?;
        let visited = attributes.visit(|attribute| {
            if attribute.namespace == uxfs_volume::attribute::Namespace::Parent {
                return Ok(ControlFlow::Continue(()));
            }
            let value = match attribute.value {
                AttributeValue::Local(value) => value.to_vec(),
                AttributeValue::Remote { .. } => attributes.value(&attribute.value)?.into_owned(),
            };
            let whole = [&[attribute.namespace as u8], attribute.name, &[0], value.as_slice()].concat();
            sum = sum.wrapping_add(hash_of(&whole));
            Ok(ControlFlow::Continue(()))
        });
        visited.ok().map(|()| sum)
    }

    fn file(&mut self, inode: &Inode) -> Option<(u64, u64)> {
        let size_bytes = inode.size_bytes();
        let mut reader = self.filesystem.file_reader(inode).ok()?;
        let (mut hash, mut read) = (0_u64, 0);
        while read < FILE_BYTES {
            if self.left_bytes == 0 {
                return None;
            }
            match reader.next_piece().ok()? {
                Some(FilePiece::Data { offset_bytes, bytes }) => {
                    // Whether zeros are a hole does not matter, nor where pieces end.
                    for (index, word) in bytes.chunks(512).enumerate() {
                        if word.iter().any(|byte| *byte != 0) {
                            let place = offset_bytes + index as u64 * 512;
                            hash =
                                hash.wrapping_add(hash_of(word) ^ place.wrapping_mul(0x9e37_79b9_7f4a_7c15));
                        }
                    }
                    read += bytes.len() as u64;
                    self.left_bytes = self.left_bytes.saturating_sub(bytes.len() as u64);
                }
                Some(FilePiece::Hole { .. }) => read += 512,
                None => break,
            }
        }
        Some((size_bytes, hash))
    }
}

fn hash_of(bytes: &[u8]) -> u64 {
    let mut hash = 0xcbf2_9ce4_8422_2325_u64 ^ bytes.len() as u64;
    for chunk in bytes.chunks(8) {
        let mut word = [0; 8];
        word[..chunk.len()].copy_from_slice(chunk);
        hash = (hash ^ u64::from_le_bytes(word)).wrapping_mul(0x0000_0100_0000_01b3);
        hash ^= hash >> 29;
    }
    hash
}
