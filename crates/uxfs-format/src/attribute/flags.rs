//! Namespaces and flags of attributes.

bitflags::bitflags! {
    /// The flags byte of an attribute. At most one namespace bit is set; none means `user`.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
    pub struct AttributeFlags: u8 {
        /// The value lies in the leaf. Not in shortform.
        const LOCAL = 0x01;
        /// Namespace `trusted`.
        #[doc(alias = "XFS_ATTR_ROOT")]
        const ROOT = 0x02;
        /// Namespace `security`.
        const SECURE = 0x04;
        /// A parent pointer.
        const PARENT = 0x08;
        /// Half made or half removed: does not exist for readers. Not in shortform.
        const INCOMPLETE = 0x80;
        const _ = !0;
    }
}

impl AttributeFlags {
    /// All namespace bits.
    #[doc(alias = "XFS_ATTR_NSP_ONDISK_MASK")]
    pub const NAMESPACES: Self = Self::ROOT.union(Self::SECURE).union(Self::PARENT);
    /// All bits that may be set in a leaf.
    #[doc(alias = "XFS_ATTR_ONDISK_MASK")]
    pub const KNOWN: Self = Self::NAMESPACES.union(Self::LOCAL).union(Self::INCOMPLETE);

    /// The namespace, or `None` where more than one bit is set.
    pub fn namespace(self) -> Option<Namespace> {
        let bits = self.intersection(Self::NAMESPACES);
        if bits.is_empty() {
            return Some(Namespace::User);
        }
        Namespace::ALL.into_iter().find(|namespace| namespace.flags() == bits)
    }
}

/// Where an attribute's name belongs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Namespace {
    /// `user.`
    User,
    /// `trusted.`; also holds the POSIX ACLs.
    Trusted,
    /// `security.`
    Security,
    /// Parent pointers; not visible as attributes.
    Parent,
}

impl Namespace {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::User, Self::Trusted, Self::Security, Self::Parent];

    /// The bit that an attribute of this namespace has.
    pub const fn flags(self) -> AttributeFlags {
        match self {
            Self::User => AttributeFlags::empty(),
            Self::Trusted => AttributeFlags::ROOT,
            Self::Security => AttributeFlags::SECURE,
            Self::Parent => AttributeFlags::PARENT,
        }
    }

    /// The prefix that Linux puts before the name; parent pointers are not named there.
    pub const fn prefix(self) -> &'static str {
        match self {
            Self::User => "user.",
            Self::Trusted => "trusted.",
            Self::Security => "security.",
            Self::Parent => "parent.",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_namespace_is_exactly_one_bit_or_none() {
        for namespace in Namespace::ALL {
            assert_eq!((namespace.flags() | AttributeFlags::LOCAL).namespace(), Some(namespace));
        }
        assert_eq!((AttributeFlags::ROOT | AttributeFlags::SECURE).namespace(), None);
    }
}
