//! The hash by which names of entries and attributes are found, and how names are compared.

use crate::geometry::Geometry;

/// Hash of a name: 7 bits of shift for each byte.
#[doc(alias = "xfs_da_hashname")]
#[inline]
pub fn hash(name: &[u8]) -> u32 {
    let (quads, tail) = name.as_chunks::<4>();
    let value = quads.iter().fold(0u32, |value, &[a, b, c, d]| {
        let four = (u32::from(a) << 21) ^ (u32::from(b) << 14) ^ (u32::from(c) << 7) ^ u32::from(d);
        four ^ value.rotate_left(28)
    });
    tail.iter().fold(value, |value, byte| u32::from(*byte) ^ value.rotate_left(7))
}

/// Hash of a name without regard to case: upper case letters of ISO 8859-1 count as lower case.
#[doc(alias = "xfs_ascii_ci_hashname")]
pub fn hash_case_folded(name: &[u8]) -> u32 {
    name.iter().fold(0u32, |value, byte| u32::from(fold_case(*byte)) ^ value.rotate_left(7))
}

/// The lower case of a byte, as case-insensitive file systems have it: ISO 8859-1, not only ASCII, whatever the
/// feature is called.
#[inline]
pub const fn fold_case(byte: u8) -> u8 {
    match byte {
        0x41..=0x5a | 0xc0..=0xd6 | 0xd8..=0xde => byte.wrapping_add(0x20),
        _ => byte,
    }
}

/// How one file system hashes and compares the names of directory entries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NameRule {
    /// Byte for byte.
    Exact,
    /// Without regard to case.
    CaseFolded,
}

impl NameRule {
    /// As the features say.
    pub fn of(geometry: &Geometry) -> Self {
        if geometry.features.is_ascii_case_insensitive() { Self::CaseFolded } else { Self::Exact }
    }

    /// Hash of a name.
    #[inline]
    pub fn hash(self, name: &[u8]) -> u32 {
        match self {
            Self::Exact => hash(name),
            Self::CaseFolded => hash_case_folded(name),
        }
    }

    /// Whether two names are the same entry.
    #[inline]
    pub fn matches(self, one: &[u8], other: &[u8]) -> bool {
        match self {
            Self::Exact => one == other,
            Self::CaseFolded => {
                one.len() == other.len() && one.iter().zip(other).all(|(a, b)| fold_case(*a) == fold_case(*b))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hashes_are_those_that_the_kernel_wrote() {
        let vectors: [(&[u8], u32); 10] = [
            (b".", 0x2e),
            (b"..", 0x172e),
            (b"rtgroups", 0x2d18_ab4c),
            (b"0.bitmap", 0x9efb_cbe6),
            (b"0.summary", 0xede5_b6d7),
            (b"0.rmap", 0xee5b_7172),
            (b"0.refcount", 0x1318_e05a),
            (b"f1", 0x3331),
            (b"hard", 0x0d18_7964),
            (b"empty", 0x5dbc_3a7f),
        ];
        for (name, expected) in vectors {
            assert_eq!(hash(name), expected, "{}", String::from_utf8_lossy(name));
        }
    }

    #[test]
    fn folding_stops_at_the_signs_between_the_letters() {
        assert_eq!(hash_case_folded(b"FILE"), hash(b"file"));
        assert_eq!(fold_case(0xd7), 0xd7, "multiplication sign");
        assert_eq!(fold_case(0xdf), 0xdf, "sharp s");
        assert_eq!(fold_case(0xc0), 0xe0);
        assert!(NameRule::CaseFolded.matches(b"\xc4B", b"\xe4b"));
        assert!(!NameRule::Exact.matches(b"A", b"a"));
    }
}
