//! File types as directory entries keep them.

/// What an entry says its inode is. A copy, kept so that readers need not look at the inode.
#[doc(alias = "XFS_DIR3_FT_UNKNOWN")]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum FileType {
    /// Not kept.
    #[default]
    Unknown,
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
    Symlink,
    /// A hole in the upper layer of an overlay.
    Whiteout,
}

impl FileType {
    /// From the byte on disk.
    pub const fn from_raw(raw: u8) -> Option<Self> {
        Some(match raw {
            0 => Self::Unknown,
            1 => Self::Regular,
            2 => Self::Directory,
            3 => Self::CharacterDevice,
            4 => Self::BlockDevice,
            5 => Self::Fifo,
            6 => Self::Socket,
            7 => Self::Symlink,
            8 => Self::Whiteout,
            _ => return None,
        })
    }

    /// As the byte on disk.
    pub const fn to_raw(self) -> u8 {
        match self {
            Self::Unknown => 0,
            Self::Regular => 1,
            Self::Directory => 2,
            Self::CharacterDevice => 3,
            Self::BlockDevice => 4,
            Self::Fifo => 5,
            Self::Socket => 6,
            Self::Symlink => 7,
            Self::Whiteout => 8,
        }
    }

    /// From the type bits of a mode (`S_IFMT`).
    pub const fn from_mode(mode: u16) -> Self {
        match mode & 0o170_000 {
            0o100_000 => Self::Regular,
            0o040_000 => Self::Directory,
            0o020_000 => Self::CharacterDevice,
            0o060_000 => Self::BlockDevice,
            0o010_000 => Self::Fifo,
            0o140_000 => Self::Socket,
            0o120_000 => Self::Symlink,
            _ => Self::Unknown,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn raw_values_round_trip_and_nine_is_none() {
        for raw in 0..=8 {
            assert_eq!(FileType::from_raw(raw).unwrap().to_raw(), raw);
        }
        assert_eq!(FileType::from_raw(9), None);
        assert_eq!(FileType::from_mode(0o100_644), FileType::Regular);
        assert_eq!(FileType::from_mode(0o1), FileType::Unknown);
    }
}
