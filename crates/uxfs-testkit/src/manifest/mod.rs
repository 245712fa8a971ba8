//! Contents of a file system, path by path, by a judge.
//!
//! A manifest is a file of JSON lines: a [`Header`], then one [`Entry`] for each path in byte order. The first path of an inode
//! carries the inode's [`Details`]; its other hard links carry only its number. What a judge cannot say is absent
//! and is not compared.

mod diff;
mod independent;
mod kernel;
mod xfs_io;

use std::{
    fmt,
    fs::File,
    io::{BufRead, BufReader, Write},
    path::Path,
};

use anyhow::{Context, Result};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

pub use diff::{Difference, differences, report};
pub use independent::read_independent;
pub use kernel::{UNREADABLE, from_damaged_mount, from_mount, from_tree, written_runs};

/// Regular files up to this size carry the SHA-256 of their bytes; larger ones that of their data runs, see
/// [`Details::sha256`].
pub const WHOLE_HASH_LIMIT_BYTES: u64 = 256 << 20;

/// Bytes that are mostly text: in JSON a string, or `{"hex": "…"}` where they are not UTF-8.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Bytes(pub Vec<u8>);

impl fmt::Debug for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{}\"", self.0.escape_ascii())
    }
}

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0.escape_ascii())
    }
}

impl From<&[u8]> for Bytes {
    fn from(bytes: &[u8]) -> Self {
        Self(bytes.to_vec())
    }
}

#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum BytesForm {
    Text(String),
    Hex { hex: String },
}

impl Serialize for Bytes {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match std::str::from_utf8(&self.0) {
            Ok(text) => serializer.serialize_str(text),
            Err(_) => BytesForm::Hex { hex: to_hex(&self.0) }.serialize(serializer),
        }
    }
}

impl<'de> Deserialize<'de> for Bytes {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match BytesForm::deserialize(deserializer)? {
            BytesForm::Text(text) => Ok(Self(text.into_bytes())),
            BytesForm::Hex { hex } => {
                from_hex(&hex).map(Self).ok_or_else(|| de::Error::custom("not hexadecimal"))
            }
        }
    }
}

/// Lower-case hexadecimal digits.
pub fn to_hex(bytes: &[u8]) -> String {
    let digit = |value: u8| char::from(b"0123456789abcdef"[usize::from(value)]);
    bytes.iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]).collect()
}

/// The bytes that [`to_hex`] wrote.
pub fn from_hex(text: &str) -> Option<Vec<u8>> {
    let digit = |digit: u8| (digit as char).to_digit(16).and_then(|value| u8::try_from(value).ok());
    let pairs = text.as_bytes().chunks(2);
    pairs.map(|pair| Some(digit(*pair.first()?)? << 4 | digit(*pair.get(1)?)?)).collect()
}

/// The image, and the judge that described it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Header {
    /// The image's name.
    pub image: String,
    /// The program or kernel that made it.
    pub judge: String,
    /// How the image was made.
    pub made_by: String,
}

/// File type of an inode.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[allow(missing_docs)]
pub enum FileKind {
    Regular,
    Directory,
    Symlink,
    CharacterDevice,
    BlockDevice,
    Fifo,
    Socket,
}

/// Seconds and nanoseconds since 1970.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Timestamp(pub i64, pub u32);

/// One mapped extent. Neighbours that continue each other in the file and on the disk, in the same state, are one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Extent {
    /// First byte in the file (or the attribute fork).
    pub offset_bytes: u64,
    /// First byte on the device.
    pub disk_bytes: u64,
    /// Length.
    pub length_bytes: u64,
    /// Allocated, never written: reads as zeros.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub unwritten: bool,
}

/// Joins neighbours as [`Extent`] says.
pub fn merge_extents(extents: impl IntoIterator<Item = Extent>) -> Vec<Extent> {
    let mut merged: Vec<Extent> = Vec::new();
    for extent in extents {
        match merged.last_mut() {
            Some(last)
                if last.unwritten == extent.unwritten
                    && last.offset_bytes + last.length_bytes == extent.offset_bytes
                    && last.disk_bytes + last.length_bytes == extent.disk_bytes =>
            {
                last.length_bytes += extent.length_bytes;
            }
            _ => merged.push(extent),
        }
    }
    merged
}

/// One name in a directory, in the order that the kernel's `getdents` gives them, `.` and `..` included.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DirectoryEntry {
    /// The name.
    pub name: Bytes,
    /// The inode it leads to.
    pub inode: u64,
    /// File type in the entry.
    pub kind: FileKind,
    /// `d_off`: where reading goes on after this entry. Not compared for the last one.
    pub next_cookie: u64,
}

/// An extended attribute.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Attribute {
    /// Name with namespace: `user.x`.
    pub name: Bytes,
    /// Value in hexadecimal.
    pub value: String,
}

/// Flags and hints that only XFS's own call tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct XfsFlags {
    /// `fsx_xflags`, without has-attributes (bit 31).
    pub flags: u32,
    /// Project.
    pub project_id: u32,
    /// Extent size hint.
    pub extent_size_bytes: u32,
    /// Copy-on-write extent size hint.
    pub cow_extent_size_bytes: u32,
}

/// All about one inode.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Details {
    /// Permissions with set-id and sticky bits: the low 12 bits of the mode.
    pub mode: u16,
    /// Owner.
    pub user_id: u32,
    /// Group.
    pub group_id: u32,
    /// Size.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size_bytes: Option<u64>,
    /// Names.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub link_count: Option<u32>,
    /// Space taken, in 512-byte sectors.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sectors: Option<u64>,
    /// Major and minor number of a device.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub device: Option<(u32, u32)>,
    /// Last access.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub access_time: Option<Timestamp>,
    /// Last change of contents.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub modification_time: Option<Timestamp>,
    /// Last change of the inode.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub change_time: Option<Timestamp>,
    /// Creation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub birth_time: Option<Timestamp>,
    /// SHA-256 of a regular file's bytes. Above [`WHOLE_HASH_LIMIT_BYTES`]: of `offset length bytes` (numbers
    /// little-endian 64-bit) of each run of written extents that continue each other in the file, cut at the size.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sha256: Option<String>,
    /// Mapped extents of a regular file (all) or of a directory (its data, not its index).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub extents: Option<Vec<Extent>>,
    /// How many extents `filefrag` counts, from a judge that does not list them. Compared with [`extents`](Self::extents).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub extent_count: Option<u64>,
    /// Extents of the attribute fork.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attribute_extents: Option<Vec<Extent>>,
    /// Where a symbolic link points.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target: Option<Bytes>,
    /// Every attribute, sorted by name, ACLs in the form `system.posix_acl_…` included.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attributes: Option<Vec<Attribute>>,
    /// Flags and hints of regular files and directories.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub flags: Option<XfsFlags>,
    /// A directory's names in reading order.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub entries: Option<Vec<DirectoryEntry>>,
}

/// One path.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// From the root: `/`, `/a/b`.
    pub path: Bytes,
    /// Inode number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub inode: Option<u64>,
    /// File type.
    pub kind: FileKind,
    /// The inode, at its first path.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub details: Option<Box<Details>>,
}

/// A whole file system.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Manifest {
    /// The image and the judge.
    pub header: Header,
    /// Every path, sorted.
    pub entries: Vec<Entry>,
}

impl Manifest {
    /// Reads a zstd-packed file of JSON lines.
    ///
    /// # Errors
    /// Reading fails or a line is not as described.
    pub fn read(path: &Path) -> Result<Self> {
        let file = File::open(path).with_context(|| format!("cannot open {}", path.display()))?;
        let mut lines = BufReader::new(zstd::Decoder::new(file)?).lines();
        let first = lines.next().context("an empty manifest")??;
        let header = serde_json::from_str(&first)?;
        let entries: Result<Vec<Entry>> = lines.map(|line| Ok(serde_json::from_str(&line?)?)).collect();
        Ok(Self { header, entries: entries? })
    }

    /// Writes the file that [`read`](Self::read) reads, compressed with this level of zstd.
    ///
    /// # Errors
    /// Writing fails.
    pub fn write(&self, path: &Path, level: i32) -> Result<()> {
        let mut encoder = zstd::Encoder::new(File::create(path)?, level)?;
        encoder.long_distance_matching(true)?;
        encoder.include_checksum(true)?;
        serde_json::to_writer(&mut encoder, &self.header)?;
        for entry in &self.entries {
            encoder.write_all(b"\n")?;
            serde_json::to_writer(&mut encoder, entry)?;
        }
        encoder.write_all(b"\n")?;
        encoder.finish()?;
        Ok(())
    }
}

#[cfg(test)]
#[path = "manifest_tests.rs"]
mod tests;
