//! Names that look like nothing, in the place of names that say something.
//!
//! A name gets another one of the same length and with the same hash, so that the indexes of directories and of attributes stay
//! right. The same name always gets the same other name: entries and parent pointers still agree, and symbolic links still lead
//! somewhere. Two names that differ never get the same one: the other name is found by a permutation of all names of this length
//! and hash.
//!
//! The last five bytes of a name are what makes the hash right. All bytes before them are free. The free part and what is free in the last
//! five bytes are digits, each with a number of values of its own, which a keyed function mixes; one is added to the mixed number, and it is
//! mixed back. So the permutation has one cycle, and a name becomes itself only where there is no other with its length and hash.
//!
//! This hides names from readers, not from anyone who guesses: hash and length of each name stay, and the hash of a guessed name can be
//! compared. Of a name of five bytes only the first and the last change much.

use std::hash::{BuildHasher, RandomState};

use uxfs_format::directory::name_hash::{self, NameRule, fold_case};

/// Shorter names stay: nothing else has their hash.
pub const SHORTEST_BYTES: usize = 5;
/// The directory for inodes without a name stays, since repair looks for it by name.
pub const LOST_AND_FOUND: &[u8] = b"lost+found";
/// Steps until a name that cannot be replaced stays. A third of all steps end at a valid name.
const MOST_STEPS: u32 = 1 << 12;
/// Rounds of mixing.
const ROUNDS: u32 = 2;

/// Replaces names, with a key of its own, which is gone with it.
#[derive(Debug)]
pub struct NameCipher {
    rule: NameRule,
    names: Permutation,
    /// Names of attributes are never folded.
    attributes: Permutation,
}

/// A permutation of all names of one length and hash, for every length and hash.
#[derive(Debug)]
struct Permutation {
    key: RandomState,
    printable: Alphabet,
    any: Alphabet,
}

/// Bytes that a name may have.
#[derive(Debug)]
struct Alphabet {
    bytes: Vec<u8>,
    is_printable: bool,
}

impl Alphabet {
    fn new(range: impl Iterator<Item = u8>, is_printable: bool, rule: NameRule) -> Self {
        let is_folded = |byte: &u8| rule != NameRule::CaseFolded || fold_case(*byte) == *byte;
        let bytes = range.filter(|byte| *byte != b'/' && is_folded(byte)).collect();
        Self { bytes, is_printable }
    }

    fn digit(&self, byte: u8) -> Option<u32> {
        self.bytes.binary_search(&byte).ok().and_then(|index| u32::try_from(index).ok())
    }

    fn radix(&self) -> u32 {
        u32::try_from(self.bytes.len()).unwrap_or(1)
    }

    /// How many ways there are to divide the hash among the last five bytes. Those of ASCII have only the high half of the first byte.
    fn tail_radix(&self) -> u32 {
        if self.is_printable { 6 } else { 256 }
    }
}

impl NameCipher {
    /// With a random key. Names of a file system without regard to case are hashed by their folded form, and become lower case.
    pub fn new(rule: NameRule) -> Self {
        let key = RandomState::new();
        Self {
            rule,
            names: Permutation::new(key.clone(), rule),
            attributes: Permutation::new(key, NameRule::Exact),
        }
    }

    /// Replaces the name of an entry, a parent pointer, or a part of the target of a symbolic link.
    pub fn replace_name(&self, name: &mut [u8]) {
        if name == LOST_AND_FOUND {
            return;
        }
        if self.rule == NameRule::CaseFolded && name.len() >= SHORTEST_BYTES {
            name.iter_mut().for_each(|byte| *byte = fold_case(*byte));
        }
        self.names.replace(name);
    }

    /// Replaces the names of a path one by one.
    pub fn replace_path(&self, path: &mut [u8]) {
        for name in path.split_mut(|byte| *byte == b'/') {
            self.replace_name(name);
        }
    }

    /// Replaces a name of an attribute.
    pub fn replace_attribute_name(&self, name: &mut [u8]) {
        self.attributes.replace(name);
    }
}

impl Permutation {
    fn new(key: RandomState, rule: NameRule) -> Self {
        Self {
            key,
            printable: Alphabet::new(b' '..0x7f, true, rule),
            any: Alphabet::new(1..=u8::MAX, false, rule),
        }
    }

    fn replace(&self, name: &mut [u8]) {
        if name.len() < SHORTEST_BYTES {
            return;
        }
        let is_printable = name.iter().all(|byte| self.printable.digit(*byte).is_some());
        let alphabet = if is_printable { &self.printable } else { &self.any };
        let hash = name_hash::hash(name);
        let Some(mut digits) = digits_of(name, alphabet) else { return };
        let salt = (hash, name.len(), is_printable);
        self.mix(&mut digits, alphabet, salt);
        let mut candidate = vec![0; name.len()];
        for _ in 0..MOST_STEPS {
            add_one(&mut digits, alphabet);
            let mut mixed_back = digits.clone();
            self.mix_back(&mut mixed_back, alphabet, salt);
            write_name(&mixed_back, hash, alphabet, &mut candidate);
            if self.may_replace(&candidate, alphabet) {
                name.copy_from_slice(&candidate);
                return;
            }
        }
    }

    /// Whether a name is one of those among which the permutation goes.
    fn may_replace(&self, name: &[u8], alphabet: &Alphabet) -> bool {
        let is_valid = name.iter().rev().take(SHORTEST_BYTES).all(|byte| alphabet.digit(*byte).is_some());
        is_valid && (alphabet.is_printable || !name.iter().all(|byte| self.printable.digit(*byte).is_some()))
    }

    fn mix(&self, digits: &mut [u32], alphabet: &Alphabet, salt: impl std::hash::Hash + Copy) {
        for round in 0..ROUNDS {
            for index in 0..digits.len() {
                let addend = self.addend(digits, index, round, salt);
                change(digits, index, alphabet, |digit, radix| (digit + addend % radix) % radix);
            }
        }
    }

    fn mix_back(&self, digits: &mut [u32], alphabet: &Alphabet, salt: impl std::hash::Hash + Copy) {
        for round in (0..ROUNDS).rev() {
            for index in (0..digits.len()).rev() {
                let addend = self.addend(digits, index, round, salt);
                change(digits, index, alphabet, |digit, radix| (digit + radix - addend % radix) % radix);
            }
        }
    }

    /// What is added to a digit: it depends on all others.
    fn addend(&self, digits: &[u32], index: usize, round: u32, salt: impl std::hash::Hash) -> u32 {
        let before = digits.get(..index).unwrap_or_default();
        let after = digits.get(index + 1..).unwrap_or_default();
        (self.key.hash_one((salt, round, before, after)) >> 40) as u32
    }
}

/// The number of values of a digit: the last one divides the hash.
fn radix_at(index: usize, count: usize, alphabet: &Alphabet) -> u32 {
    if index + 1 == count { alphabet.tail_radix() } else { alphabet.radix() }
}

fn change(digits: &mut [u32], index: usize, alphabet: &Alphabet, new: impl FnOnce(u32, u32) -> u32) {
    let radix = radix_at(index, digits.len(), alphabet).max(1);
    if let Some(digit) = digits.get_mut(index) {
        *digit = new(*digit, radix);
    }
}

fn add_one(digits: &mut [u32], alphabet: &Alphabet) {
    let count = digits.len();
    for (index, digit) in digits.iter_mut().enumerate() {
        *digit += 1;
        if *digit < radix_at(index, count, alphabet) {
            return;
        }
        *digit = 0;
    }
}

/// A digit for each byte but the last five, and one for what is free in these.
fn digits_of(name: &[u8], alphabet: &Alphabet) -> Option<Vec<u32>> {
    let (free, tail) = name.split_at_checked(name.len().checked_sub(SHORTEST_BYTES)?)?;
    let mut digits: Vec<u32> = free.iter().map(|byte| alphabet.digit(*byte)).collect::<Option<_>>()?;
    let [first, rest @ ..] = tail.first_chunk::<SHORTEST_BYTES>()?;
    let high = u32::from(first >> 4);
    let digit = match alphabet.is_printable {
        true => high.checked_sub(2)?,
        false => rest.iter().fold(high, |bits, byte| bits << 1 | u32::from(byte >> 7)),
    };
    digits.push(digit);
    Some(digits)
}

/// The name of these digits that has this hash. Its last five bytes may be none that a name can have.
fn write_name(digits: &[u32], hash: u32, alphabet: &Alphabet, name: &mut [u8]) {
    let Some((last, free)) = digits.split_last() else { return };
    for (byte, digit) in name.iter_mut().zip(free) {
        *byte = alphabet.bytes.get(*digit as usize).copied().unwrap_or_default();
    }
    let (prefix, tail) = name.split_at_mut(free.len().min(name.len()));
    // Each of the five bytes moves the hash of what is before it by 7 bits.
    let left = hash ^ name_hash::hash(prefix).rotate_left(3);
    let (high, tops) = match alphabet.is_printable {
        true => (last + 2, 0),
        false => (last >> 4, last & 0xf),
    };
    // A byte has 8 bits, and the next one lies 7 bits below: its highest bit is in the place of the lowest of the one before.
    let top = |index: u32| tops >> (3 - index) & 1;
    let left = left ^ high ^ top(0) << 28 ^ top(1) << 21 ^ top(2) << 14 ^ top(3) << 7;
    let bytes = [
        left >> 28 | high << 4,
        left >> 21 & 0x7f | top(0) << 7,
        left >> 14 & 0x7f | top(1) << 7,
        left >> 7 & 0x7f | top(2) << 7,
        left & 0x7f | top(3) << 7,
    ];
    for (place, byte) in tail.iter_mut().zip(bytes) {
        *place = byte as u8;
    }
}

#[cfg(test)]
mod tests;
