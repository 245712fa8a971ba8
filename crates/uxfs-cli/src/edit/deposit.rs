//! Putting one file into a directory of the image.
//!
//! A regular file gets its name last, when contents and attributes are complete: a crash finds all of it or nothing.

use uxfs_engine::{attribute::SetMode, bulk::create::NewKind};
use uxfs_filesystem::{
    inode::table::InodeHandle,
    operations::{create::NewFile, rename::RenameOptions, set_attributes::AttributeChanges, xattr::AclKind},
};
use uxfs_source::entry::SELINUX_LABEL;
use uxfs_volume::{
    attribute::xattr::{ACL_ACCESS, ACL_DEFAULT},
    error::{Error, OperationError},
    inode::{DeviceNumber, FileType, Timestamp},
};

use crate::{
    edit::{
        contents::{self, Source},
        people::Owner,
        session::{Place, Session, explained},
    },
    failure::Failure,
    kind::Kind as FailureKind,
};

/// A file that is to be put into the image.
#[derive(Debug)]
pub struct Deposit<'a> {
    /// The file.
    pub kind: Kind<'a>,
    /// Requested permissions; the umask or the directory's default ACL reduces them.
    pub permissions: u16,
    /// The owner, if it is not root.
    pub owner: Owner,
    /// Metadata kept from the source.
    pub kept: Kept,
}

/// The kind of a new file.
#[derive(Debug)]
pub enum Kind<'a> {
    /// A regular file of this size, with these contents.
    Regular(Source<'a>, u64),
    /// A directory.
    Directory,
    /// A symbolic link to this target.
    Symlink(&'a [u8]),
    /// A device, fifo or socket.
    Special(FileType, DeviceNumber),
}

/// Metadata that a copy keeps; `None` means the value of a new file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Kept {
    /// Permissions, exactly.
    pub permissions: Option<u16>,
    /// Owner.
    pub owner: Owner,
    /// Last access.
    pub access: Option<Timestamp>,
    /// Last change of contents.
    pub modification: Option<Timestamp>,
    /// SELinux label, in place of one among the attributes.
    pub label: Option<Vec<u8>>,
    /// Attributes by their Linux names; ACLs come from here only.
    pub attributes: Option<Vec<(Vec<u8>, Vec<u8>)>>,
}

impl Kept {
    /// The SELinux label.
    pub fn label(&self) -> Option<&[u8]> {
        let mut attributes = self.attributes.iter().flatten();
        let own = || attributes.find(|(name, _)| name == SELINUX_LABEL).map(|(_, value)| value.as_slice());
        self.label.as_deref().or_else(own)
    }

    /// What a directory has from the first, before it is filled.
    pub fn before_filling(&self) -> Self {
        Self { label: self.label().map(<[u8]>::to_vec), ..Self::default() }
    }
}

/// The treatment of existing files.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Overwriting {
    /// They are kept.
    pub keeps_existing: bool,
    /// A file with several names is replaced by a new inode: its other names keep the old contents.
    pub divides_links: bool,
    /// Where a symbolic link leads to a directory, a directory is put into that.
    pub enters_linked_directories: bool,
}

impl Deposit<'_> {
    fn file_type(&self) -> FileType {
        match &self.kind {
            Kind::Regular(..) => FileType::Regular,
            Kind::Directory => FileType::Directory,
            Kind::Symlink(_) => FileType::SymbolicLink,
            Kind::Special(file_type, _) => *file_type,
        }
    }

    fn new_file<'f>(&self, kind: NewKind<'f>, umask: u16) -> NewFile<'f> {
        NewFile {
            umask,
            uid: self.owner.uid.unwrap_or(0),
            gid: self.owner.gid.unwrap_or(0),
            ..NewFile::new(kind, self.permissions)
        }
    }
}

impl Session {
    /// Creates a file under a new name. The times of a directory are set when it is full:
    /// [`keep`](Self::keep).
    ///
    /// # Errors
    /// The name exists; no space, and nothing of the file is left then; the source cannot be read; damage; the
    /// device.
    pub fn deposit(&mut self, place: &Place, mut deposit: Deposit<'_>) -> Result<InodeHandle, Failure> {
        let brings_one = deposit.kept.label().is_some();
        let label = self.label_of_new(place, deposit.file_type(), brings_one)?;
        deposit.kept.label = label.or(deposit.kept.label);
        let filesystem = self.filesystem();
        let failed = |error: Error| place.failure(error);
        let kind = match &deposit.kind {
            Kind::Regular(..) => return self.deposit_regular(place, deposit),
            Kind::Directory => NewKind::Directory,
            Kind::Symlink(target) => NewKind::Symlink(target),
            Kind::Special(file_type, device) => NewKind::Special(*file_type, *device),
        };
        let is_symlink = matches!(kind, NewKind::Symlink(_));
        let new = deposit.new_file(kind, self.umask);
        let new = if is_symlink { NewFile { permissions: 0o777, umask: 0, ..new } } else { new };
        let handle = filesystem.create(&place.directory, &place.name, &new).map_err(failed)?;
        self.keep(&handle, &deposit.kept).map_err(|failure| failure.about_path(&place.path))?;
        Ok(handle)
    }

    /// Creates or replaces a file, as cp does: regular files get new contents and keep their inode,
    /// directories are to be filled, everything else is replaced. Returns the existing file; `None` if it is to stay.
    ///
    /// # Errors
    /// A directory in the place of a file, or a file in that of a directory; a file that the same command has made; as for [`deposit`](Self::deposit).
    pub fn deposit_over(
        &mut self,
        place: &Place,
        deposit: Deposit<'_>,
        overwriting: Overwriting,
    ) -> Result<Option<InodeHandle>, Failure> {
        let is_directory = matches!(deposit.kind, Kind::Directory);
        let made = self.deposit_or_replace(place, deposit, overwriting)?;
        if let Some(file) = made.as_ref().filter(|_| !is_directory) {
            self.just_made.add(file);
        }
        Ok(made)
    }

    fn deposit_or_replace(
        &mut self,
        place: &Place,
        deposit: Deposit<'_>,
        overwriting: Overwriting,
    ) -> Result<Option<InodeHandle>, Failure> {
        let is_directory = matches!(deposit.kind, Kind::Directory);
        let Some(existing) = self.at(place)? else {
            if place.is_directory_wanted && !is_directory {
                return Err(place.failure(OperationError::NotADirectory));
            }
            return self.deposit(place, deposit).map(Some);
        };
        let status = self.status(&existing)?;
        // A slash behind the name of a file is an error, and not another way to write the name.
        if place.is_directory_wanted && !is_directory && status.file_type != FileType::Directory {
            return Err(place.failure(OperationError::NotADirectory));
        }
        if overwriting.keeps_existing && !is_directory {
            return Ok(None);
        }
        let wrong = |kind, words: &str| Err(Failure::refused(kind, words).about_path(&place.path));
        match (is_directory, status.file_type == FileType::Directory) {
            (true, true) => return Ok(Some(existing)),
            (true, false) => {
                if overwriting.enters_linked_directories
                    && status.file_type == FileType::SymbolicLink
                    && let Some(directory) = self.linked_directory(&place.path)?
                {
                    return Ok(Some(directory));
                }
                return wrong(FailureKind::NotADirectory, "cannot replace a file by a directory");
            }
            (false, true) => return wrong(FailureKind::IsADirectory, "cannot replace a directory by a file"),
            (false, false) => self.just_made.refuse(&existing, place)?,
        }
        let has_names = status.file_type == FileType::Regular && status.link_count > 1;
        let Deposit { kind: Kind::Regular(mut source, size_bytes), mut kept, .. } = deposit else {
            drop(existing);
            self.remove_name(place, false)?;
            return self.deposit(place, deposit).map(Some);
        };
        if has_names && overwriting.divides_links {
            drop(existing);
            self.remove_name(place, false)?;
            let deposit = Deposit { kind: Kind::Regular(source, size_bytes), kept, ..deposit };
            return self.deposit(place, deposit).map(Some);
        }
        let existing = match status.file_type {
            FileType::SymbolicLink => self.find(&place.path, true)?,
            _ => existing,
        };
        if self.status(&existing)?.file_type != FileType::Regular {
            return wrong(FailureKind::WrongFileType, "not a regular file: remove it first");
        }
        kept.label = self.label_of_existing(place, FileType::Regular)?;
        contents::replace(self.filesystem(), &place.directory, &existing, &mut source, size_bytes)
            .and_then(|()| self.keep(&existing, &kept))
            .map_err(|failure| failure.about_path(&place.path))?;
        Ok(Some(existing))
    }

    fn deposit_regular(&self, place: &Place, mut deposit: Deposit<'_>) -> Result<InodeHandle, Failure> {
        let filesystem = self.filesystem();
        let new = deposit.new_file(NewKind::Regular, self.umask);
        // Before the contents, which may be long.
        if self.at(place)?.is_some() {
            return Err(place.failure(OperationError::Exists));
        }
        let created = filesystem.create_temporary(&place.directory, &new, true);
        let handle = created.map_err(|error| place.failure(error))?;
        if let Kind::Regular(source, size_bytes) = &mut deposit.kind {
            contents::fill(filesystem, &handle, source, *size_bytes)
                .map_err(|failure| failure.about_path(&place.path))?;
        }
        self.keep(&handle, &deposit.kept).map_err(|failure| failure.about_path(&place.path))?;
        filesystem.link(&handle, &place.directory, &place.name).map_err(|error| place.failure(error))?;
        Ok(handle)
    }

    /// Applies the metadata kept from the source.
    ///
    /// # Errors
    /// No space; an attribute that cannot be; damage; the device.
    pub fn keep(&self, handle: &InodeHandle, kept: &Kept) -> Result<(), Failure> {
        if *kept == Kept::default() {
            return Ok(());
        }
        let filesystem = self.filesystem();
        let file_type = self.status(handle)?.file_type;
        let is_symlink = file_type == FileType::SymbolicLink;
        if kept.attributes.is_some() && !is_symlink {
            // ACLs inherited from the directory.
            for kind in [AclKind::Access, AclKind::Default] {
                if filesystem.get_acl(handle, kind)?.is_some() {
                    filesystem.set_acl(handle, kind, None, true).map_err(explained)?;
                }
            }
        }
        let changes = AttributeChanges {
            permissions: kept.permissions.filter(|_| !is_symlink),
            uid: kept.owner.uid,
            gid: kept.owner.gid,
            access_time: kept.access,
            modification_time: kept.modification,
            ..AttributeChanges::default()
        };
        if changes != AttributeChanges::default() {
            filesystem.set_attributes(handle, &changes).map_err(explained)?;
        }
        let label = kept.label.iter().map(|label| (SELINUX_LABEL, label));
        let attributes = kept.attributes.iter().flatten().map(|(name, value)| (name.as_slice(), value));
        let attributes = attributes.filter(|(name, _)| kept.label.is_none() || *name != SELINUX_LABEL);
        for (name, value) in attributes.chain(label) {
            filesystem.set_xattr(handle, name, value, SetMode::Upsert).map_err(|error| {
                explained(error).about(format!("attribute {}", crate::text::escaped(name)))
            })?;
        }
        Ok(())
    }

    /// Moves the file at another place to this one; a file at this place is removed.
    ///
    /// # Errors
    /// As for renaming.
    pub fn rename_over(&self, from: &Place, to: &Place) -> Result<(), Failure> {
        let options = RenameOptions::default();
        self.filesystem()
            .rename(&from.directory, &from.name, &to.directory, &to.name, &options)
            .map_err(|error| to.failure(error))
    }

    /// An unused name in the same directory.
    ///
    /// # Errors
    /// Damage; the device.
    pub fn unused_place(&self, beside: &Place) -> Result<Place, Failure> {
        for number in 0_u32.. {
            let name = format!(".uxfs-{number:08x}");
            let place = Place { name: name.into_bytes(), ..beside.clone() };
            if self.at(&place)?.is_none() {
                return Ok(place);
            }
        }
        Err(beside.failure(OperationError::Exists))
    }
}

/// The attributes of a file in the image, for a copy: its ACLs, and all others if `all` is set.
///
/// # Errors
/// Damage; the device.
pub fn kept_of_image(session: &Session, handle: &InodeHandle, all: bool) -> Result<Kept, Failure> {
    let filesystem = session.filesystem();
    let status = session.status(handle)?;
    let mut attributes = Vec::new();
    let view = uxfs_volume::attribute::xattr::XattrView::Copy;
    for name in filesystem.list_xattrs(handle, view, usize::MAX)? {
        if all || matches!(name.as_slice(), ACL_ACCESS | ACL_DEFAULT) {
            let value = filesystem.get_xattr(handle, &name)?;
            attributes.push((name, value));
        }
    }
    Ok(Kept {
        label: None,
        permissions: Some(status.mode & 0o7777),
        owner: Owner { uid: Some(status.uid), gid: Some(status.gid) },
        access: Some(status.access_time),
        modification: Some(status.modification_time),
        attributes: Some(attributes),
    })
}

/// The metadata of a file on the host.
pub fn kept_of_host(metadata: &uxfs_source::entry::Metadata) -> Kept {
    let time = |time: uxfs_source::entry::Timestamp| Timestamp {
        seconds: time.seconds,
        nanoseconds: time.nanoseconds,
    };
    let attributes = metadata.attributes.iter();
    Kept {
        label: None,
        permissions: Some(metadata.mode & 0o7777),
        owner: Owner { uid: Some(metadata.user), gid: Some(metadata.group) },
        access: Some(time(metadata.times.access)),
        modification: Some(time(metadata.times.modification)),
        attributes: Some(
            attributes.map(|attribute| (attribute.name.to_vec(), attribute.value.to_vec())).collect(),
        ),
    }
}
