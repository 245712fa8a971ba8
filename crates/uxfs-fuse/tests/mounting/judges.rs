//! The judges of mounting: the kernel's FUSE, fusermount3, unshare, losetup. A test whose judge is missing fails where
//! `UXFS_JUDGES=required`, and elsewhere says so; see `uxfs_testkit::judges`.

use std::{
    env, fs,
    io::Write,
    os::unix::{fs::PermissionsExt, process::CommandExt},
    path::Path,
    process::{Command, Stdio},
};

use uxfs_fuse::mounting::{
    device::{self, FuseDevice},
    fusermount,
};
use uxfs_testkit::judges::{REPORT_VARIABLE, SKIPPED_WORD, are_required};

use super::children::ORDINARY_USER;

/// What a test needs of the machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Need {
    /// Root, and `/dev/fuse`.
    Root,
    /// Root (to become an ordinary user), fusermount3, and `/dev/fuse` open to all.
    OrdinaryUser,
    /// Root (to become an ordinary user), user namespaces for all, and `/dev/fuse` open to all.
    UserNamespace,
    /// A kernel whose mount(2) can wait for INIT (Linux 6.18). Asked after [`Root`](Self::Root).
    WaitingMount,
    /// Loop devices.
    LoopDevice,
}

impl Need {
    /// What is missing, in words.
    fn lack(self) -> Option<String> {
        let lack_if = |is_lacking: bool, words: &str| is_lacking.then(|| words.to_owned());
        let root = || lack_if(!rustix::process::geteuid().is_root(), "root");
        let device = || lack_if(!Path::new(device::PATH).exists(), device::PATH);
        let for_all = || root().or_else(device).or_else(device_is_closed);
        match self {
            Self::Root => root().or_else(device),
            Self::OrdinaryUser => {
                for_all().or_else(|| fusermount::find().err().map(|error| error.to_string()))
            }
            Self::UserNamespace => {
                for_all().or_else(|| lack_if(!can_unshare(), "user namespaces for ordinary users"))
            }
            Self::WaitingMount => lack_if(!can_wait_for_init(), "a kernel that can wait for INIT"),
            Self::LoopDevice => {
                lack_if(!succeeds(Command::new("losetup").arg("-f")), "losetup with a free device")
            }
        }
    }
}

fn device_is_closed() -> Option<String> {
    let mode = fs::metadata(device::PATH).ok()?.permissions().mode() & 0o666;
    (mode != 0o666).then(|| format!("{} for all (its mode is {mode:o}: chmod 666 {0})", device::PATH))
}

fn can_wait_for_init() -> bool {
    FuseDevice::open().is_ok_and(|device| device.wait_for_init().is_ok_and(|can_wait| can_wait))
}

fn can_unshare() -> bool {
    succeeds(Command::new("unshare").args(["-Urm", "--", "true"]).uid(ORDINARY_USER).gid(ORDINARY_USER))
}

fn succeeds(command: &mut Command) -> bool {
    let quiet = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    quiet.status().is_ok_and(|status| status.success())
}

/// Whether a test can run. Where not, it fails or says so; see the module.
pub fn have(needs: &[Need], test: &str) -> bool {
    let lacks: Vec<String> = needs.iter().filter_map(|need| need.lack()).collect();
    if lacks.is_empty() {
        return true;
    }
    let lacks = lacks.join(", ");
    assert!(!are_required(), "{test}: judge missing: {lacks}, and UXFS_JUDGES=required");
    let line = format!("{SKIPPED_WORD}: {test}: judge missing: {lacks}\n");
    let report = env::var_os(REPORT_VARIABLE);
    // Past the test harness's capture: a skipped test must be seen.
    for path in [Some("/dev/stderr".into()), report].into_iter().flatten() {
        if let Ok(mut file) = fs::OpenOptions::new().append(true).create(true).open(path) {
            let _ = file.write_all(line.as_bytes());
        }
    }
    false
}
