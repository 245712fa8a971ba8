//! From a number to an inode.

use std::sync::Arc;

use uxfs_format::{
    fault::{Corruption, Location, Structure},
    geometry::{Geometry, InodeLocation},
    inode::{InodeCore, verify_inode},
    units::{InodeNumber, SECTOR_SIZE_BYTES, Sector},
};

use super::Inode;
use crate::{
    error::{Error, OperationError, Result},
    volume::{MetadataBuffer, Volume},
};

/// Where an inode lies, in the terms of a read.
pub struct Cluster {
    /// Its first sector.
    pub sector: Sector,
    /// Its length.
    pub length_bytes: u32,
    /// Where the inode begins in the cluster.
    pub offset_bytes: usize,
}

impl Volume {
    /// Reads, verifies and decodes an inode in use.
    ///
    /// The number is taken on trust: one that lies in blocks which hold no inodes is reported as corruption of an
    /// inode cluster. Numbers from outside are asked about first, in the inode index.
    ///
    /// # Errors
    /// [`OperationError::NoSuchInode`] for a number that names a free inode or none that can be; damage; the device.
    pub fn inode(&self, number: InodeNumber) -> Result<Arc<Inode>> {
        Ok(Arc::new(self.inode_and_cluster(number)?.0))
    }

    /// As [`inode`](Self::inode), an inode of the caller's own, and the cluster that holds it.
    ///
    /// # Errors
    /// As there.
    pub fn inode_and_cluster(&self, number: InodeNumber) -> Result<(Inode, Cluster)> {
        let (place, cluster) = self.inode_cluster(number)?;
        let buffer = match self.metadata().read(Structure::InodeCluster, cluster.sector, cluster.length_bytes)
        {
            Err(error @ Error::Corrupt(_)) if self.tolerance.is_some() => {
                return inode_beside_damage(self, number).ok_or(error).map(|inode| (inode, cluster));
            }
            buffer => buffer?,
        };
        let (core, bytes) = self.verified_inode(number, place, &buffer, cluster.offset_bytes)?;
        let account = Some(self.cache().memory_account());
        let inode = Inode::decode_counted(bytes, core, self.geometry(), account);
        Ok((inode.ok_or(OperationError::NoSuchInode)?, cluster))
    }

    /// As [`inode`](Self::inode) for a number from outside (a command line, a file handle): asks the inode index first,
    /// so that nothing is taken for an inode which is none.
    ///
    /// # Errors
    /// As there; damage of the inode index.
    pub fn inode_from_outside(&self, number: InodeNumber) -> Result<Arc<Inode>> {
        if !self.groups().is_inode_allocated(number)? {
            return Err(OperationError::NoSuchInode.into());
        }
        self.inode(number)
    }

    /// Brings inodes into the cache that will be read soon, those of a directory for instance. Numbers that can name
    /// no inode are left out; errors are left for the read.
    pub fn prefetch_inodes(&self, numbers: impl IntoIterator<Item = InodeNumber>) {
        let clusters = numbers.into_iter().filter_map(|number| Some(self.inode_cluster(number).ok()?.1));
        let mut requests: Vec<_> =
            clusters.map(|cluster| (Structure::InodeCluster, cluster.sector, cluster.length_bytes)).collect();
        requests.sort_unstable_by_key(|(_, sector, _)| *sector);
        requests.dedup();
        self.metadata().prefetch(&requests);
    }

    /// The bytes of an inode as they lie on disk, read past the cache and not verified: for looking at damage.
    ///
    /// # Errors
    /// [`OperationError::NoSuchInode`] for a number that can name no inode; the device.
    pub fn inode_bytes(&self, number: InodeNumber) -> Result<Box<[u8]>> {
        let geometry = self.geometry();
        let place = geometry.inode_place(number).ok_or(OperationError::NoSuchInode)?;
        let sector =
            geometry.sector_of_group_block(place.group, place.block).ok_or(OperationError::NoSuchInode)?;
        let offset_bytes = Geometry::byte_of_sector(sector).saturating_add(place.offset_bytes.into());
        let mut bytes = vec![0; geometry.inode_size()];
        self.device().read(offset_bytes, &mut bytes)?;
        Ok(bytes.into())
    }

    /// Where an inode lies, and the cluster that holds it.
    ///
    /// # Errors
    /// [`OperationError::NoSuchInode`] for a number that can name no inode.
    pub fn inode_cluster(&self, number: InodeNumber) -> Result<(InodeLocation, Cluster)> {
        let geometry = self.geometry();
        let no_such = || Error::from(OperationError::NoSuchInode);
        let place = geometry.inode_place(number).ok_or_else(no_such)?;
        let (first, length_blocks) =
            geometry.inode_cluster_of(place.group, place.block).ok_or_else(no_such)?;
        let sector = geometry.sector_of_group_block(place.group, first).ok_or_else(no_such)?;
        let blocks_before = place.block.checked_distance_from(first).ok_or_else(no_such)? as usize;
        let cluster = Cluster {
            sector,
            length_bytes: length_blocks << geometry.block_log,
            offset_bytes: (blocks_before << geometry.block_log) + place.offset_bytes as usize,
        };
        Ok((place, cluster))
    }

    /// An inode in use within the buffer of its cluster, verified.
    ///
    /// # Errors
    /// [`OperationError::NoSuchInode`] for a free inode; damage.
    pub fn verified_inode<'b>(
        &self,
        number: InodeNumber,
        place: InodeLocation,
        buffer: &'b MetadataBuffer,
        offset_bytes: usize,
    ) -> Result<(&'b InodeCore, &'b [u8])> {
        let geometry = self.geometry();
        let bytes = buffer.get(offset_bytes..).unwrap_or_default();
        let core = verify_inode(bytes, number, geometry).map_err(|fault| {
            let sector = Sector::new(buffer.sector().get() + offset_bytes as u64 / SECTOR_SIZE_BYTES);
            let location = Location {
                sector: Some(sector),
                group: Some(place.group),
                group_block: Some(place.block),
                ..Location::of_inode(number)
            };
            Corruption::new(Structure::Inode, location, fault)
        })?;
        let bytes = bytes.get(..geometry.inode_size()).ok_or(OperationError::NoSuchInode)?;
        if core.is_free() { Err(OperationError::NoSuchInode.into()) } else { Ok((core, bytes)) }
    }
}

/// A sound inode of a cluster of which others are damaged. `None` where it is not in use, or damaged, too.
fn inode_beside_damage(volume: &Volume, number: InodeNumber) -> Option<Inode> {
    let bytes = volume.inode_bytes(number).ok()?;
    let core = verify_inode(&bytes, number, volume.geometry()).ok().filter(|core| !core.is_free())?;
    Inode::decode_counted(&bytes, core, volume.geometry(), Some(volume.cache().memory_account()))
}
