//! One file of an image that is open for reading.

use std::{fmt, ops::ControlFlow, sync::Arc};

use uxfs_volume::{
    attribute::xattr::XattrView, error::OperationError, inode::Inode, parent_pointer::paths::PathLimits,
};

use crate::{Entries, Error, File, FileType, Image, Metadata, Result, Walk, error::About};

/// A file of any type in an [`Image`], with its metadata. It keeps the image open.
#[derive(Clone)]
pub struct Entry {
    image: Image,
    inode: Arc<Inode>,
    metadata: Metadata,
    path: Vec<u8>,
}

/// An extended attribute, under the name that Linux shows.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub struct Attribute {
    /// `user.…`, `trusted.…`, `security.…` or `system.posix_acl_…`.
    pub name: Vec<u8>,
    /// Its value; an access control list as `getxattr` gives it.
    pub value: Vec<u8>,
}

/// A name of a file, as its parent pointer has it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub struct Parent {
    /// The directory's inode number.
    pub directory: u64,
    /// The name.
    pub name: Vec<u8>,
}

/// The paths of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Paths {
    /// From the root directory, each with a slash in front; sorted.
    pub paths: Vec<Vec<u8>>,
    /// Whether these are all: a file can have more names than are looked for.
    pub is_complete: bool,
    /// Names that lead nowhere: damage, in words.
    pub problems: Vec<String>,
}

impl Entry {
    pub(crate) fn new(image: &Image, inode: Arc<Inode>, path: Vec<u8>) -> Result<Self> {
        let metadata = Metadata::of_inode(&inode, image.volume().geometry().block_size_bytes);
        let unused = || uxfs_volume::error::Error::from(OperationError::NoSuchInode);
        let metadata = metadata.ok_or_else(unused).about_path(&path)?;
        Ok(Self { image: image.clone(), inode, metadata, path })
    }

    /// The path by which it was found, from the root directory. Empty where it was found by its inode number.
    pub fn path(&self) -> &[u8] {
        &self.path
    }

    /// The last name of the [`path`](Self::path); empty for the root directory.
    pub fn name(&self) -> &[u8] {
        let end = self.path.iter().rposition(|byte| *byte != b'/').map_or(0, |last| last.saturating_add(1));
        self.path.get(..end).and_then(|stem| stem.rsplit(|byte| *byte == b'/').next()).unwrap_or_default()
    }

    /// The file's metadata, as `stat` gives it.
    pub fn metadata(&self) -> &Metadata {
        &self.metadata
    }

    /// Its kind.
    pub fn file_type(&self) -> FileType {
        self.metadata.file_type
    }

    /// Opens a regular file for reading.
    ///
    /// # Errors
    /// Not a regular file; one of the realtime section; damage.
    pub fn open(&self) -> Result<File> {
        self.about(File::open(&self.image, &self.inode))
    }

    /// The whole contents of a regular file.
    ///
    /// ```
    /// # let folder = tempfile::tempdir()?;
    /// # let path = folder.path().join("disk.img");
    /// # uxfs::Maker::new().size(300 << 20).make(&path)?;
    /// # let editor = uxfs::Editor::open(&path)?;
    /// # editor.write("/a", b"all of it")?;
    /// # editor.close()?;
    /// let image = uxfs::Image::open(&path)?;
    /// assert_eq!(image.find("/a")?.read(1 << 20)?, b"all of it");
    /// assert!(image.find("/a")?.read(4).is_err(), "the file is longer than 4 bytes");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As [`open`](Self::open); a file of more than `most_bytes` (EFBIG), because an image may claim any size; the device.
    pub fn read(&self, most_bytes: usize) -> Result<Vec<u8>> {
        const EFBIG: i32 = 27;
        let file = self.open()?;
        let length = usize::try_from(file.len()).ok().filter(|length| *length <= most_bytes);
        let Some(length) = length else {
            let message = format!("the file has {} bytes, more than the {most_bytes} asked for", file.len());
            return self.about(Err(Error::Operation { errno: EFBIG, message }));
        };
        let mut contents = vec![0; length];
        let read = file.read_at(0, &mut contents)?;
        contents.truncate(read);
        Ok(contents)
    }

    /// The entries of a directory, in its own order, without `.` and `..`.
    ///
    /// # Errors
    /// Not a directory.
    pub fn entries(&self) -> Result<Entries> {
        if !self.metadata.is_directory() {
            const ENOTDIR: i32 = 20;
            let message = "not a directory".to_owned();
            return self.about(Err(Error::Operation { errno: ENOTDIR, message }));
        }
        Ok(Entries::new(self))
    }

    /// This file and, if it is a directory, everything below.
    pub fn walk(&self) -> Walk {
        Walk::from_entry(self)
    }

    /// The target of a symbolic link.
    ///
    /// # Errors
    /// Not a symbolic link; damage; the device.
    pub fn link_target(&self) -> Result<Vec<u8>> {
        self.about(self.image.volume().read_symlink(&self.inode))
    }

    /// All extended attributes, access control lists among them.
    ///
    /// # Errors
    /// More than 64 MiB of them (E2BIG: take [`attribute_names`](Self::attribute_names)); damage; the device.
    pub fn attributes(&self) -> Result<Vec<Attribute>> {
        const MOST_BYTES: usize = 64 << 20;
        const E2BIG: i32 = 7;
        let (mut attributes, mut bytes) = (Vec::new(), 0_usize);
        let visited = self.about(self.image.volume().attributes(&self.inode))?.visit_xattrs(
            XattrView::Copy,
            |name, value| {
                bytes = bytes.saturating_add(name.len()).saturating_add(value.len());
                if bytes > MOST_BYTES {
                    return Ok(ControlFlow::Break(()));
                }
                attributes.push(Attribute { name: name.to_vec(), value: value.to_vec() });
                Ok(ControlFlow::Continue(()))
            },
        );
        self.about(visited)?;
        if bytes > MOST_BYTES {
            let message = "more attributes than can be given at once; ask for them by name".to_owned();
            return self.about(Err(Error::Operation { errno: E2BIG, message }));
        }
        Ok(attributes)
    }

    /// The names of all extended attributes.
    ///
    /// # Errors
    /// More than 4 MiB of names; damage; the device.
    pub fn attribute_names(&self) -> Result<Vec<Vec<u8>>> {
        let reader = self.about(self.image.volume().attributes(&self.inode))?;
        self.about(reader.xattr_names(XattrView::Copy))
    }

    /// The value of one extended attribute; `None` where it has no such attribute.
    ///
    /// # Errors
    /// A name of no kind that there is; damage; the device.
    pub fn attribute(&self, name: impl AsRef<[u8]>) -> Result<Option<Vec<u8>>> {
        match self
            .about(self.image.volume().attributes(&self.inode))?
            .xattr(name.as_ref())
            .map_err(Error::from)
        {
            Err(error) if error.is_not_found() => Ok(None),
            value => self.about(value.map(Some)),
        }
    }

    /// The names of the file as its parent pointers have them: one for each hard link, at most 100,000.
    ///
    /// # Errors
    /// An image without parent pointers; damage; the device.
    pub fn parents(&self) -> Result<Vec<Parent>> {
        let found =
            self.about(self.image.volume().parent_pointers(&self.inode, PathLimits::default().paths))?;
        let parents = found.0.into_iter();
        Ok(parents.map(|found| Parent { directory: found.parent.get(), name: found.name.into() }).collect())
    }

    /// Every path of the file, from parent pointers alone.
    ///
    /// # Errors
    /// An image without parent pointers; damage of this inode; the device.
    pub fn paths(&self) -> Result<Paths> {
        let found = self.about(self.image.volume().paths_of(&self.inode, &PathLimits::default()))?;
        Ok(Paths {
            paths: found.paths,
            is_complete: found.is_complete,
            problems: found.problems.iter().map(ToString::to_string).collect(),
        })
    }

    pub(crate) fn image(&self) -> &Image {
        &self.image
    }

    pub(crate) fn inode(&self) -> &Arc<Inode> {
        &self.inode
    }

    /// Names the file in an error.
    fn about<T, E: Into<Error>>(&self, result: std::result::Result<T, E>) -> Result<T> {
        if self.path.is_empty() {
            return result.about(format_args!("inode {}", self.metadata.inode));
        }
        result.about_path(&self.path)
    }
}

impl fmt::Debug for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Entry")
            .field("path", &format_args!("{}", self.path.escape_ascii()))
            .field("metadata", &self.metadata)
            .finish()
    }
}
