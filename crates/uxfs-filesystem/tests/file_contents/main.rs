//! Contents of files that are changed, judged by a model, our own reader, `xfs_repair` and the kernel.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic)]

mod crash;
mod errors;
mod full;
mod limits;
mod logged;
mod many;
mod model;
mod no_intents;
mod one_file;
mod random;
mod staged;

use uxfs_testkit::{
    image::TestImage,
    judges::{Judge, judged},
    mount::{Access, LoopMount},
};

use self::model::Model;

/// Numbers that one seed decides.
pub struct Random(u64);

impl Random {
    /// From a seed.
    pub fn new(seed: u64) -> Self {
        Self(seed | 1)
    }

    /// One below `end`.
    pub fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut word = self.0;
        word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (word ^ (word >> 31)) % end
    }
}

/// The kernel reads in the files what the models hold.
pub fn linux_reads(image: &TestImage, models: &[Model]) {
    linux_reads_as(image, models, Access::ReadOnly);
}

/// The same, after it has recovered what the log holds.
pub fn linux_recovers(image: &TestImage, models: &[Model]) {
    linux_reads_as(image, models, Access::ReadWrite);
}

fn linux_reads_as(image: &TestImage, models: &[Model], access: Access) {
    if !Judge::Kernel.is_present() {
        return;
    }
    let mount = LoopMount::new(&image.path, access).unwrap();
    for (index, model) in models.iter().enumerate() {
        let bytes = std::fs::read(mount.join(format!("file-{index}"))).unwrap();
        assert!(bytes == model.bytes, "file {index}: the kernel reads other bytes");
    }
    mount.unmount().unwrap();
    judged("kernel", &format!("{} files read", models.len()));
}
