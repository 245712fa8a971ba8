//! From the bytes of an inode to an inode in memory.

use std::sync::OnceLock;

use uxfs_block::cache::MemoryAccount;
use uxfs_format::{
    attribute::{self, shortform_edit::HEADER_BYTES},
    btree::extent_map::ExtentMapRoot,
    convert::long_to_usize,
    directory,
    fault::{Corruption, Fault, Location, Structure},
    geometry::{Geometry, INODE_CORE_SIZE_BYTES},
    inode::{FileType, Fork, ForkFormat, InodeCore, symlink::verify_target},
};

use super::{
    Inode,
    fork::{ForkExtents, InodeFork, UnreadExtents},
};
use crate::{
    btree::Tree,
    error::{OperationError, Result},
    extent_map::inline_extents,
    volume::Volume,
};

impl Inode {
    /// Decodes one inode that [`verify_inode`](uxfs_format::inode::verify_inode) accepted. `None` for a free one.
    pub fn decode(bytes: &[u8], core: &InodeCore, geometry: &Geometry) -> Option<Self> {
        Self::decode_counted(bytes, core, geometry, None)
    }

    /// As [`decode`](Self::decode); what many extents take is charged to `account`.
    pub(super) fn decode_counted(
        bytes: &[u8],
        core: &InodeCore,
        geometry: &Geometry,
        account: Option<&MemoryAccount>,
    ) -> Option<Self> {
        core.file_type()?;
        let literal = bytes.get(INODE_CORE_SIZE_BYTES as usize..geometry.inode_size())?;
        let room = core.fork_size_bytes(Fork::Data, geometry.inode_size_bytes) as usize;
        let (data, attribute) = literal.split_at_checked(room).unwrap_or((literal, &[]));
        Some(Self {
            number: core.inode_number(),
            core: *core,
            data: decode_fork(core, Fork::Data, data, geometry, account)?,
            attribute: decode_fork(core, Fork::Attribute, attribute, geometry, account),
            attribute_offset_bytes: core.fork_offset_bytes(),
            is_verified: false,
        })
    }
}

/// Decodes a fork; `None` where the inode has none.
fn decode_fork(
    core: &InodeCore,
    fork: Fork,
    bytes: &[u8],
    geometry: &Geometry,
    account: Option<&MemoryAccount>,
) -> Option<InodeFork> {
    let (format, count) = (core.fork_format(fork)?, core.extent_count(fork));
    let extents = match format {
        ForkFormat::Device => {
            return Some(InodeFork::Device(bytes.first_chunk().copied().map_or(0, u32::from_be_bytes)));
        }
        ForkFormat::Local => return Some(InodeFork::Local(used_bytes(fork, core, bytes).to_vec())),
        ForkFormat::Extents if count == 0 => None,
        ForkFormat::Extents => {
            let is_realtime = fork == Fork::Data && core.flags().contains(super::InodeFlags::REALTIME);
            let extents = inline_extents(bytes, fork, is_realtime, count, geometry, account);
            // A read of damaged extents returns their fault.
            Some(extents.map(|extents| ForkExtents::new(extents, None)))
        }
        ForkFormat::Btree | ForkFormat::MetadataBtree => Some(Err(())),
    };
    let unread = || {
        let read = OnceLock::new();
        ForkExtents::of_unread(UnreadExtents { format, count, bytes: bytes.into(), read })
    };
    Some(
        extents.map_or_else(InodeFork::empty, |extents| {
            InodeFork::Extents(extents.unwrap_or_else(|()| unread()))
        }),
    )
}

/// The part of a local fork that means something: attributes say themselves how many bytes they take. Where they say what
/// cannot be, it is all.
fn used_bytes<'a>(fork: Fork, core: &InodeCore, contents: &'a [u8]) -> &'a [u8] {
    let length = match (fork, contents.first_chunk()) {
        (Fork::Attribute, Some(length)) => {
            Some(usize::from(u16::from_be_bytes(*length))).filter(|length| *length >= HEADER_BYTES as usize)
        }
        (Fork::Attribute, None) => None,
        (Fork::Data, _) => Some(long_to_usize(core.size_bytes.get())),
    };
    length.and_then(|length| contents.get(..length)).unwrap_or(contents)
}

impl Volume {
    /// Brings all that the forks of an inode hold into memory, and verifies the local ones: contents that move from
    /// the inode into blocks must pass the verifiers of those, or else the log could not be replayed. With `trees` the btrees of its extents
    /// are verified whole.
    ///
    /// # Errors
    /// Damage; a fork that cannot be changed ([`WrongFileType`](OperationError::WrongFileType)); the device.
    #[doc(alias = "xfs_ifork_verify_local_attr")]
    #[doc(alias = "xfs_ifork_verify_local_data")]
    pub fn read_forks(&self, inode: &mut Inode, trees: bool) -> Result<()> {
        for fork in [Fork::Data, Fork::Attribute] {
            match inode.fork(fork) {
                Some(InodeFork::Local(bytes)) => verify_local(inode, fork, bytes, self.geometry())?,
                Some(InodeFork::Extents(extents)) => {
                    if let Some(unread) = extents.unread() {
                        self.read_unread(inode, fork, unread, trees)?;
                    }
                }
                Some(InodeFork::Device(_)) | None => {}
            }
        }
        for fork in [Some(&mut inode.data), inode.attribute.as_mut()].into_iter().flatten() {
            if let InodeFork::Extents(extents) = fork {
                extents.take_read();
            }
        }
        inode.is_verified = true;
        Ok(())
    }

    #[cold]
    fn read_unread(&self, inode: &Inode, fork: Fork, unread: &UnreadExtents, trees: bool) -> Result<()> {
        if unread.format == ForkFormat::MetadataBtree {
            return Err(OperationError::WrongFileType.into());
        }
        self.extent_map(inode, fork)?;
        if trees && unread.format == ForkFormat::Btree {
            let damaged =
                |fault| Corruption::new(Structure::ExtentMap, Location::of_inode(inode.number), fault);
            let root = ExtentMapRoot::parse(&unread.bytes).map_err(damaged)?;
            let tree = Tree::of_inode(self, inode.number, &root);
            tree.records().try_for_each(|record| record.map(drop))?;
        }
        Ok(())
    }
}

/// Verifies what lies in the inode itself.
fn verify_local(inode: &Inode, fork: Fork, bytes: &[u8], geometry: &Geometry) -> Result<()> {
    let (structure, verified) = match (fork, inode.file_type()) {
        (Fork::Attribute, _) => {
            let verified = attribute::shortform::Shortform::verify(bytes);
            (Structure::AttributeShortform, verified.map_err(Fault::from))
        }
        (Fork::Data, Some(FileType::Directory)) => {
            let verified = directory::shortform::Shortform::verify(bytes, geometry);
            (Structure::DirectoryShortform, verified.map_err(Fault::from))
        }
        (Fork::Data, Some(FileType::SymbolicLink)) => {
            (Structure::SymlinkLocal, verify_target(bytes).map_err(Into::into))
        }
        (Fork::Data, _) => return Ok(()),
    };
    verified.map_err(|fault| Corruption::new(structure, Location::of_inode(inode.number), fault).into())
}
