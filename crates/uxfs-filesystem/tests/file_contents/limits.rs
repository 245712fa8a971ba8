//! Limits, hints, and devices that take only whole sectors.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use uxfs_block::{
    device::{Alignment, DeviceError, DeviceOperation, WriteSegment},
    device_wrapper::DeviceWrapper,
};
use uxfs_engine::{inode::edit::EditInode, transaction::Transaction};
use uxfs_filesystem::{
    file::{FileEdit, Touch, share::CloneRange, space::SizeChange},
    filesystem::FileSystem,
    operations::set_attributes::Writer,
};
use uxfs_format::inode::{Fork, InodeFlags};
use uxfs_lab::crash::image::{Image, ImageDevice};
use uxfs_testkit::{
    image::{TestImage, file, mount_options},
    judges::Judge,
    require,
};
use uxfs_volume::{
    error::{Error, OperationError},
    extent_map::Extent,
};

use super::{linux_reads, model::Model, random::World};

fn load(file_system: &FileSystem, index: usize) -> EditInode {
    Transaction::begin(file_system).unwrap().load_inode(file(file_system, index)).unwrap()
}

fn is<T: std::fmt::Debug>(result: Result<T, Error>, expected: OperationError) {
    assert!(matches!(&result, Err(Error::Operation(error)) if *error == expected), "{result:?}");
}

/// Linux clears them whatever size a user asks for.
#[test]
fn truncation_to_the_same_size_clears_set_id_bits() {
    require!(Judge::Mkfs, Judge::XfsRepair);
    let image = TestImage::new("set-id", 320, &[], 1);
    let file_system = image.mount_bulk();
    let mut inode = load(&file_system, 0);
    let user = Touch { time: None, clears_set_id: Some(Writer::OfGroup) };
    for size in [0, 0, 5000, 5000] {
        let mode = inode.core.mode.get();
        inode.core.mode.set(mode & !0o7777 | 0o6755);
        file_system.edit_file(&mut inode).unwrap().set_size(size, Touch::NOTHING).unwrap();
        assert_eq!(inode.permissions(), 0o6755);
        file_system.edit_file(&mut inode).unwrap().set_size(size, user).unwrap();
        assert_eq!(inode.permissions(), 0o755, "{size} bytes");
    }
}

#[test]
fn the_largest_file_and_what_is_refused() {
    require!(Judge::Mkfs, Judge::XfsRepair);
    let image = TestImage::new("limits", 320, &[], 1);
    let file_system = image.mount_bulk();
    let (mut inode, touch) = (load(&file_system, 0), Touch::NOTHING);
    let most = file_system.largest_file_bytes();
    let mut edit: FileEdit<'_> = file_system.edit_file(&mut inode).unwrap();
    assert_eq!(edit.write(most - 3, b"at the end", touch).unwrap(), 3);
    is(edit.write(most, b"x", touch), OperationError::FileTooLarge);
    is(edit.write(u64::MAX, b"x", touch), OperationError::FileTooLarge);
    is(edit.set_size(most + 1, touch), OperationError::FileTooLarge);
    is(edit.allocate_range(most, 1, SizeChange::Keep, touch), OperationError::FileTooLarge);
    is(edit.allocate_range(0, 0, SizeChange::Keep, touch), OperationError::InvalidRange);
    is(edit.insert(0, 4096, touch), OperationError::FileTooLarge);
    is(edit.insert(1, 4096, touch), OperationError::InvalidRange);
    is(edit.collapse(0, 100, touch), OperationError::InvalidRange);
    edit.collapse(4096, (most - 8192) & !4095, touch).unwrap();
    assert!(inode.size_bytes() < 3 * 4096);
    assert_eq!(file_system.seek_data(&inode, 0).unwrap(), 8192);
    let mut bytes = [9; 3];
    let offset = inode.size_bytes() - 3;
    file_system.read_file(&inode, offset, &mut bytes).unwrap();
    assert_eq!(&bytes, b"at ");
    let mut root = load(&file_system, 0);
    root.core.mode = (0o040_755).into();
    is(file_system.edit_file(&mut root), OperationError::IsADirectory);
    file_system.close().unwrap();
    image.must_be_sound();
}

#[test]
fn hints_give_whole_extents() {
    require!(Judge::Mkfs, Judge::XfsRepair);
    let image = TestImage::new("hints", 320, &[], 1);
    let file_system = image.mount_bulk();
    let (mut inode, touch) = (load(&file_system, 0), Touch::NOTHING);
    inode.core.flags = (inode.core.flags() | InodeFlags::EXTENT_SIZE).bits().into();
    inode.core.extent_size_blocks = 16.into();
    let mut edit = file_system.edit_file(&mut inode).unwrap();
    edit.write(40 << 12, &[1; 5000], touch).unwrap();
    edit.write(20 << 12, &[2; 10], touch).unwrap();
    edit.free_preallocation().unwrap();
    let found: Vec<_> = inode
        .extents(Fork::Data)
        .iter()
        .map(|extent| (extent.file_block.get(), extent.length_blocks, extent.is_unwritten))
        .collect();
    // Both pieces of 16 blocks; what lies behind the end goes when the file is closed.
    let expected = [(16, 4, true), (20, 1, false), (21, 11, true), (32, 8, true), (40, 2, false)];
    assert_eq!(found, expected);
    let ends = |pair: &[Extent]| pair[0].start.get() + pair[0].length_blocks == pair[1].start.get();
    let contiguous: Vec<bool> = inode.extents(Fork::Data).to_vec().windows(2).map(ends).collect();
    assert_eq!(contiguous, [true, true, false, true]);
    file_system.close().unwrap();
    image.must_be_sound();
}

/// A device as it is with direct I/O: it takes whole sectors from aligned memory. It can be told to fail.
#[derive(Debug)]
struct Strict {
    device: ImageDevice,
    fails: AtomicBool,
}

impl Strict {
    fn new(image: Image) -> Self {
        Self { device: ImageDevice::new(image), fails: AtomicBool::new(false) }
    }
}

impl DeviceWrapper for Strict {
    type Inner = ImageDevice;

    fn inner(&self) -> &ImageDevice {
        &self.device
    }

    fn required_alignment(&self) -> Alignment {
        Alignment { offset_bytes: 512, memory_bytes: 512 }
    }

    fn before_write(&self, segments: &[WriteSegment<'_>]) -> Result<(), DeviceError> {
        for WriteSegment { offset_bytes, bytes } in segments {
            if self.fails.load(Ordering::Relaxed) {
                return Err(DeviceError::outside(DeviceOperation::Write, *offset_bytes, bytes.len() as u64));
            }
            assert!(offset_bytes.is_multiple_of(512) && bytes.len().is_multiple_of(512));
            assert!(bytes.as_ptr().addr().is_multiple_of(512));
        }
        Ok(())
    }
}

#[test]
fn devices_may_want_whole_sectors() {
    require!(Judge::Mkfs, Judge::XfsRepair);
    let image = TestImage::new("alignment", 64, &[], 3);
    let device = Arc::new(Strict::new(Image::load(&image.path).unwrap()));
    let file_system = FileSystem::mount_logged(device.clone(), &mount_options(16 << 20)).unwrap();
    let mut world = World::new(&file_system, vec![Model::default(); 3], 100, 4711);
    for _ in 0..600 {
        world.step();
    }
    world.check_all();
    let models = world.models;
    file_system.close().unwrap();
    drop(file_system);
    device.device.image().save(&image.path).unwrap();
    image.must_be_sound();
    linux_reads(&image, &models);
}

#[test]
fn contents_that_cannot_be_written_leave_no_trace() {
    require!(Judge::Mkfs, Judge::XfsRepair);
    for is_logged in [false, true] {
        let image = TestImage::new("failing writes", 64, &[], 2);
        let device = Arc::new(Strict::new(Image::load(&image.path).unwrap()));
        let options = mount_options(16 << 20);
        let file_system = match is_logged {
            false => Arc::new(FileSystem::mount_bulk(device.clone(), &options).unwrap()),
            true => FileSystem::mount_logged(device.clone(), &options).unwrap(),
        };
        let [mut one, mut other] = [0, 1].map(|index| load(&file_system, index));
        let touch = Touch::NOTHING;
        file_system.edit_file(&mut one).unwrap().write(0, &[1; 50_000], touch).unwrap();
        let all = CloneRange { source_bytes: 0, target_bytes: 0, length_bytes: 0 };
        file_system.edit_file(&mut other).unwrap().clone_from(Some(&mut one), &all, touch).unwrap();
        let before = [one.data.clone(), other.data.clone()];
        let free_blocks = file_system.free_blocks();
        device.fails.store(true, Ordering::Relaxed);
        // To new blocks, in the same file; to copies of shared ones.
        let to_hole = file_system.edit_file(&mut one).unwrap().write(100_000, &[2; 9000], touch);
        let to_copy = file_system.edit_file(&mut other).unwrap().write(5, &[3; 9000], touch);
        for result in [to_hole, to_copy] {
            assert!(matches!(result, Err(Error::Io(_))), "{result:?}");
        }
        device.fails.store(false, Ordering::Relaxed);
        file_system.force().unwrap();
        file_system.complete_pending_frees().unwrap();
        assert_eq!([&one.data, &other.data], [&before[0], &before[1]]);
        assert_eq!((one.size_bytes(), other.size_bytes()), (50_000, 50_000));
        assert_eq!(file_system.free_blocks(), free_blocks);
        file_system.edit_file(&mut other).unwrap().write(5, &[3; 9000], touch).unwrap();
        file_system.close().unwrap();
        drop(file_system);
        device.device.image().save(&image.path).unwrap();
        image.must_be_sound();
    }
}
