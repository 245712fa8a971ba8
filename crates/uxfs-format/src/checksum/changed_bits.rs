//! Which few bits have changed in bytes whose checksum is wrong.
//!
//! CRC32C is linear: each bit has a difference of its own that it makes to the checksum, whatever the other bits are, and several bits make
//! the exclusive or of theirs. A table of the differences of all single bits tells one changed bit by a lookup, and two by a lookup for
//! each bit.
//!
//! Below 5244 bits the code has a distance of six: there two changed bits make a difference that no other two and no three make. Above it
//! has a distance of four up to 256 MiB: one changed bit is still told from two others. Any other damage makes the difference of some pair
//! by chance: of 4096 bits once in 500 times, of 32,768 bits once in 8 times. So callers must ask more of a pair in a large structure than
//! that the checksum is right.

use super::{POLYNOMIAL, compute, stored};
use crate::convert::to_usize;

/// Pairs that are given for one difference, at most.
const MOST_PAIRS: usize = 64;

/// The differences of all bits of structures of one length. A bit is counted from the first byte's most significant bit on.
#[derive(Debug, Clone)]
pub struct ChangedBits {
    checksum_offset_bytes: u32,
    /// By bit.
    differences: Vec<u32>,
    /// All differences, ascending, and their bits.
    ascending: Vec<(u32, u32)>,
    /// Where differences begin in `ascending` that have the same leading bits.
    starts: Vec<u32>,
    /// By how many bits a difference is shifted to get its leading bits.
    shift: u32,
    zero_byte: ZeroByte,
}

impl ChangedBits {
    /// For `length_bytes` with a checksum at `checksum_offset_bytes`; `None` where it does not lie within, or where there are 2^32 bits.
    pub fn new(length_bytes: usize, checksum_offset_bytes: u32) -> Option<Self> {
        let field = to_usize(checksum_offset_bytes)..to_usize(checksum_offset_bytes).checked_add(4)?;
        let bits = length_bytes.checked_mul(8).filter(|bits| u32::try_from(*bits).is_ok())?;
        if field.end > length_bytes {
            return None;
        }
        let mut differences = vec![0; bits];
        let mut difference = 1_u32;
        for (index, byte) in differences.chunks_exact_mut(8).enumerate().rev() {
            for (bit, place) in (0_u32..).zip(byte) {
                difference = (difference >> 1) ^ if difference & 1 == 1 { POLYNOMIAL } else { 0 };
                *place = match index.checked_sub(field.start).filter(|_| index < field.end) {
                    // The field is compared as it is, and counts as zero; it is little-endian.
                    Some(byte) => (0x80_u32 >> bit).rotate_left(u32::try_from(byte).ok()?.checked_mul(8)?),
                    None => difference,
                };
            }
        }
        let mut ascending: Vec<(u32, u32)> = differences.iter().copied().zip(0..).collect();
        ascending.sort_unstable();
        let leading_bits = bits.checked_ilog2()?.clamp(1, 24);
        let shift = 32_u32.checked_sub(leading_bits)?;
        let starts = (0..=1_u64 << leading_bits).map(|leading| {
            u32::try_from(
                ascending.partition_point(|(difference, _)| u64::from(*difference >> shift) < leading),
            )
            .unwrap_or(u32::MAX)
        });
        let starts = starts.collect();
        Some(Self {
            checksum_offset_bytes,
            differences,
            ascending,
            starts,
            shift,
            zero_byte: ZeroByte::new(),
        })
    }

    /// Bits of such a structure.
    pub fn bit_count(&self) -> usize {
        self.differences.len()
    }

    /// What the checksum over `bytes` and the one that they have differ by; `None` where they have another length.
    pub fn difference(&self, bytes: &[u8]) -> Option<u32> {
        let is_of_length = bytes.len().checked_mul(8) == Some(self.differences.len());
        let (computed, stored) =
            (compute(bytes, self.checksum_offset_bytes)?, stored(bytes, self.checksum_offset_bytes)?);
        is_of_length.then_some(computed ^ stored)
    }

    /// The one bit that makes this difference.
    pub fn one(&self, difference: u32) -> Option<usize> {
        let leading = to_usize(difference >> self.shift);
        let start = to_usize(*self.starts.get(leading)?);
        let end = to_usize(*self.starts.get(leading.checked_add(1)?)?);
        let candidates = self.ascending.get(start..end)?;
        candidates.iter().find(|(of_bit, _)| *of_bit == difference).map(|(_, bit)| to_usize(*bit))
    }

    /// Bits of one byte that make this difference together: of the first such byte.
    ///
    /// Runs the checksum backwards over the bytes, from the last one on. After the changed byte, the remainder equals the change.
    pub fn in_one_byte(&self, difference: u32) -> Option<Vec<usize>> {
        let length_bytes = self.differences.len() / 8;
        let field = to_usize(self.checksum_offset_bytes);
        let in_field = |index: usize| index.checked_sub(field).filter(|byte| *byte < 4);
        let mut first = None;
        let mut rest = difference;
        for index in (0..length_bytes).rev() {
            rest = self.zero_byte.before(rest);
            match (in_field(index), u8::try_from(rest)) {
                (None, Ok(changed)) if changed != 0 => first = Some((index, changed)),
                (Some(byte), _) => {
                    let in_byte = difference.rotate_right(u32::try_from(byte).ok()?.checked_mul(8)?);
                    let changed = u8::try_from(in_byte).ok().filter(|changed| *changed != 0);
                    first = changed.map(|changed| (index, changed)).or(first);
                }
                _ => {}
            }
        }
        let (index, changed) = first?;
        let start = index.checked_mul(8)?;
        let bits = (0..8_usize).filter(|bit| changed & 0x80 >> bit != 0);
        bits.map(|bit| start.checked_add(bit)).collect()
    }

    /// The pairs of bits that make this difference; no more than 64.
    pub fn pairs(&self, difference: u32) -> Vec<[usize; 2]> {
        // In this order the lookups move through the table from place to near place, and most of them hit the processor's cache.
        let pairs = self.ascending.iter().filter_map(|(of_bit, bit)| {
            let (bit, other) = (to_usize(*bit), self.one(difference ^ of_bit)?);
            (bit < other).then_some([bit, other])
        });
        pairs.take(MOST_PAIRS).collect()
    }
}

/// How a checksum moves over a byte of zeros.
#[derive(Debug, Clone)]
struct ZeroByte {
    /// What eight zero bits make of each byte.
    sums: [u32; 256],
    /// The byte of which that has these leading eight bits: each of them comes once.
    bytes: [u8; 256],
}

impl ZeroByte {
    fn new() -> Self {
        let over_a_bit = |sum: u32, _| (sum >> 1) ^ if sum & 1 == 1 { POLYNOMIAL } else { 0 };
        let sums: [u32; 256] =
            std::array::from_fn(|byte| (0..8).fold(u32::try_from(byte).unwrap_or(0), over_a_bit));
        let byte_of = |leading| sums.iter().position(|sum| to_usize(sum >> 24) == leading).unwrap_or(0);
        Self { sums, bytes: std::array::from_fn(|leading| u8::try_from(byte_of(leading)).unwrap_or(0)) }
    }

    /// The difference that a zero byte turned into this one.
    fn before(&self, difference: u32) -> u32 {
        let byte = self.bytes.get(to_usize(difference >> 24)).copied().unwrap_or_default();
        let of_byte = self.sums.get(usize::from(byte)).copied().unwrap_or_default();
        (difference ^ of_byte) << 8 | u32::from(byte)
    }
}

/// Changes one bit, counted from the first byte's most significant bit on. One that is not there is left out.
pub fn flip(bytes: &mut [u8], bit: usize) {
    if let Some(byte) = bytes.get_mut(bit / 8) {
        *byte ^= 0x80 >> (bit % 8);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checksum::seal;

    const OFFSET_BYTES: u32 = 12;

    fn sealed(length_bytes: u32) -> Vec<u8> {
        let mut bytes: Vec<u8> = (0..length_bytes).map(|index| (index * 7) as u8).collect();
        assert!(seal(&mut bytes, OFFSET_BYTES));
        bytes
    }

    fn difference_with(search: &ChangedBits, bytes: &[u8], bits: &[usize]) -> u32 {
        let mut changed = bytes.to_vec();
        bits.iter().for_each(|bit| flip(&mut changed, *bit));
        search.difference(&changed).unwrap()
    }

    #[test]
    fn one_changed_bit_is_found_wherever_it_is() {
        let bytes = sealed(4096);
        let search = ChangedBits::new(4096, OFFSET_BYTES).unwrap();
        assert_eq!((search.difference(&bytes), search.one(0)), (Some(0), None));
        for bit in (0..200).chain((200..4096 * 8).step_by(37)).chain([4096 * 8 - 1]) {
            assert_eq!(search.one(difference_with(&search, &bytes, &[bit])), Some(bit));
            let other = (bit + 1000) % (4096 * 8);
            let of_both = difference_with(&search, &bytes, &[bit, other]);
            assert_eq!(search.one(of_both), None, "two bits: {bit} and {other}");
        }
    }

    #[test]
    fn two_changed_bits_are_among_the_pairs_and_alone_in_an_inode() {
        for length_bytes in [512, 4096] {
            let bytes = sealed(length_bytes);
            let bits = length_bytes as usize * 8;
            let search = ChangedBits::new(length_bytes as usize, OFFSET_BYTES).unwrap();
            for (bit, other) in [(0, bits - 1), (97, 99), (96, 300), (5, 6), (bits / 2, bits / 2 + 9)] {
                let pairs = search.pairs(difference_with(&search, &bytes, &[other, bit]));
                assert!(pairs.contains(&[bit, other]), "{pairs:?}");
                assert!(length_bytes > 512 || pairs.len() == 1, "{pairs:?}");
            }
            let of_three = difference_with(&search, &bytes, &[3, 1700, bits - 40]);
            assert!(length_bytes > 512 || search.pairs(of_three).is_empty());
        }
    }

    #[test]
    fn all_bits_of_one_byte_are_found() {
        let bytes = sealed(512);
        let search = ChangedBits::new(512, OFFSET_BYTES).unwrap();
        let of_field = (96..104).collect();
        for bits in [vec![0, 7], vec![8, 9, 10, 15], vec![101, 103], of_field, (4088..4096).collect()] {
            let difference = difference_with(&search, &bytes, &bits);
            assert_eq!(search.in_one_byte(difference), Some(bits));
        }
        for byte in 0..512 {
            let bits: Vec<usize> = (byte * 8..byte * 8 + 8).filter(|bit| (bit * 7 + byte) % 3 == 0).collect();
            let difference = difference_with(&search, &bytes, &bits);
            assert_eq!(search.in_one_byte(difference), Some(bits));
        }
        assert_eq!(search.in_one_byte(difference_with(&search, &bytes, &[7, 8])), None);
    }

    #[test]
    fn a_checksum_outside_the_bytes_has_no_table() {
        assert!(ChangedBits::new(14, OFFSET_BYTES).is_none());
        assert!(ChangedBits::new(512, u32::MAX).is_none());
        assert_eq!(ChangedBits::new(512, OFFSET_BYTES).unwrap().difference(&[0; 8]), None);
    }
}
