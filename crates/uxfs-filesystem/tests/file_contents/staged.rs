//! New blocks are filled while no transaction is under way: a checkpoint is written meanwhile, and a crash then loses no block.

use std::sync::{
    Arc, Mutex, OnceLock, Weak,
    atomic::{AtomicBool, Ordering::SeqCst},
    mpsc,
};
use std::time::Duration;

use uxfs_block::{
    device::{BlockDevice, DeviceError, DeviceOperation, WriteSegment},
    device_wrapper::DeviceWrapper,
};
use uxfs_engine::options::LogOptions;
use uxfs_filesystem::{
    file::{Touch, share::CloneRange},
    filesystem::FileSystem,
    inode::table::InodeHandle,
    recovery::mount_recovered,
};
use uxfs_lab::crash::{
    consistency,
    image::{Image, ImageDevice},
    tree::Tree,
};
use uxfs_testkit::{
    image::{TestImage, file, mount_options},
    judges::{Judge, judged},
    require,
};

use super::crash::{linux_must_recover, mount_device, recovered};

/// The first bytes of the contents whose write is caught.
const CAUGHT: &[u8] = b"these bytes are caught on their way";

/// A device that catches one write of contents: then another thread writes a checkpoint, and the device is copied.
#[derive(Debug)]
struct CatchingDevice {
    inner: ImageDevice,
    file_system: OnceLock<Weak<FileSystem>>,
    caught: Mutex<Option<Image>>,
    fails: AtomicBool,
}

impl CatchingDevice {
    fn catch(&self, bytes: &[u8], offset_bytes: u64) -> Result<(), DeviceError> {
        if !bytes.starts_with(CAUGHT) {
            return Ok(());
        }
        if self.fails.load(SeqCst) {
            return Err(DeviceError::read_only(DeviceOperation::Write, offset_bytes, 1));
        }
        let Some(file_system) = self.file_system.get().and_then(Weak::upgrade) else { return Ok(()) };
        let (done, is_done) = mpsc::channel();
        std::thread::spawn(move || {
            file_system.force().unwrap();
            drop(file_system);
            done.send(()).unwrap();
        });
        is_done.recv_timeout(Duration::from_secs(60)).expect("a checkpoint waits for contents to be written");
        *self.caught.lock().unwrap() = Some(self.inner.image());
        Ok(())
    }
}

impl DeviceWrapper for CatchingDevice {
    type Inner = ImageDevice;

    fn inner(&self) -> &ImageDevice {
        &self.inner
    }

    fn before_write(&self, segments: &[WriteSegment<'_>]) -> Result<(), DeviceError> {
        segments.iter().try_for_each(|segment| self.catch(segment.bytes, segment.offset_bytes))
    }
}

struct Fixture {
    device: Arc<CatchingDevice>,
    file_system: Arc<FileSystem>,
    files: [InodeHandle; 2],
}

impl Fixture {
    /// Two files; the second has what the first has where `is_shared`.
    fn new(options: &[&str], is_immediate: bool, is_shared: bool) -> Self {
        let image = TestImage::new("staged", 48, options, 2);
        let device = Arc::new(CatchingDevice {
            inner: ImageDevice::new(Image::load(&image.path).unwrap()),
            file_system: OnceLock::new(),
            caught: Mutex::new(None),
            fails: AtomicBool::new(false),
        });
        let log = LogOptions { is_immediate, ..LogOptions::default() };
        let file_system = mount_device(device.clone(), log);
        let files = [0, 1].map(|index| file_system.open(file(&file_system, index)).unwrap());
        if is_shared {
            file_system.write(&files[0], 0, &[7; 40_000], Touch::NOTHING).unwrap();
            let all = CloneRange { source_bytes: 0, target_bytes: 0, length_bytes: 0 };
            file_system.clone_range(&files[0], &files[1], &all, Touch::NOTHING).unwrap();
        }
        file_system.force().unwrap();
        device.file_system.set(Arc::downgrade(&file_system)).unwrap();
        Self { device, file_system, files }
    }

    fn contents(&self, index: usize) -> Vec<u8> {
        let mut bytes = vec![0; 50_000];
        let count = self.file_system.read(&self.files[index], 0, &mut bytes).unwrap();
        bytes.truncate(count);
        bytes
    }
}

fn caught_bytes() -> Vec<u8> {
    let mut bytes = CAUGHT.to_vec();
    bytes.resize(9_000, b'x');
    bytes
}

/// Geometries, and whether blocks are copied instead of allocated for a hole.
const CASES: &[(&[&str], bool)] = &[
    (&[], false),
    (&[], true),
    (&["-m", "rmapbt=0"], true),
    (&["-m", "reflink=0,rmapbt=0"], false),
    (&["-b", "size=1024"], true),
];

#[test]
fn a_crash_while_new_blocks_are_filled_loses_none() {
    require!(Judge::Mkfs, Judge::XfsRepair, Judge::Kernel);
    for (options, is_shared) in CASES {
        for is_immediate in [false, true] {
            let what = format!("{options:?}, shared {is_shared}, immediate {is_immediate}");
            let fixture = Fixture::new(options, is_immediate, *is_shared);
            let before = [fixture.contents(0), fixture.contents(1)];
            // Aligned, so that the caught bytes are what is written first.
            let offset = 8192;
            let bytes = caught_bytes();
            fixture.file_system.write(&fixture.files[1], offset, &bytes, Touch::NOTHING).unwrap();
            let crashed = fixture.device.caught.lock().unwrap().take().expect(&what);

            let found = recovered(crashed.clone(), 2, true, &what);
            assert!(found == before, "{what}: the old contents");
            let device: Arc<dyn BlockDevice> = Arc::new(ImageDevice::read_only(crashed.clone()));
            let (_, report) = mount_recovered(&device, &mount_options(16 << 20)).unwrap();
            assert_eq!(
                report.expect("a dirty log").intents.len(),
                1,
                "{what}: the intent to free the blocks"
            );
            linux_must_recover(&crashed, &before, &what);

            // The caught write goes on.
            let mut expected = before[1].clone();
            expected.resize(expected.len().max(offset as usize + bytes.len()), 0);
            expected[offset as usize..offset as usize + bytes.len()].copy_from_slice(&bytes);
            assert!(fixture.contents(1) == expected, "{what}");
            let Fixture { device, file_system, files } = fixture;
            file_system.force().unwrap();
            drop(files);
            let found = recovered(device.inner.image(), 2, true, &what);
            assert!(found == [before[0].clone(), expected], "{what}: afterwards");
            drop(file_system);
            judged("kernel", &what);
        }
    }
}

#[test]
fn blocks_that_cannot_be_filled_become_free_again() {
    require!(Judge::Mkfs);
    for (options, is_shared) in CASES {
        let fixture = Fixture::new(options, false, *is_shared);
        let before = fixture.contents(1);
        fixture.device.fails.store(true, SeqCst);
        let free_blocks =
            fixture.file_system.free_blocks() + fixture.file_system.logged().unwrap().freed_blocks();
        let written = fixture.file_system.write(&fixture.files[1], 8192, &caught_bytes(), Touch::NOTHING);
        assert!(written.is_err(), "{written:?}");
        assert!(fixture.contents(1) == before);
        let file_system = &fixture.file_system;
        assert_eq!(file_system.free_blocks() + file_system.logged().unwrap().freed_blocks(), free_blocks);
        // The file system goes on.
        fixture.device.fails.store(false, SeqCst);
        file_system.write(&fixture.files[1], 8192, b"other bytes", Touch::NOTHING).unwrap();
        file_system.force().unwrap();
        let device: Arc<dyn BlockDevice> = Arc::new(ImageDevice::read_only(fixture.device.inner.image()));
        let (volume, _) = mount_recovered(&device, &mount_options(16 << 20)).unwrap();
        consistency::check(&volume, &Tree::read(&volume).unwrap()).unwrap();
    }
}
