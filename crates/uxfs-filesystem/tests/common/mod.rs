//! Images for tests: kernel-made ones, and the same with some bytes changed.

use std::sync::{Arc, Mutex, OnceLock};

use uxfs_block::device::{BlockDevice, DeviceError, DeviceOperation};
use uxfs_engine::options::MountOptions;
use uxfs_filesystem::mount;
use uxfs_format::checksum;
use uxfs_volume::{tolerant::TolerantOptions, volume::Volume};

/// `testdata/inode_forms/image.zst`, unpacked once.
pub fn inode_forms() -> Arc<Vec<u8>> {
    static IMAGE: OnceLock<Arc<Vec<u8>>> = OnceLock::new();
    let unpack = || {
        let packed = include_bytes!("../../testdata/inode_forms/image.zst");
        Arc::new(zstd::decode_all(packed.as_slice()).unwrap())
    };
    Arc::clone(IMAGE.get_or_init(unpack))
}

/// `testdata/names/image.zst`, unpacked once.
pub fn names() -> Arc<Vec<u8>> {
    static IMAGE: OnceLock<Arc<Vec<u8>>> = OnceLock::new();
    let unpack = || {
        let packed = include_bytes!("../../testdata/names/image.zst");
        Arc::new(zstd::decode_all(packed.as_slice()).unwrap())
    };
    Arc::clone(IMAGE.get_or_init(unpack))
}

/// `testdata/names/case_folded.zst`.
pub fn case_folded() -> Arc<Vec<u8>> {
    let packed = include_bytes!("../../testdata/names/case_folded.zst");
    Arc::new(zstd::decode_all(packed.as_slice()).unwrap())
}

/// Bytes in memory, some of them changed.
#[derive(Debug)]
pub struct PatchedDevice {
    image: Arc<Vec<u8>>,
    patches: Mutex<Vec<(usize, Vec<u8>)>>,
    bad_byte: Mutex<Option<usize>>,
}

impl PatchedDevice {
    pub fn new(image: Arc<Vec<u8>>) -> Self {
        Self { image, patches: Mutex::default(), bad_byte: Mutex::default() }
    }

    /// Lets `change` change the bytes at `offset`, and seals them again.
    pub fn patch(&self, offset: usize, length: usize, checksum_offset: u32, change: impl FnOnce(&mut [u8])) {
        let mut bytes = vec![0; length];
        self.read(offset as u64, &mut bytes).unwrap();
        change(&mut bytes);
        assert!(checksum::seal(&mut bytes, checksum_offset));
        self.patches.lock().unwrap().push((offset, bytes));
    }

    /// Lets every read of this byte fail.
    pub fn fail_at(&self, offset: usize) {
        *self.bad_byte.lock().unwrap() = Some(offset);
    }

    pub fn mount(self) -> Volume {
        mount(Arc::new(self))
    }

    pub fn open_tolerantly(self) -> Volume {
        Volume::open_tolerantly(Arc::new(self), &TolerantOptions::default()).unwrap()
    }
}

pub fn mount(device: Arc<dyn BlockDevice>) -> Volume {
    let options = MountOptions { cache_budget_bytes: Some(16 << 20), ..MountOptions::default() };
    mount::open_volume(device, &options).unwrap()
}

impl BlockDevice for PatchedDevice {
    fn size_bytes(&self) -> u64 {
        self.image.len() as u64
    }

    fn engine(&self) -> &'static str {
        "patched memory"
    }

    fn read(&self, offset_bytes: u64, buffer: &mut [u8]) -> Result<(), DeviceError> {
        let (start, length) = (offset_bytes as usize, buffer.len());
        let outside = || DeviceError::outside(DeviceOperation::Read, offset_bytes, length as u64);
        let bytes = self.image.get(start..start.saturating_add(length)).ok_or_else(outside)?;
        if self.bad_byte.lock().unwrap().is_some_and(|bad| (start..start + length).contains(&bad)) {
            return Err(outside());
        }
        buffer.copy_from_slice(bytes);
        for (offset, patch) in self.patches.lock().unwrap().iter() {
            let (from, to) = (start.max(*offset), (start + length).min(offset + patch.len()));
            if from < to {
                buffer[from - start..to - start].copy_from_slice(&patch[from - offset..to - offset]);
            }
        }
        Ok(())
    }

    fn write(&self, offset_bytes: u64, bytes: &[u8]) -> Result<(), DeviceError> {
        Err(DeviceError::outside(DeviceOperation::Write, offset_bytes, bytes.len() as u64))
    }

    fn flush(&self) -> Result<(), DeviceError> {
        Ok(())
    }

    fn discard(&self, offset_bytes: u64, length_bytes: u64) -> Result<(), DeviceError> {
        Err(DeviceError::outside(DeviceOperation::Discard, offset_bytes, length_bytes))
    }
}
