//! File systems to try: shapes in which logs wrap soon, groups are many and trees have few blocks.

use std::{fmt, ops::Range};

use anyhow::{Context, Result};
use uxfs_format::{inode::Timestamp, units::Uuid};
use uxfs_mkfs::{
    empty,
    identity::{Identity, Numbers},
    layout::{DeviceFacts, Layout},
    options::{Options, grammar::Group},
};

use super::{
    image::{Image, ImageDevice},
    workload::OperationKind,
};
use crate::seeds::Random;

/// What every byte holds that nobody has ever written: it must never be seen in a file.
pub const CANARY: u8 = 0xc5;

/// A shape.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shape {
    /// Its name.
    pub name: &'static str,
    /// Size of the file system in MiB.
    pub size_mebibytes: u64,
    /// What is written in whole or not at all.
    pub sector_bytes: usize,
    /// Options as mkfs takes them.
    options: &'static [(Group, &'static str)],
}

const fn shape(name: &'static str, size_mebibytes: u64, options: &'static [(Group, &'static str)]) -> Shape {
    Shape { name, size_mebibytes, sector_bytes: 512, options }
}

/// All shapes.
pub const SHAPES: [Shape; 9] = [
    shape("default", 64, &[(Group::Data, "agcount=4"), (Group::Log, "size=2001b")]),
    shape(
        "block-1k",
        64,
        &[(Group::Block, "size=1k"), (Group::Data, "agcount=4"), (Group::Log, "size=4862b")],
    ),
    shape("larger-log", 128, &[(Group::Data, "agcount=2"), (Group::Log, "size=24m")]),
    shape("no-reflink", 64, &[(Group::Metadata, "reflink=0"), (Group::Data, "agcount=4")]),
    shape("no-parent", 64, &[(Group::Naming, "parent=0"), (Group::Data, "agcount=4")]),
    shape(
        "plain",
        64,
        &[
            (Group::Metadata, "rmapbt=0,reflink=0,finobt=0,inobtcount=0"),
            (Group::Naming, "parent=0"),
            (Group::Inode, "sparse=0,nrext64=0"),
            (Group::Data, "agcount=4"),
        ],
    ),
    Shape {
        sector_bytes: 4096,
        ..shape("sector-4k", 64, &[(Group::Sector, "size=4k"), (Group::Data, "agcount=4")])
    },
    shape("log-stripe", 96, &[(Group::Log, "su=32k"), (Group::Data, "agcount=4")]),
    shape(
        "block-1k-directory-8k",
        64,
        &[(Group::Block, "size=1k"), (Group::Naming, "size=8k"), (Group::Data, "agcount=2")],
    ),
];

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

impl Shape {
    /// The shape of this name.
    pub fn named(name: &str) -> Option<Self> {
        SHAPES.iter().find(|shape| shape.name == name).cloned()
    }

    /// Any shape.
    pub fn any(random: &mut Random) -> Self {
        SHAPES[random.below(SHAPES.len() as u64) as usize].clone()
    }

    /// Whether its features have what an operation needs.
    pub fn allows(&self, kind: OperationKind) -> bool {
        let has = |switch: &str| self.options.iter().any(|(_, text)| text.contains(switch));
        match kind {
            OperationKind::Clone => !has("reflink=0"),
            // mkfs makes room for exchanges with parent pointers.
            OperationKind::Exchange => !has("parent=0"),
            _ => true,
        }
    }

    /// An empty file system; free space holds canaries.
    ///
    /// # Errors
    /// The options do not go together.
    pub fn make(&self) -> Result<Image> {
        self.make_with_log().map(|(image, _)| image)
    }

    /// As [`make`](Self::make), and where the log lies, in bytes.
    ///
    /// # Errors
    /// As there.
    pub fn make_with_log(&self) -> Result<(Image, Range<u64>)> {
        let size_bytes = self.size_mebibytes << 20;
        let mut options = Options::default();
        options.allow_unsupported = true;
        for (group, argument) in self.options {
            options.add(*group, argument).with_context(|| format!("{self}: {argument}"))?;
        }
        let facts = DeviceFacts { processors: 1, ..DeviceFacts::file(size_bytes) };
        let (layout, _) = Layout::resolve(&options, &facts).with_context(|| self.name)?;
        let mut image = Image::filled(size_bytes, CANARY);
        let log = layout.must_read_as_zeros();
        image.fill(log.start, log.end - log.start, 0)?;
        let identity =
            Identity { uuid: Uuid(*b"uxfs crash tests"), now: NOW, numbers: Numbers::Fixed(0x5eed) };
        let device = ImageDevice::new(image);
        empty::format(&device, &layout, &identity)?;
        Ok((device.image(), log))
    }
}

/// What time it always is.
pub const NOW: Timestamp = Timestamp { seconds: 1_700_000_000, nanoseconds: 7 };

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::sync::Arc;

    use uxfs_core::{filesystem::FileSystem, mount::MountOptions};

    use super::*;
    use crate::{judges::Judge, require, verdict::repair_is_silent};

    #[test]
    fn every_shape_is_sound() {
        require!(Judge::XfsRepair);
        let folder = tempfile::tempdir().unwrap();
        for shape in &SHAPES {
            let image = shape.make().unwrap();
            let path = folder.path().join(shape.name);
            image.save(&path).unwrap();
            repair_is_silent(&path).unwrap();
            let device = Arc::new(ImageDevice::read_only(image));
            let file_system = FileSystem::mount(device, &MountOptions::default()).unwrap();
            eprintln!("{shape}: log of {} blocks", file_system.superblock().log_blocks.get());
            std::fs::remove_file(path).unwrap();
        }
    }
}
