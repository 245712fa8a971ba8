//! What the fuzz targets share: a geometry, and blocks whose header is made right so that the fuzzer gets behind it.
#![forbid(unsafe_code)]

use std::sync::LazyLock;

use uxfs_format::{
    checksum,
    describe::{describe, text},
    fault::Structure,
    geometry::Geometry,
    superblock::{Copy, Superblock},
    units::Sector,
    verify::{VerifyContext, verify},
};

/// First sector of an image made by mkfs.xfs 7.2 with blocks of 1 KiB (directory blocks of 4 KiB).
const SUPERBLOCK: &[u8; 512] = include_bytes!("../seeds/superblock-1k.bin");
/// Where the blocks are said to lie: block 64 of the first group.
const SECTOR: Sector = Sector::new(128);

/// Small blocks: less to mutate.
pub static GEOMETRY: LazyLock<Geometry> = LazyLock::new(|| {
    let (superblock, sector) = Superblock::parse(SUPERBLOCK).expect("the seed is a superblock");
    superblock.verify(sector, Copy::Primary).expect("the seed is a good superblock");
    Geometry::new(superblock)
});

/// Where the self-describing fields of a structure lie.
#[derive(Debug, Clone, Copy)]
pub struct Layout {
    /// Which structure.
    pub structure: Structure,
    /// How long it is.
    pub length_bytes: usize,
    /// Magic number, with its offset.
    pub magic: (usize, &'static [u8]),
    /// The checksum's offset, if it has one.
    pub checksum: Option<u32>,
    /// The uuid's offset, if it has one.
    pub uuid: Option<usize>,
    /// The offset of the sector number, if it has one.
    pub sector: Option<usize>,
}

/// Takes the first byte to choose the structure and how much of its header is made right, the rest as the block.
pub fn block(layouts: &[Layout], input: &[u8]) {
    let Some((choice, input)) = input.split_first() else { return };
    let layout = &layouts[usize::from(choice >> 3) % layouts.len()];
    let geometry = &*GEOMETRY;
    let mut bytes = vec![0; layout.length_bytes];
    let length = input.len().min(bytes.len());
    bytes[..length].copy_from_slice(&input[..length]);
    if choice & 7 != 0 {
        make_right(layout, geometry, &mut bytes);
    }
    let context = VerifyContext { geometry, sector: SECTOR };
    let is_sound = verify(layout.structure, &bytes, &context).is_ok();
    // Damaged structures are described too: `inspect` is for them. Only sometimes, because it is slower.
    if is_sound || choice & 7 == 7 {
        let description = describe(layout.structure, &bytes, geometry);
        let mut sink = String::new();
        let _ = text::write(&description, &bytes, &mut sink);
    }
}

fn make_right(layout: &Layout, geometry: &Geometry, bytes: &mut [u8]) {
    let (at, magic) = layout.magic;
    bytes[at..at + magic.len()].copy_from_slice(magic);
    if let Some(at) = layout.uuid {
        bytes[at..at + 16].copy_from_slice(&geometry.metadata_uuid.0);
    }
    if let Some(at) = layout.sector {
        bytes[at..at + 8].copy_from_slice(&SECTOR.get().to_be_bytes());
    }
    if let Some(at) = layout.checksum {
        checksum::seal(bytes, at);
    }
}
