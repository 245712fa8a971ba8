//! Sizes and offsets of every on-disk structure, checked when the crate is compiled. The numbers are facts of the
//! format, written down independently of the declarations they check.
#![allow(clippy::wildcard_imports)]

use std::mem::offset_of;

use crate::superblock::Superblock;

macro_rules! layout {
    ($type:ty, $size:literal $(, $field:ident @ $offset:literal)* $(,)?) => {
        const _: () = assert!(size_of::<$type>() == $size);
        const _: () = assert!(align_of::<$type>() == 1);
        $( const _: () = assert!(offset_of!($type, $field) == $offset); )*
    };
}

layout!(
    Superblock, 304, block_size_bytes @ 4, uuid @ 32, log_start @ 48, ag_blocks @ 84, version_number @ 100,
    label @ 108, block_log @ 120, in_progress @ 126, inode_count @ 128, user_quota_inode @ 160,
    inode_alignment_blocks @ 180, directory_block_log @ 192, log_stripe_unit_bytes @ 196, features2 @ 200,
    checksum @ 224, lsn @ 240, metadata_uuid @ 248, metadata_directory_inode @ 264, realtime_start @ 288,
);
