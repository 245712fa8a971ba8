//! Blocks of every btree.
#![no_main]

use libfuzzer_sys::fuzz_target;
use uxfs_format::fault::Structure;
use uxfs_fuzz::{Layout, block};

const fn short(structure: Structure, magic: &'static [u8]) -> Layout {
    let (checksum, uuid, sector) = (Some(52), Some(32), Some(16));
    Layout { structure, length_bytes: 1024, magic: (0, magic), checksum, uuid, sector }
}

const LAYOUTS: [Layout; 7] = [
    short(Structure::FreeSpaceByBlock, b"AB3B"),
    short(Structure::FreeSpaceByLength, b"AB3C"),
    short(Structure::InodeIndex, b"IAB3"),
    short(Structure::FreeInodeIndex, b"FIB3"),
    short(Structure::ReverseMap, b"RMB3"),
    short(Structure::ReferenceCount, b"R3FC"),
    Layout {
        structure: Structure::ExtentMap,
        length_bytes: 1024,
        magic: (0, b"BMA3"),
        checksum: Some(64),
        uuid: Some(40),
        sector: Some(24),
    },
];

fuzz_target!(|bytes: &[u8]| block(&LAYOUTS, bytes));
