//! An image with quota inodes, made here: the kernels that tests run on have no quotas, and no tool makes records without one.
//!
//! The inodes are ordinary files, found by name too, which quota inodes are not: what edits must leave alone, and readers meet, is
//! the same.

use std::{path::Path, sync::Arc};

use anyhow::{Context, Result};
use uxfs_block::device::BlockDevice;
use uxfs_engine::{
    bulk::create::NewKind,
    options::{Clock, Generations, MountOptions},
};
use uxfs_filesystem::{file::Touch, filesystem::FileSystem, operations::create::NewFile};
use uxfs_format::{
    checksum,
    field_table::OnDisk,
    geometry::Geometry,
    quota::QuotaFlags,
    superblock::{CHECKSUM_OFFSET_BYTES, Superblock},
};

use crate::{
    crash::{
        geometry::{NOW, Shape},
        image::ImageDevice,
    },
    fuzz::quota,
};

/// Name of the image for `--image`.
pub const NAME: &str = "quota";
/// Blocks of records of each inode.
const BLOCKS: u32 = 3;

/// Makes the image.
///
/// # Errors
/// The file cannot be written.
pub fn make(path: &Path) -> Result<()> {
    let image = Shape::named("default").context("a shape")?.make()?;
    let device: Arc<ImageDevice> = Arc::new(ImageDevice::new(image));
    let options = MountOptions {
        generations: Generations::REPRODUCIBLE,
        clock: Clock::Fixed(NOW),
        ..MountOptions::default()
    };
    let filesystem = FileSystem::mount_logged(Arc::clone(&device) as Arc<dyn BlockDevice>, &options)?;
    let geometry = filesystem.geometry().clone();
    let root = filesystem.open_root()?;
    let mut inodes = Vec::new();
    for name in [b"user", b"grup", b"proj"] {
        let file = filesystem.create(&root, name, &NewFile::new(NewKind::Regular, 0))?;
        for block in 0..BLOCKS {
            let per_block = (geometry.block_size() / uxfs_format::quota::QuotaRecord::SIZE_BYTES) as u32;
            let bytes = quota::block(block * per_block, &geometry);
            let offset = u64::from(block * geometry.block_size_bytes);
            filesystem.write(&file, offset, &bytes, Touch::NOTHING)?;
        }
        filesystem.free_preallocation(&file)?;
        inodes.push(file.number().get());
    }
    for name in 0..40 {
        let name = format!("a file beside {name}");
        let file = filesystem.create(&root, name.as_bytes(), &NewFile::new(NewKind::Regular, 0o644))?;
        filesystem.write(&file, 0, name.as_bytes(), Touch::NOTHING)?;
    }
    drop(root);
    filesystem.close()?;
    for group in geometry.groups() {
        let sector = geometry.sector_of_group_header(group, 0).context("a superblock")?;
        let mut bytes = vec![0; geometry.sector_size_bytes as usize];
        device.read(Geometry::byte_of_sector(sector), &mut bytes)?;
        let superblock = Superblock::prefix_of_mut(&mut bytes).context("a superblock")?;
        superblock.user_quota_inode.set(inodes[0]);
        superblock.group_quota_inode.set(inodes[1]);
        superblock.project_quota_inode.set(inodes[2]);
        superblock.quota_flags.set(QuotaFlags::all().bits() & 0x07cf);
        checksum::seal(&mut bytes, CHECKSUM_OFFSET_BYTES);
        device.write(Geometry::byte_of_sector(sector), &bytes)?;
    }
    device.image().save(path)
}

#[cfg(test)]
mod tests {
    use uxfs_format::fault::Structure;
    use uxfs_testkit::{judges::Judge, require, structures};

    use super::*;

    #[test]
    fn records_are_listed_and_read_by_xfs_db() {
        require!(Judge::XfsDb);
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("image");
        make(&path).unwrap();
        let device = ImageDevice::read_only(crate::crash::image::Image::load(&path).unwrap());
        let (geometry, instances) = structures::list(&device).unwrap();
        let records: Vec<_> =
            instances.iter().filter(|instance| instance.structure == Structure::Quota).collect();
        assert_eq!(records.len(), 3 * 3 * (geometry.block_size() / 136));
        let output = Judge::XfsDb.command().args(["-r", "-c", "dquot -u 7", "-c", "p"]).arg(&path).output();
        let words = String::from_utf8(output.unwrap().stdout).unwrap();
        assert!(words.contains("diskdq.id = 7") && words.contains("(correct)"), "{words}");
    }
}
