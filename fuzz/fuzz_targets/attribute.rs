//! Extended attributes in every form, ACLs and parent pointers.
#![no_main]

use libfuzzer_sys::fuzz_target;
use uxfs_format::fault::Structure;
use uxfs_fuzz::{Layout, block};

const fn index(structure: Structure, magic: &'static [u8]) -> Layout {
    let (checksum, uuid, sector) = (Some(12), Some(32), Some(16));
    Layout { structure, length_bytes: 1024, magic: (8, magic), checksum, uuid, sector }
}

const fn bare(structure: Structure, length_bytes: usize) -> Layout {
    Layout { structure, length_bytes, magic: (0, b""), checksum: None, uuid: None, sector: None }
}

const LAYOUTS: [Layout; 6] = [
    index(Structure::AttributeLeaf, &[0x3b, 0xee]),
    index(Structure::AttributeNode, &[0x3e, 0xbe]),
    Layout {
        structure: Structure::AttributeRemoteValue,
        length_bytes: 1024,
        magic: (0, b"XARM"),
        checksum: Some(12),
        uuid: Some(16),
        sector: Some(40),
    },
    bare(Structure::AttributeShortform, 144),
    bare(Structure::AccessControlList, 64),
    bare(Structure::ParentPointer, 12),
];

fuzz_target!(|bytes: &[u8]| block(&LAYOUTS, bytes));
