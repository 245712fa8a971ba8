//! The order of writes, which invariant 1 needs: the mark is durable before the first other byte changes, and the last
//! superblock is written after all others are durable.

use uxfs_block::device::BlockDevice;

use super::{Result, head::Head};

/// Writes the marked superblock, what `others` writes, and the superblock `last`, each durable before the next.
pub fn in_order(
    device: &dyn BlockDevice,
    head: &Head,
    last: &[u8],
    others: impl FnOnce(&mut Placer<'_>) -> Result<()>,
) -> Result<()> {
    let mut placer = Placer { device, widened: Vec::new() };
    placer.place(0, &head.marked)?;
    device.flush()?;
    others(&mut placer)?;
    device.flush()?;
    placer.place(0, last)?;
    device.flush()?;
    Ok(())
}

/// Writes any range, also where the device takes larger units only.
#[derive(Debug)]
pub struct Placer<'a> {
    device: &'a dyn BlockDevice,
    widened: Vec<u8>,
}

impl Placer<'_> {
    /// Writes `bytes` at `offset_bytes`. What lies around them in the device's units is read and written as it is.
    pub fn place(&mut self, offset_bytes: u64, bytes: &[u8]) -> Result<()> {
        let unit = u64::from(self.device.alignment().offset_bytes).max(1);
        let end_bytes = offset_bytes.saturating_add(bytes.len() as u64);
        let start = offset_bytes - offset_bytes % unit;
        let end = end_bytes.checked_next_multiple_of(unit).unwrap_or(u64::MAX).min(self.device.size_bytes());
        if (start, end) == (offset_bytes, end_bytes) {
            return Ok(self.device.write(offset_bytes, bytes)?);
        }
        let before = usize::try_from(offset_bytes - start).unwrap_or_default();
        self.widened.resize(usize::try_from(end.saturating_sub(start)).unwrap_or_default(), 0);
        self.device.read(start, &mut self.widened)?;
        if let Some(place) = self.widened.get_mut(before..before.saturating_add(bytes.len())) {
            place.copy_from_slice(bytes);
        }
        Ok(self.device.write(start, &self.widened)?)
    }
}
