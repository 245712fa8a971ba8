//! Facts about the device that a layout depends on.

/// Kinds of device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DeviceKind {
    /// A regular file.
    File,
    /// A block device.
    Block {
        /// Whether its heads move; on others more groups are made, one for each processor.
        is_rotational: bool,
    },
}

/// Facts of the device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DeviceFacts {
    /// Kind.
    pub kind: DeviceKind,
    /// Size in bytes.
    pub size_bytes: u64,
    /// Smallest request in bytes.
    pub logical_sector_bytes: u32,
    /// Unit in which the medium writes.
    pub physical_sector_bytes: u32,
    /// Stripe unit of a RAID in bytes, 0 for none.
    pub stripe_unit_bytes: u64,
    /// Stripe width of a RAID in bytes, 0 for none.
    pub stripe_width_bytes: u64,
    /// Processors of this machine.
    pub processors: u32,
}

impl DeviceFacts {
    /// A regular file.
    pub fn file(size_bytes: u64) -> Self {
        Self {
            kind: DeviceKind::File,
            size_bytes,
            logical_sector_bytes: 512,
            physical_sector_bytes: 512,
            stripe_unit_bytes: 0,
            stripe_width_bytes: 0,
            processors: std::thread::available_parallelism().map_or(1, |count| count.get() as u32),
        }
    }
}
