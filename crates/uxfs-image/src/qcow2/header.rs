//! What a disk says of itself, and what of that is not read here.

use uxfs_block::device::BlockDevice;
use zerocopy::{
    FromBytes, Immutable, KnownLayout,
    byteorder::big_endian::{U32, U64},
};

use crate::{
    error::{ImageError, Result},
    packed_reader::read_range,
};

/// The header of version 3, as far as it is looked at. Version 2 ends behind `snapshots_offset`.
#[derive(Debug, Clone, FromBytes, KnownLayout, Immutable)]
#[repr(C)]
struct RawHeader {
    magic: [u8; 4],
    version: U32,
    backing_file_offset: U64,
    backing_file_size: U32,
    cluster_bits: U32,
    size: U64,
    crypt_method: U32,
    l1_size: U32,
    l1_table_offset: U64,
    refcount_table_offset: U64,
    refcount_table_clusters: U32,
    nb_snapshots: U32,
    snapshots_offset: U64,
    incompatible_features: U64,
    compatible_features: U64,
    autoclear_features: U64,
    refcount_order: U32,
    header_length: U32,
    compression_type: u8,
    padding: [u8; 7],
}

const MAGIC: [u8; 4] = *b"QFI\xfb";
const VERSION_2_BYTES: u64 = 72;
/// Of version 3, without the kind of compression.
const VERSION_3_BYTES: u64 = 104;
const MOST_HEADER_BYTES: u64 = size_of::<RawHeader>() as u64;

/// Bits of `incompatible_features`.
const DIRTY: u64 = 1;
const CORRUPT: u64 = 1 << 1;
const EXTERNAL_DATA: u64 = 1 << 2;
const COMPRESSION: u64 = 1 << 3;
const EXTENDED_L2: u64 = 1 << 4;

/// 512 bytes to 2 MiB, as QEMU allows.
const CLUSTER_BITS: std::ops::RangeInclusive<u32> = 9..=21;
/// With parts of clusters: 32 of at least 512 bytes.
const LEAST_EXTENDED_BITS: u32 = 14;
/// Bytes of the first table, at most, as QEMU has it.
const MOST_L1_BYTES: u64 = 32 << 20;
/// The extension that names the format of the backing file.
const BACKING_FORMAT: u32 = 0xe279_2aca;
/// Bytes behind the header that extensions may take.
const MOST_EXTENSION_BYTES: u64 = 64 << 10;
/// As QEMU has it.
const MOST_NAME_BYTES: u32 = 1023;

/// How clusters are compressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Compression {
    /// deflate, without a header.
    Deflate,
    Zstd,
}

/// The file that a disk is based on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct BackingName {
    pub name: Vec<u8>,
    /// By the extension for it.
    pub format: Option<Vec<u8>>,
}

/// A header that can be read by.
#[derive(Debug, Clone)]
pub(super) struct Header {
    pub size_bytes: u64,
    pub cluster_bits: u32,
    pub l1_entries: u32,
    pub l1_offset_bytes: u64,
    pub has_extended_entries: bool,
    /// Zero clusters are marked by a bit that version 2 does not have.
    pub has_zero_bit: bool,
    pub compression: Compression,
    pub backing: Option<BackingName>,
}

const CONVERT: &str = "convert it: qemu-img convert -O raw";

fn damaged(words: impl Into<String>) -> ImageError {
    ImageError::Damaged(words.into())
}

fn unsupported(what: impl Into<String>) -> ImageError {
    ImageError::Unsupported { what: what.into(), remedy: CONVERT }
}

impl Header {
    /// Reads and judges it.
    ///
    /// # Errors
    /// It contradicts itself or the file, or has something that is not read here.
    pub fn read(file: &dyn BlockDevice) -> Result<Self> {
        let raw = read_raw(file)?;
        check_features(&raw)?;
        let cluster_bits = raw.cluster_bits.get();
        let has_extended_entries = raw.incompatible_features.get() & EXTENDED_L2 != 0;
        let is_possible = CLUSTER_BITS.contains(&cluster_bits)
            && (!has_extended_entries || cluster_bits >= LEAST_EXTENDED_BITS);
        if !is_possible {
            return Err(damaged(format!("clusters of 2^{cluster_bits} bytes")));
        }
        let compression = match raw.compression_type {
            0 => Compression::Deflate,
            1 => Compression::Zstd,
            other => {
                return Err(unsupported(format!(
                    "a qcow2 disk with compression of the unknown kind {other}"
                )));
            }
        };
        let header = Self {
            size_bytes: raw.size.get(),
            cluster_bits,
            l1_entries: raw.l1_size.get(),
            l1_offset_bytes: raw.l1_table_offset.get(),
            has_extended_entries,
            has_zero_bit: raw.version.get() >= 3,
            compression,
            backing: backing(file, &raw)?,
        };
        header.check_l1(file)?;
        Ok(header)
    }

    /// How many bytes one entry of the first table stands for, as a power of two.
    pub fn l1_entry_bits(&self) -> u32 {
        self.cluster_bits + self.l2_entries_bits()
    }

    /// How many entries a second table has, as a power of two.
    pub fn l2_entries_bits(&self) -> u32 {
        self.cluster_bits - if self.has_extended_entries { 4 } else { 3 }
    }

    fn check_l1(&self, file: &dyn BlockDevice) -> Result<()> {
        if self.size_bytes > i64::MAX as u64 {
            return Err(damaged(format!("a size of {} bytes", self.size_bytes)));
        }
        let needed = self.size_bytes.div_ceil(1 << self.l1_entry_bits());
        let entries = u64::from(self.l1_entries);
        if entries < needed {
            return Err(damaged(format!("its first table has {entries} entries, and {needed} are needed")));
        }
        let table_bytes = entries * 8;
        let end = self.l1_offset_bytes.checked_add(table_bytes).filter(|end| *end <= file.size_bytes());
        let is_aligned = self.l1_offset_bytes.is_multiple_of(1 << self.cluster_bits);
        if table_bytes > MOST_L1_BYTES || end.is_none() || !is_aligned {
            let at = self.l1_offset_bytes;
            return Err(damaged(format!(
                "its first table, of {table_bytes} bytes at byte {at}, cannot be there"
            )));
        }
        Ok(())
    }
}

/// The header; zeros stand for what version 2 does not have.
fn read_raw(file: &dyn BlockDevice) -> Result<RawHeader> {
    let length = file.size_bytes().min(MOST_HEADER_BYTES);
    let mut bytes = read_range(file, 0, length as usize)?.unwrap_or_default();
    if length < VERSION_2_BYTES || !bytes.starts_with(&MAGIC) {
        return Err(damaged("its header is cut off"));
    }
    bytes.resize(MOST_HEADER_BYTES as usize, 0);
    let parsed =
        |bytes: &[u8]| RawHeader::read_from_bytes(bytes).map_err(|_| damaged("its header is cut off"));
    let raw = parsed(&bytes)?;
    let header_bytes = match raw.version.get() {
        2 => VERSION_2_BYTES,
        3 => u64::from(raw.header_length.get()),
        other => return Err(unsupported(format!("a qcow2 disk of the unknown version {other}"))),
    };
    let least_bytes = if raw.version.get() == 2 { VERSION_2_BYTES } else { VERSION_3_BYTES };
    if header_bytes < least_bytes || header_bytes > 4096 || header_bytes > file.size_bytes() {
        return Err(damaged(format!("a header of {header_bytes} bytes")));
    }
    if let Some(beyond) = bytes.get_mut(header_bytes.min(MOST_HEADER_BYTES) as usize..) {
        beyond.fill(0);
    }
    let raw = parsed(&bytes)?;
    Ok(RawHeader { header_length: U32::new(header_bytes as u32), ..raw })
}

fn check_features(raw: &RawHeader) -> Result<()> {
    match raw.crypt_method.get() {
        0 => {}
        1 | 2 => return Err(unsupported("an encrypted qcow2 disk")),
        other => return Err(unsupported(format!("a qcow2 disk encrypted in the unknown way {other}"))),
    }
    let features = raw.incompatible_features.get();
    if features & EXTERNAL_DATA != 0 {
        return Err(unsupported("a qcow2 disk whose data lie in another file"));
    }
    // Dirty: only the counts of references may be wrong. Corrupt: QEMU found tables that overlap, and lets such disks be read.
    let unknown = features & !(DIRTY | CORRUPT | COMPRESSION | EXTENDED_L2);
    if unknown != 0 {
        return Err(unsupported(format!("a qcow2 disk with the unknown features {unknown:#x}")));
    }
    if (features & COMPRESSION != 0) != (raw.compression_type != 0) {
        return Err(damaged("its kind of compression contradicts its features"));
    }
    Ok(())
}

fn backing(file: &dyn BlockDevice, raw: &RawHeader) -> Result<Option<BackingName>> {
    let (offset, length) = (raw.backing_file_offset.get(), raw.backing_file_size.get());
    if offset == 0 {
        return Ok(None);
    }
    let name = match length {
        1..=MOST_NAME_BYTES => read_range(file, offset, length as usize)?,
        _ => None,
    };
    let name = name.filter(|name| !name.contains(&0));
    let name = name.ok_or_else(|| {
        damaged(format!("the name of its backing file, of {length} bytes at byte {offset}"))
    })?;
    Ok(Some(BackingName { name, format: backing_format(file, raw)? }))
}

/// The format of the backing file, among the extensions behind the header.
fn backing_format(file: &dyn BlockDevice, raw: &RawHeader) -> Result<Option<Vec<u8>>> {
    let start = u64::from(raw.header_length.get());
    let most_bytes = MOST_EXTENSION_BYTES.min(1 << raw.cluster_bits.get().min(21)).min(file.size_bytes());
    let length = most_bytes.saturating_sub(start);
    let bytes = read_range(file, start, length as usize)?.unwrap_or_default();
    let mut rest = bytes.as_slice();
    while let [a, b, c, d, e, f, g, h, behind @ ..] = rest {
        let (kind, length) =
            (u32::from_be_bytes([*a, *b, *c, *d]), u32::from_be_bytes([*e, *f, *g, *h]) as usize);
        if kind == 0 {
            break;
        }
        let Some(data) = behind.get(..length) else {
            return Err(damaged("an extension of its header is cut off"));
        };
        if kind == BACKING_FORMAT {
            return Ok(Some(data.to_vec()));
        }
        rest = behind.get(length.next_multiple_of(8)..).unwrap_or_default();
    }
    Ok(None)
}
