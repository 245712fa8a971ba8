//! Images to work on, and what must be true of them in the end.

use std::{path::Path, sync::Arc};

use tempfile::TempDir;
use uxfs_engine::options::MountOptions;
use uxfs_filesystem::filesystem::FileSystem;
use uxfs_filesystem::mount;
use uxfs_lab::crash::{consistency, geometry::Shape, image::ImageDevice, tree::Tree};
use uxfs_testkit::{
    judges::{self, Judge},
    manifest::{self, Header},
    mount::{Access, LoopMount},
    verdict::{repair_is_silent, same},
    walk,
};

/// How changes become durable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum How {
    Bulk,
    Logged,
}

/// A file system in memory.
pub struct Volume {
    device: Arc<ImageDevice>,
    pub file_system: Arc<FileSystem>,
}

impl Volume {
    pub fn new(shape: &Shape, how: How) -> Self {
        let device = Arc::new(ImageDevice::new(shape.make().unwrap()));
        let options = MountOptions { cache_budget_bytes: Some(8 << 20), ..MountOptions::default() };
        let file_system = match how {
            How::Bulk => Arc::new(FileSystem::mount_bulk(device.clone(), &options).unwrap()),
            How::Logged => FileSystem::mount_logged(device.clone(), &options).unwrap(),
        };
        Self { device, file_system }
    }

    /// Closes it; `xfs_repair`, the kernel and our own reader say that it is sound. Gives how many files there are.
    pub fn judge(self, test: &str) -> usize {
        let overruns = self.file_system.journal_counters().overruns;
        assert_eq!(overruns, 0, "transactions took more of the log than they asked for");
        self.file_system.close().unwrap();
        let image = self.device.image();
        let device = Arc::new(ImageDevice::read_only(image.clone()));
        let read = mount::open_volume(device, &MountOptions::default()).unwrap();
        let tree = Tree::read(&read).unwrap();
        consistency::check(&read, &tree).unwrap();
        let judges = [Judge::XfsRepair, Judge::XfsIo, Judge::Kernel];
        if judges::all_present(&judges, test) {
            let folder = TempDir::new().unwrap();
            let path = folder.path().join("image");
            image.save(&path).unwrap();
            judge_file(&path);
        }
        tree.files.len()
    }
}

fn judge_file(path: &Path) {
    repair_is_silent(path).unwrap();
    let header = |judge: &str| Header { image: "image".into(), judge: judge.into(), made_by: "test".into() };
    let ours = walk::from_image(path, header("uxfs")).unwrap();
    let mount = LoopMount::new(path, Access::ReadOnly).unwrap();
    let kernel = manifest::from_mount(mount.path(), header("kernel")).unwrap();
    mount.unmount().unwrap();
    same(&kernel, &ours).unwrap();
}
