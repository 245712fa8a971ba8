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
use uxfs_testkit::{seeds::Random, shapes};

/// Each byte of a device that was never written: it must never appear in a file.
pub const CANARY: u8 = 0xc5;

/// A shape.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shape {
    /// Its name.
    pub name: &'static str,
    /// Size of the file system in MiB.
    pub size_mebibytes: u64,
    /// Unit that is written whole or not at all.
    pub sector_bytes: usize,
    /// How often it comes.
    weight: u64,
    /// Sizes and features.
    base: shapes::Shape,
    /// Further options of mkfs: allocation groups and log.
    options: &'static [(Group, &'static str)],
}

const fn shape(
    name: &'static str,
    base: &str,
    size_mebibytes: u64,
    options: &'static [(Group, &'static str)],
) -> Shape {
    Shape { name, base: shapes::Shape::named(base), size_mebibytes, sector_bytes: 512, weight: 8, options }
}

const FOUR_GROUPS: &[(Group, &str)] = &[(Group::Data, "agcount=4")];

/// All shapes.
pub const SHAPES: [Shape; 12] = [
    shape("default", "default", 64, &[(Group::Data, "agcount=4"), (Group::Log, "size=2001b")]),
    shape("block-1k", "block-1k", 64, &[(Group::Data, "agcount=4"), (Group::Log, "size=4862b")]),
    shape("larger-log", "default", 128, &[(Group::Data, "agcount=2"), (Group::Log, "size=24m")]),
    shape("no-reflink", "no-reflink", 64, FOUR_GROUPS),
    shape("no-parent", "no-parent", 64, FOUR_GROUPS),
    shape("plain", "plain", 64, FOUR_GROUPS),
    Shape { sector_bytes: 4096, ..shape("sector-4k", "sector-4k", 64, FOUR_GROUPS) },
    shape("log-stripe", "log-stripe-32k", 96, FOUR_GROUPS),
    shape("block-1k-directory-8k", "block-1k-directory-8k", 64, &[(Group::Data, "agcount=2")]),
    // Records longer than their usual buffer.
    shape("log-stripe-64k", "log-stripe-64k", 128, &[(Group::Log, "size=24m"), (Group::Data, "agcount=2")]),
    // That of the plainest features; the two first shapes have the smallest logs of theirs.
    shape("smallest-log", "plain", 64, &[(Group::Data, "agcount=4"), (Group::Log, "size=857b")]),
    // Never full in a test, and every state has all of its groups looked through.
    Shape {
        weight: 1,
        ..shape("largest-log", "default", 5 << 10, &[(Group::Data, "agcount=2"), (Group::Log, "size=2038m")])
    },
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
        let mut left = random.below(SHAPES.iter().map(|shape| shape.weight).sum());
        let is_it = |shape: &&Self| {
            let is_it = left < shape.weight;
            left = left.saturating_sub(shape.weight);
            is_it
        };
        SHAPES.iter().find(is_it).unwrap_or(&SHAPES[0]).clone()
    }

    /// Whether its features have what an operation needs.
    pub fn allows(&self, kind: OperationKind) -> bool {
        match kind {
            OperationKind::Clone => self.base.has_shared_blocks(),
            OperationKind::Exchange => self.base.has_exchange(),
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
        let layout = self.layout(self.options)?;
        let mut image = Image::filled(size_bytes, CANARY);
        let log = layout.must_read_as_zeros();
        image.fill(log.start, log.end - log.start, 0)?;
        let identity =
            Identity { uuid: Uuid(*b"uxfs crash tests"), now: NOW, numbers: Numbers::Fixed(0x5eed) };
        let device = ImageDevice::new(image);
        empty::format(&device, &layout, &identity)?;
        Ok((device.image(), log))
    }

    fn layout(&self, all: &[(Group, &str)]) -> Result<Layout> {
        let mut options = Options::default();
        options.allow_unsupported = true;
        for (letter, argument) in self.base.settings() {
            let group = Group::ALL.into_iter().find(|group| group.letter() == letter).context(self.name)?;
            options.add(group, argument).with_context(|| format!("{self}: {argument}"))?;
        }
        for (group, argument) in all {
            options.add(*group, argument).with_context(|| format!("{self}: {argument}"))?;
        }
        let facts = DeviceFacts { processors: 1, ..DeviceFacts::file(self.size_mebibytes << 20) };
        let (layout, _) = Layout::resolve(&options, &facts).with_context(|| self.name)?;
        Ok(layout)
    }
}

/// The constant time of the laboratory.
pub const NOW: Timestamp = Timestamp { seconds: 1_700_000_000, nanoseconds: 7 };

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::sync::Arc;

    use uxfs_filesystem::mount;
    use uxfs_filesystem::mount::MountOptions;

    use super::*;
    use uxfs_testkit::{judges::Judge, require, verdict::repair_is_silent};

    #[test]
    fn the_smallest_logs_could_not_be_smaller() {
        for name in ["default", "block-1k", "smallest-log"] {
            let shape = Shape::named(name).unwrap();
            let log = shape.layout(shape.options).unwrap().log;
            let smaller = format!("size={}b", log.blocks - 1);
            let others = shape.options.iter().filter(|(group, _)| *group != Group::Log).copied();
            let options: Vec<_> = others.chain([(Group::Log, smaller.as_str())]).collect();
            let refused = format!("{:#}", shape.layout(&options).unwrap_err());
            assert!(refused.contains(&format!("has {} to", log.blocks)), "{shape}: {refused}");
        }
    }

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
            let file_system = mount::open_volume(device, &MountOptions::default()).unwrap();
            eprintln!("{shape}: log of {} blocks", file_system.superblock().log_blocks.get());
            std::fs::remove_file(path).unwrap();
        }
    }
}
