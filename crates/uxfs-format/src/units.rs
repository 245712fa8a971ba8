//! One newtype for each kind of number that XFS uses, so that they cannot be mixed up.
//!
//! The traps these prevent: file system blocks are numbered *sparsely* (`group << agblklog | block`) while sectors
//! are linear; sectors are always 512 bytes whatever the device's own sector size; inode numbers exist per group and
//! per file system. Conversions between them need sizes and therefore live in [`Geometry`](crate::geometry::Geometry).

use std::fmt;

/// Bytes in one [`Sector`] ("basic block", BB), on every device.
pub const SECTOR_SIZE_BYTES: u64 = 512;

macro_rules! unit {
    ($(#[$meta:meta])* $name:ident($raw:ty)) => {
        $(#[$meta])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
        #[repr(transparent)]
        pub struct $name($raw);

        impl $name {
            /// The largest value, which on disk means "none" for this kind of number.
            pub const NULL: Self = Self(<$raw>::MAX);

            /// Wraps a raw number.
            #[inline]
            pub const fn new(raw: $raw) -> Self {
                Self(raw)
            }

            /// The raw number.
            #[inline]
            pub const fn get(self) -> $raw {
                self.0
            }

            /// Whether this is the on-disk "none".
            #[inline]
            pub const fn is_null(self) -> bool {
                self.0 == <$raw>::MAX
            }

            /// This number plus `count`, or `None` past the end of the range.
            #[inline]
            pub const fn checked_add(self, count: $raw) -> Option<Self> {
                match self.0.checked_add(count) {
                    Some(sum) => Some(Self(sum)),
                    None => None,
                }
            }

            /// How far this lies after `other`, or `None` if it lies before.
            #[inline]
            pub const fn checked_distance_from(self, other: Self) -> Option<$raw> {
                self.0.checked_sub(other.0)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(&self.0, f)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!(stringify!($name), "({})"), self.0)
            }
        }
    };
}

unit! {
    /// Number of an allocation group, from 0.
    #[doc(alias = "xfs_agnumber_t")]
    AgNumber(u32)
}
unit! {
    /// Block within one allocation group.
    #[doc(alias = "xfs_agblock_t")]
    AgBlock(u32)
}
unit! {
    /// Block of the file system, sparse: `group << agblklog | block in group`.
    #[doc(alias = "xfs_fsblock_t")]
    FsBlock(u64)
}
unit! {
    /// 512-byte unit of the device ("daddr"), linear, whatever the device's sector size.
    #[doc(alias = "xfs_daddr_t")]
    Sector(u64)
}
unit! {
    /// Block within a file or fork: offset in bytes / block size.
    #[doc(alias = "xfs_fileoff_t")]
    FileBlock(u64)
}
unit! {
    /// Inode number in the whole file system: `group << (agblklog + inopblog) | number in group`.
    #[doc(alias = "xfs_ino_t")]
    InodeNumber(u64)
}
unit! {
    /// Inode number within one allocation group.
    #[doc(alias = "xfs_agino_t")]
    AgInode(u32)
}

/// Log sequence number: cycle in the high half, block of the log (512-byte units) in the low half.
#[doc(alias = "xfs_lsn_t")]
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Lsn(u64);

impl Lsn {
    /// All ones: structures that are never logged carry it.
    #[doc(alias = "NULLCOMMITLSN")]
    pub const NULL: Self = Self(u64::MAX);

    /// Wraps the on-disk number.
    pub const fn new(raw: u64) -> Self {
        Self(raw)
    }

    /// Builds one from its halves.
    pub const fn from_parts(cycle: u32, block: u32) -> Self {
        // Widening casts of constants; `From` is not usable in a const fn.
        #[allow(clippy::as_conversions)]
        Self((cycle as u64) << 32 | block as u64)
    }

    /// The on-disk number.
    pub const fn get(self) -> u64 {
        self.0
    }

    /// How often the log had been written round.
    pub const fn cycle(self) -> u32 {
        crate::convert::low_u32(self.0 >> 32)
    }

    /// Block within the log, in 512-byte units.
    pub const fn block(self) -> u32 {
        crate::convert::low_u32(self.0)
    }
}

impl fmt::Display for Lsn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.cycle(), self.block())
    }
}

impl fmt::Debug for Lsn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Lsn({self})")
    }
}

/// A 128-bit universally unique identifier, in the byte order it has on disk.
#[derive(
    Clone,
    Copy,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    Default,
    zerocopy::FromBytes,
    zerocopy::IntoBytes,
    zerocopy::KnownLayout,
    zerocopy::Immutable,
    zerocopy::Unaligned,
)]
#[repr(transparent)]
pub struct Uuid(pub [u8; 16]);

impl Uuid {
    /// All zeros.
    pub const NIL: Self = Self([0; 16]);
}

impl fmt::Display for Uuid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, byte) in self.0.iter().enumerate() {
            if matches!(index, 4 | 6 | 8 | 10) {
                f.write_str("-")?;
            }
            write!(f, "{byte:02x}")?;
        }
        Ok(())
    }
}

impl fmt::Debug for Uuid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lsn_orders_by_cycle_then_block() {
        assert!(Lsn::from_parts(1, 900) < Lsn::from_parts(2, 3));
        assert_eq!(Lsn::new(0x0000_0002_0000_0007).to_string(), "2:7");
    }

    #[test]
    fn uuid_prints_in_groups() {
        let uuid = Uuid(*b"\x2b\xb1\x2d\x1c\xde\x6c\x4c\xc7\xb6\x27\xb1\x75\xca\xac\xdd\x4d");
        assert_eq!(uuid.to_string(), "2bb12d1c-de6c-4cc7-b627-b175caacdd4d");
    }
}
