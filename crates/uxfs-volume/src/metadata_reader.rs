//! Reading metadata by its place on the device: a view of the volume.

use uxfs_block::cache::{Piece, ReadError};
use uxfs_format::{fault::Structure, units::Sector};

use crate::{
    damaged_blocks::Remembered,
    error::Result,
    metadata::{StructureVerifier, piece},
    volume::{MetadataBuffer, Volume},
};

/// Reads verified metadata of a volume through its cache.
#[derive(Debug, Clone, Copy)]
pub struct MetadataReader<'v> {
    volume: &'v Volume,
}

impl Volume {
    /// To read metadata by its place on the device.
    #[inline]
    pub fn metadata(&self) -> MetadataReader<'_> {
        MetadataReader { volume: self }
    }
}

impl<'v> MetadataReader<'v> {
    /// Reads metadata that lies in one piece and verifies it as `structure`.
    ///
    /// # Errors
    /// The device failed or the bytes are damaged.
    pub fn read(self, structure: Structure, sector: Sector, length_bytes: u32) -> Result<MetadataBuffer> {
        self.read_one((structure, sector, length_bytes.into()), &[piece((sector, length_bytes))])
    }

    fn read_one(self, place: (Structure, Sector, u64), pieces: &[Piece]) -> Result<MetadataBuffer> {
        let damaged = &self.volume.damaged_blocks;
        if let Some(fault) = damaged.get(&place) {
            return Err(fault.into());
        }
        match self.volume.cache().read(pieces, &self.verifier(place.0)) {
            Ok(buffer) => Ok(MetadataBuffer { buffer }),
            Err(error) => {
                if let ReadError::Verify(fault) = &error {
                    damaged.add(place, **fault);
                }
                Err(error.into())
            }
        }
    }

    /// Until the result is dropped, damaged blocks are not read again, and the device must not be written to.
    pub fn remember_damaged(self) -> Remembered<'v> {
        self.volume.damaged_blocks.remember()
    }

    /// Reads metadata that lies in several pieces (a directory block over several extents) as one buffer.
    ///
    /// # Errors
    /// As [`read`](Self::read).
    pub fn read_pieces(self, structure: Structure, pieces: &[(Sector, u32)]) -> Result<MetadataBuffer> {
        if let [(sector, length_bytes)] = pieces {
            return self.read(structure, *sector, *length_bytes);
        }
        let length_bytes = pieces.iter().map(|(_, length_bytes)| u64::from(*length_bytes)).sum();
        let first = pieces.first().map_or(Sector::NULL, |(sector, _)| *sector);
        let pieces: Vec<Piece> = pieces.iter().copied().map(piece).collect();
        self.read_one((structure, first, length_bytes), &pieces)
    }

    /// Reads several pieces of metadata, those that are not in memory in as few submissions as possible. The results
    /// are in the order of the requests.
    pub fn read_many(self, requests: &[(Structure, Sector, u32)]) -> Vec<Result<MetadataBuffer>> {
        let pieces: Vec<[Piece; 1]> =
            requests.iter().map(|(_, sector, length_bytes)| [piece((*sector, *length_bytes))]).collect();
        let verifiers = requests.iter().map(|(structure, ..)| self.verifier(*structure));
        let requests: Vec<(&[Piece], _)> = pieces.iter().map(<[Piece; 1]>::as_slice).zip(verifiers).collect();
        let buffers = self.volume.cache().read_many(&requests).into_iter();
        buffers.map(|result| Ok(MetadataBuffer { buffer: result? })).collect()
    }

    /// Brings metadata into the cache that will be read soon. It is verified when it is read; errors are left for
    /// then. Takes at most about a tenth of the cache's budget at once. Where the device is slow another thread reads it:
    /// ask for what comes after the next thing, not for the next.
    pub fn prefetch(self, requests: &[(Structure, Sector, u32)]) {
        let pieces: Vec<Piece> =
            requests.iter().map(|(_, sector, length_bytes)| piece((*sector, *length_bytes))).collect();
        if self.volume.cache().is_device_slow()
            && let Some(prefetcher) = self.volume.prefetcher()
        {
            prefetcher.request(pieces);
        } else {
            self.volume.cache().prefetch(pieces.iter().map(std::slice::from_ref));
        }
    }

    fn verifier(self, structure: Structure) -> StructureVerifier<'v> {
        let newest = self.volume.newest_lsn().as_ref();
        StructureVerifier { structure, geometry: self.volume.geometry(), newest: Some(newest) }
    }
}
