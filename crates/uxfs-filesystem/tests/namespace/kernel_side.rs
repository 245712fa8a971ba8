//! The kernel does it, on a mounted image.

use std::{
    ffi::OsStr,
    fs,
    os::unix::{
        ffi::{OsStrExt, OsStringExt},
        fs::MetadataExt,
    },
    path::PathBuf,
};

use rustix::{
    fs::{
        AtFlags, CWD, Dev, FileType, Gid, Mode, RenameFlags, Timespec, Timestamps, Uid, chmodat, chownat,
        linkat, mkdirat, mknodat, renameat_with, symlinkat, unlinkat, utimensat,
    },
    io::Errno,
};
use uxfs_testkit::{judges::Judge, mount::LoopMount};

use super::script::{Kind, Memory, Operation, Path, Place, Seen, Side, Snapshot, Times};

pub struct Kernel {
    mount: LoopMount,
    memory: Memory,
}

impl Kernel {
    pub fn new(mount: LoopMount) -> Self {
        rustix::process::umask(Mode::empty());
        Self { mount, memory: Memory::default() }
    }

    pub fn finish(self) {
        self.mount.unmount().unwrap();
    }

    fn path(&self, place: &Place) -> PathBuf {
        let mut path = self.mount.path().to_path_buf();
        place.directory.iter().for_each(|name| path.push(OsStr::from_bytes(name)));
        // Not `push`, which would do something about dots.
        let mut bytes = path.into_os_string().into_vec();
        bytes.push(b'/');
        bytes.extend_from_slice(&place.name);
        PathBuf::from(std::ffi::OsString::from_vec(bytes))
    }

    fn create(&self, place: &Place, kind: &Kind, permissions: u16) -> Result<(), Errno> {
        let (path, mode) = (self.path(place), Mode::from_raw_mode(permissions.into()));
        let node = |file_type, device: Dev| mknodat(CWD, &path, file_type, mode, device);
        match kind {
            Kind::Regular => node(FileType::RegularFile, 0),
            Kind::Directory => mkdirat(CWD, &path, mode),
            Kind::Symlink(target) => symlinkat(OsStr::from_bytes(target), CWD, &path),
            Kind::Fifo => node(FileType::Fifo, 0),
            Kind::Socket => node(FileType::Socket, 0),
            Kind::Character(major, minor) => {
                node(FileType::CharacterDevice, rustix::fs::makedev(*major, *minor))
            }
            Kind::Block(major, minor) => node(FileType::BlockDevice, rustix::fs::makedev(*major, *minor)),
        }
    }

    /// What needs an `ioctl` is done by `xfs_io`, which says in words what went wrong.
    fn xfs_io(&self, place: &Place, commands: &[&str]) -> Result<(), Errno> {
        let path = self.path(place);
        let file_type = fs::symlink_metadata(&path).map_err(|error| Errno::from_io_error(&error).unwrap())?;
        if !file_type.is_dir() && !file_type.is_file() {
            // Only these can be opened for it.
            return Err(Errno::NOTTY);
        }
        let mut command = Judge::XfsIo.command();
        command.arg("-r");
        commands.iter().for_each(|argument| {
            command.args(["-c", argument]);
        });
        let output = command.arg(&path).output().unwrap();
        let words = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(words.is_empty() && output.status.success(), "{words}");
        Ok(())
    }

    fn look_at(&self, path: &Path, all: &mut Vec<(Path, Seen, Times)>) {
        let mut file = self.mount.path().to_path_buf();
        path.iter().for_each(|name| file.push(OsStr::from_bytes(name)));
        let status = fs::symlink_metadata(&file).unwrap();
        let is_directory = status.is_dir();
        let device = status.rdev();
        let seen = Seen {
            mode: status.mode(),
            links: status.nlink(),
            uid: status.uid(),
            gid: status.gid(),
            device: (rustix::fs::major(device), rustix::fs::minor(device)),
            target: fs::read_link(&file).map(|target| target.into_os_string().into_vec()).unwrap_or_default(),
            size: if is_directory { 0 } else { status.size() },
            inode: 0,
            has_new_modification_time: false,
            has_new_change_time: false,
        };
        let times =
            [(status.mtime(), status.mtime_nsec() as u32), (status.ctime(), status.ctime_nsec() as u32)];
        all.push((path.clone(), seen, (status.ino(), times)));
        if is_directory {
            for entry in fs::read_dir(&file).unwrap() {
                let mut below = path.clone();
                below.push(entry.unwrap().file_name().into_vec());
                self.look_at(&below, all);
            }
        }
    }
}

impl Side for Kernel {
    fn perform(&mut self, operation: &Operation) -> Result<(), i32> {
        let path = |place: &Place| self.path(place);
        let nothing = AtFlags::empty();
        let done = match operation {
            Operation::Create { place, kind, permissions } => self.create(place, kind, *permissions),
            Operation::Link { from, to } => linkat(CWD, path(from), CWD, path(to), nothing),
            Operation::Unlink(place) => unlinkat(CWD, path(place), nothing),
            Operation::RemoveDirectory(place) => unlinkat(CWD, path(place), AtFlags::REMOVEDIR),
            Operation::Rename { from, to, flags } => {
                renameat_with(CWD, path(from), CWD, path(to), RenameFlags::from_bits_retain(*flags))
            }
            Operation::Chmod(place, permissions) => {
                // Links have no permissions of their own.
                match fs::symlink_metadata(path(place)) {
                    Ok(status) if status.is_symlink() => Err(Errno::OPNOTSUPP),
                    _ => chmodat(CWD, path(place), Mode::from_raw_mode((*permissions).into()), nothing),
                }
            }
            Operation::Chown(place, uid, gid) => {
                let (uid, gid) = (Some(Uid::from_raw(*uid)), Some(Gid::from_raw(*gid)));
                chownat(CWD, path(place), uid, gid, AtFlags::SYMLINK_NOFOLLOW)
            }
            Operation::SetTimes(place, access, modification) => {
                let time = |(seconds, nanoseconds): (i64, u32)| Timespec {
                    tv_sec: seconds,
                    tv_nsec: nanoseconds.into(),
                };
                let times = Timestamps { last_access: time(*access), last_modification: time(*modification) };
                utimensat(CWD, path(place), &times, AtFlags::SYMLINK_NOFOLLOW)
            }
            Operation::SetFlags(place, is_immutable, is_append) => {
                let sign = |is_set: bool| if is_set { '+' } else { '-' };
                let immutable = format!("chattr {}i", sign(*is_immutable));
                let append = format!("chattr {}a", sign(*is_append));
                self.xfs_io(place, &[&immutable, &append])
            }
            Operation::SetProject(place, inherits, project) => {
                let is_directory = fs::symlink_metadata(path(place)).is_ok_and(|status| status.is_dir());
                let flag = format!("chattr {}P", if *inherits && is_directory { '+' } else { '-' });
                self.xfs_io(place, &[&format!("chproj {project}"), &flag])
            }
        };
        done.map_err(Errno::raw_os_error)
    }

    fn look(&mut self) -> Snapshot {
        let mut all = Vec::new();
        self.look_at(&Vec::new(), &mut all);
        self.memory.remember(all)
    }
}
