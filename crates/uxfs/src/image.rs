//! An image that is open for reading.

use std::{fmt, path::Path, sync::Arc};

use uxfs_block::claim::Lock;
use uxfs_engine::options::MountOptions;
use uxfs_filesystem::recovery;
use uxfs_format::units::InodeNumber;
use uxfs_volume::volume::Volume;

use crate::{
    Entry, Paths, Result, Walk,
    error::About,
    opening::{Needs, Opening, opening_methods},
};

/// An image, or a block device, that is open for reading. Clones are handles of the same image.
#[derive(Clone)]
pub struct Image {
    opened: Arc<Opened>,
}

/// State that all handles of an image share.
pub(crate) struct Opened {
    volume: Volume,
}

/// How an image is opened for reading.
///
/// ```
/// # let folder = tempfile::tempdir()?;
/// # let path = folder.path().join("disk.img");
/// # uxfs::Maker::new().size(300 << 20).make(&path)?;
/// let image = uxfs::ImageOptions::new().cache_bytes(16 << 20).open(&path)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, Copy, Default)]
pub struct ImageOptions {
    opening: Opening,
    ignores_log: bool,
    ignores_locks: bool,
}

impl ImageOptions {
    opening_methods!();

    /// Shows the image as it lies on the device, without the changes that a dirty log holds.
    #[must_use]
    pub fn ignore_log(mut self) -> Self {
        self.ignores_log = true;
        self
    }

    /// Reads although another program changes the image: it may contradict itself.
    #[must_use]
    pub fn ignore_locks(mut self) -> Self {
        self.ignores_locks = true;
        self
    }

    /// Opens the image at `path`.
    ///
    /// # Errors
    /// No XFS V5 file system, or one with unknown features; damage; a dirty log that cannot be replayed; another program
    /// changes it; the device.
    pub fn open(&self, path: impl AsRef<Path>) -> Result<Image> {
        let path = path.as_ref();
        self.try_open(path).about(path.display())
    }

    fn try_open(&self, path: &Path) -> Result<Image> {
        let lock = if self.ignores_locks { Lock::None } else { Lock::Shared };
        let device = self.opening.device_to_read(path, lock, Needs::FileSystem)?;
        let options = MountOptions { ignore_dirty_log: self.ignores_log, ..self.opening.mount_options() };
        let (volume, _) = recovery::mount_recovered(&device, &options)?;
        Ok(Image::of(volume))
    }
}

/// Sizes and names of a file system.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Info {
    /// The label, at most 12 bytes.
    pub label: Vec<u8>,
    /// The uuid that tools show.
    pub uuid: [u8; 16],
    /// Size of the data section.
    pub size_bytes: u64,
    /// Free space of the data section.
    pub free_bytes: u64,
    /// Size of a block.
    pub block_bytes: u32,
    /// Size of an inode.
    pub inode_bytes: u32,
    /// Allocation groups.
    pub group_count: u32,
    /// Whether files know their names: [`Entry::paths`] needs it.
    pub has_parent_pointers: bool,
    /// Whether files can share blocks.
    pub has_shared_blocks: bool,
}

impl Image {
    /// Of a file system that is open already.
    pub(crate) fn of(volume: Volume) -> Self {
        Self { opened: Arc::new(Opened { volume }) }
    }

    /// Opens the image, or block device, at `path`.
    ///
    /// # Errors
    /// As [`ImageOptions::open`].
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        ImageOptions::default().open(path)
    }

    /// The root directory.
    ///
    /// # Errors
    /// Damage; the device.
    pub fn root(&self) -> Result<Entry> {
        let inode = self.volume().root().about_path(b"/")?;
        Entry::new(self, inode, b"/".to_vec())
    }

    /// The file at `path`. Symbolic links are followed, and never lead out of the image.
    ///
    /// # Errors
    /// Nothing is there; a directory on the way is none; too many links; damage; the device.
    pub fn find(&self, path: impl AsRef<[u8]>) -> Result<Entry> {
        self.resolve(path.as_ref(), true)
    }

    /// As [`find`](Self::find), but where the last name is a symbolic link it gives the link itself.
    ///
    /// # Errors
    /// As there.
    pub fn find_link(&self, path: impl AsRef<[u8]>) -> Result<Entry> {
        self.resolve(path.as_ref(), false)
    }

    fn resolve(&self, path: &[u8], follows_last: bool) -> Result<Entry> {
        let inode = self.volume().resolve(path, follows_last).about_path(path)?;
        let slash: &[u8] = if path.starts_with(b"/") { b"" } else { b"/" };
        Entry::new(self, inode, [slash, path].concat())
    }

    /// The file that has this inode number. It has no [`path`](Entry::path): [`paths_of`](Self::paths_of) finds all of them.
    ///
    /// # Errors
    /// No such inode; damage; the device.
    pub fn inode(&self, number: u64) -> Result<Entry> {
        let inode = self.volume().inode_from_outside(InodeNumber::new(number));
        let inode = inode.about(format_args!("inode {number}"))?;
        Entry::new(self, inode, Vec::new())
    }

    /// Every path of an inode, from parent pointers alone: no directory is searched.
    ///
    /// ```
    /// # let folder = tempfile::tempdir()?;
    /// # let path = folder.path().join("disk.img");
    /// # uxfs::Maker::new().size(300 << 20).make(&path)?;
    /// # let editor = uxfs::Editor::open(&path)?;
    /// # editor.write("/a", b"")?;
    /// # editor.link("/a", "/b")?;
    /// # editor.close()?;
    /// let image = uxfs::Image::open(&path)?;
    /// let number = image.find("/a")?.metadata().inode;
    /// assert_eq!(image.paths_of(number)?.paths, [b"/a", b"/b"]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// No such inode; an image without parent pointers; damage of the inode; the device.
    pub fn paths_of(&self, number: u64) -> Result<Paths> {
        self.inode(number)?.paths()
    }

    /// Every file of the image, directories before what they hold.
    pub fn walk(&self) -> Walk {
        Walk::from_root(self)
    }

    /// Sizes and names.
    pub fn info(&self) -> Info {
        let (superblock, geometry) = (self.volume().superblock(), self.volume().geometry());
        let block_bytes = geometry.block_size_bytes;
        Info {
            label: superblock.label().to_vec(),
            uuid: superblock.uuid.0,
            size_bytes: superblock.data_blocks.get().saturating_mul(block_bytes.into()),
            free_bytes: superblock.free_data_blocks.get().saturating_mul(block_bytes.into()),
            block_bytes,
            inode_bytes: geometry.inode_size_bytes,
            group_count: geometry.ag_count,
            has_parent_pointers: geometry.features.has_parent_pointers(),
            has_shared_blocks: geometry.features.has_reflink(),
        }
    }

    pub(crate) fn volume(&self) -> &Volume {
        &self.opened.volume
    }
}

impl fmt::Debug for Image {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Image").field("info", &self.info()).finish()
    }
}
