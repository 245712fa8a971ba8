//! Version 2: extents one after the other.

use uxfs_format::units::{SECTOR_SIZE_BYTES, Sector};

use super::{RestoreError, Restored, Target, stream::Stream};
use crate::format::{DumpFlags, EXTENT_HEADER_BYTES, ExtentDevice, ExtentHeader, Header, NeededFlags};

/// Bytes that are read at once.
const PIECE_BYTES: u64 = 1 << 20;
/// The longest sector, which the first extent has to hold.
const MOST_FIRST_SECTORS: u32 = 64 << 10 >> 9;
const EXTENT: &str = "an extent";

/// The header behind its magic number.
pub(super) fn header(stream: &mut Stream<'_>) -> Result<Header, RestoreError> {
    let (version, header, reserved) = Header::decode(&stream.array("its header")?);
    if version != 2 {
        return Err(RestoreError::Version { version });
    }
    if header.needed.contains(NeededFlags::REALTIME_DEVICE) {
        return Err(RestoreError::Unsupported("has metadata of a realtime device"));
    }
    if !header.needed.is_empty() {
        return Err(RestoreError::Unsupported("needs features that are not known"));
    }
    if reserved != 0 {
        return Err(RestoreError::Header("its reserved field is not 0"));
    }
    if header.flags.contains(DumpFlags::EXTERNAL_LOG) {
        return Err(RestoreError::Unsupported("has an external log"));
    }
    Ok(header)
}

pub(super) fn restore(
    stream: &mut Stream<'_>,
    target: &mut dyn Target,
    progress: &mut dyn FnMut(u64),
) -> Result<Restored, RestoreError> {
    let first = ExtentHeader::decode(&stream.array(EXTENT)?);
    if first.device != ExtentDevice::Data || first.start != Sector::new(0) {
        return Err(RestoreError::NoSuperblock("the first extent lies elsewhere"));
    }
    if !(1..=MOST_FIRST_SECTORS).contains(&first.length_sectors) {
        return Err(RestoreError::NoSuperblock("the first extent is too short or too long"));
    }
    let mut bytes = vec![0; first.length_bytes() as usize];
    stream.fill(&mut bytes, EXTENT)?;
    let mut restored = Restored::begin(&bytes, target)?;
    while let Some(header) = stream.next_array::<EXTENT_HEADER_BYTES>(EXTENT)? {
        let extent = ExtentHeader::decode(&header);
        restore_extent(stream, &extent, &mut restored, &mut bytes, target)?;
        progress(restored.bytes);
    }
    Ok(restored)
}

fn restore_extent(
    stream: &mut Stream<'_>,
    extent: &ExtentHeader,
    restored: &mut Restored,
    bytes: &mut Vec<u8>,
    target: &mut dyn Target,
) -> Result<(), RestoreError> {
    // Addresses have 54 bits: this fits.
    let mut start_bytes = extent.start.get() * SECTOR_SIZE_BYTES;
    let fault = match extent.device {
        ExtentDevice::Data if extent.length_sectors == 0 => Some("has no length"),
        ExtentDevice::Data => None,
        ExtentDevice::Log => Some("is of an external log"),
        ExtentDevice::Realtime => Some("is of a realtime device"),
        ExtentDevice::Unknown => Some("is of an unknown device"),
    };
    if let Some(fault) = fault {
        return Err(RestoreError::Extent { start_bytes, fault });
    }
    let mut left = extent.length_bytes();
    restored.check(start_bytes, left)?;
    restored.extents += 1;
    while left > 0 {
        let length = left.min(PIECE_BYTES);
        bytes.resize(length as usize, 0);
        stream.fill(bytes, EXTENT)?;
        restored.put(start_bytes, bytes, target)?;
        start_bytes += length;
        left -= length;
    }
    Ok(())
}
