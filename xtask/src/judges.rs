//! `cargo xtask judges`: the newest packaged xfsprogs, systemd-repart and SELinux tools beside the system's own, without touching those.
//!
//! On Debian the packages come from the unstable suite of the mirror that this machine's apt already uses. They are unpacked to
//! a folder among the user's caches and run on their own C library through wrappers in its `bin`, so that an older host does not
//! matter. Other checkouts find them there for a month. Elsewhere whatever is on `PATH` is used.

use std::{
    collections::VecDeque,
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use anyhow::{Context, Result, ensure};
use uxfs_testkit::judges::{Judge, judges_directory};

use crate::process;

/// Packages whose commands the tests call, with one command of each.
const HELPERS: [(&str, &str); 26] = [
    ("fuse3", "fusermount3"),
    ("mount", "losetup"),
    ("fdisk", "sfdisk"),
    ("kmod", "modprobe"),
    ("zstd", "zstd"),
    ("tmux", "tmux"),
    ("e2fsprogs", "mke2fs"),
    ("zstd", "pzstd"),
    ("xz-utils", "xz"),
    ("tabix", "bgzip"),
    ("qemu-utils", "qemu-img"),
    ("libarchive-tools", "bsdtar"),
    ("acl", "setfacl"),
    ("attr", "setfattr"),
    ("selinux-utils", "selabel_lookup"),
    ("fakeroot", "fakeroot"),
    ("pseudo", "fakeroot-pseudo"),
    ("rsync", "rsync"),
    ("shellcheck", "shellcheck"),
    ("zsh", "zsh"),
    ("fish", "fish"),
    ("umoci", "umoci"),
    ("skopeo", "skopeo"),
    ("rpm", "rpmbuild"),
    ("buildah", "buildah"),
    ("systemd-repart", "systemd-repart"),
];
/// Packages that older suites have as a part of another one.
const PARTS: [(&str, &str); 1] = [("systemd-repart", "systemd")];

/// A package of the unstable suite.
struct Newest {
    package: &'static str,
    /// The folder that gets it, with all libraries.
    root: &'static str,
    /// Where in it the tools lie.
    tools: &'static str,
    /// What the names of the wrappers have more than those of the tools.
    suffix: &'static str,
    /// One of the wrappers, with its option for the version.
    probe: (Judge, &'static str),
}

const NEWEST: [Newest; 3] = [
    Newest { package: "xfsprogs", root: "root", tools: "usr/sbin", suffix: "", probe: (Judge::Mkfs, "-V") },
    Newest {
        package: "systemd-repart",
        root: "systemd",
        tools: "usr/bin",
        suffix: "-newest",
        probe: (Judge::NewestRepart, "--version"),
    },
    Newest {
        package: "selinux-utils",
        root: "selinux",
        tools: "usr/sbin",
        suffix: "-newest",
        probe: (Judge::NewestSefcontextCompile, "-V"),
    },
];
/// What was installed longer ago is installed again.
const KEPT: Duration = Duration::from_secs(30 * 24 * 3600);
const APT_KEYS: &str = "/usr/share/keyrings/debian-archive-keyring.gpg";

#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// Where to install; `uxfs-judges` among the user's caches where not given
    #[arg(long = "dir")]
    directory: Option<PathBuf>,
}

pub fn run(arguments: &Arguments) -> Result<()> {
    let directory = arguments.directory.clone().unwrap_or_else(judges_directory);
    set_up(&directory)?;
    report(&directory);
    Ok(())
}

/// Makes the judges ready in `directory`, as far as this machine allows.
pub fn set_up(directory: &Path) -> Result<()> {
    let is_debian = Path::new("/etc/debian_version").exists() && on_path("apt-get").is_some();
    let is_root = fs::metadata("/proc/self").is_ok_and(|own| std::os::unix::fs::MetadataExt::uid(&own) == 0);
    if is_debian && is_root {
        install_helpers()?;
        open_fuse()?;
    }
    let is_needed = |newest: &&Newest| newest.version_in(directory).is_none() || newest.is_old(directory);
    let missing: Vec<&Newest> = NEWEST.iter().filter(is_needed).collect();
    if missing.is_empty() {
        return Ok(());
    }
    if !is_debian {
        println!("not Debian: the judges are whatever xfsprogs is on PATH (7.2 or newer is asked for)");
        return Ok(());
    }
    if !is_root {
        println!("not root: cannot download through apt; the judges are whatever xfsprogs is on PATH");
        return Ok(());
    }
    missing.into_iter().try_for_each(|newest| {
        newest.install(directory).with_context(|| format!("cannot install {}", newest.package))
    })
}

/// Prints who is there.
pub fn report(directory: &Path) {
    for newest in &NEWEST {
        let (judge, option) = newest.probe;
        let used =
            newest.version_in(directory).or_else(|| judge.path().and_then(|path| version(&path, option)));
        println!("{}: {}", newest.package, used.as_deref().unwrap_or("missing"));
    }
    let list = |present: bool| {
        let names: Vec<_> =
            Judge::ALL.iter().filter(|j| j.is_present() == present).map(|j| j.name()).collect();
        names.join(", ")
    };
    println!("judges present: {}", list(true));
    if Judge::ALL.iter().any(|judge| !judge.is_present()) {
        println!("judges MISSING: {}", list(false));
    }
}

fn version(tool: &Path, option: &str) -> Option<String> {
    let output = Command::new(tool).arg(option).output().ok().filter(|output| output.status.success())?;
    String::from_utf8_lossy(&output.stdout).lines().next().map(|line| line.trim().to_owned())
}

fn on_path(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    let mut folders: Vec<PathBuf> = std::env::split_paths(&path).collect();
    folders.extend(["/usr/sbin", "/sbin"].map(PathBuf::from));
    folders.into_iter().map(|folder| folder.join(name)).find(|path| path.exists())
}

fn install_helpers() -> Result<()> {
    let missing: Vec<&str> = HELPERS
        .iter()
        .filter(|(_, command)| on_path(command).is_none())
        .map(|(package, _)| *package)
        .collect();
    if missing.is_empty() {
        return Ok(());
    }
    update_if_empty()?;
    let missing: Vec<&str> = missing.into_iter().map(package_that_has).collect();
    println!("installing {}", missing.join(" "));
    let mut install = Command::new("apt-get");
    install.env("DEBIAN_FRONTEND", "noninteractive");
    process::run(install.args(["-qq", "-y", "install", "--no-install-recommends"]).args(missing))
}

/// The package itself where apt knows it, else the one of which it is a part.
fn package_that_has(package: &str) -> &str {
    let whole = PARTS.iter().find(|(part, _)| *part == package).map(|(_, whole)| *whole);
    let is_known = || process::read(Command::new("apt-cache").args(["show", package])).is_ok();
    whole.filter(|_| !is_known()).unwrap_or(package)
}

/// Where FUSE is asked for, and its number.
const FUSE: &str = "/dev/fuse";
const FUSE_NUMBER: [&str; 3] = ["c", "10", "229"];

/// Opens FUSE to all users, as a running systemd does.
fn open_fuse() -> Result<()> {
    if !Path::new(FUSE).exists() {
        // Without the device the tests that need it say so.
        let _ = Command::new("mknod").arg(FUSE).args(FUSE_NUMBER).status();
    }
    if Path::new(FUSE).exists() {
        process::run(Command::new("chmod").args(["666", FUSE]))?;
    }
    Ok(())
}

/// A bare machine has no package lists yet.
fn update_if_empty() -> Result<()> {
    if mirror()?.is_none() {
        process::run(Command::new("apt-get").args(["-qq", "update"]))?;
    }
    Ok(())
}

/// The mirror that apt uses for Debian itself.
fn mirror() -> Result<Option<String>> {
    let listed = process::read(Command::new("apt-get").args([
        "indextargets",
        "--format",
        "$(REPO_URI)",
        "Origin: Debian",
    ]))?;
    let mut mirrors: Vec<&str> = listed.lines().filter(|line| !line.contains("security")).collect();
    mirrors.sort_unstable();
    Ok(mirrors.first().map(ToString::to_string))
}

impl Newest {
    /// Whether there may be a newer one.
    fn is_old(&self, directory: &Path) -> bool {
        let written =
            fs::metadata(directory.join("bin").join(self.probe.0.name())).and_then(|found| found.modified());
        written.is_ok_and(|written| written.elapsed().is_ok_and(|age| age > KEPT))
    }

    fn version_in(&self, directory: &Path) -> Option<String> {
        let (judge, option) = self.probe;
        version(&directory.join("bin").join(judge.name()), option)
    }

    fn install(&self, directory: &Path) -> Result<()> {
        println!("installing {} to {}", self.package, directory.display());
        update_if_empty()?;
        let mirror = mirror()?.context("apt knows no Debian mirror")?;
        let work = tempfile::tempdir()?;
        fs::set_permissions(work.path(), fs::Permissions::from_mode(0o755))?;
        download(self.package, &mirror, work.path())?;
        let root = directory.join(self.root);
        // Files of an older version may not be those of the newest.
        if root.exists() {
            fs::remove_dir_all(&root)?;
        }
        fs::create_dir_all(&root)?;
        let root = root.canonicalize()?;
        for package in needed_packages(self.package, &work.path().join("debs"))? {
            process::run(Command::new("dpkg").arg("-x").args([&package, &root]))?;
        }
        self.wrap_tools(&root, directory)?;
        ensure!(self.version_in(directory).is_some(), "the installed {} does not run", self.probe.0.name());
        Ok(())
    }

    /// A wrapper in `bin` for each binary, with the loader and the libraries of `root`; scripts find these on their own.
    fn wrap_tools(&self, root: &Path, directory: &Path) -> Result<()> {
        let libraries = root.join(format!("usr/lib/{}-linux-gnu", std::env::consts::ARCH));
        let loader = fs::read_dir(&libraries)?
            .filter_map(|file| file.ok().map(|file| file.path()))
            .find(|path| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("ld-linux")))
            .context("the packages hold no loader")?;
        let bin = directory.join("bin");
        fs::create_dir_all(&bin)?;
        for tool in fs::read_dir(root.join(self.tools))? {
            let tool = tool?.path();
            let mut name = tool.file_name().context("a tool without a name")?.to_owned();
            name.push(self.suffix);
            let target = bin.join(name);
            let contents = fs::read(&tool)?;
            if contents.starts_with(b"\x7fELF") {
                let [loader, libraries, tool] = [&loader, &libraries, &tool].map(|path| path.display());
                let script = format!(
                    "#!/bin/sh\nexec '{loader}' --library-path '{libraries}:{libraries}/systemd' '{tool}' \"$@\"\n"
                );
                fs::write(&target, script)?;
            } else {
                fs::write(&target, contents)?;
            }
            fs::set_permissions(&target, fs::Permissions::from_mode(0o755))?;
        }
        Ok(())
    }
}

/// Downloads a package and all it depends on, with lists and state of its own: the host's apt stays as it is.
fn download(package: &str, mirror: &str, work: &Path) -> Result<()> {
    for folder in ["lists/partial", "debs/partial"] {
        fs::create_dir_all(work.join(folder))?;
    }
    let sources = work.join("sources.list");
    fs::write(&sources, format!("deb [signed-by={APT_KEYS}] {mirror} sid main\n"))?;
    let options = [
        format!("Dir::Etc::sourcelist={}", sources.display()),
        "Dir::Etc::sourceparts=/dev/null".to_owned(),
        format!("Dir::State::Lists={}", work.join("lists").display()),
        format!("Dir::Cache::archives={}", work.join("debs").display()),
        "Dir::State::status=/dev/null".to_owned(),
        "APT::Sandbox::User=root".to_owned(),
    ];
    let apt = |arguments: &[&str]| {
        let mut command = Command::new("apt-get");
        command.args(["-qq", "-y"]);
        for option in &options {
            command.args(["-o", option]);
        }
        process::run(command.args(arguments).stdout(std::io::stderr()))
    };
    apt(&["update"])?;
    apt(&["install", "--no-install-recommends", "--download-only", package])
}

/// A package and the libraries below it: of all that was downloaded only what its dependencies reach, without the scripts' interpreters.
fn needed_packages(wanted: &str, folder: &Path) -> Result<Vec<PathBuf>> {
    let mut by_name = std::collections::BTreeMap::new();
    for file in fs::read_dir(folder)? {
        let path = file?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if let Some((package, _)) = name.split_once('_') {
            by_name.insert(package.to_owned(), path);
        }
    }
    let mut waiting = VecDeque::from([wanted.to_owned()]);
    let mut needed = Vec::new();
    while let Some(package) = waiting.pop_front() {
        let is_wanted = package == wanted || package.starts_with("lib");
        let Some(path) = is_wanted.then(|| by_name.remove(&package)).flatten() else { continue };
        let depends =
            process::read(Command::new("dpkg-deb").arg("-f").arg(&path).args(["Pre-Depends", "Depends"]))?;
        let names = depends.split([',', '|', ':', '\n', ' ']).map(str::trim).filter(|word| !word.is_empty());
        waiting.extend(names.map(str::to_owned));
        needed.push(path);
    }
    Ok(needed)
}
