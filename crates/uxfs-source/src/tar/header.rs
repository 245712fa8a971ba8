//! The 512-byte header of an archive member, in all its dialects.

use crate::error::ArchiveFault;

/// Everything in an archive comes in blocks of this size.
pub(crate) const BLOCK_BYTES: usize = 512;
/// Offsets and lengths.
type Pairs = Vec<(u64, u64)>;
/// One block.
pub(super) type Block = [u8; BLOCK_BYTES];

/// The format of the header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Dialect {
    /// Before POSIX: no magic.
    Old,
    /// POSIX, and with it pax.
    Posix,
    /// As POSIX, with times where half of the prefix was.
    Star,
    /// GNU tar's own.
    Gnu,
}

/// A header.
pub(super) struct Header<'a>(pub(super) &'a Block);

impl<'a> Header<'a> {
    /// Compares the sum; both ways of summing that were ever in use are right.
    pub(super) fn verify(&self) -> Result<(), ArchiveFault> {
        let found = number(self.field(148, 8)).ok().and_then(|sum| u64::try_from(sum).ok());
        let bytes =
            || self.0.iter().enumerate().map(|(i, b)| if (148..156).contains(&i) { b' ' } else { *b });
        let computed: u64 = bytes().map(u64::from).sum();
        let signed: i64 = bytes().map(|byte| i64::from(byte.cast_signed())).sum();
        match found {
            Some(found) if found == computed || i64::try_from(found) == Ok(signed) => Ok(()),
            found => Err(ArchiveFault::Checksum { found: found.unwrap_or(0), computed }),
        }
    }

    fn field(&self, offset: usize, length: usize) -> &'a [u8] {
        self.0.get(offset..offset + length).unwrap_or_default()
    }

    /// A field up to its first NUL.
    fn text(&self, offset: usize, length: usize) -> &'a [u8] {
        until_nul(self.field(offset, length))
    }

    pub(super) fn dialect(&self) -> Dialect {
        match (self.field(257, 8), self.field(508, 4)) {
            (b"ustar  \0", _) => Dialect::Gnu,
            (magic, b"tar\0") if magic.starts_with(b"ustar") => Dialect::Star,
            (magic, _) if magic.starts_with(b"ustar") => Dialect::Posix,
            _ => Dialect::Old,
        }
    }

    pub(super) fn type_flag(&self) -> u8 {
        self.field(156, 1).first().copied().unwrap_or(0)
    }

    /// The name, with the prefix that the dialect has.
    pub(super) fn name(&self) -> Vec<u8> {
        let prefix = match self.dialect() {
            Dialect::Posix => self.text(345, 155),
            Dialect::Star => self.text(345, 131),
            Dialect::Gnu | Dialect::Old => b"",
        };
        let name = self.text(0, 100);
        if prefix.is_empty() { name.to_vec() } else { [prefix, b"/", name].concat() }
    }

    pub(super) fn link_name(&self) -> &'a [u8] {
        self.text(157, 100)
    }

    pub(super) fn user_name(&self) -> &'a [u8] {
        if self.dialect() == Dialect::Old { b"" } else { self.text(265, 32) }
    }

    pub(super) fn group_name(&self) -> &'a [u8] {
        if self.dialect() == Dialect::Old { b"" } else { self.text(297, 32) }
    }

    pub(super) fn mode(&self) -> Result<u16, ArchiveFault> {
        let mode = number(self.field(100, 8)).map_err(|_| ArchiveFault::Number { field: "mode" })?;
        // Some write the kind of file above the permissions.
        Ok((mode & 0o7777) as u16)
    }

    pub(super) fn user(&self) -> Result<u32, ArchiveFault> {
        small(self.field(108, 8), "uid")
    }

    pub(super) fn group(&self) -> Result<u32, ArchiveFault> {
        small(self.field(116, 8), "gid")
    }

    pub(super) fn size_bytes(&self) -> Result<u64, ArchiveFault> {
        size(self.field(124, 12))
    }

    /// Seconds.
    pub(super) fn modification(&self) -> Result<i64, ArchiveFault> {
        seconds(self.field(136, 12), "mtime")
    }

    /// Last access and last change, in seconds, where the dialect has them.
    pub(super) fn other_times(&self) -> Result<(Option<i64>, Option<i64>), ArchiveFault> {
        let offsets = match self.dialect() {
            Dialect::Gnu => (345, 357),
            Dialect::Star => (476, 488),
            Dialect::Posix | Dialect::Old => return Ok((None, None)),
        };
        let time = |offset, name| {
            let field = self.field(offset, 12);
            // Empty where it was not asked for.
            if field.iter().all(|byte| matches!(byte, 0 | b' ')) {
                return Ok(None);
            }
            seconds(field, name).map(Some)
        };
        Ok((time(offsets.0, "atime")?, time(offsets.1, "ctime")?))
    }

    pub(super) fn device(&self) -> Result<(u32, u32), ArchiveFault> {
        if self.dialect() == Dialect::Old {
            return Ok((0, 0));
        }
        Ok((small(self.field(329, 8), "devmajor")?, small(self.field(337, 8), "devminor")?))
    }

    /// Where the part of the file begins that this volume holds.
    pub(super) fn gnu_offset(&self) -> Result<u64, ArchiveFault> {
        size(self.field(369, 12))
    }

    /// The map of an old GNU sparse file: ranges, whether more blocks follow, and the file's size.
    pub(super) fn gnu_sparse(&self) -> Result<(Pairs, bool, u64), ArchiveFault> {
        let ranges = sparse_ranges(self.field(386, 96))?;
        Ok((ranges, self.field(482, 1) != b"\0", size(self.field(483, 12))?))
    }
}

/// More of the map of an old GNU sparse file, and whether still more follows.
pub(super) fn gnu_sparse_extension(block: &Block) -> Result<(Pairs, bool), ArchiveFault> {
    let (ranges, rest) = block.split_at(504);
    Ok((sparse_ranges(ranges)?, rest.first() != Some(&0)))
}

fn sparse_ranges(bytes: &[u8]) -> Result<Pairs, ArchiveFault> {
    let used = bytes.chunks_exact(24).take_while(|range| range.first() != Some(&0));
    used.map(|range| {
        let (offset, length) = range.split_at(12);
        Ok((size(offset)?, size(length)?))
    })
    .collect()
}

pub(super) fn until_nul(bytes: &[u8]) -> &[u8] {
    bytes.split(|byte| *byte == 0).next().unwrap_or_default()
}

fn small(field: &[u8], name: &'static str) -> Result<u32, ArchiveFault> {
    let value = number(field).ok().and_then(|value| u32::try_from(value).ok());
    value.ok_or(ArchiveFault::Number { field: name })
}

fn size(field: &[u8]) -> Result<u64, ArchiveFault> {
    let value = number(field).ok().and_then(|value| u64::try_from(value).ok());
    // As many as a file of the host can have.
    value.filter(|value| i64::try_from(*value).is_ok()).ok_or(ArchiveFault::Number { field: "size" })
}

fn seconds(field: &[u8], name: &'static str) -> Result<i64, ArchiveFault> {
    let value = number(field).ok().and_then(|value| i64::try_from(value).ok());
    value.ok_or(ArchiveFault::Number { field: name })
}

/// Not a number, or too long a one.
struct NoNumber;

/// Octal digits between blanks, or, where the first bit is set, a binary number of two's complement.
fn number(field: &[u8]) -> Result<i128, NoNumber> {
    match field.split_first() {
        Some((first, rest)) if first & 0x80 != 0 => {
            // The second bit is the sign.
            let start = i128::from(first & 0x3f) - if first & 0x40 != 0 { 64 } else { 0 };
            let mut value = start;
            for byte in rest {
                if value.unsigned_abs() >> 100 != 0 {
                    return Err(NoNumber);
                }
                value = value << 8 | i128::from(*byte);
            }
            Ok(value)
        }
        _ => octal(field),
    }
}

fn octal(field: &[u8]) -> Result<i128, NoNumber> {
    let is_blank = |byte: &u8| matches!(byte, b' ' | 0);
    let start = field.iter().position(|byte| !is_blank(byte)).unwrap_or(field.len());
    let digits = field.get(start..).unwrap_or_default();
    let length = digits.iter().position(is_blank).unwrap_or(digits.len());
    let (digits, rest) = digits.split_at(length);
    // What follows a blank is not looked at by others either; NULs and blanks are all that writers leave there.
    let _ = rest;
    digits.iter().try_fold(0_i128, |value, digit| match digit {
        b'0'..=b'7' => Ok(value << 3 | i128::from(digit - b'0')),
        _ => Err(NoNumber),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_all_writers() {
        let read = |field: &[u8]| number(field).ok();
        assert_eq!(read(b"0000644\0"), Some(0o644));
        assert_eq!(read(b"   644 \0"), Some(0o644));
        assert_eq!(read(b"        "), Some(0));
        assert_eq!(read(b"\0\0\0\0\0\0\0\0"), Some(0));
        assert_eq!(read(b"77777777"), Some(0o77_777_777));
        assert_eq!(read(b"0000648\0"), None);
        assert_eq!(read(b"-1\0\0\0\0\0\0"), None);
        assert_eq!(read(&[0x80, 0, 0, 0, 0xee, 0x6b, 0x28, 0]), Some(4_000_000_000));
        assert_eq!(read(&[0xff; 12]), Some(-1));
        assert_eq!(read(&[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xfe]), Some(-2));
        assert_eq!(read(&[0xbf; 100]), None);
        assert!(size(&[0xff; 12]).is_err());
        assert!(small(&[0x80, 0, 0, 1, 0, 0, 0, 0], "uid").is_err());
    }
}
