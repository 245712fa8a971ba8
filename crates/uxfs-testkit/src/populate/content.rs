//! File contents that show a misplaced block, and compress well all the same: every block begins with its number in the file
//! and the file's; the rest is one tile, the same in all.

use std::{fs::File, os::unix::fs::FileExt, sync::OnceLock};

use anyhow::Result;

use crate::seeds::Random;

const MARK_BYTES: u64 = 16;

/// `length` bytes that belong at `offset` of the file numbered `file`, in blocks of `unit` bytes.
pub fn pattern(unit: u64, file: u64, offset: u64, length: u64) -> Vec<u8> {
    let tile = tile();
    let byte_at = |at: u64| {
        let (block, within) = (at / unit, at % unit);
        if within < MARK_BYTES {
            let mark = u128::from(block) << 64 | u128::from(file);
            mark.to_be_bytes()[usize::try_from(within).unwrap_or_default()]
        } else {
            tile[usize::try_from(within).unwrap_or_default() % tile.len()]
        }
    };
    (offset..offset + length).map(byte_at).collect()
}

fn tile() -> &'static [u8] {
    static TILE: OnceLock<Vec<u8>> = OnceLock::new();
    TILE.get_or_init(|| {
        let mut random = Random::new(1);
        (0..65536).map(|_| b'a' + u8::try_from(random.below(8)).unwrap_or_default()).collect()
    })
}

/// Writes the pattern to a range of `file`.
pub(super) fn write_pattern(file: &File, unit: u64, number: u64, offset: u64, length: u64) -> Result<()> {
    file.write_all_at(&pattern(unit, number, offset, length), offset)?;
    Ok(())
}
