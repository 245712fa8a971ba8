//! Device numbers as FUSE encodes them: 8 low bits of the minor number, 12 bits of the major one, 12 high bits of the minor one.

use uxfs_format::inode::DeviceNumber;

/// Bits of a minor number below the major one.
const MINOR_LOW_BITS: u32 = 0xff;
const MINOR_BITS: u32 = 0xf_ffff;
const MAJOR_BITS: u32 = 0xfff;

/// The word for a device number. Numbers of XFS can be larger than 12 and 20 bits: their upper bits are lost, as they are in Linux.
#[doc(alias = "new_encode_dev")]
pub const fn encode_device(device: DeviceNumber) -> u32 {
    let minor = device.minor & MINOR_BITS;
    (minor & MINOR_LOW_BITS) | (device.major & MAJOR_BITS) << 8 | (minor & !MINOR_LOW_BITS) << 12
}

/// The device number in a word.
#[doc(alias = "new_decode_dev")]
pub const fn decode_device(word: u32) -> DeviceNumber {
    DeviceNumber {
        major: (word >> 8) & MAJOR_BITS,
        minor: (word & MINOR_LOW_BITS) | ((word >> 12) & MINOR_BITS & !MINOR_LOW_BITS),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn device_numbers_come_back() {
        for device in [(0, 0), (8, 0x712), (7, 3), (0xfff, 0xf_ffff), (259, 70_000)] {
            let device = DeviceNumber { major: device.0, minor: device.1 };
            assert_eq!(decode_device(encode_device(device)), device);
        }
        assert_eq!(encode_device(DeviceNumber { major: 8, minor: 0x712 }), 0x0070_0812);
    }

    #[test]
    fn upper_bits_are_lost() {
        let device = DeviceNumber { major: 0x1001, minor: 0x10_0002 };
        assert_eq!(decode_device(encode_device(device)), DeviceNumber { major: 1, minor: 2 });
    }
}
