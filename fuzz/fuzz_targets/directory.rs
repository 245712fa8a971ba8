//! Directories in every form.
#![no_main]

use libfuzzer_sys::fuzz_target;
use uxfs_format::fault::Structure;
use uxfs_fuzz::{Layout, block};

const fn data(structure: Structure, magic: &'static [u8]) -> Layout {
    let (checksum, uuid, sector) = (Some(4), Some(24), Some(8));
    Layout { structure, length_bytes: 4096, magic: (0, magic), checksum, uuid, sector }
}

const fn index(structure: Structure, magic: &'static [u8]) -> Layout {
    let (checksum, uuid, sector) = (Some(12), Some(32), Some(16));
    Layout { structure, length_bytes: 4096, magic: (8, magic), checksum, uuid, sector }
}

const LAYOUTS: [Layout; 7] = [
    data(Structure::DirectoryBlock, b"XDB3"),
    data(Structure::DirectoryData, b"XDD3"),
    data(Structure::DirectoryFreeIndex, b"XDF3"),
    index(Structure::DirectoryLeaf, &[0x3d, 0xf1]),
    index(Structure::DirectoryLeafNode, &[0x3d, 0xff]),
    index(Structure::DirectoryNode, &[0x3e, 0xbe]),
    Layout {
        structure: Structure::DirectoryShortform,
        length_bytes: 192,
        magic: (0, b""),
        checksum: None,
        uuid: None,
        sector: None,
    },
];

fuzz_target!(|bytes: &[u8]| block(&LAYOUTS, bytes));
