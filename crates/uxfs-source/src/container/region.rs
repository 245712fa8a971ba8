//! Bytes of a file, which may hold more than they; and streams that become files.

use std::{
    fs::File,
    io::{self, Read},
    ops::Range,
    os::fd::AsFd,
    path::Path,
    sync::Arc,
};

use uxfs_block::spill::sparse_file::SparseFile;

use crate::{
    content::read_full,
    endless::{MAX_ZEROS_BYTES, refuse_device, refuse_device_on_standard_input},
    error::{ArchiveFault, Shown, SourceError},
    packing::{MAGIC_BYTES, Packing, Unpacked, unpack},
};

/// Read at once.
const BUFFER_BYTES: usize = 256 << 10;

/// Bytes of a file.
#[derive(Debug, Clone)]
pub(crate) struct Region {
    pub(crate) file: Arc<File>,
    pub(crate) bytes: Range<u64>,
    /// For messages.
    pub(crate) name: Shown,
}

impl Region {
    /// All of a file.
    pub(crate) fn whole(file: File, name: Shown) -> io::Result<Self> {
        let length_bytes = file.metadata()?.len();
        Ok(Self { file: Arc::new(file), bytes: 0..length_bytes, name })
    }

    pub(crate) fn length_bytes(&self) -> u64 {
        self.bytes.end.saturating_sub(self.bytes.start)
    }

    pub(crate) fn packing(&self) -> io::Result<Packing> {
        let mut start = Vec::with_capacity(MAGIC_BYTES);
        self.reader().take(MAGIC_BYTES as u64).read_to_end(&mut start)?;
        Ok(Packing::of(&start))
    }

    /// The bytes one after the other.
    pub(crate) fn reader(&self) -> RegionReader {
        RegionReader { file: Arc::clone(&self.file), left: self.bytes.clone() }
    }

    /// The bytes as they were before they were packed.
    pub(crate) fn unpacked(&self) -> io::Result<Unpacked> {
        unpack(io::BufReader::with_capacity(BUFFER_BYTES, self.reader()))
    }

    pub(crate) fn failed(&self, action: &'static str) -> impl Fn(io::Error) -> SourceError + use<> {
        let name = self.name.clone();
        move |error| SourceError::io(&name.0, action, error)
    }
}

/// Reads a [`Region`] from its beginning, whatever others read of the file meanwhile.
#[derive(Debug)]
pub(crate) struct RegionReader {
    file: Arc<File>,
    left: Range<u64>,
}

impl Read for RegionReader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let left_bytes = usize::try_from(self.left.end.saturating_sub(self.left.start)).unwrap_or(usize::MAX);
        let length = buffer.len().min(left_bytes);
        let Some(part) = buffer.get_mut(..length) else { return Ok(0) };
        let read = read_full(self.file.as_fd(), part, self.left.start)?;
        self.left.start += read as u64;
        Ok(read)
    }
}

/// Copies a stream to a file without a name in the folder for temporary files, so that it can be read again and in any order.
pub(crate) fn spooled(name: Shown, mut stream: impl Read) -> Result<Region, SourceError> {
    let failed = |error| SourceError::io(&name.0, "copy it to a temporary file in TMPDIR", error);
    let mut file = SparseFile::new().map_err(failed)?;
    let mut buffer = Vec::with_capacity(BUFFER_BYTES);
    let (mut is_zeros, mut zeros_bytes) = (true, 0);
    loop {
        buffer.clear();
        // Whole buffers: holes are aligned.
        let read = stream.by_ref().take(BUFFER_BYTES as u64).read_to_end(&mut buffer);
        read.map_err(|error| SourceError::io(&name.0, "read", error))?;
        if buffer.is_empty() {
            break;
        }
        is_zeros &= buffer.iter().all(|byte| *byte == 0);
        zeros_bytes += buffer.len() as u64;
        if is_zeros && zeros_bytes > MAX_ZEROS_BYTES {
            let fault = ArchiveFault::Zeros(MAX_ZEROS_BYTES);
            return Err(SourceError::Archive { archive: name, offset: 0, fault });
        }
        file.append(&buffer).map_err(failed)?;
    }
    let file = file.into_file().map_err(failed)?;
    Region::whole(file, name.clone()).map_err(failed)
}

/// As [`spooled`], of a pipe with a name, or standard input.
pub(crate) fn spooled_path(path: &Path) -> Result<Region, SourceError> {
    if path.as_os_str() == "-" {
        refuse_device_on_standard_input()?;
        return spooled(Shown::from(b"standard input".as_slice()), io::stdin().lock());
    }
    let failed = |error| SourceError::host(path, "open", error);
    refuse_device(path, &std::fs::metadata(path).map_err(failed)?)?;
    let file = File::open(path).map_err(failed)?;
    spooled(Shown::from(path.as_os_str().as_encoded_bytes()), file)
}
