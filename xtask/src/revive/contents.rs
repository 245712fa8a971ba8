//! Where the contents of files lie. Nothing but the file tells what they were: no repair can know that a damage has overwritten them.

use std::{
    collections::BTreeSet,
    ops::{ControlFlow, Range},
    path::Path,
    sync::Arc,
};

use anyhow::Result;
use uxfs_block::engine::sync::SyncDevice;
use uxfs_format::{
    geometry::Geometry,
    inode::{FileType, Fork},
};
use uxfs_volume::{
    inode::{
        Inode,
        scan::{ScanEvent, ScanOptions, ScannedInode},
    },
    volume::{Volume, VolumeOptions},
};

use super::damage::Patch;

/// The bytes of a sound image that hold contents of regular files, with the inode whose they are.
#[derive(Debug, Default)]
pub struct Contents {
    runs: Vec<(Range<u64>, u64)>,
}

impl Contents {
    /// Of a sound image.
    pub fn locate(image: &Path) -> Result<Self> {
        let volume =
            Volume::open(Arc::new(SyncDevice::open_read_only(image, 0)?), &VolumeOptions::default())?;
        let geometry = volume.geometry();
        let visit = |runs: &mut Vec<(Range<u64>, u64)>, event: ScanEvent<'_>| {
            if let ScanEvent::Inode(ScannedInode { bytes, core: Ok(core), .. }) = event
                && core.file_type() == Some(FileType::Regular)
                && let Some(inode) = Inode::decode(bytes, core, geometry)
            {
                runs.extend(runs_of(&volume, &inode));
            }
            ControlFlow::Continue(())
        };
        let (_, parts) = volume.scan_inodes(&ScanOptions::in_order(), Vec::new, visit);
        Ok(Self { runs: parts.into_iter().flatten().collect() })
    }

    /// Inodes of files of which these patches overwrite contents.
    pub fn overwritten_by(&self, patches: &[Patch]) -> BTreeSet<u64> {
        let is_hit = |run: &Range<u64>| {
            patches.iter().any(|patch| {
                let end = patch.offset_bytes + patch.bytes.len() as u64;
                patch.offset_bytes < run.end && run.start < end
            })
        };
        self.runs.iter().filter(|(run, _)| is_hit(run)).map(|(_, inode)| *inode).collect()
    }
}

fn runs_of(volume: &Volume, inode: &Inode) -> Vec<(Range<u64>, u64)> {
    let geometry = volume.geometry();
    let Ok(map) = volume.extent_map(inode, Fork::Data) else { return Vec::new() };
    let runs = map.iter().filter_map(|extent| {
        let start = Geometry::byte_of_sector(geometry.sector_of_block(extent.start)?);
        Some((start..start + (extent.length_blocks << geometry.block_log), inode.number.get()))
    });
    runs.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_whose_bytes_a_patch_covers() {
        let runs = vec![(100..200, 1), (200..300, 2), (150..250, 3)];
        let patch = |offset_bytes, length| Patch { offset_bytes, bytes: vec![0; length] };
        let inodes = |patches: &[Patch]| -> Vec<u64> {
            Contents { runs: runs.clone() }.overwritten_by(patches).into_iter().collect()
        };
        assert!(inodes(&[patch(0, 100), patch(300, 1)]).is_empty());
        assert_eq!(inodes(&[patch(199, 1)]), [1, 3]);
        assert_eq!(inodes(&[patch(0, 101), patch(250, 10)]), [1, 2]);
    }
}
