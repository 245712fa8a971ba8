//! The name to which an entry of a leaf leads, where it has not the hash of the entry: flags, place or length of the name are wrong.

use uxfs_format::{attribute::flags::AttributeFlags, geometry::Geometry};

use super::entry::{HEADER_BYTES, entry, is_apart, is_only_one_at, is_right};

/// What the flags of a finished entry may be.
const FLAGS: [u8; 7] = [0, 1, 2, 3, 4, 5, 9];
const INCOMPLETE: u8 = AttributeFlags::INCOMPLETE.bits();
/// A name lies at a multiple of this.
const ALIGNMENT_BYTES: usize = 4;

/// Changes place, flags or length of a name such that its hash is that of the entry. Gives whether it is a guess; `None` where there is no
/// such change.
pub(super) fn find(bytes: &mut [u8], index: usize, geometry: &Geometry) -> Option<bool> {
    let found = entry(bytes, index).copied()?;
    if is_right(bytes, index, geometry) {
        // Something else is wrong.
        return None;
    }
    let sound = bytes.to_vec();
    // The hash does not depend on the namespace: the fewest bits that have changed.
    let base = likely_flags(found.flags());
    let mut flags: Vec<u8> = FLAGS.iter().map(|flags| flags | base & INCOMPLETE).collect();
    flags.sort_by_key(|flags| (flags ^ base).count_ones());
    for flags in flags.into_iter().filter(|flags| *flags != found.flags) {
        entry(bytes, index)?.flags = flags;
        if is_right(bytes, index, geometry) {
            // Nothing repeats the namespace.
            let namespaces = AttributeFlags::from_bits_retain(flags) | found.flags();
            return Some(namespaces.intersects(AttributeFlags::ROOT | AttributeFlags::SECURE));
        }
    }
    bytes.copy_from_slice(&sound);
    let own = usize::from(found.name_offset.get());
    for offset_bytes in
        (HEADER_BYTES..bytes.len()).step_by(ALIGNMENT_BYTES).filter(|offset_bytes| *offset_bytes != own)
    {
        let offset = u16::try_from(offset_bytes).ok()?;
        entry(bytes, index)?.name_offset.set(offset);
        if is_right(bytes, index, geometry) && is_only_one_at(bytes, index, offset) {
            return Some(false);
        }
    }
    bytes.copy_from_slice(&sound);
    // The length lies behind that of the value; of a remote value, behind its block as well.
    let is_local = AttributeFlags::from_bits_retain(found.flags).contains(AttributeFlags::LOCAL);
    let length_at = usize::from(found.name_offset.get()) + if is_local { 2 } else { 8 };
    let own = bytes.get(length_at).copied();
    for length in (1..=u8::MAX).filter(|length| Some(*length) != own) {
        *bytes.get_mut(length_at)? = length;
        if is_right(bytes, index, geometry) && is_apart(bytes, index, geometry) {
            return Some(false);
        }
    }
    bytes.copy_from_slice(&sound);
    None
}

/// Flags without the bits that mean nothing. Where there are such bits, the mark of a half made attribute is not relied on either: it
/// would hide the attribute. An attribute of several namespaces becomes one of users, which gives no access.
fn likely_flags(found: AttributeFlags) -> u8 {
    let is_known = AttributeFlags::KNOWN.contains(found);
    let mut flags =
        if is_known { found } else { found.intersection(AttributeFlags::KNOWN) - AttributeFlags::INCOMPLETE };
    if flags.contains(AttributeFlags::NAMESPACES) {
        flags -= AttributeFlags::NAMESPACES;
    }
    flags.bits()
}
