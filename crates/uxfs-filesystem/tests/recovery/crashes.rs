//! What a crash can leave of a workload, and what a mount makes of each state.

use std::{ops::ControlFlow, sync::Arc};

use uxfs_block::device::BlockDevice;
use uxfs_engine::options::{LogOptions, MountOptions};
use uxfs_filesystem::{filesystem::FileSystem, recovery::mount_recovered};
use uxfs_lab::crash::{
    image::{Image, ImageDevice},
    recording::RecordingDevice,
    states::{CrashState, Plan, visit},
};
use uxfs_testkit::image::TestImage;
use uxfs_volume::error::Result;
use uxfs_volume::volume::Volume;

fn options() -> MountOptions {
    MountOptions { cache_budget_bytes: Some(16 << 20), ..MountOptions::default() }
}

/// Records the writes of `change` to the image, which is not closed. Checkpoints are written only on request.
pub fn record(image: &TestImage, change: impl FnOnce(&FileSystem)) -> Arc<RecordingDevice> {
    let device = Arc::new(RecordingDevice::new(Image::load(&image.path).unwrap()));
    let log = LogOptions { has_background: false, ..LogOptions::default() };
    let file_system = FileSystem::mount_logged(device.clone(), &MountOptions { log, ..options() }).unwrap();
    change(&file_system);
    assert_eq!(file_system.journal_counters().overruns, 0);
    device
}

/// Recovers each state in memory, and looks at it. Gives how many there were.
pub fn in_each_state(
    device: &RecordingDevice,
    plan: &Plan,
    mut look: impl FnMut(&CrashState, &Volume) -> Result<()>,
) -> u32 {
    let mut states = 0;
    let _ = visit(&device.history(), plan, &mut |state| {
        let read: Arc<dyn BlockDevice> = Arc::new(ImageDevice::read_only(state.image.clone()));
        let looked = mount_recovered(&read, &options()).and_then(|(read, _)| look(&state, &read));
        looked.unwrap_or_else(|error| panic!("state {} ({:?}): {error}", state.number, state.kind));
        states += 1;
        ControlFlow::Continue(())
    });
    states
}

/// How many names the directory `directory` has, 0 where it is not there. Each is found, too.
pub fn names_of(file_system: &Volume) -> Result<u32> {
    let root = file_system.root()?;
    let Some(found) = file_system.lookup(&root, b"directory")? else { return Ok(0) };
    let directory = file_system.inode(found.inode)?;
    let mut reader = file_system.open_directory(&directory, 0)?;
    let mut names = 0;
    while let Some(entry) = reader.next_entry()? {
        let found = file_system.lookup(&directory, entry.name)?;
        assert_eq!(found.unwrap().inode, entry.inode);
        names += 1;
    }
    Ok(names)
}
