//! Inodes with all that their forks hold, and blocks of symbolic links.
#![no_main]

use libfuzzer_sys::fuzz_target;
use uxfs_format::fault::Structure;
use uxfs_fuzz::{Layout, block};

const LAYOUTS: [Layout; 2] = [
    Layout {
        structure: Structure::Inode,
        length_bytes: 512,
        // Magic number, any mode, version 3.
        magic: (0, b"IN"),
        checksum: Some(100),
        uuid: Some(160),
        sector: None,
    },
    Layout {
        structure: Structure::Symlink,
        length_bytes: 1024,
        magic: (0, b"XSLM"),
        checksum: Some(12),
        uuid: Some(16),
        sector: Some(40),
    },
];

fuzz_target!(|bytes: &[u8]| block(&LAYOUTS, bytes));
