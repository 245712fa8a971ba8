//! File systems to leave logs on: logs of every layout, small ones among them, so that they are written round.

use std::{fmt, fs::File, path::Path};

use anyhow::{Result, ensure};

use uxfs_testkit::{judges::Judge, seeds::Random, shapes};

/// A geometry.
#[derive(Debug, Clone, Copy)]
pub struct Shape {
    /// Its name.
    pub name: &'static str,
    /// Sizes and features.
    base: shapes::Shape,
    /// Further options of `mkfs.xfs`: the log.
    log: &'static str,
    /// The smallest log buffers that Linux mounts it with.
    buffer_kibibytes: u32,
}

const fn shape(name: &'static str) -> Shape {
    Shape { name, base: shapes::Shape::named(name), log: "", buffer_kibibytes: 32 }
}

const fn with_log(name: &'static str, base: &str, log: &'static str) -> Shape {
    Shape { name, base: shapes::Shape::named(base), log, buffer_kibibytes: 32 }
}

/// All of them.
pub const SHAPES: [Shape; 18] = [
    shape("default"),
    with_log("default-small-log", "default", "-l size=2001b"),
    with_log("larger-log", "default", "-l size=20m"),
    shape("block-1k"),
    with_log("block-1k-small-log", "block-1k", "-l size=4862b"),
    shape("block-2k-inode-1k"),
    shape("inode-1k"),
    shape("inode-2k"),
    shape("directory-16k"),
    shape("block-1k-directory-64k"),
    Shape { buffer_kibibytes: 64, ..shape("log-stripe-64k") },
    Shape { buffer_kibibytes: 256, ..shape("log-stripe-256k") },
    shape("stripe-32k"),
    shape("sector-4k"),
    shape("no-rmapbt"),
    shape("no-reflink"),
    shape("no-parent"),
    shape("no-feature"),
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
        command.args(self.base.words()).args(self.log.split_whitespace());
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
        self.base.has_shared_blocks()
    }

    /// Whether two files can exchange contents.
    pub fn has_exchange(&self) -> bool {
        self.base.has_exchange()
    }
}
