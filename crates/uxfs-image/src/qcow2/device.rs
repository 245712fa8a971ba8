//! A disk as a device.

use std::{
    io::{self, ErrorKind, Read},
    sync::Arc,
};

use uxfs_block::device::{BlockDevice, DeviceError, DeviceOperation, Identity};

use super::{
    entry::{self, Mapping, PARTS_BITS},
    header::{Compression, Header},
    tables::Tables,
};
use crate::{
    pieces::cache::{Cost, PieceCache},
    read_only::read_only,
};

/// The share of the budget that compressed clusters take: they are small.
const CACHE_SHARE: u64 = 4;
/// What compressed clusters may look back on, as a power of two: the largest cluster has 2^21 bytes.
const WINDOW_LOG: u32 = 23;

/// A disk.
#[derive(Debug)]
pub(super) struct Qcow2Device {
    file: Arc<dyn BlockDevice>,
    tables: Tables,
    size_bytes: u64,
    cluster_bits: u32,
    l1_offset_bytes: u64,
    l1_entry_bits: u32,
    has_extended_entries: bool,
    has_zero_bit: bool,
    compression: Compression,
    backing: Option<Arc<dyn BlockDevice>>,
    /// Clusters that were compressed, by their place in the file.
    clusters: PieceCache,
}

/// A stretch of the disk that lies in one place.
struct Stretch {
    mapping: Mapping,
    /// Where it begins in its cluster.
    in_cluster: u64,
    length_bytes: u64,
}

impl Qcow2Device {
    pub fn new(
        file: Arc<dyn BlockDevice>,
        header: &Header,
        backing: Option<Arc<dyn BlockDevice>>,
        cache_bytes: u64,
    ) -> Self {
        Self {
            tables: Tables::new(Arc::clone(&file)),
            file,
            size_bytes: header.size_bytes,
            cluster_bits: header.cluster_bits,
            l1_offset_bytes: header.l1_offset_bytes,
            l1_entry_bits: header.l1_entry_bits(),
            has_extended_entries: header.has_extended_entries,
            has_zero_bit: header.has_zero_bit,
            compression: header.compression,
            backing,
            clusters: PieceCache::new(cache_bytes / CACHE_SHARE),
        }
    }

    fn cluster_bytes(&self) -> u64 {
        1 << self.cluster_bits
    }

    /// Where the disk's bytes from `offset_bytes` on lie, up to the end of their cluster or part of a cluster.
    fn stretch(&self, offset_bytes: u64) -> io::Result<Stretch> {
        let in_cluster = offset_bytes % self.cluster_bytes();
        let part_bits =
            if self.has_extended_entries { self.cluster_bits - PARTS_BITS } else { self.cluster_bits };
        let length_bytes = (1 << part_bits) - in_cluster % (1 << part_bits);
        let whole = |mapping| Stretch { mapping, in_cluster, length_bytes };
        let l1_entry = self.tables.number(self.l1_offset_bytes + (offset_bytes >> self.l1_entry_bits) * 8)?;
        let Some(table) = entry::table_of(l1_entry) else { return Ok(whole(Mapping::Backing)) };
        self.check_place("table", table, self.cluster_bytes())?;
        let number = (offset_bytes & ((1 << self.l1_entry_bits) - 1)) >> self.cluster_bits;
        let (at, parts) = if self.has_extended_entries {
            let at = table + number * 16;
            (at, Some((self.tables.number(at + 8)?, (in_cluster >> part_bits) as u32)))
        } else {
            (table + number * 8, None)
        };
        let l2_entry = self.tables.number(at)?;
        Ok(whole(entry::mapping(l2_entry, parts, self.cluster_bits, self.has_zero_bit)))
    }

    /// A cluster lies where clusters lie; as much as is asked for of it lies within the file.
    fn check_place(&self, what: &str, cluster_offset: u64, needed_bytes: u64) -> io::Result<()> {
        let end = cluster_offset.checked_add(needed_bytes).filter(|end| *end <= self.file.size_bytes());
        if end.is_some() && cluster_offset != 0 && cluster_offset.is_multiple_of(self.cluster_bytes()) {
            return Ok(());
        }
        Err(damaged(format!("no {what} can be at byte {cluster_offset} of the file")))
    }

    /// Fills the buffer from one stretch.
    fn read_stretch(&self, offset_bytes: u64, stretch: &Stretch, buffer: &mut [u8]) -> io::Result<()> {
        match stretch.mapping {
            Mapping::Zero => buffer.fill(0),
            Mapping::Backing => self.read_backing(offset_bytes, buffer)?,
            Mapping::Data { cluster_offset } => {
                self.check_place("cluster", cluster_offset, stretch.in_cluster + buffer.len() as u64)?;
                let at = cluster_offset + stretch.in_cluster;
                self.file.read(at, buffer).map_err(|error| error.source)?;
            }
            Mapping::Compressed { offset, most_bytes } => {
                self.read_compressed(offset, most_bytes, stretch.in_cluster, buffer)?;
            }
        }
        Ok(())
    }

    /// Behind the end of the backing file there are zeros.
    fn read_backing(&self, offset_bytes: u64, buffer: &mut [u8]) -> io::Result<()> {
        let available =
            self.backing.as_ref().map_or(0, |file| file.size_bytes().saturating_sub(offset_bytes));
        let length = usize::try_from(available).map_or(buffer.len(), |length| length.min(buffer.len()));
        let (there, beyond) = buffer.split_at_mut(length);
        beyond.fill(0);
        match &self.backing {
            Some(file) if !there.is_empty() => file.read(offset_bytes, there).map_err(|error| error.source),
            _ => Ok(()),
        }
    }

    fn read_compressed(
        &self,
        offset: u64,
        most_bytes: u64,
        in_cluster: u64,
        buffer: &mut [u8],
    ) -> io::Result<()> {
        let cost = Cost { kept_bytes: self.cluster_bytes(), working_bytes: most_bytes };
        let decode = || self.decompress(offset, most_bytes);
        let start = in_cluster as usize;
        self.clusters.read(offset, cost, decode, |bytes| match bytes.get(start..start + buffer.len()) {
            Some(source) => buffer.copy_from_slice(source),
            None => buffer.fill(0),
        })
    }

    /// The bytes of a compressed cluster.
    fn decompress(&self, offset: u64, most_bytes: u64) -> io::Result<Vec<u8>> {
        // The last one of a file ends with it.
        let available = self.file.size_bytes().saturating_sub(offset).min(most_bytes);
        let failed =
            |why: &str| damaged(format!("the compressed cluster at byte {offset} of the file {why}"));
        if available == 0 {
            return Err(failed("lies behind its end"));
        }
        let mut packed = vec![0; available as usize];
        self.file.read(offset, &mut packed).map_err(|error| error.source)?;
        let mut bytes = vec![0; self.cluster_bytes() as usize];
        let filled = match self.compression {
            Compression::Deflate => inflate(&packed, &mut bytes),
            Compression::Zstd => decompress_zstd(&packed, &mut bytes),
        };
        filled.map(|()| bytes).map_err(|_| failed("cannot be decompressed"))
    }
}

fn damaged(words: String) -> io::Error {
    io::Error::new(ErrorKind::InvalidData, format!("the qcow2 disk is damaged or cut off: {words}"))
}

/// Fills `target`. What follows in `packed` is not looked at: it reaches to the end of a sector.
fn inflate(packed: &[u8], target: &mut [u8]) -> io::Result<()> {
    let mut inflater = flate2::Decompress::new(false);
    inflater.decompress(packed, target, flate2::FlushDecompress::Finish).map_err(io::Error::other)?;
    match inflater.total_out() == target.len() as u64 {
        true => Ok(()),
        false => Err(ErrorKind::UnexpectedEof.into()),
    }
}

fn decompress_zstd(packed: &[u8], target: &mut [u8]) -> io::Result<()> {
    let mut decoder = zstd::stream::read::Decoder::with_buffer(packed)?.single_frame();
    decoder.window_log_max(WINDOW_LOG)?;
    decoder.read_exact(target)?;
    // The checksum comes last in the frame.
    match decoder.read(&mut [0])? {
        0 => Ok(()),
        _ => Err(ErrorKind::InvalidData.into()),
    }
}

impl BlockDevice for Qcow2Device {
    fn size_bytes(&self) -> u64 {
        self.size_bytes
    }

    fn identity(&self) -> Option<Identity> {
        self.file.identity()
    }

    fn engine(&self) -> &'static str {
        "qcow2"
    }

    fn read(&self, offset_bytes: u64, buffer: &mut [u8]) -> Result<(), DeviceError> {
        let (operation, length_bytes) = (DeviceOperation::Read, buffer.len() as u64);
        DeviceError::check_range(operation, offset_bytes, length_bytes, self.size_bytes)?;
        let failed = |source| DeviceError { operation, offset_bytes, length_bytes, source };
        let mut done = 0;
        while done < buffer.len() {
            let at = offset_bytes + done as u64;
            let stretch = self.stretch(at).map_err(failed)?;
            let mut length = stretch.length_bytes.min((buffer.len() - done) as u64);
            // Neighbours in the file are read at once.
            while let Mapping::Data { cluster_offset } = stretch.mapping
                && done as u64 + length < length_bytes
            {
                let next = self.stretch(at + length).map_err(failed)?;
                let expected = cluster_offset + stretch.in_cluster + length;
                match next.mapping {
                    Mapping::Data { cluster_offset } if cluster_offset + next.in_cluster == expected => {
                        length += next.length_bytes.min(length_bytes - done as u64 - length);
                    }
                    _ => break,
                }
            }
            let part = buffer.get_mut(done..done + length as usize).unwrap_or_default();
            self.read_stretch(at, &stretch, part).map_err(failed)?;
            done += length as usize;
        }
        Ok(())
    }

    read_only!();
}
