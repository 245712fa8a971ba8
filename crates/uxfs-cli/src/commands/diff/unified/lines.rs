//! A file as lines, in bounded memory.

use super::super::contents::{Piece, Pieces};
use crate::failure::Failure;

/// Longest file that is compared line by line.
pub(super) const FILE_BYTES_MAX: usize = 16 << 20;
/// Most lines of a file that is compared line by line.
pub(super) const LINES_MAX: usize = 2 << 20;

/// What a file is to a comparison by lines.
#[derive(Debug)]
pub(super) enum Contents {
    Lines(Lines),
    /// It has a zero byte.
    Binary,
    /// It is longer than [`FILE_BYTES_MAX`], or has more lines than [`LINES_MAX`].
    TooLarge,
}

/// The lines of a file.
#[derive(Debug, Default)]
pub(super) struct Lines {
    bytes: Vec<u8>,
    /// Where each line ends, behind its newline.
    ends: Vec<u32>,
}

impl Contents {
    /// Reads a file, up to the first zero byte or to a limit.
    ///
    /// # Errors
    /// Damage; the device; the host.
    pub fn read(pieces: &mut dyn Pieces) -> Result<Self, Failure> {
        let mut bytes = Vec::new();
        while let Some(piece) = pieces.next()? {
            match piece {
                Piece::Data(data) if !data.contains(&0) => {
                    if bytes.len().saturating_add(data.len()) > FILE_BYTES_MAX {
                        return Ok(Self::TooLarge);
                    }
                    bytes.extend_from_slice(data);
                }
                _ => return Ok(Self::Binary),
            }
        }
        Ok(Self::of(bytes))
    }

    /// What these bytes are.
    pub fn of(bytes: Vec<u8>) -> Self {
        if bytes.contains(&0) {
            return Self::Binary;
        }
        let last = if bytes.last().is_none_or(|byte| *byte == b'\n') { None } else { Some(bytes.len()) };
        let is_newline = |(_, byte): &(usize, &u8)| **byte == b'\n';
        let newlines = bytes.iter().enumerate().filter(is_newline).map(|(newline, _)| newline + 1);
        let mut ends = Vec::new();
        for end in newlines.chain(last) {
            match u32::try_from(end) {
                Ok(end) if ends.len() < LINES_MAX => ends.push(end),
                _ => return Self::TooLarge,
            }
        }
        Self::Lines(Lines { bytes, ends })
    }
}

impl Lines {
    /// How many there are.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// A line with its newline, which only the last one can lack.
    pub fn get(&self, index: usize) -> &[u8] {
        let end_of = |index: usize| self.ends.get(index).map_or(self.bytes.len(), |end| *end as usize);
        let begin = index.checked_sub(1).map_or(0, end_of);
        self.bytes.get(begin..end_of(index)).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_keep_their_newlines() {
        let of = |bytes: &[u8]| match Contents::of(bytes.to_vec()) {
            Contents::Lines(lines) => (0..lines.len()).map(|index| lines.get(index).to_vec()).collect(),
            other => vec![format!("{other:?}").into_bytes()],
        };
        assert_eq!(of(b""), Vec::<Vec<u8>>::new());
        assert_eq!(of(b"\n"), [b"\n"]);
        assert_eq!(of(b"a"), [b"a"]);
        assert_eq!(of(b"a\r\n\nb"), [&b"a\r\n"[..], b"\n", b"b"]);
        assert_eq!(of(b"a\0"), [b"Binary"]);
        assert_eq!(of(&vec![b'\n'; LINES_MAX]).len(), LINES_MAX);
        assert_eq!(of(&vec![b'\n'; LINES_MAX + 1]), [b"TooLarge"]);
    }
}
