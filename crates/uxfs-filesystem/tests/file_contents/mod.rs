//! Contents of files that are changed, judged by a model, our own reader, `xfs_repair` and the kernel.

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
    seeds::Random,
};

use self::model::Model;

/// The kernel reads in the files what the models hold.
pub fn linux_reads(image: &TestImage, models: &[Model]) {
    linux_reads_as(image, models, Access::ReadOnly);
}

/// The same, after it has recovered what the log holds.
pub fn linux_recovers(image: &TestImage, models: &[Model]) {
    linux_reads_as(image, models, Access::ReadWrite);
}

/// Index of the first byte that differs. Compares whole slices first: test programs are not optimised.
pub fn first_difference(found: &[u8], expected: &[u8]) -> Option<usize> {
    let differs = |at: &usize| found.get(*at) != expected.get(*at);
    (found != expected).then(|| (0..found.len().max(expected.len())).find(differs)).flatten()
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
