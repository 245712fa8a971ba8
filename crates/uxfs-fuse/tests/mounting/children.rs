//! This test program, run again as another user or in a user namespace.

use std::{
    env,
    ffi::OsStr,
    fs,
    os::unix::{
        fs::{PermissionsExt, chown},
        process::CommandExt,
    },
    path::{Path, PathBuf},
    process::{Command, Output},
};

use tempfile::TempDir;
use uxfs_fuse::mounting::mount_table::MountTable;
use uxfs_testkit::watchdog::Watchdog;

use super::scenarios;

/// The user that Linux keeps for none in particular.
pub const ORDINARY_USER: u32 = 65_534;

const SCENARIO: &str = "UXFS_MOUNTING_SCENARIO";
const DIRECTORY: &str = "UXFS_MOUNTING_DIRECTORY";

/// How the child is run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// As root.
    Root,
    /// As an ordinary user.
    User,
    /// As root of a user namespace with mounts of its own.
    Namespace,
    /// As root of a user namespace whose mounts belong to another one.
    NamespaceWithoutMounts,
}

/// A directory to mount on. Dropping it unmounts, whatever was left.
pub struct Ground {
    /// Open to all, removed at the end.
    folder: TempDir,
    _watchdog: Watchdog,
}

impl Ground {
    pub fn new() -> Self {
        let folder = tempfile::Builder::new().prefix("uxfs-mounting-").tempdir().unwrap();
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
        let watchdog = Watchdog::new(&[&folder.path().join("mount point")]);
        let ground = Self { folder, _watchdog: watchdog };
        fs::create_dir(ground.path()).unwrap();
        ground
    }

    /// The mount point. A blank is escaped in the table of mounts.
    pub fn path(&self) -> PathBuf {
        self.folder.path().canonicalize().unwrap().join("mount point")
    }

    /// Runs the scenario `name` in a child, and fails if it fails.
    pub fn run(&self, place: Place, name: &str) -> String {
        chown(self.path(), Some(ORDINARY_USER), Some(ORDINARY_USER)).unwrap();
        let program = self.folder.path().join("tests");
        // The build folder may be closed to other users. A program that this process wrote itself would be busy while any
        // other thread starts one.
        let copied =
            Command::new("cp").arg("--").arg(env::current_exe().unwrap()).arg(&program).status().unwrap();
        assert!(copied.success());
        let mut command = match place {
            Place::Root | Place::User => Command::new(&program),
            Place::Namespace => unshare("-Urm", &program),
            Place::NamespaceWithoutMounts => unshare("-Ur", &program),
        };
        command.args(["--exact", "mounting::children::scenario", "--nocapture"]);
        if place != Place::Root {
            command.uid(ORDINARY_USER).gid(ORDINARY_USER);
        }
        command.env(SCENARIO, name).env(DIRECTORY, self.path()).current_dir("/");
        let Output { status, stdout, stderr } = command.output().unwrap();
        let output = format!("{}{}", String::from_utf8_lossy(&stdout), String::from_utf8_lossy(&stderr));
        assert!(status.success(), "{place:?} {name}: {output}");
        assert!(output.contains(&format!("scenario {name}")), "{place:?} {name} did not run: {output}");
        output
    }

    /// Whether something is mounted here.
    pub fn is_mounted(&self) -> bool {
        MountTable::read().unwrap().at(&self.path()).is_some()
    }
}

impl Drop for Ground {
    fn drop(&mut self) {
        while self.is_mounted() {
            if rustix::mount::unmount(self.path(), rustix::mount::UnmountFlags::DETACH).is_err() {
                break;
            }
        }
    }
}

fn unshare(flags: &str, program: &Path) -> Command {
    let mut command = Command::new("unshare");
    command.arg(flags).arg("--").arg(program);
    command
}

/// The child's part: nothing where this is no child.
#[test]
fn scenario() {
    if let (Some(name), Some(directory)) = (env::var_os(SCENARIO), env::var_os(DIRECTORY)) {
        println!("scenario {}", name.display());
        match name.as_os_str() {
            name if name == OsStr::new("life") => scenarios::life(Path::new(&directory)),
            name if name == OsStr::new("dead") => scenarios::dead(Path::new(&directory)),
            name if name == OsStr::new("abandoned") => scenarios::abandoned(Path::new(&directory)),
            name if name == OsStr::new("refused") => scenarios::refused(Path::new(&directory)),
            name if name == OsStr::new("no way") => scenarios::no_way(Path::new(&directory)),
            name => panic!("no scenario {}", name.display()),
        }
    }
}
