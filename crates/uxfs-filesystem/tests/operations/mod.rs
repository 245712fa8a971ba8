//! Random sequences of every operation against a model file system in memory; then `xfs_repair`, the kernel and our own
//! reader say whether image and model are the same.

mod before_logging;
mod given_up;
mod large;
mod one_child;
mod sync;
mod threads;

use std::{path::Path, sync::Arc};

use uxfs_filesystem::filesystem::FileSystem;
use uxfs_filesystem::mount;
use uxfs_lab::crash::{
    consistency,
    generator::Generator,
    geometry::{SHAPES, Shape},
    image::{Image, ImageDevice},
    judge::Chronicle,
    model::Model,
    states::Promise,
    tree::{Tree, facts_of},
    volume::{Volume, mount_options},
};
use uxfs_testkit::{
    judges::{self, Judge},
    manifest::{self, Header},
    mount::{Access, LoopMount},
    seeds::Seed,
    verdict::{kernel_removes_everything, repair_is_silent, same},
    walk,
};

const OPERATIONS: usize = 2000;

fn model_of(file_system: &FileSystem) -> Model {
    let root = file_system.root().unwrap();
    Model::new(facts_of(file_system, &root).unwrap())
}

/// Does random operations in bulk mode; what is there afterwards is what the model says.
fn run(shape: &Shape, seed: u64, operations: usize) -> (Image, usize) {
    let device = Arc::new(ImageDevice::new(shape.make().unwrap()));
    let file_system = FileSystem::mount_bulk(device.clone(), &mount_options(2)).unwrap();
    let mut model = model_of(&file_system);
    let mut generator = Generator::new(seed, |kind| shape.allows(kind));
    let volume = Volume::new(&file_system);
    for number in 0..operations {
        let operation = generator.next(&model);
        let outcome = volume
            .perform(number, &operation, &model)
            .unwrap_or_else(|error| panic!("{shape}, seed {seed}, {number}: {operation:?}: {error}"));
        model.apply(number, &operation, outcome);
    }
    volume.close_all().unwrap();
    model.close_all();
    drop(volume);
    file_system.close().unwrap();
    drop(file_system);
    let image = device.image();
    let read =
        mount::open_volume(Arc::new(ImageDevice::read_only(image.clone())), &mount_options(2)).unwrap();
    let tree = Tree::read(&read).unwrap();
    consistency::check(&read, &tree).unwrap_or_else(|error| panic!("{shape}, seed {seed}: {error:#}"));
    let files = tree.files.len();
    let chronicle = Chronicle::new(operations, model);
    let promise = Promise { fewest: operations, most: operations, contents: operations };
    chronicle.judge(&tree, &promise).unwrap_or_else(|error| panic!("{shape}, seed {seed}: {error}"));
    (image, files)
}

fn judge(path: &Path) {
    repair_is_silent(path).unwrap();
    let header = |judge: &str| Header { image: "image".into(), judge: judge.into(), made_by: "test".into() };
    let ours = walk::from_image(path, header("uxfs")).unwrap();
    let mount = LoopMount::new(path, Access::ReadOnly).unwrap();
    let kernel = manifest::from_mount(mount.path(), header("kernel")).unwrap();
    mount.unmount().unwrap();
    same(&kernel, &ours).unwrap();
}

#[test]
fn random_operations_leave_what_the_model_says() {
    let test = "random_operations_leave_what_the_model_says";
    let has_judges = judges::all_present(&[Judge::XfsRepair, Judge::XfsIo, Judge::Kernel], test);
    let folder = tempfile::tempdir().unwrap();
    let first = Seed::from_environment(test, 1);
    let mut random = first.random();
    for shape in &SHAPES {
        let seed = random.next_u64() >> 32;
        let (image, files) = run(shape, seed, OPERATIONS);
        if !has_judges {
            continue;
        }
        let path = folder.path().join("image");
        image.save(&path).unwrap();
        judge(&path);
        kernel_removes_everything(&path, seed).unwrap();
        let what = format!("{OPERATIONS} random operations, {shape}: {files} files");
        judges::judged("kernel and xfs_repair", &what);
    }
}
