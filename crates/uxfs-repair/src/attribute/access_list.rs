//! Access control lists that Linux refuses: the entries that are sound stay.

use uxfs_format::attribute::posix_acl::{self, AclEntry, AclTag, PosixAcl};

/// What becomes of the value of an attribute that holds an access control list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Mended {
    /// Linux takes it as it is.
    Sound,
    /// Another value, and how many entries are gone.
    Changed { value: Vec<u8>, removed: u64 },
    /// Nothing of it can be kept.
    Dropped,
}

/// Whether an attribute of the trusted namespace holds an access control list.
pub(crate) fn is_list(name: &[u8]) -> bool {
    [posix_acl::ACCESS_NAME, posix_acl::DEFAULT_NAME].contains(&name)
}

/// Keeps the sound entries of a list. The entries of owner, group and others are also in the mode of the file, so that an access list
/// gets them from there; a default list without them is dropped. No entry gets more permissions than a sound entry or the mode says.
pub(crate) fn mend(name: &[u8], value: &[u8], mode: u16) -> Mended {
    let decoded = PosixAcl::decode(value);
    if decoded.as_ref().is_ok_and(|list| list.verify_rules().is_ok()) {
        return Mended::Sound;
    }
    let (mut entries, count) = PosixAcl::salvage(value);
    let kept = entries.len();
    if name == posix_acl::ACCESS_NAME {
        add_from_mode(&mut entries, mode);
    }
    entries.sort_by_key(|entry| order(entry.tag));
    entries.dedup_by_key(|entry| order(entry.tag));
    let list = PosixAcl { entries };
    if list.verify_rules().is_err() || list.mode_bits().1 {
        return Mended::Dropped;
    }
    Mended::Changed { value: list.encode(), removed: count.saturating_sub(kept as u64) }
}

/// Adds what the mode knows: owner, group, others, and the mask, which the group bits of the mode are where a list names anyone.
fn add_from_mode(entries: &mut Vec<AclEntry>, mode: u16) {
    let tags = [(AclTag::UserObject, mode >> 6), (AclTag::GroupObject, mode >> 3), (AclTag::Other, mode)];
    for (tag, permissions) in tags {
        if entries.iter().all(|entry| entry.tag != tag) {
            entries.push(AclEntry { tag, permissions: permissions & 7 });
        }
    }
    let is_named = |entry: &AclEntry| matches!(entry.tag, AclTag::User(_) | AclTag::Group(_));
    if entries.iter().any(is_named) && entries.iter().all(|entry| entry.tag != AclTag::Mask) {
        entries.push(AclEntry { tag: AclTag::Mask, permissions: mode >> 3 & 7 });
    }
}

/// The order that Linux wants.
fn order(tag: AclTag) -> (u8, u32) {
    match tag {
        AclTag::UserObject => (0, 0),
        AclTag::User(id) => (1, id),
        AclTag::GroupObject => (2, 0),
        AclTag::Group(id) => (3, id),
        AclTag::Mask => (4, 0),
        AclTag::Other => (5, 0),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    const fn entry(tag: AclTag, permissions: u16) -> AclEntry {
        AclEntry { tag, permissions }
    }

    fn sound() -> PosixAcl {
        let (owner, user) = (entry(AclTag::UserObject, 7), entry(AclTag::User(1000), 6));
        let (group, mask) = (entry(AclTag::GroupObject, 5), entry(AclTag::Mask, 7));
        PosixAcl { entries: vec![owner, user, group, mask, entry(AclTag::Other, 0)] }
    }

    /// The list after the repair of a value in which 12 bytes from `offset` on begin with these.
    fn mended(offset: usize, bytes: &[u8], mode: u16, name: &[u8]) -> Mended {
        let mut value = sound().encode();
        value[offset..offset + bytes.len()].copy_from_slice(bytes);
        mend(name, &value, mode)
    }

    #[test]
    fn sound_lists_stay() {
        assert_eq!(mend(posix_acl::ACCESS_NAME, &sound().encode(), 0o770), Mended::Sound);
    }

    #[test]
    fn an_unknown_tag_is_removed_and_the_mode_replaces_it() {
        // The entry of the owner: the mode has it as well.
        let Mended::Changed { value, removed } = mended(4, &[0, 0, 7, 7], 0o770, posix_acl::ACCESS_NAME)
        else {
            panic!("dropped")
        };
        assert_eq!((PosixAcl::decode(&value).unwrap(), removed), (sound(), 1));
        // A default list has no mode that says it.
        assert_eq!(mended(4, &[0, 0, 7, 7], 0o770, posix_acl::DEFAULT_NAME), Mended::Dropped);
    }

    #[test]
    fn wrong_permissions_are_not_granted() {
        // Of the named user: without this entry the list says no more than the mask.
        let changed = mended(4 + 12 + 8, &[0xff, 0xff], 0o750, posix_acl::ACCESS_NAME);
        let Mended::Changed { value, removed: 1 } = changed else { panic!("{changed:?}") };
        let list = PosixAcl::decode(&value).unwrap();
        assert!(list.entries.iter().all(|entry| !matches!(entry.tag, AclTag::User(_))));
        assert_eq!(list.verify_rules(), Ok(()));
    }

    #[test]
    fn a_wrong_count_loses_nothing() {
        for count in [[0, 0, 0, 9], [0, 0, 0, 2], [0xff; 4]] {
            let changed = mended(0, &count, 0o770, posix_acl::DEFAULT_NAME);
            let Mended::Changed { value, .. } = changed else { panic!("{changed:?}") };
            assert_eq!(PosixAcl::decode(&value).unwrap(), sound());
        }
    }

    #[test]
    fn entries_in_another_order_are_sorted() {
        let mut list = sound();
        list.entries.reverse();
        let changed = mend(posix_acl::DEFAULT_NAME, &list.encode(), 0);
        assert_eq!(changed, Mended::Changed { value: sound().encode(), removed: 0 });
    }

    #[test]
    fn a_value_without_entries_is_dropped() {
        for value in [&b""[..], b"\0", &[0; 4], &[0xff; 40]] {
            assert_eq!(mend(posix_acl::ACCESS_NAME, value, 0o644), Mended::Dropped);
        }
    }
}
