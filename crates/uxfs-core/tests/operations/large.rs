//! Operations on what is large, with a small log: no transaction takes more of it than it has claimed. Debug builds stop
//! where one does.

use std::sync::Arc;

use uxfs_core::{
    attribute::edit::SetMode,
    file::{Touch, exchange::ExchangeRange, share::CloneRange, space::SizeChange},
    filesystem::FileSystem,
    inode::table::InodeHandle,
    operations::{create::NewKind, new_file::NewFile, rename::RenameOptions},
};
use uxfs_testkit::{
    crash::{consistency, geometry::Shape, image::ImageDevice, tree::Tree, volume::mount_options},
    judges::Judge,
    require,
    verdict::repair_is_silent,
};

const SHAPES: [(&str, u64); 5] = [
    ("default", 2500),
    ("block-1k", 9000),
    ("plain", 2500),
    ("smallest-log", 2500),
    ("log-stripe-64k", 2500),
];

struct Large {
    file_system: Arc<FileSystem>,
    device: Arc<ImageDevice>,
    shape: &'static str,
}

impl Large {
    fn new(shape: &'static str) -> Self {
        let device = Arc::new(ImageDevice::new(Shape::named(shape).unwrap().make().unwrap()));
        let file_system = FileSystem::mount_logged(device.clone(), &mount_options(8)).unwrap();
        Self { file_system, device, shape }
    }

    fn file(&self, name: &str) -> InodeHandle {
        let root = self.file_system.open_root().unwrap();
        self.file_system.create(&root, name.as_bytes(), &NewFile::new(NewKind::Regular, 0o600)).unwrap()
    }

    fn remove(&self, name: &str) {
        let root = self.file_system.open_root().unwrap();
        self.file_system.unlink(&root, name.as_bytes()).unwrap();
    }

    fn block(&self) -> u64 {
        self.file_system.geometry().block_size() as u64
    }

    /// All is sound, and no claim was too small.
    fn end(self) {
        assert_eq!(self.file_system.journal_counters().overruns, 0, "{}", self.shape);
        self.file_system.close().unwrap();
        let image = self.device.image();
        let device = Arc::new(ImageDevice::read_only(image.clone()));
        let read = FileSystem::mount(device, &mount_options(8)).unwrap();
        consistency::check(&read, &Tree::read(&read).unwrap()).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("image");
        image.save(&path).unwrap();
        repair_is_silent(&path).unwrap();
    }
}

#[test]
fn files_of_very_many_extents() {
    require!(Judge::XfsRepair);
    for (shape, extents) in SHAPES {
        let large = Large::new(shape);
        let (file_system, block, touch) = (&large.file_system, large.block(), Touch::NOTHING);
        let files = ["one", "other"].map(|name| large.file(name));
        for number in 0..extents {
            for (file, byte) in files.iter().zip([1, 2]) {
                let bytes = vec![byte + (number % 100) as u8 * 2; block as usize];
                file_system.write(file, 2 * number * block, &bytes, touch).unwrap();
            }
        }
        let [one, other] = &files;
        let end = 2 * extents * block;
        let has = |feature: bool, what: &dyn Fn()| {
            if feature {
                what()
            }
        };
        let features = file_system.geometry().features;
        file_system.insert_range(one, 5 * block, 3 * block, touch).unwrap();
        file_system.collapse_range(one, 7 * block, 9 * block, touch).unwrap();
        file_system.zero_range(other, 3, extents * block / 2, SizeChange::Keep, touch).unwrap();
        file_system.allocate_range(other, extents * block, 200 * block, SizeChange::Keep, touch).unwrap();
        has(features.has_reflink(), &|| {
            let copy = large.file("copy");
            let all = CloneRange { source_bytes: 0, target_bytes: 0, length_bytes: 0 };
            file_system.clone_range(one, &copy, &all, touch).unwrap();
            file_system.write(&copy, extents * block, &vec![9; 300 * block as usize], touch).unwrap();
            file_system.punch_range(&copy, block, extents * block / 2, touch).unwrap();
            let range = ExchangeRange { length_bytes: extents * block, ..ExchangeRange::default() };
            file_system.exchange_files(one, other, &range, touch).unwrap();
            file_system.set_size(&copy, extents * block + 5, touch).unwrap();
            file_system.unshare_range(&copy, 0, extents * block, SizeChange::Keep, touch).unwrap();
        });
        file_system.set_size(one, end / 3, touch).unwrap();
        file_system.punch_range(other, 0, end / 4, touch).unwrap();
        large.remove("one");
        drop(files);
        file_system.inactivate_pending().unwrap();
        large.remove("other");
        has(features.has_reflink(), &|| large.remove("copy"));
        large.end();
    }
}

#[test]
fn files_of_very_many_large_attributes() {
    require!(Judge::XfsRepair);
    for (shape, _) in SHAPES {
        let large = Large::new(shape);
        let file_system = &large.file_system;
        let file = large.file("file");
        let name = |number: usize| format!("trusted.name-{number:0>60}");
        for number in 0..2000 {
            let value = vec![number as u8; 500 + number % 50 * 200];
            file_system.set_xattr(&file, name(number).as_bytes(), &value, SetMode::Upsert).unwrap();
        }
        for number in (0..2000).step_by(3) {
            let value = vec![number as u8; 500 + number % 40 * 300];
            file_system.set_xattr(&file, name(number).as_bytes(), &value, SetMode::Upsert).unwrap();
        }
        for number in (0..2000).step_by(5) {
            file_system.remove_xattr(&file, name(number).as_bytes()).unwrap();
        }
        drop(file);
        large.remove("file");
        large.end();
    }
}

#[test]
fn directories_of_very_many_names() {
    require!(Judge::XfsRepair);
    for (shape, _) in SHAPES {
        let large = Large::new(shape);
        let file_system = &large.file_system;
        let root = file_system.open_root().unwrap();
        let new = NewFile::new(NewKind::Directory, 0o700);
        let [one, other] = [b"one", b"two"].map(|name| file_system.create(&root, name, &new).unwrap());
        let file = large.file("file");
        let name = |number: u64| format!("{number:0>240}");
        for number in 0..20_000 {
            file_system.link(&file, &one, name(number * 7919 % 20_000).as_bytes()).unwrap();
        }
        let exchange = RenameOptions { exchange: true, ..RenameOptions::default() };
        for number in 0..10_000 {
            let old = name(number * 2);
            file_system
                .rename(&one, old.as_bytes(), &other, old.as_bytes(), &RenameOptions::default())
                .unwrap();
            if number % 10 == 0 {
                let new = name(number * 2 + 1);
                file_system.rename(&one, new.as_bytes(), &other, old.as_bytes(), &exchange).unwrap();
            }
        }
        for (directory, shift) in [(&one, 1), (&other, 0)] {
            for number in 0..10_000 {
                file_system.unlink(directory, name(number * 2 + shift).as_bytes()).unwrap();
            }
        }
        drop((file, one, other));
        large.remove("file");
        large.end();
    }
}
