//! The ways in which a field is damaged: the eight that the kernel's own online-check tests use, and one for flags.

use uxfs_format::{checksum, describe::Place};

use uxfs_testkit::seeds::Random;

/// One way to damage a field.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Transform {
    /// All bits 0.
    Clear,
    /// All bits 1.
    SetAll,
    /// The most significant bit flipped.
    FlipHigh,
    /// A bit in the middle flipped.
    FlipMiddle,
    /// The least significant bit flipped.
    FlipLow,
    /// A small number added.
    Add,
    /// A small number subtracted.
    Subtract,
    /// Random bits.
    Random,
    /// Any one bit flipped: reaches each flag of a word alone.
    FlipAny,
}

impl Transform {
    /// The eight.
    pub const ALL: [Self; 8] = [
        Self::Clear,
        Self::SetAll,
        Self::FlipHigh,
        Self::FlipMiddle,
        Self::FlipLow,
        Self::Add,
        Self::Subtract,
        Self::Random,
    ];
    /// [`ALL`](Self::ALL) and twice [`FlipAny`](Self::FlipAny), for judges that look at each flag.
    pub fn with_flags() -> impl Iterator<Item = Self> + Clone {
        Self::ALL.into_iter().chain([Self::FlipAny; 2])
    }

    /// As the command line and reproducers write it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Clear => "clear",
            Self::SetAll => "set-all",
            Self::FlipHigh => "flip-high",
            Self::FlipMiddle => "flip-middle",
            Self::FlipLow => "flip-low",
            Self::Add => "add",
            Self::Subtract => "subtract",
            Self::Random => "random",
            Self::FlipAny => "flip-any",
        }
    }

    /// Damages the bits of `place`.
    pub fn apply(self, bytes: &mut [u8], place: &Place, random: &mut Random) {
        let (first, length) = (place.bit_offset, place.bit_length);
        match self {
            Self::Clear => (0..length).for_each(|bit| set_bit(bytes, first + bit, false)),
            Self::SetAll => (0..length).for_each(|bit| set_bit(bytes, first + bit, true)),
            Self::FlipHigh => flip_bit(bytes, first),
            Self::FlipMiddle => flip_bit(bytes, first + length / 2),
            Self::FlipLow => flip_bit(bytes, first + length - 1),
            Self::Add => add(bytes, place, small_number(random)),
            Self::Subtract => add(bytes, place, small_number(random).wrapping_neg()),
            Self::Random => (0..length).for_each(|bit| set_bit(bytes, first + bit, random.below(2) == 1)),
            Self::FlipAny => flip_bit(bytes, first + random.below(length.max(1).into()) as u32),
        }
    }
}

fn small_number(random: &mut Random) -> u64 {
    [1, 2, 17, 2017][random.below(4) as usize]
}

fn set_bit(bytes: &mut [u8], bit: u32, value: bool) {
    let mask = 0x80 >> (bit % 8);
    let byte = &mut bytes[(bit / 8) as usize];
    *byte = if value { *byte | mask } else { *byte & !mask };
}

fn flip_bit(bytes: &mut [u8], bit: u32) {
    bytes[(bit / 8) as usize] ^= 0x80 >> (bit % 8);
}

/// Adds to a number of any width, most significant bit first, wrapping. Long fields: to their last 64 bits.
fn add(bytes: &mut [u8], place: &Place, amount: u64) {
    use uxfs_format::describe::value::{read_bits, write_bits};
    let length = place.bit_length.min(64);
    let first = place.bit_offset + place.bit_length - length;
    if let Some(number) = read_bits(bytes, first, length) {
        write_bits(bytes, first, length, number.wrapping_add(amount));
    }
}

/// Computes and stores the checksum of a structure whose checksum field is at `place`.
pub fn seal(bytes: &mut [u8], place: &Place) {
    checksum::seal(bytes, place.bit_offset / 8);
}

#[cfg(test)]
mod tests {
    use uxfs_format::field_table::FieldFormat;

    use super::*;

    #[test]
    fn transforms_stay_within_their_field() {
        let format = FieldFormat::Decimal.into();
        let place = Place { bit_offset: 13, bit_length: 21, format, little_endian: false };
        for transform in Transform::with_flags() {
            for fill in [0x00, 0x5a, 0xff] {
                let before = [fill; 8];
                let mut bytes = before;
                transform.apply(&mut bytes, &place, &mut Random::new(7));
                let changed = u64::from_be_bytes(before) ^ u64::from_be_bytes(bytes);
                let outside = !(((1u64 << 21) - 1) << (64 - 13 - 21));
                assert_eq!(changed & outside, 0, "{}", transform.name());
            }
        }
    }
}
