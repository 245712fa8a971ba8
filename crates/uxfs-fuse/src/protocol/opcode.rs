//! Numbers of operations.

use std::fmt;

/// Declares [`Opcode`] and both directions between it and its number.
macro_rules! opcodes {
    ($($(#[$meta:meta])* $name:ident = $number:literal, $kernel_name:literal;)*) => {
        /// What a request asks for.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum Opcode {
            $($(#[$meta])* #[doc = concat!("`", $kernel_name, "`.")] $name,)*
            /// A number that this protocol does not have.
            Unknown(u32),
        }

        impl Opcode {
            /// Every operation that the protocol has.
            pub const ALL: &[Self] = &[$(Self::$name,)*];

            /// The operation with this number.
            pub const fn from_number(number: u32) -> Self {
                match number {
                    $($number => Self::$name,)*
                    other => Self::Unknown(other),
                }
            }

            /// The number in a request.
            pub const fn number(self) -> u32 {
                match self {
                    $(Self::$name => $number,)*
                    Self::Unknown(number) => number,
                }
            }

            /// Name in the kernel's header; `UNKNOWN` for a number that it does not have.
            pub const fn kernel_name(self) -> &'static str {
                match self {
                    $(Self::$name => $kernel_name,)*
                    Self::Unknown(_) => "UNKNOWN",
                }
            }
        }
    };
}

opcodes! {
    Lookup = 1, "FUSE_LOOKUP";
    Forget = 2, "FUSE_FORGET";
    GetAttributes = 3, "FUSE_GETATTR";
    SetAttributes = 4, "FUSE_SETATTR";
    ReadLink = 5, "FUSE_READLINK";
    SymbolicLink = 6, "FUSE_SYMLINK";
    MakeNode = 8, "FUSE_MKNOD";
    MakeDirectory = 9, "FUSE_MKDIR";
    Unlink = 10, "FUSE_UNLINK";
    RemoveDirectory = 11, "FUSE_RMDIR";
    Rename = 12, "FUSE_RENAME";
    Link = 13, "FUSE_LINK";
    Open = 14, "FUSE_OPEN";
    Read = 15, "FUSE_READ";
    Write = 16, "FUSE_WRITE";
    StatFileSystem = 17, "FUSE_STATFS";
    Release = 18, "FUSE_RELEASE";
    Fsync = 20, "FUSE_FSYNC";
    SetExtendedAttribute = 21, "FUSE_SETXATTR";
    GetExtendedAttribute = 22, "FUSE_GETXATTR";
    ListExtendedAttributes = 23, "FUSE_LISTXATTR";
    RemoveExtendedAttribute = 24, "FUSE_REMOVEXATTR";
    Flush = 25, "FUSE_FLUSH";
    Initialize = 26, "FUSE_INIT";
    OpenDirectory = 27, "FUSE_OPENDIR";
    ReadDirectory = 28, "FUSE_READDIR";
    ReleaseDirectory = 29, "FUSE_RELEASEDIR";
    FsyncDirectory = 30, "FUSE_FSYNCDIR";
    GetLock = 31, "FUSE_GETLK";
    SetLock = 32, "FUSE_SETLK";
    SetLockWait = 33, "FUSE_SETLKW";
    Access = 34, "FUSE_ACCESS";
    Create = 35, "FUSE_CREATE";
    Interrupt = 36, "FUSE_INTERRUPT";
    BlockMap = 37, "FUSE_BMAP";
    Destroy = 38, "FUSE_DESTROY";
    Ioctl = 39, "FUSE_IOCTL";
    Poll = 40, "FUSE_POLL";
    NotifyReply = 41, "FUSE_NOTIFY_REPLY";
    BatchForget = 42, "FUSE_BATCH_FORGET";
    Fallocate = 43, "FUSE_FALLOCATE";
    ReadDirectoryPlus = 44, "FUSE_READDIRPLUS";
    Rename2 = 45, "FUSE_RENAME2";
    Seek = 46, "FUSE_LSEEK";
    CopyFileRange = 47, "FUSE_COPY_FILE_RANGE";
    /// DAX of virtiofs.
    SetupMapping = 48, "FUSE_SETUPMAPPING";
    /// DAX of virtiofs.
    RemoveMapping = 49, "FUSE_REMOVEMAPPING";
    SyncFileSystem = 50, "FUSE_SYNCFS";
    TemporaryFile = 51, "FUSE_TMPFILE";
    Statx = 52, "FUSE_STATX";
    CopyFileRange64 = 53, "FUSE_COPY_FILE_RANGE_64";
    /// Character devices.
    CuseInitialize = 4096, "CUSE_INIT";
    /// INIT of CUSE in the other byte order.
    CuseInitializeSwapped = 1_048_576, "CUSE_INIT_BSWAP_RESERVED";
    /// INIT in the other byte order.
    InitializeSwapped = 436_207_616, "FUSE_INIT_BSWAP_RESERVED";
}

impl Opcode {
    /// Whether the kernel waits for a reply. INTERRUPT takes one only to say that it is not understood, or that it came too early.
    pub const fn takes_reply(self) -> bool {
        !matches!(self, Self::Forget | Self::BatchForget | Self::NotifyReply | Self::Interrupt)
    }

    /// Whether a request may end with extensions.
    pub const fn takes_extensions(self) -> bool {
        matches!(
            self,
            Self::SymbolicLink | Self::MakeNode | Self::MakeDirectory | Self::Create | Self::TemporaryFile
        )
    }
}

impl fmt::Display for Opcode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown(number) => write!(f, "operation {number}"),
            known => f.write_str(known.kernel_name()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_comes_back() {
        for number in (0..5000).chain([1_048_576, 436_207_616, u32::MAX]) {
            let opcode = Opcode::from_number(number);
            assert_eq!(opcode.number(), number);
            assert_eq!(matches!(opcode, Opcode::Unknown(_)), !Opcode::ALL.contains(&opcode));
        }
        assert_eq!(Opcode::ALL.len(), 54);
        assert_eq!(Opcode::from_number(7).to_string(), "operation 7");
        assert_eq!(Opcode::Lookup.to_string(), "FUSE_LOOKUP");
    }

    #[test]
    fn byte_swapped_initializations_are_known() {
        assert_eq!(Opcode::from_number(26u32.swap_bytes()), Opcode::InitializeSwapped);
        assert_eq!(Opcode::from_number(4096u32.swap_bytes()), Opcode::CuseInitializeSwapped);
    }
}
