//! CRC32C as XFS applies it: over a whole sector, block or inode, with the checksum field itself counted as
//! zero, and stored **little-endian** in every structure of an otherwise big-endian format.

use crate::convert::to_usize;

pub mod changed_bits;

/// The type of every checksum field. Little-endian, unlike all fields around it.
pub type Checksum = zerocopy::little_endian::U32;

/// Computes the CRC32C of `bytes` with the four bytes at `checksum_offset_bytes` counted as zero.
///
/// Returns `None` when the field does not lie within `bytes`.
#[inline]
pub fn compute(bytes: &[u8], checksum_offset_bytes: u32) -> Option<u32> {
    let offset = to_usize(checksum_offset_bytes);
    let after = offset.checked_add(4)?;
    let head = bytes.get(..offset)?;
    let tail = bytes.get(after..)?;
    let crc = crc32c::crc32c(head);
    let crc = crc32c::crc32c_append(crc, &[0; 4]);
    Some(crc32c::crc32c_append(crc, tail))
}

/// The checksum stored at `checksum_offset_bytes`, or `None` when it does not lie within `bytes`.
#[inline]
pub fn stored(bytes: &[u8], checksum_offset_bytes: u32) -> Option<u32> {
    let offset = to_usize(checksum_offset_bytes);
    let field = bytes.get(offset..offset.checked_add(4)?)?;
    Some(u32::from_le_bytes(field.try_into().ok()?))
}

/// Computes and stores the checksum. Returns `false` (and changes nothing) when the field lies outside.
pub fn seal(bytes: &mut [u8], checksum_offset_bytes: u32) -> bool {
    let Some(crc) = compute(bytes, checksum_offset_bytes) else { return false };
    let offset = to_usize(checksum_offset_bytes);
    match offset.checked_add(4).and_then(|end| bytes.get_mut(offset..end)) {
        Some(field) => {
            field.copy_from_slice(&crc.to_le_bytes());
            true
        }
        None => false,
    }
}

/// A stored checksum that differs from the computed one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mismatch {
    /// As stored.
    pub found: u32,
    /// As computed over the bytes.
    pub computed: u32,
}

/// Compares stored and computed checksum. A field outside `bytes` counts as a mismatch.
#[inline]
pub fn check(bytes: &[u8], checksum_offset_bytes: u32) -> Result<(), Mismatch> {
    let computed = compute(bytes, checksum_offset_bytes).unwrap_or(0);
    match stored(bytes, checksum_offset_bytes) {
        Some(found) if found == computed => Ok(()),
        Some(found) => Err(Mismatch { found, computed }),
        None => Err(Mismatch { found: 0, computed: 0 }),
    }
}

/// The polynomial of CRC32C, lowest power in the highest bit.
const POLYNOMIAL: u32 = 0x82f6_3b78;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sealed_bytes_check_and_any_changed_bit_is_seen() {
        let mut bytes = vec![7u8; 512];
        assert!(seal(&mut bytes, 224));
        assert_eq!(check(&bytes, 224), Ok(()));
        for bit in [0, 1000, 512 * 8 - 1] {
            bytes[bit / 8] ^= 1 << (bit % 8);
            assert!(check(&bytes, 224).is_err(), "bit {bit}");
            bytes[bit / 8] ^= 1 << (bit % 8);
        }
    }

    #[test]
    fn a_field_outside_the_bytes_is_a_mismatch_not_a_panic() {
        assert!(check(&[0; 8], 6).is_err());
        assert!(!seal(&mut [0; 8], u32::MAX));
    }
}
