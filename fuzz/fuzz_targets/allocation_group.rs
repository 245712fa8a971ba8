//! The headers of an allocation group.
#![no_main]

use libfuzzer_sys::fuzz_target;
use uxfs_format::fault::Structure;
use uxfs_fuzz::{Layout, block};

const fn header(structure: Structure, magic: &'static [u8], checksum: u32, uuid: usize) -> Layout {
    let (magic, checksum, uuid) = ((0, magic), Some(checksum), Some(uuid));
    Layout { structure, length_bytes: 512, magic, checksum, uuid, sector: None }
}

const LAYOUTS: [Layout; 3] = [
    header(Structure::FreeSpaceHeader, b"XAGF", 216, 64),
    header(Structure::InodeHeader, b"XAGI", 312, 296),
    header(Structure::FreeList, b"XAFL", 32, 8),
];

fuzz_target!(|bytes: &[u8]| block(&LAYOUTS, bytes));
