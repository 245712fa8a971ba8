//! uxfs does it, as a system call for root would: what the core leaves to callers is done here.

use std::ops::ControlFlow;

use uxfs_engine::bulk::create::NewKind;
use uxfs_filesystem::{
    filesystem::FileSystem,
    inode::table::InodeHandle,
    operations::{
        create::NewFile,
        live::Status,
        rename::RenameOptions,
        set_attributes::{AttributeChanges, FlagChanges, Writer, mode_without_set_id},
    },
};
use uxfs_volume::{
    error::{Error, OperationError, Result},
    inode::{DeviceNumber, FileType, InodeFlags, Timestamp},
};

use super::script::{Kind, Memory, Operation, Path, Place, Seen, Side, Snapshot, Times};

pub struct Own<'fs> {
    file_system: &'fs FileSystem,
    memory: Memory,
}

const NOTTY: i32 = 25;
const OPNOTSUPP: i32 = 95;

impl<'fs> Own<'fs> {
    pub fn new(file_system: &'fs FileSystem) -> Self {
        Self { file_system, memory: Memory::default() }
    }

    fn directory(&self, path: &Path) -> Result<InodeHandle> {
        let root = self.file_system.open_root()?;
        path.iter().try_fold(root, |directory, name| self.file_system.find(&directory, name))
    }

    fn file(&self, place: &Place) -> Result<InodeHandle> {
        self.file_system.find(&self.directory(&place.directory)?, &place.name)
    }

    fn create(&self, place: &Place, kind: &Kind, permissions: u16) -> Result<()> {
        let device = |major: &u32, minor: &u32| DeviceNumber { major: *major, minor: *minor };
        let (kind, permissions) = match kind {
            Kind::Regular => (NewKind::Regular, permissions),
            // mkdir ignores set-id bits.
            Kind::Directory => (NewKind::Directory, permissions & 0o1777),
            Kind::Symlink(target) => (NewKind::Symlink(target), 0o777),
            Kind::Fifo => (NewKind::Special(FileType::Fifo, DeviceNumber::default()), permissions),
            Kind::Socket => (NewKind::Special(FileType::Socket, DeviceNumber::default()), permissions),
            Kind::Character(major, minor) => {
                (NewKind::Special(FileType::CharacterDevice, device(major, minor)), permissions)
            }
            Kind::Block(major, minor) => {
                (NewKind::Special(FileType::BlockDevice, device(major, minor)), permissions)
            }
        };
        let directory = self.directory(&place.directory)?;
        self.file_system.create(&directory, &place.name, &NewFile::new(kind, permissions)).map(drop)
    }

    fn set(&self, place: &Place, changes: impl FnOnce(&Status) -> AttributeChanges) -> Result<()> {
        let file = self.file(place)?;
        let status = self.file_system.stat(&file)?;
        self.file_system.set_attributes(&file, &changes(&status))
    }

    /// Project and flags in one: as two calls for the kernel.
    fn set_flags(
        &self,
        place: &Place,
        change: impl FnOnce(&mut InodeFlags),
        project: Option<u32>,
    ) -> Result<()> {
        self.set(place, |status| {
            let mut flags = status.flags;
            change(&mut flags);
            let flags = FlagChanges { flags, ..FlagChanges::default() };
            AttributeChanges { flags: Some(flags), project_id: project, ..AttributeChanges::default() }
        })
    }

    /// Whether an `ioctl` reaches the file.
    fn check_openable(&self, place: &Place) -> std::result::Result<(), i32> {
        let file = self.file(place).map_err(|error| error.errno())?;
        let kind = self.file_system.stat(&file).map_err(|error| error.errno())?.file_type;
        if matches!(kind, FileType::Regular | FileType::Directory) { Ok(()) } else { Err(NOTTY) }
    }

    fn look_at(&self, path: &Path, file: &InodeHandle, all: &mut Vec<(Path, Seen, Times)>) {
        let status = self.file_system.stat(file).unwrap();
        let is_directory = status.file_type == FileType::Directory;
        let is_link = status.file_type == FileType::SymbolicLink;
        let seen = Seen {
            mode: status.mode.into(),
            links: status.link_count.into(),
            uid: status.uid,
            gid: status.gid,
            device: (status.device.major, status.device.minor),
            target: if is_link { self.file_system.read_link(file).unwrap() } else { Vec::new() },
            size: if is_directory { 0 } else { status.size_bytes },
            inode: 0,
            has_new_modification_time: false,
            has_new_change_time: false,
        };
        let time = |time: Timestamp| (time.seconds, time.nanoseconds);
        let times = [time(status.modification_time), time(status.change_time)];
        all.push((path.clone(), seen, (status.number.get(), times)));
        if !is_directory {
            return;
        }
        let mut names = Vec::new();
        let visit = |entry: uxfs_volume::directory::DirectoryEntry<'_>| {
            if entry.name != b"." && entry.name != b".." {
                names.push(entry.name.to_vec());
            }
            ControlFlow::Continue(())
        };
        self.file_system.read_entries(file, 0, visit).unwrap();
        for name in names {
            let child = self.file_system.find(file, &name).unwrap();
            let mut below = path.clone();
            below.push(name);
            self.look_at(&below, &child, all);
        }
    }
}

impl Side for Own<'_> {
    fn perform(&mut self, operation: &Operation) -> std::result::Result<(), i32> {
        let fs = self.file_system;
        let done = match operation {
            Operation::Create { place, kind, permissions } => self.create(place, kind, *permissions),
            Operation::Link { from, to } => {
                let file = self.file(from);
                file.and_then(|file| fs.link(&file, &self.directory(&to.directory)?, &to.name))
            }
            Operation::Unlink(place) => {
                self.directory(&place.directory).and_then(|directory| fs.unlink(&directory, &place.name))
            }
            Operation::RemoveDirectory(place) => self
                .directory(&place.directory)
                .and_then(|directory| fs.remove_directory(&directory, &place.name)),
            Operation::Rename { from, to, flags } => {
                let options = RenameOptions {
                    no_replace: flags & 1 != 0,
                    exchange: flags & 2 != 0,
                    whiteout: (flags & 4 != 0).then_some((0, 0)),
                };
                let directories =
                    self.directory(&from.directory).and_then(|one| Ok((one, self.directory(&to.directory)?)));
                directories.and_then(|(one, other)| fs.rename(&one, &from.name, &other, &to.name, &options))
            }
            Operation::Chmod(place, permissions) => {
                let kind = self.file(place).and_then(|file| fs.stat(&file));
                if kind.is_ok_and(|status| status.file_type == FileType::SymbolicLink) {
                    return Err(OPNOTSUPP);
                }
                self.set(place, |_| AttributeChanges {
                    permissions: Some(*permissions),
                    ..AttributeChanges::default()
                })
            }
            Operation::Chown(place, uid, gid) => self.set(place, |status| AttributeChanges {
                uid: Some(*uid),
                gid: Some(*gid),
                permissions: (status.file_type != FileType::Directory)
                    .then(|| mode_without_set_id(status.mode, Writer::OfGroup) & 0o7777),
                ..AttributeChanges::default()
            }),
            Operation::SetTimes(place, access, modification) => {
                let time = |(seconds, nanoseconds): (i64, u32)| Some(Timestamp { seconds, nanoseconds });
                self.set(place, |_| AttributeChanges {
                    access_time: time(*access),
                    modification_time: time(*modification),
                    ..AttributeChanges::default()
                })
            }
            Operation::SetFlags(place, is_immutable, is_append) => {
                self.check_openable(place)?;
                let change = |flags: &mut InodeFlags| {
                    flags.set(InodeFlags::IMMUTABLE, *is_immutable);
                    flags.set(InodeFlags::APPEND, *is_append);
                };
                self.set_flags(place, change, None)
            }
            Operation::SetProject(place, inherits, project) => {
                self.check_openable(place)?;
                let change = |flags: &mut InodeFlags| flags.set(InodeFlags::PROJECT_INHERIT, *inherits);
                self.set_flags(place, change, Some(*project))
            }
        };
        match done {
            Err(error @ (Error::Io(_) | Error::Corrupt(_) | Error::Unsupported(_))) => {
                panic!("{operation:?}: {error}")
            }
            Err(Error::Operation(OperationError::NoSuchInode)) => panic!("{operation:?}: no such inode"),
            other => other.map_err(|error| error.errno()),
        }
    }

    fn look(&mut self) -> Snapshot {
        let mut all = Vec::new();
        self.look_at(&Vec::new(), &self.file_system.open_root().unwrap(), &mut all);
        self.memory.remember(all)
    }
}
