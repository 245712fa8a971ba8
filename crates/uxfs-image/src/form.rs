//! Which form a file has, by its first bytes.

use std::{
    io::{self, Read},
    path::Path,
};

use uxfs_block::engine::open_plain;

/// How many bytes of a file tell its form.
pub const MAGIC_BYTES: usize = 4;

/// A form of image files beside the plain one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// Compressed with zstd.
    Zstd,
    /// Compressed with gzip.
    Gzip,
    /// Compressed with xz.
    Xz,
    /// A disk of QEMU.
    Qcow2,
    /// Compressed with bzip2: known, and not read.
    Bzip2,
    /// Compressed with lz4: known, and not read.
    Lz4,
    /// A disk of VMware: known, and not read.
    Vmdk,
    /// A disk of Hyper-V: known, and not read.
    Vhdx,
}

impl Form {
    /// All of them.
    pub const ALL: [Self; 8] =
        [Self::Zstd, Self::Gzip, Self::Xz, Self::Qcow2, Self::Bzip2, Self::Lz4, Self::Vmdk, Self::Vhdx];

    /// The form of a file that begins with these bytes; `None` for all others.
    pub fn of_beginning(bytes: &[u8]) -> Option<Self> {
        match bytes {
            [0x28, 0xb5, 0x2f, 0xfd, ..] => Some(Self::Zstd),
            // A frame that is to be skipped may come first, as pzstd has it.
            [0x50..=0x5f, 0x2a, 0x4d, 0x18, ..] => Some(Self::Zstd),
            // deflate is the only method that there is.
            [0x1f, 0x8b, 8, ..] => Some(Self::Gzip),
            [0xfd, b'7', b'z', b'X', ..] => Some(Self::Xz),
            [b'Q', b'F', b'I', 0xfb, ..] => Some(Self::Qcow2),
            [b'B', b'Z', b'h', ..] => Some(Self::Bzip2),
            [4, 0x22, 0x4d, 0x18, ..] => Some(Self::Lz4),
            [b'K', b'D', b'M', b'V', ..] => Some(Self::Vmdk),
            [b'v', b'h', b'd', b'x', ..] => Some(Self::Vhdx),
            _ => None,
        }
    }

    /// The form of the file at `path`.
    ///
    /// # Errors
    /// It cannot be opened or read.
    pub fn of_file(path: &Path) -> io::Result<Option<Self>> {
        let mut magic = Vec::with_capacity(MAGIC_BYTES);
        open_plain(path)?.take(MAGIC_BYTES as u64).read_to_end(&mut magic)?;
        Ok(Self::of_beginning(&magic))
    }

    /// A file of this form, in words.
    pub fn name(self) -> &'static str {
        match self {
            Self::Zstd => "compressed with zstd",
            Self::Gzip => "compressed with gzip",
            Self::Xz => "compressed with xz",
            Self::Qcow2 => "a qcow2 disk",
            Self::Bzip2 => "compressed with bzip2",
            Self::Lz4 => "compressed with lz4",
            Self::Vmdk => "a VMDK disk",
            Self::Vhdx => "a VHDX disk",
        }
    }

    /// How the plain image is had.
    pub fn remedy(self) -> &'static str {
        match self {
            Self::Zstd => "unpack it: zstd -d",
            Self::Gzip => "unpack it: gzip -d",
            Self::Xz => "unpack it: xz -d",
            Self::Bzip2 => "unpack it: bzip2 -d",
            Self::Lz4 => "unpack it: lz4 -d",
            Self::Qcow2 | Self::Vmdk | Self::Vhdx => "convert it: qemu-img convert -O raw",
        }
    }

    /// Whether it can be read here.
    pub fn is_read(self) -> bool {
        matches!(self, Self::Zstd | Self::Gzip | Self::Xz | Self::Qcow2)
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    #[test]
    fn forms_are_told_by_their_beginning() {
        for (beginning, form) in [
            (&b"\x28\xb5\x2f\xfd"[..], Form::Zstd),
            (b"\x50\x2a\x4d\x18", Form::Zstd),
            (b"\x1f\x8b\x08\0", Form::Gzip),
            (b"\xfd7zXZ\0", Form::Xz),
            (b"QFI\xfb", Form::Qcow2),
            (b"BZh9", Form::Bzip2),
            (b"\x04\x22\x4d\x18", Form::Lz4),
            (b"KDMV", Form::Vmdk),
            (b"vhdxfile", Form::Vhdx),
        ] {
            let mut file = tempfile::NamedTempFile::new().unwrap();
            file.write_all(beginning).unwrap();
            assert_eq!(Form::of_file(file.path()).unwrap(), Some(form));
            assert!(Form::ALL.contains(&form) && !form.name().is_empty() && form.remedy().contains(" it: "));
        }
        for beginning in [&b"XFSB"[..], b"\0\0\0\0", b"ustar", b"", b"\x28\xb5"] {
            assert_eq!(Form::of_beginning(beginning), None);
        }
    }
}
