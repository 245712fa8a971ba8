//! Numbers, bytes, times and attributes in few bytes, as records of files keep them.

use crate::entry::{Attribute, DeviceNumber, Timestamp};

/// Appends to a record.
pub(crate) struct Writer<'a>(pub(crate) &'a mut Vec<u8>);

impl Writer<'_> {
    pub(crate) fn byte(&mut self, byte: u8) {
        self.0.push(byte);
    }

    /// Seven bits a byte, the lowest first.
    pub(crate) fn number(&mut self, mut number: u64) {
        while number >= 0x80 {
            self.byte(number as u8 | 0x80);
            number >>= 7;
        }
        self.byte(number as u8);
    }

    pub(crate) fn bytes(&mut self, bytes: &[u8]) {
        self.number(bytes.len() as u64);
        self.0.extend_from_slice(bytes);
    }

    pub(crate) fn seconds(&mut self, seconds: i64) {
        self.number((seconds << 1 ^ seconds >> 63) as u64);
    }

    pub(crate) fn time(&mut self, time: Timestamp) {
        self.seconds(time.seconds);
        self.number(time.nanoseconds.into());
    }

    pub(crate) fn device(&mut self, tag: u8, device: DeviceNumber) {
        self.byte(tag);
        self.number(device.major.into());
        self.number(device.minor.into());
    }

    pub(crate) fn attributes(&mut self, attributes: &[Attribute]) {
        self.number(attributes.len() as u64);
        for Attribute { name, value } in attributes {
            self.bytes(name);
            self.bytes(value);
        }
    }
}

/// Reads what a [`Writer`] wrote; `None` at anything else.
pub(crate) struct Reader<'a>(pub(crate) &'a [u8]);

impl<'a> Reader<'a> {
    pub(crate) fn byte(&mut self) -> Option<u8> {
        let (byte, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(*byte)
    }

    pub(crate) fn number(&mut self) -> Option<u64> {
        let mut number = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            number |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Some(number);
            }
        }
        None
    }

    pub(crate) fn short(&mut self) -> Option<u32> {
        self.number().and_then(|number| u32::try_from(number).ok())
    }

    pub(crate) fn bytes(&mut self) -> Option<&'a [u8]> {
        let length = usize::try_from(self.number()?).ok()?;
        let (bytes, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(bytes)
    }

    pub(crate) fn seconds(&mut self) -> Option<i64> {
        let number = self.number()?;
        Some((number >> 1) as i64 ^ -((number & 1) as i64))
    }

    pub(crate) fn time(&mut self) -> Option<Timestamp> {
        Some(Timestamp { seconds: self.seconds()?, nanoseconds: self.short()? })
    }

    pub(crate) fn device(&mut self) -> Option<DeviceNumber> {
        Some(DeviceNumber { major: self.short()?, minor: self.short()? })
    }

    pub(crate) fn attributes(&mut self) -> Option<Vec<Attribute>> {
        // The count is not believed: memory is taken for what is there.
        let mut attributes = Vec::new();
        for _ in 0..self.number()? {
            let (name, value) = (self.bytes()?.into(), self.bytes()?.into());
            attributes.push(Attribute { name, value });
        }
        Some(attributes)
    }
}
