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
    /// Nothing behind the transport of uxfs, with these options: the ceiling.
    Null(&'static str),
    /// ext4 through FUSE.
    Fuse2fs,
}

impl Contender {
    /// All that this machine has. The kernel's comes first.
    pub fn all(uxfs: &Path) -> Result<Vec<Self>> {
        let mut all = vec![Self::Kernel, Self::Uxfs(uxfs.to_owned(), "nouring"), Self::Null("nouring")];
        if Path::new(RINGS).exists() {
            all.extend([Self::Uxfs(uxfs.to_owned(), "uring"), Self::Null("uring")]);
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
            Self::Null("uring") => "null, rings",
            Self::Null(_) => "null",
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
            Self::Null(_) => Ok(fs::File::create(path)?.set_len(IMAGE_BYTES)?),
            Self::Fuse2fs => {
                fs::File::create(path)?.set_len(IMAGE_BYTES)?;
                let mut command = Command::new("mkfs.ext4");
                run(command.args(["-q", "-F", "-N", "1000000"]).arg(path))
            }
        }
    }
}

/// Does something while the kernel lets FUSE use io_uring, if the options ask for that.
fn with_rings(options: &str, action: impl FnOnce() -> Result<()>) -> Result<()> {
    if options != "uring" {
        return action();
    }
    let before = fs::read_to_string(RINGS).unwrap_or_default();
    fs::write(RINGS, "Y")?;
    let done = action();
    fs::write(RINGS, before.trim())?;
    done
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
                let mut command = Command::new(uxfs);
                command.args(["mount", "-o", options]).args([&self.image, &self.directory]);
                with_rings(options, || run(&mut command))?;
            }
            Contender::Null(options) => with_rings(options, || self.start_null(options))?,
            Contender::Fuse2fs => {
                let mut command = Command::new("fuse2fs");
                run(command.args([&self.image, &self.directory]).args(["-o", "fakeroot"]))?;
            }
        }
        Ok(())
    }

    /// Starts the server, which is this program, and waits for its mount.
    fn start_null(&self, options: &str) -> Result<()> {
        let mut command = Command::new(std::env::current_exe()?);
        command.args(["bench", "null", "-o", options]).arg(&self.directory);
        let mut server = command.stdin(Stdio::null()).spawn()?;
        let device = |path: &Path| fs::metadata(path).map(|of| std::os::unix::fs::MetadataExt::dev(&of));
        let (outside, begun) = (device(self.directory.parent().unwrap_or(&self.directory))?, Instant::now());
        while device(&self.directory)? == outside {
            if begun.elapsed() > LONGEST || server.try_wait()?.is_some() {
                bail!("the null file system was not mounted");
            }
            thread::sleep(Duration::from_millis(1));
        }
        // It ends with the mount.
        thread::spawn(move || server.wait());
        Ok(())
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        self.by_kernel.as_ref().map_or(&self.directory, LoopMount::path)
    }

    /// Unmounts and mounts again; what stores nothing stays mounted.
    pub fn again(mut self) -> Result<Self> {
        if matches!(self.contender, Contender::Null(_)) {
            return Ok(self);
        }
        self.unmount()?;
        self.mount()?;
        Ok(self)
    }

    /// Unmounts, and gives the time until it is mounted again.
    pub fn anew(&mut self) -> Result<Duration> {
        self.unmount()?;
        let begun = Instant::now();
        self.mount()?;
        Ok(begun.elapsed())
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
