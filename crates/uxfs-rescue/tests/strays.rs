//! Inodes that nothing leads to, in a view of an image as it is. (`uxfs/tests/rescue_hostile.rs` has images of which no repair ends.)

use std::{fs, sync::Arc};

use uxfs_block::{device::BlockDevice, engine::sync::SyncDevice};
use uxfs_extract::directory::{DirectoryOptions, DirectorySink};
use uxfs_format::geometry::Geometry;
use uxfs_rescue::{
    RescueDevice, RescueOptions, State,
    evidence::Evidence,
    rescue,
    view::{Origin, View},
};
use uxfs_testkit::{golden::GoldenImage, image::memory_folder};
use uxfs_volume::{
    error::OperationError,
    tolerant::TolerantOptions,
    volume::{Volume, VolumeOptions},
};

use crate::common::{Collected, DamagedDevice};

/// The inodes of `/directories` and of one directory in it are gone. What was in them comes with all below it, under the names that parent
/// pointers say.
#[test]
fn strays_get_the_names_that_their_parent_pointers_say() {
    let image = GoldenImage::named("default").unwrap().unpacked().unwrap();
    let device = Arc::new(SyncDevice::open_read_only(&image, 0).unwrap());
    let sound = Volume::open(device, &VolumeOptions::default()).unwrap();
    let root = sound.inode(sound.geometry().root_inode).unwrap();
    let directories = sound.inode(sound.lookup(&root, b"directories").unwrap().unwrap().inode).unwrap();
    let mut below = Vec::new();
    let mut listing = uxfs_extract::walk::listing::Listing::new(&sound, Arc::clone(&directories));
    let mut name = Vec::new();
    while let Some(inode) = listing.next(&mut name) {
        below.push((name.clone(), inode.unwrap()));
    }
    assert!(below.len() > 3);

    let mut damaged = DamagedDevice::new(&image);
    let geometry = sound.geometry();
    let place = geometry.inode_place(directories.number).unwrap();
    let sector = geometry.sector_of_group_block(place.group, place.block).unwrap();
    let start = Geometry::byte_of_sector(sector) + u64::from(place.offset_bytes);
    damaged.patches.push((start, vec![0xa5; sound.geometry().inode_size()]));
    let size_bytes = damaged.size_bytes;
    let device = Arc::new(RescueDevice::new(Arc::new(damaged), size_bytes, []));
    let shared: Arc<dyn BlockDevice> = Arc::<RescueDevice>::clone(&device);
    let view = View {
        volume: Volume::open_tolerantly(shared, &TolerantOptions::default()).unwrap(),
        evidence: Evidence::default(),
        origin: Origin::Damaged { error: OperationError::NoSpace.into() },
        before: None,
    };
    let folder = tempfile::tempdir_in(memory_folder()).unwrap();
    let to = folder.path().join("to");
    let mut sink = DirectorySink::create(&to, DirectoryOptions::default()).unwrap();
    let mut collected = Collected::default();
    let summary = rescue(&device, &view, &mut sink, &RescueOptions::default(), &mut collected).unwrap();
    assert!(!summary.is_whole());
    for (name, inode) in &below {
        let path = [format!("lost+found/{inode}.").as_bytes(), name].concat();
        let record = collected.records.iter().find(|record| record.path == path);
        let record = record.unwrap_or_else(|| panic!("nothing of {}", path.escape_ascii()));
        assert_ne!(record.verdict.state, State::Lost, "{:?}", record.verdict);
        let place = to.join(std::str::from_utf8(&path).unwrap());
        let expected = sound.inode(*inode).unwrap();
        assert_eq!(
            place.symlink_metadata().unwrap().is_dir(),
            expected.file_type() == Some(uxfs_volume::inode::FileType::Directory)
        );
        if place.is_dir() {
            let mut listing = uxfs_extract::walk::listing::Listing::new(&sound, expected);
            let mut count = 0;
            while listing.next(&mut Vec::new()).is_some() {
                count += 1;
            }
            assert_eq!(fs::read_dir(&place).unwrap().count(), count, "{}", place.display());
        }
    }
    let lost: Vec<_> =
        collected.records.iter().filter(|record| record.verdict.state == State::Lost).collect();
    assert_eq!(lost.len(), 1, "{lost:?}");
}
