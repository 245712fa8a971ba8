//! The attributes that the kernel may be about to learn.
//!
//! After an operation on a directory, or on an extended attribute, the kernel asks for the attributes of the inode anew; but it does not
//! count that as a change. A reply to another process that was made before the operation, and is taken after it, then brings the old
//! attributes back, and they stay: they have no end. A notification does count. It is sent where attributes were told since the last one.
//!
//! Invariants:
//! 1. A bit is set before the attributes are read, and looked at after they were changed: a reply with old attributes has its bit set then.
//! 2. The notification is sent before the reply to the operation, by a thread that needs no lock of the inode for it. The caller of the
//!    operation holds the inode, so that the kernel need not wait for its end.
//! 3. Nodes share 65,536 bits. Sharing causes extra notifications. It can also lose one: if two nodes share a bit and both change while stale
//!    replies for both are in flight.

use std::sync::atomic::{
    AtomicU64,
    Ordering::{AcqRel, Acquire},
};

use crate::protocol::request::{Operation, Request};

/// Words of bits: 8 KiB.
const WORDS: usize = 1024;
/// Spreads nodes over the bits (2⁶⁴ divided by the golden ratio).
const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;

/// Whose attributes were told.
#[derive(Debug)]
pub struct Told {
    words: Box<[AtomicU64]>,
}

impl Default for Told {
    fn default() -> Self {
        Self { words: (0..WORDS).map(|_| AtomicU64::new(0)).collect() }
    }
}

impl Told {
    /// The attributes of a node are about to be read for a reply.
    #[inline]
    pub fn will_tell(&self, node: u64) {
        let Some((word, bit)) = self.place(node) else { return };
        if word.load(Acquire) & bit == 0 {
            word.fetch_or(bit, AcqRel);
        }
    }

    /// The attributes of a node were changed. Gives whether the kernel must hear of it.
    #[inline]
    #[must_use]
    pub fn has_changed(&self, node: u64) -> bool {
        let Some((word, bit)) = self.place(node) else { return true };
        word.load(Acquire) & bit != 0 && word.fetch_and(!bit, AcqRel) & bit != 0
    }

    fn place(&self, node: u64) -> Option<(&AtomicU64, u64)> {
        let spread = node.wrapping_mul(SPREAD) >> 48;
        let word = self.words.get(spread as usize / 64 % WORDS)?;
        Some((word, 1 << (spread % 64)))
    }
}

/// The nodes whose attributes an operation changes without the kernel counting it: not those of writes, whose attributes the kernel has itself.
pub fn uncounted_nodes(request: &Request<'_>) -> [Option<u64>; 2] {
    use Operation as O;
    let node = request.node_id;
    match &request.operation {
        O::SymbolicLink(_)
        | O::MakeNode(_)
        | O::MakeDirectory(_)
        | O::Create(_)
        | O::Link(_)
        | O::Unlink(_)
        | O::RemoveDirectory(_)
        | O::SetExtendedAttribute(_)
        | O::RemoveExtendedAttribute(_)
        | O::Ioctl(_) => [Some(node), None],
        O::Rename(rename) | O::Rename2(rename) => [Some(node), Some(rename.new_parent)],
        _ => [None, None],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_is_told_once_to_a_kernel_that_has_asked() {
        let told = Told::default();
        assert!(!told.has_changed(131));
        told.will_tell(131);
        told.will_tell(131);
        told.will_tell(1);
        assert!(told.has_changed(131) && !told.has_changed(131));
        assert!(!told.has_changed(132));
        assert!(told.has_changed(1));
    }

    #[test]
    fn neighbours_have_bits_of_their_own() {
        let told = Told::default();
        (128..640).for_each(|node| told.will_tell(node));
        let set: u32 = told.words.iter().map(|word| word.load(Acquire).count_ones()).sum();
        assert!(set > 490, "{set} bits for 512 nodes");
    }
}
