//! Our word: the manifest that the library under test gives of an image, to lay beside a judge's.
//!
//! The walk goes through the public functions of `uxfs-volume` only, and asks several of them the same question where it can:
//! names are looked up as well as listed, small files read at odd offsets as well as in sequence, and paths found from
//! parent pointers as well as from the root.

use std::{
    collections::{BTreeMap, BTreeSet},
    ops::ControlFlow,
    path::Path,
    sync::Arc,
};

use anyhow::{Context, Result, bail, ensure};
use sha2::{Digest, Sha256};
use uxfs_block::engine::{self, OpenOptions};
use uxfs_engine::options::MountOptions;
use uxfs_filesystem::recovery;
use uxfs_format::units::InodeNumber;
use uxfs_volume::volume::Volume;
use uxfs_volume::{
    attribute::xattr::XattrView,
    extent_map,
    file_data::reader::FilePiece,
    inode::{self, FileType, Fork, Inode, InodeFlags, InodeFlags2},
    parent_pointer::paths::PathLimits,
};

use crate::manifest::{
    Attribute, Bytes, Details, DirectoryEntry, Entry, Extent, FileKind, Header, Manifest, Timestamp,
    WHOLE_HASH_LIMIT_BYTES, XfsFlags, merge_extents, to_hex, written_runs,
};

const SECTOR_BYTES: u64 = 512;
/// Files up to this size are read a second time, at offsets that fit no block.
const READ_TWICE_LIMIT_BYTES: u64 = 4 << 20;
const ODD_BYTES: usize = 100_003;
/// `FS_XFLAG_DAX` and `FS_XFLAG_COWEXTSIZE`: the flags that lie elsewhere on disk.
const XFLAG_DAX: u32 = 0x8000;
const XFLAG_COW_EXTENT_SIZE: u32 = 0x10000;

/// The manifest of the image at `path`, read by the library; where its log is dirty, the image as it will be after replay.
///
/// # Errors
/// The library fails on the image, or two of its answers contradict each other.
pub fn from_image(path: &Path, header: Header) -> Result<Manifest> {
    let device = engine::open(path, &OpenOptions::default())?;
    let (file_system, _) = recovery::mount_recovered(&device, &MountOptions::default())?;
    from_file_system(&file_system, header)
}

/// The manifest of a mounted file system, read by the library.
///
/// # Errors
/// As [`from_image`].
pub fn from_file_system(file_system: &Volume, header: Header) -> Result<Manifest> {
    Walk { file_system }.describe(header)
}

struct Walk<'fs> {
    file_system: &'fs Volume,
}

/// Every path of every inode.
type Paths = BTreeMap<InodeNumber, BTreeSet<Vec<u8>>>;

impl Walk<'_> {
    fn describe(&self, header: Header) -> Result<Manifest> {
        let mut found = Vec::new();
        let mut waiting = vec![(b"/".to_vec(), self.file_system.root()?)];
        while let Some((path, inode)) = waiting.pop() {
            let name = path.escape_ascii().to_string();
            let entries = match inode.file_type() {
                Some(FileType::Directory) => Some(self.directory(&path, &inode, &mut waiting).context(name)?),
                _ => None,
            };
            found.push((path, inode, entries));
        }
        found.sort_by(|a, b| a.0.cmp(&b.0));
        let mut paths = Paths::new();
        let mut all = Vec::with_capacity(found.len());
        for (path, inode, entries) in found {
            let known = paths.entry(inode.number).or_default();
            let details = match known.is_empty() {
                true => Some(Box::new(
                    self.details(&inode, entries).with_context(|| path.escape_ascii().to_string())?,
                )),
                false => None,
            };
            known.insert(path.clone());
            let kind = kind_of(inode.file_type().context("an inode not in use")?);
            all.push(Entry { path: Bytes(path), inode: Some(inode.number.get()), kind, details });
        }
        self.check_parent_pointers(&paths)?;
        Ok(Manifest { header, entries: all })
    }

    /// Lists a directory and looks every name up.
    fn directory(
        &self,
        path: &[u8],
        directory: &Arc<Inode>,
        waiting: &mut Vec<(Vec<u8>, Arc<Inode>)>,
    ) -> Result<Vec<DirectoryEntry>> {
        let mut entries: Vec<DirectoryEntry> = Vec::new();
        let mut reader = self.file_system.open_directory(directory, 0)?;
        while let Some(entry) = reader.next_entry()? {
            let file_type = entry.file_type.context("an entry without a type")?;
            let found = self.file_system.lookup(directory, entry.name)?;
            let found = found.with_context(|| format!("{}: not found", entry.name.escape_ascii()))?;
            ensure!(
                (found.inode, found.cookie, found.file_type) == (entry.inode, entry.cookie, entry.file_type),
                "{}: listed as {entry:?}, found as {found:?}",
                entry.name.escape_ascii()
            );
            if entry.name != b"." && entry.name != b".." {
                let mut child = path.to_vec();
                if child != b"/" {
                    child.push(b'/');
                }
                child.extend_from_slice(entry.name);
                waiting.push((child, self.file_system.inode(entry.inode)?));
            }
            // Linux says where the next entry lies, which may be behind a gap; the library where this one ends.
            if let Some(last) = entries.last_mut() {
                ensure!(last.next_cookie <= entry.cookie, "cookies go backwards to {entry:?}");
                last.next_cookie = entry.cookie;
            }
            entries.push(DirectoryEntry {
                name: entry.name.into(),
                inode: entry.inode.get(),
                kind: kind_of(file_type),
                next_cookie: entry.next_cookie,
            });
        }
        let missing = self.file_system.lookup(directory, b"no file has this name")?;
        ensure!(missing.is_none(), "a name found that is not there");
        Ok(entries)
    }

    fn details(&self, inode: &Inode, entries: Option<Vec<DirectoryEntry>>) -> Result<Details> {
        let kind = kind_of(inode.file_type().context("an inode not in use")?);
        let has_extents = matches!(kind, FileKind::Regular | FileKind::Directory);
        let extents = has_extents.then(|| self.extents(inode, Fork::Data)).transpose()?;
        let sha256 = match (kind, &extents) {
            (FileKind::Regular, Some(extents)) => Some(self.hash(inode, extents)?),
            _ => None,
        };
        let target = match kind {
            FileKind::Symlink => Some(Bytes(self.file_system.read_symlink(inode)?)),
            _ => None,
        };
        let device = matches!(kind, FileKind::CharacterDevice | FileKind::BlockDevice)
            .then(|| (inode.device_number().major, inode.device_number().minor));
        let attribute_extents = has_extents.then(|| self.extents(inode, Fork::Attribute)).transpose()?;
        Ok(Details {
            mode: inode.permissions(),
            user_id: inode.uid(),
            group_id: inode.gid(),
            size_bytes: Some(inode.size_bytes()),
            link_count: Some(inode.link_count()),
            sectors: Some(inode.blocks() * self.block_bytes() / SECTOR_BYTES),
            device,
            access_time: Some(time(inode.access_time())),
            modification_time: Some(time(inode.modification_time())),
            change_time: Some(time(inode.change_time())),
            birth_time: Some(time(inode.creation_time())),
            sha256,
            extents,
            extent_count: None,
            attribute_extents,
            target,
            attributes: Some(self.attributes(inode)?),
            flags: has_extents.then(|| self.flags(inode)),
            entries,
        })
    }

    fn block_bytes(&self) -> u64 {
        self.file_system.geometry().block_size_bytes.into()
    }

    /// Of a directory only the data: the kernel does not show its index.
    fn extents(&self, inode: &Inode, fork: Fork) -> Result<Vec<Extent>> {
        let map = self.file_system.extent_map(inode, fork)?;
        let is_directory = inode.file_type() == Some(FileType::Directory) && fork == Fork::Data;
        let extents: Result<Vec<Extent>> = map.iter().map(|extent| self.extent(&extent)).collect();
        let shown = |extent: &Extent| !is_directory || extent.offset_bytes < inode.size_bytes();
        Ok(merge_extents(extents?.into_iter().filter(shown)))
    }

    fn extent(&self, extent: &extent_map::Extent) -> Result<Extent> {
        let sector = self.file_system.geometry().sector_of_block(extent.start);
        Ok(Extent {
            offset_bytes: extent.file_block.get() * self.block_bytes(),
            disk_bytes: sector.context("an extent outside the file system")?.get() * SECTOR_BYTES,
            length_bytes: extent.length_blocks * self.block_bytes(),
            unwritten: extent.is_unwritten,
        })
    }

    /// See [`Details::sha256`].
    fn hash(&self, inode: &Inode, extents: &[Extent]) -> Result<String> {
        if inode.size_bytes() > WHOLE_HASH_LIMIT_BYTES {
            return self.hash_runs(inode, extents);
        }
        let hash = self.hash_in_sequence(inode)?;
        if inode.size_bytes() <= READ_TWICE_LIMIT_BYTES {
            let again = self.hash_at_odd_offsets(inode)?;
            ensure!(hash == again, "read in sequence {hash}, at odd offsets {again}");
        }
        Ok(hash)
    }

    fn hash_in_sequence(&self, inode: &Inode) -> Result<String> {
        let mut hash = Sha256::new();
        let zeros = vec![0; 1 << 20];
        let mut reader = self.file_system.file_reader(inode)?;
        while let Some(piece) = reader.next_piece()? {
            match piece {
                FilePiece::Data { bytes, .. } => hash.update(bytes),
                FilePiece::Hole { mut length_bytes, .. } => {
                    while length_bytes > 0 {
                        let length = length_bytes.min(zeros.len() as u64);
                        hash.update(&zeros[..usize::try_from(length)?]);
                        length_bytes -= length;
                    }
                }
            }
        }
        Ok(to_hex(&hash.finalize()))
    }

    fn hash_at_odd_offsets(&self, inode: &Inode) -> Result<String> {
        let mut hash = Sha256::new();
        let mut buffer = vec![0xff; ODD_BYTES];
        let mut offset = 0;
        loop {
            let length = self.file_system.read_file(inode, offset, &mut buffer)?;
            if length == 0 {
                return Ok(to_hex(&hash.finalize()));
            }
            hash.update(&buffer[..length]);
            offset += length as u64;
        }
    }

    fn hash_runs(&self, inode: &Inode, extents: &[Extent]) -> Result<String> {
        let mut hash = Sha256::new();
        let mut buffer = vec![0; 1 << 20];
        for (mut offset, mut length) in written_runs(extents, inode.size_bytes()) {
            hash.update(offset.to_le_bytes());
            hash.update(length.to_le_bytes());
            while length > 0 {
                let want = usize::try_from(length.min(buffer.len() as u64))?;
                let got = self.file_system.read_file(inode, offset, &mut buffer[..want])?;
                ensure!(got == want, "read {got} of {want} bytes at {offset}");
                hash.update(&buffer[..got]);
                offset += got as u64;
                length -= got as u64;
            }
        }
        Ok(to_hex(&hash.finalize()))
    }

    /// Lists all attributes and asks for each one again by its name.
    fn attributes(&self, inode: &Inode) -> Result<Vec<Attribute>> {
        let mut all = Vec::new();
        let reader = self.file_system.attributes(inode)?;
        reader.visit_xattrs(XattrView::Root, |name, value| {
            all.push(Attribute { name: name.into(), value: to_hex(value) });
            Ok(ControlFlow::Continue(()))
        })?;
        for attribute in &all {
            let value = reader.xattr(&attribute.name.0)?;
            ensure!(to_hex(&value) == attribute.value, "{}: listed and asked for differ", attribute.name);
        }
        all.sort();
        Ok(all)
    }

    /// `fsx_xflags`: the low bits are those on disk, but for that of the realtime bitmap.
    fn flags(&self, inode: &Inode) -> XfsFlags {
        let mut flags: u32 = (inode.flags() - InodeFlags::NEW_REALTIME_BITMAP).bits().into();
        for (flag, shown) in
            [(InodeFlags2::DAX, XFLAG_DAX), (InodeFlags2::COPY_ON_WRITE_EXTENT_SIZE, XFLAG_COW_EXTENT_SIZE)]
        {
            flags |= if inode.flags2().contains(flag) { shown } else { 0 };
        }
        let bytes = |blocks: u32| blocks * self.file_system.geometry().block_size_bytes;
        XfsFlags {
            flags,
            project_id: inode.project_id(),
            extent_size_bytes: bytes(inode.extent_size_blocks()),
            cow_extent_size_bytes: bytes(inode.cow_extent_size_blocks()),
        }
    }

    /// The paths that parent pointers lead to are those that the walk found.
    fn check_parent_pointers(&self, paths: &Paths) -> Result<()> {
        if !self.file_system.geometry().features.has_parent_pointers() {
            return Ok(());
        }
        for (number, expected) in paths {
            let inode = self.file_system.inode(*number)?;
            let limits = PathLimits { paths: expected.len() + 1, ..PathLimits::default() };
            let found = self.file_system.paths_of(&inode, &limits)?;
            if !found.is_complete || !found.problems.is_empty() || !found.paths.iter().eq(expected) {
                bail!("inode {}: parent pointers lead to {found:?}, names to {expected:?}", number.get());
            }
        }
        Ok(())
    }
}

fn time(time: inode::Timestamp) -> Timestamp {
    Timestamp(time.seconds, time.nanoseconds)
}

fn kind_of(file_type: FileType) -> FileKind {
    match file_type {
        FileType::Regular => FileKind::Regular,
        FileType::Directory => FileKind::Directory,
        FileType::CharacterDevice => FileKind::CharacterDevice,
        FileType::BlockDevice => FileKind::BlockDevice,
        FileType::Fifo => FileKind::Fifo,
        FileType::Socket => FileKind::Socket,
        FileType::SymbolicLink => FileKind::Symlink,
    }
}
