//! A process that unmounts when the server ends, however it ends: the option `auto_unmount`.
//!
//! It waits for the end of a pipe whose other end only the server holds. fusermount3 has such a process of its own; it does
//! nothing where the mount belongs to another user than root and is not open to all, because root may not enter the mount
//! to see whether it is dead.

use std::{
    io,
    os::{fd::OwnedFd, unix::process::CommandExt},
    path::Path,
    process::{Child, Command, Stdio},
};

use rustix::pipe::{PipeFlags, pipe_with};

/// Waits, and runs a program (`$0`) on the mount point (`$1`).
const BY_FUSERMOUNT: &str = "read -r end; exec \"$0\" -u -z -q -- \"$1\"";
/// As above. Not every umount has the option to leave out the helpers of mount(8).
const BY_UMOUNT: &str = "read -r end; \"$0\" -i -l \"$1\" 2>/dev/null || exec \"$0\" -l \"$1\"";

/// The process. Dropping this ends it, and the mount stays.
#[derive(Debug)]
pub(super) struct Guardian {
    child: Child,
    /// Closed by the kernel when this process ends.
    _pipe: OwnedFd,
}

impl Guardian {
    /// For a mount that fusermount3 (`program`) unmounts.
    pub fn by_fusermount(program: &Path, mount_point: &Path) -> io::Result<Self> {
        Self::start(BY_FUSERMOUNT, program, mount_point)
    }

    /// For a mount that umount(8) unmounts.
    pub fn by_umount(program: &Path, mount_point: &Path) -> io::Result<Self> {
        Self::start(BY_UMOUNT, program, mount_point)
    }

    fn start(script: &str, program: &Path, mount_point: &Path) -> io::Result<Self> {
        // Other programs that this process starts must not hold the pipe open.
        let (reader, writer) = pipe_with(PipeFlags::CLOEXEC)?;
        let mut command = Command::new("/bin/sh");
        command.arg("-c").arg(script).arg(program).arg(mount_point);
        command.stdin(reader).stdout(Stdio::null()).stderr(Stdio::null());
        // The keys that end the server at a terminal must not end its guardian, which must keep no directory busy.
        command.process_group(0).current_dir("/");
        Ok(Self { child: command.spawn()?, _pipe: writer })
    }
}

impl Drop for Guardian {
    fn drop(&mut self) {
        // It ends before the pipe does, and so without unmounting. It may have been ended by somebody else.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[cfg(test)]
mod tests {
    use std::{
        fs,
        os::unix::fs::PermissionsExt,
        thread,
        time::{Duration, Instant},
    };

    use super::*;

    /// A program that writes its arguments to a file.
    fn program(folder: &Path) -> std::path::PathBuf {
        let (path, text) = (folder.join("unmount"), folder.join("text"));
        fs::write(&text, format!("#!/bin/sh\necho \"$@\" > '{}/told'\n", folder.display())).unwrap();
        fs::set_permissions(&text, fs::Permissions::from_mode(0o755)).unwrap();
        // A program that this process wrote itself would be busy while another thread starts one.
        assert!(Command::new("cp").arg(&text).arg(&path).status().unwrap().success());
        path
    }

    #[test]
    fn the_end_of_the_pipe_unmounts() {
        for (way, told) in [
            (Guardian::by_fusermount as fn(&Path, &Path) -> _, "-u -z -q -- /a b\n"),
            (Guardian::by_umount, "-i -l /a b\n"),
        ] {
            let folder = tempfile::tempdir().unwrap();
            let mut guardian = way(&program(folder.path()), Path::new("/a b")).unwrap();
            guardian._pipe = rustix::io::fcntl_dupfd_cloexec(io::stdin(), 0).unwrap();
            assert!(guardian.child.wait().unwrap().success());
            assert_eq!(fs::read_to_string(folder.path().join("told")).unwrap(), told);
        }
    }

    #[test]
    fn without_its_guardian_a_mount_stays() {
        let folder = tempfile::tempdir().unwrap();
        let start = Instant::now();
        drop(Guardian::by_umount(&program(folder.path()), Path::new("/m")).unwrap());
        assert!(start.elapsed() < Duration::from_secs(10));
        thread::sleep(Duration::from_millis(50));
        assert!(!folder.path().join("told").exists());
    }
}
