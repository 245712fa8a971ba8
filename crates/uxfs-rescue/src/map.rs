//! Map files of GNU ddrescue: which bytes of a copy were read.
//!
//! Comments begin with `#`. The first other line has the position and status of the program, and sometimes the number of a pass. Each
//! further line is one block: position, size, and status. Blocks ascend and do not overlap. Only `+` means that the bytes were read;
//! `?` (not tried), `*` and `/` (not tried in small pieces) and `-` (bad) leave what was in the output before, mostly zeros.

use std::ops::Range;

use thiserror::Error;

use uxfs_block::ranges::RangeSet;

/// Statuses of blocks that were not read.
const NOT_READ: &[&str] = &["?", "*", "/", "-"];
/// Status of blocks that were read.
const READ: &str = "+";

/// What is wrong with a map file.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum MapError {
    /// A line that is neither a comment nor a block.
    #[error("line {line}: not a position, a size and a status of a ddrescue map: {text}")]
    NotABlock {
        /// Which, from 1.
        line: usize,
        /// Its beginning.
        text: String,
    },
    /// A block that begins before the one before it ends.
    #[error("line {line}: the block at {position:#x} lies over the one before it")]
    Overlap {
        /// Which, from 1.
        line: usize,
        /// Where the block begins.
        position: u64,
    },
    /// No block at all.
    #[error("it has no blocks")]
    Empty,
}

/// The ranges of a copy that were read; everything else was not.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RescueMap {
    read: RangeSet,
}

impl RescueMap {
    /// Reads the text of a map file.
    ///
    /// # Errors
    /// It is none.
    pub fn parse(text: &str) -> Result<Self, MapError> {
        let mut map = Self::default();
        let lines = text.lines().enumerate().map(|(index, line)| (index + 1, line.trim()));
        let mut lines = lines.filter(|(_, line)| !line.is_empty() && !line.starts_with('#'));
        // Where the program was when it stopped.
        let (line, text) = lines.next().ok_or(MapError::Empty)?;
        status_line(text).ok_or_else(|| not_a_block(line, text))?;
        let (mut end, mut has_blocks) = (0, false);
        for (line, text) in lines {
            let (range, is_read) = block(text).ok_or_else(|| not_a_block(line, text))?;
            if range.start < end {
                return Err(MapError::Overlap { line, position: range.start });
            }
            end = range.end;
            has_blocks = true;
            if is_read {
                map.read.insert(range);
            }
        }
        if has_blocks { Ok(map) } else { Err(MapError::Empty) }
    }

    /// What of a device was not read that begins at `start_bytes` of the copy and has `size_bytes`.
    pub fn unread(&self, start_bytes: u64, size_bytes: u64) -> impl Iterator<Item = Range<u64>> {
        let parts = self.read.without(start_bytes..start_bytes.saturating_add(size_bytes));
        parts.into_iter().map(move |part| part.start - start_bytes..part.end - start_bytes)
    }
}

fn not_a_block(line: usize, text: &str) -> MapError {
    MapError::NotABlock { line, text: text.chars().take(80).collect() }
}

fn status_line(text: &str) -> Option<()> {
    let mut words = text.split_ascii_whitespace();
    number(words.next()?)?;
    let status = words.next()?;
    // Of the program: copying, trimming, scraping, retrying, filling, making a map, finished.
    let is_status = status.len() == 1 && "?*/-FG+".contains(status);
    let has_pass = words.next().is_none_or(|pass| number(pass).is_some());
    (is_status && has_pass && words.next().is_none()).then_some(())
}

fn block(text: &str) -> Option<(Range<u64>, bool)> {
    let mut words = text.split_ascii_whitespace();
    let position = number(words.next()?)?;
    let end = position.checked_add(number(words.next()?)?)?;
    let status = words.next()?;
    let is_read = status == READ;
    let is_known = is_read || NOT_READ.contains(&status);
    // ddrescue takes comments behind a block as well.
    let is_whole = words.next().is_none_or(|word| word.starts_with('#'));
    (is_known && is_whole).then_some((position..end, is_read))
}

/// A number as C writes it.
fn number(text: &str) -> Option<u64> {
    let (digits, radix) = match text.strip_prefix("0x").or(text.strip_prefix("0X")) {
        Some(digits) => (digits, 16),
        None if text.len() > 1 && text.starts_with('0') => (text, 8),
        None => (text, 10),
    };
    digits.chars().all(|digit| digit.is_digit(radix)).then(|| u64::from_str_radix(digits, radix).ok())?
}

#[cfg(test)]
#[allow(clippy::single_range_in_vec_init)]
mod tests {
    use super::*;

    const MAP: &str = "# Mapfile. Created by GNU ddrescue version 1.27\n\
        # Command line: ddrescue /dev/sda copy map\n\
        # current_pos  current_status  current_pass\n\
        0x00120000     -               3\n\
        #      pos        size  status\n\
        0x00000000  0x00117000  +\n\
        0x00117000  0x00000200  -\n\
        0x00117200  0x00000E00  /\n\
        0x00118000  0x00002000  *\n\
        0x0011A000  0x00006000  ?\n\
        0x00120000  0x00100000  +\n";

    fn unread(map: &RescueMap, start: u64, size: u64) -> Vec<Range<u64>> {
        map.unread(start, size).collect()
    }

    #[test]
    fn only_what_was_read_counts() {
        let map = RescueMap::parse(MAP).unwrap();
        assert_eq!(unread(&map, 0, 0x0022_0000), [0x0011_7000..0x0012_0000]);
        // Behind the last block nothing was read either.
        assert_eq!(unread(&map, 0, 0x0022_1000), [0x0011_7000..0x0012_0000, 0x0022_0000..0x0022_1000]);
        assert_eq!(unread(&map, 0x0011_8000, 0x10_0000), [0..0x8000]);
    }

    #[test]
    fn numbers_are_those_of_c() {
        assert_eq!(["16", "0x10", "020", "0", "0X1f"].map(number), [16, 16, 16, 0, 31].map(Some));
        assert_eq!(["", "0x", "08", "-1", "+1", "1e3", "99999999999999999999"].map(number), [None; 7]);
    }

    #[test]
    fn gaps_were_not_read() {
        let map = RescueMap::parse("0 +\n0 10 +\n20 10 +\n").unwrap();
        assert_eq!(unread(&map, 0, 30), [10..20]);
    }

    #[test]
    fn other_files_are_refused_with_the_line() {
        let refused = |text: &str| RescueMap::parse(text).unwrap_err();
        assert_eq!(refused(""), MapError::Empty);
        assert_eq!(refused("# only this\n"), MapError::Empty);
        assert_eq!(refused("0 +\n"), MapError::Empty);
        assert_eq!(refused("0 +\n0 10 +\n5 10 +\n"), MapError::Overlap { line: 3, position: 5 });
        for text in
            ["0 x\n0 10 +\n", "0 +\n0 10\n", "0 +\n0 10 !\n", "0 +\n0xffffffffffffffff 1 +\n", "hello\n"]
        {
            assert!(matches!(refused(text), MapError::NotABlock { .. }), "{text}");
        }
    }
}
