//! Mode bits, file types and device numbers.

use std::fmt;

/// The bits of a mode that hold the file type.
pub const MODE_TYPE_MASK: u16 = 0o170_000;
/// The bits of a mode that hold permissions, set-id bits and the sticky bit.
pub const MODE_PERMISSION_MASK: u16 = 0o7_777;

/// The kind of file of an inode.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum FileType {
    /// Regular file.
    Regular,
    /// Directory.
    Directory,
    /// Character device.
    CharacterDevice,
    /// Block device.
    BlockDevice,
    /// Named pipe.
    Fifo,
    /// Socket.
    Socket,
    /// Symbolic link.
    SymbolicLink,
}

impl FileType {
    /// The type that a mode says, or `None` for a mode that has none.
    #[inline]
    pub const fn from_mode(mode: u16) -> Option<Self> {
        Some(match mode & MODE_TYPE_MASK {
            0o010_000 => Self::Fifo,
            0o020_000 => Self::CharacterDevice,
            0o040_000 => Self::Directory,
            0o060_000 => Self::BlockDevice,
            0o100_000 => Self::Regular,
            0o120_000 => Self::SymbolicLink,
            0o140_000 => Self::Socket,
            _ => return None,
        })
    }

    /// The first character of `ls -l`.
    pub const fn letter(self) -> u8 {
        match self {
            Self::Fifo => b'p',
            Self::CharacterDevice => b'c',
            Self::Directory => b'd',
            Self::BlockDevice => b'b',
            Self::Regular => b'-',
            Self::SymbolicLink => b'l',
            Self::Socket => b's',
        }
    }

    /// The type bits of a mode.
    pub const fn mode_bits(self) -> u16 {
        match self {
            Self::Fifo => 0o010_000,
            Self::CharacterDevice => 0o020_000,
            Self::Directory => 0o040_000,
            Self::BlockDevice => 0o060_000,
            Self::Regular => 0o100_000,
            Self::SymbolicLink => 0o120_000,
            Self::Socket => 0o140_000,
        }
    }

    /// The type that the byte in a directory entry says, or `None` for 0 (unknown), 8 (whiteout) and no code at all.
    #[doc(alias = "XFS_DIR3_FT_REG_FILE")]
    pub const fn from_directory_code(code: u8) -> Option<Self> {
        Some(match code {
            1 => Self::Regular,
            2 => Self::Directory,
            3 => Self::CharacterDevice,
            4 => Self::BlockDevice,
            5 => Self::Fifo,
            6 => Self::Socket,
            7 => Self::SymbolicLink,
            _ => return None,
        })
    }

    /// The byte for a directory entry.
    pub const fn directory_code(self) -> u8 {
        match self {
            Self::Regular => 1,
            Self::Directory => 2,
            Self::CharacterDevice => 3,
            Self::BlockDevice => 4,
            Self::Fifo => 5,
            Self::Socket => 6,
            Self::SymbolicLink => 7,
        }
    }

    /// Whether the inode holds a device number in place of extents (also fifos and sockets, where it is 0).
    #[inline]
    pub const fn is_special(self) -> bool {
        matches!(self, Self::Fifo | Self::CharacterDevice | Self::BlockDevice | Self::Socket)
    }
}

/// Device number of a device file: 14 bits of major and 18 bits of minor number.
#[doc(alias = "xfs_dev_t")]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct DeviceNumber {
    /// Which driver.
    pub major: u32,
    /// Which device of it.
    pub minor: u32,
}

impl DeviceNumber {
    /// From the word on disk.
    pub const fn decode(word: u32) -> Self {
        Self { major: word >> 18, minor: word & 0x3_ffff }
    }

    /// To the word on disk, or `None` where the numbers do not fit.
    pub const fn encode(self) -> Option<u32> {
        if self.major >= 1 << 14 || self.minor >= 1 << 18 {
            return None;
        }
        Some(self.major << 18 | self.minor)
    }
}

impl fmt::Display for DeviceNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.major, self.minor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_of_modes_and_directory_codes_agree() {
        for code in 1..=7 {
            let kind = FileType::from_directory_code(code).unwrap();
            assert_eq!(kind.directory_code(), code);
            assert_eq!(FileType::from_mode(kind.mode_bits() | 0o7777), Some(kind));
        }
        assert_eq!(FileType::from_mode(0o777), None);
        assert_eq!(FileType::from_mode(0o170_000), None);
        assert_eq!(FileType::from_directory_code(8), None);
    }

    #[test]
    fn device_numbers_have_14_and_18_bits() {
        let device = DeviceNumber { major: 5, minor: 1 };
        assert_eq!(device.encode(), Some(0x0014_0001));
        assert_eq!(DeviceNumber::decode(0x0014_0001), device);
        assert_eq!(DeviceNumber { major: 1 << 14, minor: 0 }.encode(), None);
        assert_eq!(DeviceNumber { major: 0, minor: 1 << 18 }.encode(), None);
    }
}
