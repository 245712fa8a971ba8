//! Which file comes where, under which name.

use super::{MAX_NAME_BYTES, Options};
use crate::random;

/// Digits that tell the files of a run apart.
pub(super) const LEAST_SEQUENTIAL_BYTES: usize = 10;
const LETTERS: &[u8; 36] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ";
const DIGITS: &[u8; 16] = b"0123456789abcdef";

/// The files of one thread in one iteration.
#[derive(Debug, Clone, Copy)]
pub(super) struct Part<'o> {
    pub options: &'o Options,
    pub thread: usize,
    pub iteration: u64,
}

impl Part<'_> {
    /// The subdirectory of a file; `None` where there are none.
    pub(super) fn subdirectory(&self, index: u64) -> Option<u64> {
        let Options { subdirectories, files_per_subdirectory, files, .. } = *self.options;
        if subdirectories == 0 {
            return None;
        }
        let turns = match files_per_subdirectory {
            0 => 1,
            many => files.div_ceil(many),
        };
        let turn = index.checked_div(files_per_subdirectory).unwrap_or(0);
        // Each iteration goes on where the last one ended.
        Some((self.iteration.wrapping_mul(turns) + turn) % subdirectories)
    }

    /// The name of a file: its number, filled up with `~`, then random letters and digits.
    pub(super) fn name<'b>(&self, index: u64, buffer: &'b mut [u8; MAX_NAME_BYTES]) -> &'b [u8] {
        let Options { name_bytes, random_bytes, threads, files, seed, .. } = *self.options;
        let turn = self.iteration.wrapping_mul(threads as u64) + self.thread as u64;
        let number = turn.wrapping_mul(files) + index;
        let name = buffer.get_mut(..name_bytes).unwrap_or_default();
        let (sequential, random) = name.split_at_mut(name_bytes.saturating_sub(random_bytes).min(name_bytes));
        sequential.fill(b'~');
        let digits = 16 - (number.leading_zeros() as usize / 4).min(15);
        let (skipped, shown) = (digits.saturating_sub(sequential.len()), digits.min(sequential.len()));
        for (place, byte) in sequential.iter_mut().take(shown).enumerate() {
            let digit = (number >> (4 * (digits - 1 - skipped - place))) & 15;
            *byte = DIGITS.get(digit as usize).copied().unwrap_or(b'~');
        }
        for (group, bytes) in random.chunks_mut(12).enumerate() {
            let mut word = random::at(seed, (number << 5) ^ group as u64);
            for byte in bytes {
                *byte = LETTERS.get((word % 36) as usize).copied().unwrap_or(b'~');
                word /= 36;
            }
        }
        name
    }
}

/// Name of subdirectory number `index`.
pub(super) fn subdirectory_name(index: u64) -> String {
    format!("{index:02x}")
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn names_are_all_different_and_as_long_as_asked_for() {
        let options = Options { threads: 3, files: 700, ..Options::default() };
        let mut seen = BTreeSet::new();
        for thread in 0..3 {
            for iteration in 0..4 {
                let part = Part { options: &options, thread, iteration };
                for index in 0..700 {
                    let mut buffer = [0; MAX_NAME_BYTES];
                    let name = part.name(index, &mut buffer).to_vec();
                    assert_eq!(name.len(), 40);
                    assert!(name.iter().all(|byte| byte.is_ascii_graphic() && *byte != b'/'));
                    assert!(seen.insert(name));
                }
            }
        }
        let part = Part { options: &options, thread: 1, iteration: 1 };
        let mut buffer = [0; MAX_NAME_BYTES];
        let name = String::from_utf8(part.name(0x15, &mut buffer).to_vec()).unwrap();
        // The fifth turn of 700, and 21.
        assert_eq!(&name[..16], "b05~~~~~~~~~~~~~");
    }

    #[test]
    fn subdirectories_take_turns() {
        let plain = Options { files: 10, ..Options::default() };
        assert_eq!(Part { options: &plain, thread: 0, iteration: 0 }.subdirectory(7), None);
        let options = Options { files: 10, subdirectories: 4, files_per_subdirectory: 3, ..plain };
        let of = |iteration| {
            let part = Part { options: &options, thread: 0, iteration };
            (0..10).map(|index| part.subdirectory(index).unwrap()).collect::<Vec<_>>()
        };
        assert_eq!(of(0), [0, 0, 0, 1, 1, 1, 2, 2, 2, 3]);
        assert_eq!(of(1), [0, 0, 0, 1, 1, 1, 2, 2, 2, 3]);
        let one = Options { files_per_subdirectory: 0, ..options };
        let part = Part { options: &one, thread: 0, iteration: 6 };
        assert_eq!((part.subdirectory(0), part.subdirectory(9)), (Some(2), Some(2)));
        assert_eq!(subdirectory_name(300), "12c");
    }
}
