//! A device with a bad place costs the bytes there and no others.

use uxfs_block::device::{DeviceError, DeviceOperation};

use super::*;

/// Byte `n` is `n` modulo 251; the bytes of `bad` cannot be read.
#[derive(Debug)]
struct Scratched {
    bad: Range<u64>,
}

impl BlockDevice for Scratched {
    fn size_bytes(&self) -> u64 {
        1 << 20
    }

    fn engine(&self) -> &'static str {
        "scratched"
    }

    fn read(&self, offset_bytes: u64, buffer: &mut [u8]) -> std::result::Result<(), DeviceError> {
        let end = offset_bytes + buffer.len() as u64;
        if offset_bytes < self.bad.end && self.bad.start < end {
            return Err(DeviceError::outside(DeviceOperation::Read, offset_bytes, buffer.len() as u64));
        }
        for (byte, offset) in buffer.iter_mut().zip(offset_bytes..) {
            *byte = (offset % 251) as u8;
        }
        Ok(())
    }

    fn write(&self, offset_bytes: u64, bytes: &[u8]) -> std::result::Result<(), DeviceError> {
        Err(DeviceError::outside(DeviceOperation::Write, offset_bytes, bytes.len() as u64))
    }

    fn flush(&self) -> std::result::Result<(), DeviceError> {
        Ok(())
    }

    fn discard(&self, _: u64, _: u64) -> std::result::Result<(), DeviceError> {
        Ok(())
    }
}

#[test]
fn what_cannot_be_read_is_zero_and_told() {
    let device = Scratched { bad: 30_000..30_001 };
    let mut bytes = Buffer::with_capacity(0);
    let mut reads = Vec::new();
    let mut expected = Vec::new();
    for (task, (offset, length)) in
        [(0_u64, 10_000_usize), (20_480, 20_480), (100_000, 77)].into_iter().enumerate()
    {
        bytes.append(b"head");
        expected.extend_from_slice(b"head");
        let span = bytes.reserve(length);
        reads.push(PendingRead { device_offset_bytes: offset, span, file_offset_bytes: 7, task });
        // The second read begins on a boundary of the small pieces: 30,000 lies in its third.
        expected.extend(
            (offset..offset + length as u64)
                .map(|at| if (28_672..32_768).contains(&at) { 0 } else { (at % 251) as u8 }),
        );
    }
    bytes.append(b"tail");
    expected.extend_from_slice(b"tail");
    let mut told = Vec::new();
    execute(&device, &reads, &mut bytes, |read, problem| told.push((read.task, problem.reason)));
    assert_eq!(bytes.filled(), expected);
    assert_eq!(told.len(), 1);
    let (task, reason) = &told[0];
    assert_eq!(*task, 1);
    assert!(reason.starts_with("4096 bytes replaced by zeros, the first at byte 8199: "), "{reason}");
}
