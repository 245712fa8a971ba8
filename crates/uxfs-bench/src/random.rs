//! Numbers that depend on a seed and nothing else.

/// Mixes a number until no bit says anything about another (SplitMix64).
pub(crate) fn mix(word: u64) -> u64 {
    let mut word = word.wrapping_add(0x9e37_79b9_7f4a_7c15);
    word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    word ^ (word >> 31)
}

/// A number for each pair, without a state that threads would have to share.
pub(crate) fn at(seed: u64, index: u64) -> u64 {
    mix(mix(seed) ^ index)
}
