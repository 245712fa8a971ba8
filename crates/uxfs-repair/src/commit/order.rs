//! The order of writes, which invariant 1 needs: the mark is durable before the first other byte changes, and the last
//! superblock is written after all others are durable.

use std::ops::Range;

use uxfs_block::{device::BlockDevice, engine::hole_filler::HoleFiller};

use super::{Result, head::Head};

/// Writes the marked superblock, what `others` writes, and the superblock `last`, each durable before the next. Holes of the image file
/// that are written to get room before that; `others` is called twice where there are any.
pub fn in_order(
    device: &dyn BlockDevice,
    head: &Head,
    last: &[u8],
    mut others: impl FnMut(&mut Placer<'_>) -> Result<()>,
) -> Result<()> {
    make_room(device, head, last, &mut others)?;
    let mut placer = Placer { device, filler: None, found: Vec::new() };
    placer.place(0, &head.marked)?;
    device.flush()?;
    others(&mut placer)?;
    device.flush()?;
    placer.place(0, last)?;
    device.flush()?;
    Ok(())
}

/// Gives room to the holes of the image file that [`in_order`] would write to. No byte changes.
///
/// # Errors
/// The host lacks room; the device fails.
pub fn make_room(
    device: &dyn BlockDevice,
    head: &Head,
    last: &[u8],
    mut others: impl FnMut(&mut Placer<'_>) -> Result<()>,
) -> Result<()> {
    let Some(filler) = device.hole_filler() else { return Ok(()) };
    let mut placer = Placer { device, filler: Some(filler), found: Vec::new() };
    placer.place(0, &head.marked)?;
    placer.place(0, last)?;
    others(&mut placer)?;
    placer.filler.map_or(Ok(()), |filler| Ok(filler.finish()?))
}

/// Pieces that are compared before they are written: pages of the host.
const PIECE_BYTES: u64 = 4096;

/// Writes any range, also where the device takes larger units only. Pieces that the device has already are not written: to write
/// zeros again into a hole of an image would need room on the host, which may be full.
#[derive(Debug)]
pub struct Placer<'a> {
    device: &'a dyn BlockDevice,
    /// What is to be written gets room, and nothing is written.
    filler: Option<HoleFiller<'a>>,
    found: Vec<u8>,
}

impl Placer<'_> {
    /// Writes `bytes` at `offset_bytes`. What lies around them in the device's units is read and written as it is.
    pub fn place(&mut self, offset_bytes: u64, bytes: &[u8]) -> Result<()> {
        let unit = u64::from(self.device.alignment().offset_bytes).max(1);
        let end_bytes = offset_bytes.saturating_add(bytes.len() as u64);
        let start = offset_bytes - offset_bytes % unit;
        let end = end_bytes.checked_next_multiple_of(unit).unwrap_or(u64::MAX).min(self.device.size_bytes());
        let is_whole = (start, end) == (offset_bytes, end_bytes);
        self.found.clear();
        self.found.resize(usize::try_from(end.saturating_sub(start)).unwrap_or_default(), 0);
        match self.device.read(start, &mut self.found) {
            Ok(()) => {}
            // Sectors that cannot be read are written as a whole.
            Err(_) if is_whole => return self.write(start, bytes, 0..bytes.len()),
            Err(error) => return Err(error.into()),
        }
        if is_whole {
            return self.write_differences(start, bytes, unit.max(PIECE_BYTES));
        }
        let mut new = self.found.clone();
        let before = usize::try_from(offset_bytes - start).unwrap_or_default();
        if let Some(place) = new.get_mut(before..before.saturating_add(bytes.len())) {
            place.copy_from_slice(bytes);
        }
        self.write_differences(start, &new, unit.max(PIECE_BYTES))
    }

    /// Writes what differs from the bytes that were found, in runs of pieces.
    fn write_differences(&mut self, start: u64, new: &[u8], piece_bytes: u64) -> Result<()> {
        let (mut run, mut at): (Option<usize>, usize) = (None, 0);
        while at < new.len() {
            let left = piece_bytes - start.saturating_add(at as u64) % piece_bytes;
            let end = at.saturating_add(usize::try_from(left).unwrap_or(usize::MAX)).min(new.len());
            let is_different = new.get(at..end) != self.found.get(at..end);
            if is_different {
                run.get_or_insert(at);
            } else if let Some(from) = run.take() {
                self.write(start, new, from..at)?;
            }
            at = end;
        }
        run.map_or(Ok(()), |from| self.write(start, new, from..new.len()))
    }

    fn write(&mut self, start: u64, new: &[u8], range: Range<usize>) -> Result<()> {
        let offset_bytes = start.saturating_add(range.start as u64);
        if let Some(filler) = &mut self.filler {
            filler.fill(offset_bytes..start.saturating_add(range.end as u64));
            return Ok(());
        }
        Ok(self.device.write(offset_bytes, new.get(range).unwrap_or_default())?)
    }
}
