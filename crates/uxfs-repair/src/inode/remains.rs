//! Inodes of which no more is lost than the mode: what names them says which file type they had, and all the rest stays.
//!
//! A freed inode has a mode of 0 as well, and may still have the owner and the times of its last life. It differs in its link count, which is
//! 0, and in its generation, which is not the one that parent pointers name.

use uxfs_format::{
    checksum,
    directory::shortform::Shortform,
    field_table::OnDisk,
    inode::{FileType, Fork, ForkFormat, InodeCore, InodeFlags2, core, verify_inode},
    units::InodeNumber,
};
use uxfs_volume::{
    error::Result,
    inode::{Inode, InodeFork},
};

use crate::metadata_directory;

use super::{
    gather::{put_inode, read_inode},
    neutral,
    rebuild::{Rebuilder, private_permissions},
    witnesses::Named,
};

const PERMISSIONS: u16 = 0o7777;

impl Rebuilder<'_> {
    /// Keeps an inode with another mode, in the stage. `None` where more is wrong: its place is as it was then.
    ///
    /// # Errors
    /// The device.
    pub fn keep_remains(&self, number: InodeNumber) -> Result<Option<Inode>> {
        let before = read_inode(self.stage, number)?;
        let Some(core) = InodeCore::prefix_of(&before).copied() else { return Ok(None) };
        let named = self.witnesses.named(number).copied().unwrap_or_default();
        let is_other = named.generation.is_some_and(|generation| generation != core.generation.get());
        if core.link_count.get() == 0 || is_other || FileType::from_mode(core.mode.get()).is_some() {
            return Ok(None);
        }
        for kind in self.kinds(number, &named) {
            if let Some(inode) = self.with_mode(&before, number, kind) {
                put_inode(self.stage, number, &inode.0)?;
                return Ok(Some(inode.1));
            }
        }
        Ok(None)
    }

    /// The file types that an inode can have had, the likeliest first.
    fn kinds(&self, number: InodeNumber, named: &Named) -> Vec<FileType> {
        let is_metadata_root = metadata_directory::root(self.volume) == Some(number);
        if number == self.stage.geometry().root_inode || is_metadata_root {
            return vec![FileType::Directory];
        }
        match self.type_of(named, &self.witnesses.owned(number, Fork::Data)) {
            Some((kind, _)) => vec![kind],
            // Contents within the inode.
            None => vec![FileType::Directory, FileType::SymbolicLink],
        }
    }

    /// The inode with this type, if it passes the verifier and nothing contradicts its contents.
    fn with_mode(&self, before: &[u8], number: InodeNumber, kind: FileType) -> Option<(Vec<u8>, Inode)> {
        let geometry = self.stage.geometry();
        let mut bytes = before.to_vec();
        let core = InodeCore::prefix_of_mut(&mut bytes)?;
        let is_overwritten = core.mode.get() & !PERMISSIONS != 0;
        let permissions = match core.mode.get() & PERMISSIONS {
            _ if core.flags2().contains(InodeFlags2::METADATA) => 0,
            // Bits of a type that does not exist say that the whole field is something else.
            _ if is_overwritten && number != geometry.root_inode => private_permissions(kind),
            _ if is_overwritten => 0o755,
            // They say as little as possible; the root directory is open to all.
            0 if number == geometry.root_inode => 0o755,
            0 => private_permissions(kind),
            known => known,
        };
        core.mode.set(kind.mode_bits() | permissions);
        checksum::seal(&mut bytes, core::CHECKSUM_OFFSET_BYTES);
        if !neutral::make(&mut bytes, number, geometry) {
            return None;
        }
        let verified = verify_inode(&bytes, number, geometry).ok().copied()?;
        let inode = Inode::decode(&bytes, &verified, geometry)?;
        if kind == FileType::Directory
            && let Some(InodeFork::Local(local)) = inode.fork(Fork::Data)
        {
            Shortform::parse(local, geometry).ok()?;
        }
        let is_device = inode.fork_format(Fork::Data) == Some(ForkFormat::Device);
        let agree = [Fork::Data, Fork::Attribute].into_iter().all(|fork| self.agrees(&inode, fork));
        (is_device == kind.is_special() && agree).then_some((bytes, inode))
    }
}
