//! Names of buffers.

use std::hash::{BuildHasher, RandomState};

use super::MAX_BUFFER_BYTES;
use crate::device::{DeviceError, DeviceOperation};

/// A run of bytes on the device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Piece {
    /// First byte.
    pub offset_bytes: u64,
    /// How many.
    pub length_bytes: u32,
}

/// A buffer's name, borrowed for a lookup.
#[derive(Debug, Clone, Copy)]
pub(super) struct Key<'a> {
    pub hash: u64,
    /// First byte of the first piece, length of all together.
    pub whole: Piece,
    /// All pieces.
    pub pieces: &'a [Piece],
}

impl<'a> Key<'a> {
    /// Fails for a buffer of no bytes or of more than [`MAX_BUFFER_BYTES`].
    pub fn new(pieces: &'a [Piece], hasher: &Hasher) -> Result<Self, DeviceError> {
        let offset_bytes = pieces.first().map_or(0, |piece| piece.offset_bytes);
        let length = pieces.iter().map(|piece| u64::from(piece.length_bytes)).sum::<u64>();
        match u32::try_from(length) {
            Ok(length_bytes) if (1..=MAX_BUFFER_BYTES).contains(&length) => {
                let whole = Piece { offset_bytes, length_bytes };
                let hash = match pieces {
                    [_] => hasher.mix(0, whole),
                    _ => pieces.iter().fold(hasher.seed, |hash, piece| hasher.mix(hash, *piece)),
                };
                Ok(Self { hash, whole, pieces })
            }
            _ => Err(DeviceError::not_a_buffer(DeviceOperation::Read, offset_bytes, length)),
        }
    }

    pub fn owned(&self) -> OwnedKey {
        let pieces = if self.pieces.len() > 1 { self.pieces.into() } else { Box::default() };
        OwnedKey { hash: self.hash, whole: self.whole, pieces }
    }
}

/// A buffer's name as the table keeps it.
#[derive(Debug)]
pub(super) struct OwnedKey {
    pub hash: u64,
    pub whole: Piece,
    /// Empty where there is one piece only.
    pieces: Box<[Piece]>,
}

impl OwnedKey {
    #[inline]
    pub fn matches(&self, key: &Key<'_>) -> bool {
        self.whole == key.whole
            && match key.pieces {
                [_] => self.pieces.is_empty(),
                pieces => *self.pieces == *pieces,
            }
    }
}

/// A keyed hash: an image must not be able to choose which buffers collide.
#[derive(Debug)]
pub(super) struct Hasher {
    seed: u64,
}

impl Hasher {
    pub fn new(seed: Option<u64>) -> Self {
        Self { seed: seed.unwrap_or_else(|| RandomState::new().hash_one(0_u64)) }
    }

    #[inline]
    fn mix(&self, hash: u64, piece: Piece) -> u64 {
        let value = piece.offset_bytes ^ u64::from(piece.length_bytes).rotate_left(44);
        folded_multiply(folded_multiply(value ^ self.seed, 0x9e37_79b9_7f4a_7c15) ^ hash, self.seed | 1)
    }
}

/// Both halves of the 128-bit product, folded.
#[inline]
fn folded_multiply(left: u64, right: u64) -> u64 {
    let product = u128::from(left) * u128::from(right);
    (product as u64) ^ (product >> 64) as u64
}
