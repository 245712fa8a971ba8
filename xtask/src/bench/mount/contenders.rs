//! File systems that do the same work.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Result, bail};
use uxfs_testkit::{
    image,
    mount::{Access, LoopMount},
};

use crate::process::run;

/// Where an administrator lets FUSE use io_uring.
const RINGS: &str = "/sys/module/fuse/parameters/enable_uring";
const IMAGE_BYTES: u64 = 8 << 30;
/// A server may need so long to end.
const LONGEST: Duration = Duration::from_secs(120);

/// A file system and the way it is mounted.
#[derive(Debug, Clone)]
pub enum Contender {
    /// Of the kernel.
    Kernel,
    /// Through FUSE, by the program at this path and with these options.
    Uxfs(PathBuf, &'static str),
    /// ext4 through FUSE.
    Fuse2fs,
}

impl Contender {
    /// All that this machine has. The kernel's comes first.
    pub fn all(uxfs: &Path) -> Result<Vec<Self>> {
        let mut all = vec![Self::Kernel, Self::Uxfs(uxfs.to_owned(), "nouring")];
        if Path::new(RINGS).exists() {
            all.push(Self::Uxfs(uxfs.to_owned(), "uring"));
        }
        match Command::new("fuse2fs").arg("--version").stderr(Stdio::null()).stdout(Stdio::null()).status() {
            Ok(_) => all.push(Self::Fuse2fs),
            Err(_) => eprintln!("bench: there is no fuse2fs (package fuse2fs)"),
        }
        Ok(all)
    }

    /// One word.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Kernel => "kernel XFS",
            Self::Uxfs(_, "uring") => "uxfs, rings",
            Self::Uxfs(..) => "uxfs",
            Self::Fuse2fs => "fuse2fs",
        }
    }

    /// What the others are compared with.
    pub fn is_rival(&self) -> bool {
        matches!(self, Self::Kernel)
    }

    fn make(&self, path: &Path) -> Result<()> {
        let _ = fs::remove_file(path);
        match self {
            Self::Kernel | Self::Uxfs(..) => image::make(path, IMAGE_BYTES, &[]),
            Self::Fuse2fs => {
                fs::File::create(path)?.set_len(IMAGE_BYTES)?;
                let mut command = Command::new("mkfs.ext4");
                run(command.args(["-q", "-F", "-N", "1000000"]).arg(path))
            }
        }
    }
}

/// A mounted file system.
pub struct Mount<'c> {
    contender: &'c Contender,
    image: PathBuf,
    directory: PathBuf,
    by_kernel: Option<LoopMount>,
}

impl<'c> Mount<'c> {
    /// A new file system.
    pub fn new(contender: &'c Contender, folder: &Path) -> Result<Self> {
        let (image, directory) = (folder.join("image"), folder.join("mount"));
        fs::create_dir_all(&directory)?;
        contender.make(&image)?;
        let mut mount = Self { contender, image, directory, by_kernel: None };
        mount.mount()?;
        Ok(mount)
    }

    fn mount(&mut self) -> Result<()> {
        match self.contender {
            Contender::Kernel => self.by_kernel = Some(LoopMount::new(&self.image, Access::ReadWrite)?),
            Contender::Uxfs(uxfs, options) => {
                let before = fs::read_to_string(RINGS).unwrap_or_default();
                if *options == "uring" {
                    fs::write(RINGS, "Y")?;
                }
                let mut command = Command::new(uxfs);
                let mounted =
                    run(command.args(["mount", "-o", options]).args([&self.image, &self.directory]));
                if *options == "uring" {
                    fs::write(RINGS, before.trim())?;
                }
                mounted?;
            }
            Contender::Fuse2fs => {
                let mut command = Command::new("fuse2fs");
                run(command.args([&self.image, &self.directory]).args(["-o", "fakeroot"]))?;
            }
        }
        Ok(())
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        self.by_kernel.as_ref().map_or(&self.directory, LoopMount::path)
    }

    /// Unmounts and mounts again.
    pub fn again(mut self) -> Result<Self> {
        self.unmount()?;
        self.mount()?;
        Ok(self)
    }

    /// Unmounts, and removes the image.
    pub fn end(mut self) -> Result<()> {
        self.unmount()?;
        Ok(fs::remove_file(&self.image)?)
    }

    fn unmount(&mut self) -> Result<()> {
        if let Some(mount) = self.by_kernel.take() {
            return mount.unmount();
        }
        let begun = Instant::now();
        loop {
            let mut command = match self.contender {
                Contender::Uxfs(uxfs, _) => Command::new(uxfs),
                _ => Command::new("umount"),
            };
            if matches!(self.contender, Contender::Uxfs(..)) {
                command.arg("umount");
            }
            if command.arg(&self.directory).stderr(Stdio::null()).status()?.success() {
                break;
            }
            if begun.elapsed() > LONGEST {
                bail!("{} cannot be unmounted", self.directory.display());
            }
            thread::sleep(Duration::from_millis(50));
        }
        // umount(8) returns before a server has ended.
        let is_served = || {
            Command::new("pgrep")
                .args(["-x", "fuse2fs"])
                .stdout(Stdio::null())
                .status()
                .is_ok_and(|s| s.success())
        };
        while matches!(self.contender, Contender::Fuse2fs) && is_served() && begun.elapsed() < LONGEST {
            thread::sleep(Duration::from_millis(20));
        }
        Ok(())
    }
}
