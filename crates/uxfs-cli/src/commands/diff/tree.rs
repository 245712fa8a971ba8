//! A side of the comparison: an image or a directory of the host.

use std::{
    ffi::OsStr,
    os::{fd::OwnedFd, unix::ffi::OsStrExt},
    path::{Path, PathBuf},
    sync::Arc,
};

use uxfs_block::spill::{map::Key, sorter::Sorter};
use uxfs_format::units::InodeNumber;
use uxfs_volume::{
    attribute::xattr::XattrView,
    error::Error,
    file_data::reader::{FilePiece, FileReader},
    inode::Inode,
    volume::Volume,
};

use super::{
    both::{Both, Side},
    contents::{Piece, Pieces},
    facts::Facts,
    host::{self, HostFile, HostTree, spilled},
};
use crate::{
    failure::{About, Failure},
    image::MountedImage,
    search::entries::Entries,
    target::Target,
    text::escaped,
};

/// A side.
#[derive(Debug)]
pub(super) struct Tree {
    /// As it was named, for messages.
    path: PathBuf,
    form: Form,
}

#[derive(Debug)]
enum Form {
    Image(Box<MountedImage>),
    Host(HostTree),
}

/// A file of a side.
#[derive(Debug)]
pub(super) enum File {
    Inode(Arc<Inode>),
    Host(HostFile),
}

/// A directory that is being read.
#[derive(Debug)]
pub(super) enum Directory {
    Inode(Arc<Inode>),
    Host(Arc<OwnedFd>),
}

/// Both sides.
pub(super) type Trees<'t> = &'t Both<Tree>;

impl Both<Tree> {
    /// Whether both sides tell trusted attributes: Linux tells them to root only.
    pub fn tell_trusted(&self) -> bool {
        let is_image = |side| matches!(self.at(side).form, Form::Image(_));
        is_image(Side::First) && is_image(Side::Second) || rustix::process::geteuid().is_root()
    }
}

impl Tree {
    pub fn of_image(name: &Path, image: MountedImage) -> Self {
        Self { path: name.to_owned(), form: Form::Image(Box::new(image)) }
    }

    /// # Errors
    /// It cannot be opened.
    pub fn of_host(path: &Path) -> Result<Self, Failure> {
        let form = Form::Host(HostTree::open(path).about_host(path)?);
        Ok(Self { path: path.to_owned(), form })
    }

    /// The image, where it is one.
    pub fn image(&self) -> Option<&MountedImage> {
        match &self.form {
            Form::Image(image) => Some(image),
            Form::Host(_) => None,
        }
    }

    /// Says in which side and at which path something failed.
    pub fn failure(&self, path: &[u8], failure: impl Into<Failure>) -> Failure {
        let shown = path.get(..path.len().min(SHOWN_BYTES)).unwrap_or_default();
        let failure = failure.into().about(escaped(if shown.is_empty() { b"." } else { shown }));
        match &self.form {
            Form::Image(_) => {
                failure.at_path(if path.is_empty() { b"." } else { path }).about_image(&self.path)
            }
            Form::Host(_) => failure
                .about(escaped(self.path.as_os_str().as_bytes()))
                .at_host(&self.path.join(OsStr::from_bytes(path))),
        }
    }

    /// The file where the comparison begins.
    ///
    /// # Errors
    /// There is none; damage; the device; the host.
    pub fn start(&self, path: &Target) -> Result<File, Failure> {
        match &self.form {
            Form::Image(image) => {
                Ok(File::Inode(path.find(image, true).about_target(path).about_image(&self.path)?))
            }
            Form::Host(host) => Ok(File::Host(host.root().about_host(&self.path)?)),
        }
    }

    /// Opens a directory that [`number`](File::number) names, or its path below the start.
    ///
    /// # Errors
    /// Damage; the device; the host.
    pub fn directory(&self, number: InodeNumber, path: &[u8]) -> Result<Directory, Failure> {
        match &self.form {
            Form::Image(image) => Ok(Directory::Inode(image.inode(number)?)),
            Form::Host(host) => Ok(Directory::Host(host.directory(path)?)),
        }
    }

    /// Gathers the names of a directory, with their inode numbers. After damage come the names of later blocks; `tell` gets it.
    ///
    /// # Errors
    /// A temporary file.
    pub fn list(
        &self,
        directory: &Directory,
        names: &mut Sorter,
        mut tell: impl FnMut(Failure),
    ) -> Result<(), Failure> {
        match (&self.form, directory) {
            (Form::Image(image), Directory::Inode(inode)) => {
                let mut entries = match Entries::begin(image, Arc::clone(inode), 0) {
                    Ok(entries) => entries,
                    Err(error) => {
                        tell(error.into());
                        return Ok(());
                    }
                };
                loop {
                    match entries.next(image, &mut |_, _| false) {
                        Ok(Some((name, fields))) => {
                            names.push(name, &fields.inode.get().to_le_bytes()).map_err(spilled)?;
                        }
                        Ok(None) => return Ok(()),
                        Err(error) => tell(error.into()),
                    }
                }
            }
            (Form::Host(_), Directory::Host(directory)) => {
                if let Err(failure) = host::list(directory, names) {
                    tell(failure);
                }
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// Brings inodes into the cache that come next.
    pub fn prefetch(&self, numbers: impl Iterator<Item = InodeNumber>) {
        if let Form::Image(image) = &self.form {
            image.prefetch_inodes(numbers);
        }
    }

    /// The file of an entry.
    ///
    /// # Errors
    /// Damage; the device; the host.
    pub fn file(&self, directory: &Directory, name: &[u8], number: InodeNumber) -> Result<File, Failure> {
        match (&self.form, directory) {
            (Form::Image(image), Directory::Inode(directory)) => {
                Ok(File::Inode(image.inode_of_entry(directory, number)?))
            }
            (Form::Host(host), Directory::Host(directory)) => Ok(File::Host(host.file(directory, name)?)),
            _ => Err(not_of_this_side()),
        }
    }

    /// The target of a symbolic link.
    ///
    /// # Errors
    /// Damage; the device; the host.
    pub fn target(&self, file: &File) -> Result<Vec<u8>, Failure> {
        match (&self.form, file) {
            (Form::Image(image), File::Inode(inode)) => Ok(image.read_symlink(inode)?),
            (_, File::Host(file)) => file.target(),
            _ => Err(not_of_this_side()),
        }
    }

    /// The contents of a regular file.
    ///
    /// # Errors
    /// Damage; the device; the host.
    pub fn contents<'f>(&'f self, file: &'f File) -> Result<Box<dyn Pieces + 'f>, Failure> {
        match (&self.form, file) {
            (Form::Image(image), File::Inode(inode)) => {
                let volume: &Volume = image;
                Ok(Box::new(ImageContents(volume.file_reader(inode)?)))
            }
            (_, File::Host(file)) => Ok(Box::new(file.contents()?)),
            _ => Err(not_of_this_side()),
        }
    }

    /// Whether a file may have attributes.
    pub fn may_have_attributes(&self, file: &File) -> bool {
        match file {
            File::Inode(inode) => inode.may_have_attributes(),
            File::Host(_) => true,
        }
    }

    /// Gathers the attributes of a file, under the names that Linux shows.
    ///
    /// # Errors
    /// Damage; the device; the host; a temporary file.
    pub fn attributes(&self, file: &File, has_trusted: bool, sorter: &mut Sorter) -> Result<(), Failure> {
        match (&self.form, file) {
            (Form::Image(image), File::Inode(inode)) => {
                let mut failed = None;
                image.attributes(inode)?.visit_xattrs(XattrView::Copy, |name, value| {
                    use std::ops::ControlFlow::{Break, Continue};
                    if name.starts_with(b"trusted.") && !has_trusted {
                        return Ok::<_, Error>(Continue(()));
                    }
                    failed = sorter.push(name, value).err();
                    Ok(if failed.is_some() { Break(()) } else { Continue(()) })
                })?;
                failed.map_or(Ok(()), |error| Err(spilled(error)))
            }
            (_, File::Host(file)) => file.attributes(has_trusted, sorter),
            _ => Err(not_of_this_side()),
        }
    }
}

/// Bytes of a path that a message has.
const SHOWN_BYTES: usize = 1024;

fn not_of_this_side() -> Failure {
    Failure::failed("a file of the other side")
}

impl File {
    /// The fields that the inode holds.
    pub fn facts(&self) -> Facts {
        match self {
            Self::Inode(inode) => Facts::of_inode(inode),
            Self::Host(file) => file.facts,
        }
    }

    /// What tells it from the other files of its side.
    pub fn key(&self) -> Key {
        match self {
            Self::Inode(inode) => (0, inode.number.get()),
            Self::Host(file) => file.key,
        }
    }

    /// Its number, which names it in an image.
    pub fn number(&self) -> InodeNumber {
        InodeNumber::new(self.key().1)
    }
}

struct ImageContents<'f>(FileReader<'f>);

impl Pieces for ImageContents<'_> {
    fn next(&mut self) -> Result<Option<Piece<'_>>, Failure> {
        Ok(self.0.next_piece()?.map(|piece| match piece {
            FilePiece::Hole { length_bytes, .. } => Piece::Zeros(length_bytes),
            FilePiece::Data { bytes, .. } => Piece::Data(bytes),
        }))
    }
}
