//! What readers need of an inode, however it is held.

use std::sync::Arc;

use uxfs_format::{inode::FileType, units::InodeNumber};

use super::{Fork, ForkView, Inode};
use crate::{
    error::Result,
    extent_map::{ExtentMap, ForkExtents},
    volume::Volume,
};

static NO_EXTENTS: ExtentMap = ExtentMap::EMPTY;

/// An inode whose directory, attributes or contents are read: one decoded from the device ([`Inode`]), or one that an
/// operation has open and locked for as long as `'a`.
#[derive(Debug, Clone)]
pub struct InodeView<'a> {
    /// Its number.
    pub number: InodeNumber,
    /// Type of file; `None` for a free inode.
    pub file_type: Option<FileType>,
    /// Length of the file.
    pub size_bytes: u64,
    forks: Forks<'a>,
}

/// Where the forks come from.
#[derive(Debug, Clone)]
enum Forks<'a> {
    Decoded(&'a Inode),
    Shared(Arc<Inode>),
    Open { data: OpenFork<'a>, attribute: OpenFork<'a> },
}

/// One fork of an inode that is open and locked.
#[derive(Debug, Clone, Copy)]
pub enum OpenFork<'a> {
    /// There is no such fork, or it holds a device number.
    None,
    /// The contents themselves, verified.
    Local(&'a [u8]),
    /// Blocks elsewhere.
    Extents(&'a ExtentMap),
}

impl<'a> InodeView<'a> {
    /// An inode that is open and locked.
    #[inline]
    pub fn of_open(
        number: InodeNumber,
        file_type: Option<FileType>,
        size_bytes: u64,
        data: OpenFork<'a>,
        attribute: OpenFork<'a>,
    ) -> Self {
        Self { number, file_type, size_bytes, forks: Forks::Open { data, attribute } }
    }

    fn decoded(&self) -> Option<&Inode> {
        match &self.forks {
            Forks::Decoded(inode) => Some(inode),
            Forks::Shared(inode) => Some(inode),
            Forks::Open { .. } => None,
        }
    }

    fn open_fork(&self, fork: Fork) -> OpenFork<'a> {
        match (&self.forks, fork) {
            (Forks::Open { data, .. }, Fork::Data) => *data,
            (Forks::Open { attribute, .. }, Fork::Attribute) => *attribute,
            _ => OpenFork::None,
        }
    }

    /// The contents of a fork that lie in the inode itself; `None` where they lie elsewhere or there is no such fork.
    #[inline]
    pub fn local_fork(&self, fork: Fork) -> Option<&[u8]> {
        match self.decoded().map(|inode| inode.fork(fork)) {
            Some(ForkView::Local(bytes)) => Some(bytes),
            Some(_) => None,
            None => match self.open_fork(fork) {
                OpenFork::Local(bytes) => Some(bytes),
                OpenFork::None | OpenFork::Extents(_) => None,
            },
        }
    }

    /// Whether the contents that lie in the inode have been verified already.
    #[inline]
    pub fn is_local_fork_verified(&self) -> bool {
        self.decoded().is_none()
    }

    /// Whether a fork has extents.
    pub fn has_extents(&self, fork: Fork) -> bool {
        match self.decoded() {
            Some(inode) => matches!(inode.fork(fork), ForkView::Extents | ForkView::Btree),
            None => {
                matches!(self.open_fork(fork), OpenFork::Extents(extents) if !extents.is_empty())
            }
        }
    }

    /// The extents of a fork; none where it has other contents.
    ///
    /// # Errors
    /// Damage of the fork or its btree; the device.
    #[inline]
    pub fn extents(&self, volume: &Volume, fork: Fork) -> Result<ForkExtents<'a>> {
        if let Some(inode) = self.decoded() {
            return Ok(ForkExtents::Map(volume.extent_map(inode, fork)?));
        }
        Ok(ForkExtents::Open(match self.open_fork(fork) {
            OpenFork::Extents(extents) => extents,
            OpenFork::None | OpenFork::Local(_) => &NO_EXTENTS,
        }))
    }
}

impl<'a> From<&'a Inode> for InodeView<'a> {
    fn from(inode: &'a Inode) -> Self {
        let (number, file_type, size_bytes) = (inode.number, Some(inode.file_type), inode.size_bytes);
        Self { number, file_type, size_bytes, forks: Forks::Decoded(inode) }
    }
}

impl From<&Arc<Inode>> for InodeView<'_> {
    fn from(inode: &Arc<Inode>) -> Self {
        Arc::clone(inode).into()
    }
}

impl From<Arc<Inode>> for InodeView<'_> {
    fn from(inode: Arc<Inode>) -> Self {
        let (number, file_type, size_bytes) = (inode.number, Some(inode.file_type), inode.size_bytes);
        Self { number, file_type, size_bytes, forks: Forks::Shared(inode) }
    }
}
