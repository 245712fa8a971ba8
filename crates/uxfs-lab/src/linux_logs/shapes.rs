//! File systems to leave logs on: logs of every layout, small ones among them, so that they are written round.

use std::{fmt, fs::File, path::Path};

use anyhow::{Result, ensure};

use uxfs_testkit::{judges::Judge, seeds::Random};

/// A geometry.
#[derive(Debug, Clone, Copy)]
pub struct Shape {
    /// Its name.
    pub name: &'static str,
    /// Options of `mkfs.xfs`.
    mkfs: &'static str,
    /// The smallest log buffers that Linux mounts it with.
    buffer_kibibytes: u32,
}

const fn shape(name: &'static str, mkfs: &'static str) -> Shape {
    Shape { name, mkfs, buffer_kibibytes: 32 }
}

/// All of them.
pub const SHAPES: [Shape; 18] = [
    shape("default", ""),
    shape("default-small-log", "-l size=2001b"),
    shape("larger-log", "-l size=20m"),
    shape("block-1k", "-b size=1024"),
    shape("block-1k-small-log", "-b size=1024 -l size=4862b"),
    shape("block-2k", "-b size=2048 -i size=1024"),
    shape("inode-1k", "-i size=1024"),
    shape("inode-2k", "-i size=2048"),
    shape("directory-16k", "-n size=16k"),
    shape("block-1k-directory-64k", "-b size=1024 -n size=64k"),
    Shape { buffer_kibibytes: 64, ..shape("log-stripe-64k", "-l su=64k") },
    Shape { buffer_kibibytes: 256, ..shape("log-stripe-256k", "-l su=256k") },
    Shape { buffer_kibibytes: 32, ..shape("stripe-32k", "-d su=32k,sw=2") },
    shape("sector-4k", "-s size=4k"),
    shape("no-rmap", "-m rmapbt=0"),
    shape("no-reflink", "-m reflink=0,rmapbt=1"),
    shape("no-parent", "-n parent=0"),
    shape(
        "plain",
        "-m rmapbt=0,reflink=0,finobt=0,inobtcount=0,bigtime=0 -n parent=0 -i sparse=0,nrext64=0,exchange=0",
    ),
];

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

impl Shape {
    /// Any shape.
    pub fn any(random: &mut Random) -> Self {
        SHAPES[random.below(SHAPES.len() as u64) as usize]
    }

    /// Makes an empty file system in a new file; some are small and will be full.
    ///
    /// # Errors
    /// `mkfs.xfs` says no.
    pub fn make(&self, image: &Path, random: &mut Random) -> Result<()> {
        let mebibytes = [96, 128, 160][random.below(3) as usize];
        File::create(image)?.set_len(mebibytes << 20)?;
        let mut command = Judge::Mkfs.command();
        command.args(["-q", "--unsupported", "-d", &format!("agcount={}", 2 + random.below(3))]);
        command.args(self.mkfs.split_whitespace());
        let output = command.arg(image).output()?;
        ensure!(output.status.success(), "mkfs.xfs, {self}: {}", String::from_utf8_lossy(&output.stderr));
        Ok(())
    }

    /// Options to mount it with for work.
    pub fn mount_options(&self, random: &mut Random) -> String {
        let sizes: Vec<u32> =
            [32, 64, 256].into_iter().filter(|size| *size >= self.buffer_kibibytes).collect();
        let size = sizes[random.below(sizes.len() as u64) as usize];
        let more = ["", "", ",logbufs=2", ",wsync", ",allocsize=4k", ",discard"];
        format!("logbsize={size}k{}", more[random.below(more.len() as u64) as usize])
    }

    /// Whether files can share blocks.
    pub fn has_sharing(&self) -> bool {
        !self.mkfs.contains("reflink=0")
    }

    /// Whether two files can exchange contents.
    pub fn has_exchange(&self) -> bool {
        !self.mkfs.contains("exchange=0") && !self.mkfs.contains("parent=0")
    }
}
