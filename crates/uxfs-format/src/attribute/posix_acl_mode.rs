//! Keeping an access control list and the permission bits of a mode in step.

use super::posix_acl::{AclTag, PosixAcl};

/// Read, write and execute for owner, group and others.
pub const PERMISSION_BITS: u16 = 0o777;

impl PosixAcl {
    /// Permissions of a new file that is created with `mode` under this default list of its directory, and its access list
    /// unless the permissions say all that it does. A list overrides the umask. Other bits of the mode stay.
    #[doc(alias = "posix_acl_create")]
    pub fn for_new_file(&self, mode: u16) -> (u16, Option<Self>) {
        let mut list = self.clone();
        let has_mask = list.entries.iter().any(|entry| entry.tag == AclTag::Mask);
        let mut kept = 0_u16;
        for entry in &mut list.entries {
            let shift = match entry.tag {
                AclTag::UserObject => 6,
                AclTag::Mask => 3,
                // Behind a mask the group's own entry means what it says, and the mask is what the mode shows.
                AclTag::GroupObject if !has_mask => 3,
                AclTag::Other => 0,
                AclTag::GroupObject | AclTag::User(_) | AclTag::Group(_) => continue,
            };
            entry.permissions &= mode.wrapping_shr(shift) & 7;
            kept |= entry.permissions.wrapping_shl(shift);
        }
        let (_, says_all) = list.mode_bits();
        (mode & !PERMISSION_BITS | kept, Some(list).filter(|_| !says_all))
    }

    /// This access list after the permissions of its file have been set to those of `mode`.
    #[doc(alias = "posix_acl_chmod")]
    #[must_use]
    pub fn with_mode(&self, mode: u16) -> Self {
        let mut list = self.clone();
        let has_mask = list.entries.iter().any(|entry| entry.tag == AclTag::Mask);
        for entry in &mut list.entries {
            entry.permissions = match entry.tag {
                AclTag::UserObject => mode.wrapping_shr(6) & 7,
                AclTag::Mask => mode.wrapping_shr(3) & 7,
                AclTag::GroupObject if !has_mask => mode.wrapping_shr(3) & 7,
                AclTag::Other => mode & 7,
                AclTag::GroupObject | AclTag::User(_) | AclTag::Group(_) => entry.permissions,
            };
        }
        list
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::attribute::posix_acl::AclEntry;

    fn list(entries: &[(AclTag, u16)]) -> PosixAcl {
        PosixAcl {
            entries: entries
                .iter()
                .map(|(tag, permissions)| AclEntry { tag: *tag, permissions: *permissions })
                .collect(),
        }
    }

    use AclTag::{GroupObject, Mask, Other, User, UserObject};

    #[test]
    fn a_list_without_names_becomes_a_mode() {
        let default = list(&[(UserObject, 7), (GroupObject, 5), (Other, 1)]);
        assert_eq!(default.for_new_file(0o100_666), (0o100_640, None));
        assert_eq!(default.for_new_file(0o042_777), (0o042_751, None));
    }

    #[test]
    fn the_mask_takes_what_the_group_is_refused() {
        let default = list(&[(UserObject, 7), (User(9), 7), (GroupObject, 5), (Mask, 7), (Other, 5)]);
        let (mode, access) = default.for_new_file(0o640);
        let expected = list(&[(UserObject, 6), (User(9), 7), (GroupObject, 5), (Mask, 4), (Other, 0)]);
        assert_eq!((mode, access), (0o640, Some(expected.clone())));
        let changed = list(&[(UserObject, 7), (User(9), 7), (GroupObject, 5), (Mask, 1), (Other, 3)]);
        assert_eq!(expected.with_mode(0o713), changed);
        assert_eq!(
            list(&[(UserObject, 7), (GroupObject, 7), (Other, 7)]).with_mode(0o421).mode_bits(),
            (0o421, true)
        );
    }
}
