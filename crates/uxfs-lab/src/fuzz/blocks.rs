//! Single blocks whose header is made right, so that the fuzzer gets behind it.

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
const SUPERBLOCK: &[u8; 512] = include_bytes!("../../testdata/superblock-1k.bin");
/// Where the blocks are said to lie: block 64 of the first group.
pub const SECTOR: Sector = Sector::new(128);

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

const fn header(structure: Structure, magic: &'static [u8], checksum: u32, uuid: usize) -> Layout {
    let (magic, checksum, uuid) = ((0, magic), Some(checksum), Some(uuid));
    Layout { structure, length_bytes: 512, magic, checksum, uuid, sector: None }
}

const fn self_describing(
    structure: Structure,
    length_bytes: usize,
    magic: (usize, &'static [u8]),
    [checksum, uuid, sector]: [usize; 3],
) -> Layout {
    Layout {
        structure,
        length_bytes,
        magic,
        checksum: Some(checksum as u32),
        uuid: Some(uuid),
        sector: Some(sector),
    }
}

const fn bare(structure: Structure, length_bytes: usize) -> Layout {
    Layout { structure, length_bytes, magic: (0, b""), checksum: None, uuid: None, sector: None }
}

/// The headers of an allocation group.
pub const ALLOCATION_GROUP: &[Layout] = &[
    header(Structure::FreeSpaceHeader, b"XAGF", 216, 64),
    header(Structure::InodeHeader, b"XAGI", 312, 296),
    header(Structure::FreeList, b"XAFL", 32, 8),
];

/// Where blocks of btrees of a group keep checksum, uuid and sector.
const SHORT: [usize; 3] = [52, 32, 16];

/// Blocks of every btree.
pub const BTREE: &[Layout] = &[
    self_describing(Structure::FreeSpaceByBlock, 1024, (0, b"AB3B"), SHORT),
    self_describing(Structure::FreeSpaceByLength, 1024, (0, b"AB3C"), SHORT),
    self_describing(Structure::InodeIndex, 1024, (0, b"IAB3"), SHORT),
    self_describing(Structure::FreeInodeIndex, 1024, (0, b"FIB3"), SHORT),
    self_describing(Structure::ReverseMap, 1024, (0, b"RMB3"), SHORT),
    self_describing(Structure::ReferenceCount, 1024, (0, b"R3FC"), SHORT),
    self_describing(Structure::ExtentMap, 1024, (0, b"BMA3"), [64, 40, 24]),
];

/// Inodes with all that their forks hold, and blocks of symbolic links.
pub const INODE: &[Layout] = &[
    Layout {
        structure: Structure::Inode,
        length_bytes: 512,
        magic: (0, b"IN"),
        checksum: Some(100),
        uuid: Some(160),
        sector: None,
    },
    self_describing(Structure::Symlink, 1024, (0, b"XSLM"), [12, 16, 40]),
];

/// Where directory data and free index blocks keep checksum, uuid and sector.
const DATA: [usize; 3] = [4, 24, 8];
/// Where blocks of hash btrees keep them.
const INDEX: [usize; 3] = [12, 32, 16];

/// Directories in every form.
pub const DIRECTORY: &[Layout] = &[
    self_describing(Structure::DirectoryBlock, 4096, (0, b"XDB3"), DATA),
    self_describing(Structure::DirectoryData, 4096, (0, b"XDD3"), DATA),
    self_describing(Structure::DirectoryFreeIndex, 4096, (0, b"XDF3"), DATA),
    self_describing(Structure::DirectoryLeaf, 4096, (8, &[0x3d, 0xf1]), INDEX),
    self_describing(Structure::DirectoryLeafNode, 4096, (8, &[0x3d, 0xff]), INDEX),
    self_describing(Structure::DirectoryNode, 4096, (8, &[0x3e, 0xbe]), INDEX),
    bare(Structure::DirectoryShortform, 192),
];

/// Extended attributes in every form, ACLs and parent pointers.
pub const ATTRIBUTE: &[Layout] = &[
    self_describing(Structure::AttributeLeaf, 1024, (8, &[0x3b, 0xee]), INDEX),
    self_describing(Structure::AttributeNode, 1024, (8, &[0x3e, 0xbe]), INDEX),
    self_describing(Structure::AttributeRemoteValue, 1024, (0, b"XARM"), [12, 16, 40]),
    bare(Structure::AttributeShortform, 144),
    bare(Structure::AccessControlList, 64),
    bare(Structure::ParentPointer, 12),
];

/// An input of [`block`] that is this block of this structure, if one of `layouts` is of its kind.
pub fn seed(layouts: &[Layout], structure: Structure, bytes: &[u8]) -> Option<Vec<u8>> {
    let index = layouts.iter().position(|layout| layout.structure == structure)?;
    let mut input = vec![(index as u8) << 3 | 1];
    input.extend_from_slice(bytes);
    Some(input)
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
    let context = VerifyContext::new(geometry, SECTOR);
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
