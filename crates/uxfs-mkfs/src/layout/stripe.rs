//! The stripe geometry of the data section.

use super::{DeviceFacts, LayoutError, Sizes, Warning};
use crate::options::{Options, grammar::Setting};

/// Unit and width, in blocks; 0 for none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Stripe {
    /// Stripe unit: the part of one disk.
    pub unit_blocks: u32,
    /// Stripe width: the parts of all disks together.
    pub width_blocks: u32,
}

/// Devices below this do not get the stripe that they report.
const SMALL_DEVICE_BYTES: u64 = 1 << 30;

impl Stripe {
    /// From the options, or else from the device.
    ///
    /// # Errors
    /// Numbers that contradict each other or the block size.
    pub fn resolve(
        options: &Options,
        facts: &DeviceFacts,
        sizes: &Sizes,
        data_blocks: u64,
        warnings: &mut Vec<Warning>,
    ) -> Result<Self, LayoutError> {
        match asked(options, sizes)? {
            Some((0, _)) => Ok(Self::default()),
            Some((unit_bytes, width_bytes)) => {
                possible(unit_bytes, width_bytes, sizes).map_err(|reason| LayoutError::Stripe {
                    unit_bytes,
                    width_bytes,
                    reason,
                })?;
                Ok(Self::in_blocks(unit_bytes, width_bytes, sizes))
            }
            None if options.switch(Setting::DataNoAlign, false) => Ok(Self::default()),
            None => Ok(Self::of_device(facts, sizes, data_blocks, warnings)),
        }
    }

    fn in_blocks(unit_bytes: u64, width_bytes: u64, sizes: &Sizes) -> Self {
        // Both were compared with 32 bits of bytes.
        let blocks = |bytes: u64| (bytes / u64::from(sizes.block_bytes)) as u32;
        Self { unit_blocks: blocks(unit_bytes), width_blocks: blocks(width_bytes) }
    }

    fn of_device(facts: &DeviceFacts, sizes: &Sizes, data_blocks: u64, warnings: &mut Vec<Warning>) -> Self {
        let (unit_bytes, width_bytes) = (facts.stripe_unit_bytes, facts.stripe_width_bytes);
        if unit_bytes == 0 {
            return Self::default();
        }
        let is_small = data_blocks * u64::from(sizes.block_bytes) <= SMALL_DEVICE_BYTES;
        let verdict =
            if is_small { Err("the device is small") } else { possible(unit_bytes, width_bytes, sizes) };
        match verdict {
            Ok(()) => Self::in_blocks(unit_bytes, width_bytes, sizes),
            Err(reason) => {
                warnings.push(Warning::DeviceStripeIgnored { unit_bytes, width_bytes, reason });
                Self::default()
            }
        }
    }
}

/// Unit and width in bytes as the options have them.
fn asked(options: &Options, sizes: &Sizes) -> Result<Option<(u64, u64)>, LayoutError> {
    let unit = options.number(Setting::DataStripeUnit);
    let width = options.number(Setting::DataStripeWidth);
    let unit_bytes = options.size(Setting::DataStripeUnitBytes, sizes.units())?;
    let width_units = options.number(Setting::DataStripeWidthUnits);
    match (unit, width, unit_bytes, width_units) {
        (None, None, None, None) => Ok(None),
        (Some(unit), Some(width), ..) => Ok(Some((unit * 512, width * 512))),
        // Zero means none, alone too; mkfs.xfs makes no such exception for the other pair.
        (None, None, Some(0), None) | (None, None, None, Some(0)) => Ok(Some((0, 0))),
        (.., Some(unit_bytes), Some(units)) => Ok(Some((unit_bytes, unit_bytes.saturating_mul(units)))),
        _ => Err(LayoutError::HalfAStripe),
    }
}

/// Whether unit (not 0) and width are possible together.
fn possible(unit_bytes: u64, width_bytes: u64, sizes: &Sizes) -> Result<(), &'static str> {
    let block_bytes = u64::from(sizes.block_bytes);
    if width_bytes == 0 || width_bytes < unit_bytes {
        return Err("the width is smaller than the unit");
    }
    if width_bytes > i32::MAX as u64 {
        return Err("the width is too large");
    }
    if !width_bytes.is_multiple_of(unit_bytes) {
        return Err("the width is not a multiple of the unit");
    }
    if !unit_bytes.is_multiple_of(block_bytes) {
        return Err("they are not multiples of the block size");
    }
    Ok(())
}
