//! Finding the outside judges: xfsprogs, the tars and the kernel.
//!
//! A test names the judges that it needs with [`require!`](crate::require). Where one is missing the test fails if
//! `UXFS_JUDGES=required`, and elsewhere says visibly that it was skipped; it never passes silently.

use std::{
    env,
    ffi::OsStr,
    fs::{self, File},
    io::Read,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::OnceLock,
    sync::atomic::{AtomicUsize, Ordering},
};

/// Names the folder (holding `bin`) that `cargo xtask judges` filled.
pub const DIRECTORY_VARIABLE: &str = "UXFS_JUDGES_DIR";
/// `required` makes a missing judge a failure.
pub const REQUIRED_VARIABLE: &str = "UXFS_JUDGES";
/// A file to which each judgement, given or skipped, is appended, for `cargo xtask test` to tell.
pub const REPORT_VARIABLE: &str = "UXFS_JUDGES_REPORT";
/// The program `uxfs` that tests of the command line run; without it they run the one that was built with them.
pub const PROGRAM_VARIABLE: &str = "UXFS_PROGRAM";
/// How the line of a skipped judgement begins.
pub const SKIPPED_WORD: &str = "SKIPPED";

/// Somebody outside this project who says whether an image is right.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Judge {
    /// `xfs_db`
    XfsDb,
    /// `xfs_io`
    XfsIo,
    /// `xfs_repair`
    XfsRepair,
    /// `xfs_logprint`
    XfsLogprint,
    /// `xfs_mdrestore`
    XfsMdrestore,
    /// `xfs_copy`
    XfsCopy,
    /// `mkfs.xfs`
    Mkfs,
    /// GNU tar
    GnuTar,
    /// bsdtar of libarchive
    BsdTar,
    /// `setfacl` and `getfacl`, which come together
    Setfacl,
    /// `setfattr`
    Setfattr,
    /// Debian's fakeroot
    Fakeroot,
    /// pseudo, Yocto's fakeroot, through its wrapper
    Pseudo,
    /// `sfdisk` of util-linux
    Sfdisk,
    /// `rsync`
    Rsync,
    /// A terminal of a fixed size
    Tmux,
    /// umoci, which makes and unpacks images of containers
    Umoci,
    /// skopeo, which copies them from one form to another
    Skopeo,
    /// `rpmbuild` and `rpm`, which come together
    Rpmbuild,
    /// buildah, which builds them layer by layer
    Buildah,
    /// The systemd-repart of the system
    Repart,
    /// That of Debian's unstable suite, as `cargo xtask judges` installs it beside the former
    NewestRepart,
    /// `qemu-img` and `qemu-io`, which come together
    QemuImg,
    /// `pzstd` and `zstd`, which come together
    Pzstd,
    /// `xz`
    Xz,
    /// `bgzip`
    Bgzip,
    /// `selabel_lookup` and `sefcontext_compile` of SELinux, which come together
    SelabelLookup,
    /// Those of Debian's unstable suite, beside the former, each with `-newest` behind its name
    NewestSefcontextCompile,
    /// The kernel's XFS through a loop mount: needs root.
    Kernel,
}

impl Judge {
    /// Every judge.
    pub const ALL: [Self; 29] = [
        Self::XfsDb,
        Self::XfsIo,
        Self::XfsRepair,
        Self::XfsLogprint,
        Self::XfsMdrestore,
        Self::XfsCopy,
        Self::Mkfs,
        Self::GnuTar,
        Self::BsdTar,
        Self::Setfacl,
        Self::Setfattr,
        Self::Fakeroot,
        Self::Pseudo,
        Self::Sfdisk,
        Self::Rsync,
        Self::Tmux,
        Self::Umoci,
        Self::Skopeo,
        Self::Rpmbuild,
        Self::Buildah,
        Self::Repart,
        Self::NewestRepart,
        Self::QemuImg,
        Self::Pzstd,
        Self::Xz,
        Self::Bgzip,
        Self::SelabelLookup,
        Self::NewestSefcontextCompile,
        Self::Kernel,
    ];

    /// The tool's name; the kernel's is `kernel`.
    pub fn name(self) -> &'static str {
        match self {
            Self::XfsDb => "xfs_db",
            Self::XfsIo => "xfs_io",
            Self::XfsRepair => "xfs_repair",
            Self::XfsLogprint => "xfs_logprint",
            Self::XfsMdrestore => "xfs_mdrestore",
            Self::XfsCopy => "xfs_copy",
            Self::Mkfs => "mkfs.xfs",
            Self::GnuTar => "tar",
            Self::BsdTar => "bsdtar",
            Self::Setfacl => "setfacl",
            Self::Setfattr => "setfattr",
            Self::Fakeroot => "fakeroot",
            Self::Pseudo => "fakeroot-pseudo",
            Self::Sfdisk => "sfdisk",
            Self::Rsync => "rsync",
            Self::Tmux => "tmux",
            Self::Umoci => "umoci",
            Self::Skopeo => "skopeo",
            Self::Rpmbuild => "rpmbuild",
            Self::Buildah => "buildah",
            Self::Repart => "systemd-repart",
            Self::NewestRepart => "systemd-repart-newest",
            Self::QemuImg => "qemu-img",
            Self::Pzstd => "pzstd",
            Self::Xz => "xz",
            Self::Bgzip => "bgzip",
            Self::SelabelLookup => "selabel_lookup",
            Self::NewestSefcontextCompile => "sefcontext_compile-newest",
            Self::Kernel => "kernel",
        }
    }

    /// Whether it can be asked on this machine.
    pub fn is_present(self) -> bool {
        match self {
            Self::Kernel => kernel_mounts_xfs(),
            tool => tool.path().is_some(),
        }
    }

    /// Where the tool lies: in the judges' own folder, else on `PATH`. `None` for the kernel.
    pub fn path(self) -> Option<PathBuf> {
        if self == Self::Kernel {
            return None;
        }
        let own = judges_directory().join("bin").join(self.name());
        if is_executable(&own) { Some(own) } else { find_on_path(self.name()) }
    }

    /// A command that runs the tool, or the bare name where it is missing (so that running it says so).
    pub fn command(self) -> Command {
        self.command_beside(self.name())
    }

    /// The same of another tool that comes together with this one.
    pub fn command_beside(self, tool: &str) -> Command {
        let path = self.path().map_or_else(|| tool.into(), |path| path.with_file_name(tool));
        without_shell(&path).unwrap_or_else(|| Command::new(path))
    }
}

/// The command that a script of `xtask/src/judges.rs` runs. Tests run judges thousands of times, so they skip the shell.
fn without_shell(script: &Path) -> Option<Command> {
    let mut head = String::new();
    File::open(script).ok()?.take(4096).read_to_string(&mut head).ok()?;
    let words: Vec<&str> = head.strip_prefix("#!/bin/sh\nexec '")?.split('\'').collect();
    let [loader, " --library-path ", libraries, " ", tool, _] = words[..] else { return None };
    let mut command = Command::new(loader);
    command.args(["--library-path", libraries, tool]);
    Some(command)
}

/// The folder that `cargo xtask judges` fills: `UXFS_JUDGES_DIR`, else one among the user's caches, which other checkouts find.
pub fn judges_directory() -> PathBuf {
    let named = env::var_os(DIRECTORY_VARIABLE).map(PathBuf::from);
    let caches = || env::var_os("XDG_CACHE_HOME").map(PathBuf::from).filter(|folder| folder.is_absolute());
    let usual = || Some(PathBuf::from(env::var_os("HOME")?).join(".cache"));
    named
        .or_else(|| Some(caches().or_else(usual)?.join("uxfs-judges")))
        .unwrap_or_else(|| workspace_directory().join("target/judges"))
}

/// The root of the workspace that this crate was built in.
pub fn workspace_directory() -> PathBuf {
    let own = Path::new(env!("CARGO_MANIFEST_DIR"));
    own.ancestors().nth(2).unwrap_or(own).to_path_buf()
}

/// Whether a missing judge is a failure.
pub fn are_required() -> bool {
    env::var_os(REQUIRED_VARIABLE).is_some_and(|value| value == "required")
}

/// How often a test of this process was skipped.
pub fn skipped_count() -> usize {
    SKIPPED.load(Ordering::Relaxed)
}

static SKIPPED: AtomicUsize = AtomicUsize::new(0);

/// Whether all of `judges` are there. Where not, fails or says so; see the module.
///
/// # Panics
/// A judge is missing and judges are required.
pub fn all_present(judges: &[Judge], test: &str) -> bool {
    let missing: Vec<&str> = judges.iter().filter(|judge| !judge.is_present()).map(|j| j.name()).collect();
    if missing.is_empty() {
        return true;
    }
    let missing = missing.join(", ");
    assert!(!are_required(), "{test}: judge {missing} missing, and UXFS_JUDGES=required");
    SKIPPED.fetch_add(1, Ordering::Relaxed);
    let line = format!("{SKIPPED_WORD}: {test}: judge {missing} missing\n");
    // Past the test harness's capture: a skipped test must be seen.
    append("/dev/stderr".as_ref(), &line);
    report(&line);
    false
}

/// Tells `cargo xtask test` what was judged, and by whom: `judged("xfs_db", "default: 812 inodes")`.
pub fn judged(judge: &str, what: &str) {
    report(&format!("{judge}: {what}\n"));
}

fn report(line: &str) {
    if let Some(path) = env::var_os(REPORT_VARIABLE) {
        append(path.as_ref(), line);
    }
}

fn append(path: &Path, line: &str) {
    use std::io::Write;
    if let Ok(mut file) = fs::OpenOptions::new().append(true).create(true).open(path) {
        // A message that cannot be written leaves nothing better to do.
        let _ = file.write_all(line.as_bytes());
    }
}

/// Leaves the test where a judge is missing (fails it where judges are required).
///
/// ```
/// use uxfs_testkit::{judges::Judge, require};
/// # fn test() {
/// require!(Judge::XfsDb, Judge::Kernel);
/// // … both are there
/// # }
/// ```
#[macro_export]
macro_rules! require {
    ($($judge:expr),+ $(,)?) => {
        if !$crate::judges::all_present(&[$($judge),+], ::std::concat!(::std::module_path!(), ":", ::std::line!())) {
            return;
        }
    };
}

fn is_executable(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
}

fn find_on_path(name: &str) -> Option<PathBuf> {
    let mut folders: Vec<PathBuf> = env::split_paths(&env::var_os("PATH")?).collect();
    folders.extend(["/usr/sbin", "/sbin"].map(PathBuf::from));
    folders.into_iter().map(|folder| folder.join(name)).find(|path| is_executable(path))
}

/// Root, a loop device to be had, and XFS in the kernel: asked once, by the list of file systems.
fn kernel_mounts_xfs() -> bool {
    static ANSWER: OnceLock<bool> = OnceLock::new();
    *ANSWER.get_or_init(|| {
        rustix::process::geteuid().is_root() && Path::new("/dev/loop-control").exists() && kernel_has_xfs()
    })
}

fn kernel_has_xfs() -> bool {
    let listed = || fs::read_to_string("/proc/filesystems").is_ok_and(|list| list.contains("\txfs\n"));
    listed() || {
        let mut load = Command::new("modprobe");
        load.arg(OsStr::new("xfs")).stdout(Stdio::null()).stderr(Stdio::null());
        load.status().is_ok() && listed()
    }
}
