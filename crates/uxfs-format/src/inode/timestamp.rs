//! Time on disk. Each inode says by [`BIG_TIME`](super::InodeFlags2::BIG_TIME) which of two encodings its times have;
//! the file system's feature bit only says that some may have the newer one.

use zerocopy::big_endian::U64;

use crate::convert::low_u32;

const NANOSECONDS: u64 = 1_000_000_000;
/// Seconds from the big encoding's zero, 1901-12-13 20:45:52, to 1970.
#[doc(alias = "XFS_BIGTIME_EPOCH_OFFSET")]
const BIG_EPOCH_SECONDS: i64 = 1 << 31;
/// 2486-07-02 20:20:24.
const BIG_LAST_SECOND: i64 = 16_299_260_424;

/// A point in time, in universal time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Timestamp {
    /// Since 1970, negative before.
    pub seconds: i64,
    /// Always below one thousand million.
    pub nanoseconds: u32,
}

/// A time as it lies on disk.
#[doc(alias = "xfs_timestamp_t")]
#[derive(
    Debug,
    Clone,
    Copy,
    PartialEq,
    Eq,
    Default,
    zerocopy::FromBytes,
    zerocopy::IntoBytes,
    zerocopy::KnownLayout,
    zerocopy::Immutable,
    zerocopy::Unaligned,
)]
#[repr(transparent)]
pub struct DiskTimestamp(pub U64);

impl DiskTimestamp {
    /// Decodes; `big_time` is the inode's flag. No verifier looks at times: nanoseconds over one second, which only
    /// damage can leave, are cut to the last one.
    #[inline]
    pub fn decode(self, big_time: bool) -> Timestamp {
        let raw = self.0.get();
        if big_time {
            // Both quotient and remainder exist: the divisor is a constant.
            let seconds = raw.checked_div(NANOSECONDS).unwrap_or(0);
            let nanoseconds = raw.checked_rem(NANOSECONDS).unwrap_or(0);
            let seconds = i64::try_from(seconds).unwrap_or(i64::MAX);
            return Timestamp {
                seconds: seconds.saturating_sub(BIG_EPOCH_SECONDS),
                nanoseconds: low_u32(nanoseconds),
            };
        }
        let seconds = low_u32(raw.wrapping_shr(32)).cast_signed();
        Timestamp { seconds: seconds.into(), nanoseconds: low_u32(raw).min(999_999_999) }
    }

    /// Encodes, or `None` where the time lies outside what the encoding can hold.
    pub fn encode(time: Timestamp, big_time: bool) -> Option<Self> {
        if u64::from(time.nanoseconds) >= NANOSECONDS {
            return None;
        }
        let raw = if big_time {
            let seconds = u64::try_from(time.seconds.checked_add(BIG_EPOCH_SECONDS)?).ok()?;
            seconds.checked_mul(NANOSECONDS)?.checked_add(time.nanoseconds.into())?
        } else {
            let seconds = i32::try_from(time.seconds).ok()?.cast_unsigned();
            u64::from(seconds).wrapping_shl(32) | u64::from(time.nanoseconds)
        };
        Some(Self(U64::new(raw)))
    }

    /// Encodes the nearest time that the encoding can hold, as Linux does.
    #[doc(alias = "timestamp_truncate")]
    pub fn encode_clamped(time: Timestamp, big_time: bool) -> Self {
        let (first, last) = if big_time {
            // The kernel keeps to whole seconds, of which the last is not complete.
            (BIG_EPOCH_SECONDS.wrapping_neg(), BIG_LAST_SECOND)
        } else {
            (i32::MIN.into(), i32::MAX.into())
        };
        let nanoseconds = if time.seconds >= last || time.seconds < first { 0 } else { time.nanoseconds };
        let nearest = Timestamp { seconds: time.seconds.clamp(first, last), nanoseconds };
        Self::encode(nearest, big_time).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_encodings_hold_their_range() {
        let at = |seconds, nanoseconds| Timestamp { seconds, nanoseconds };
        let cases = [
            (false, at(i32::MIN.into(), 0)),
            (false, at(-1, 999_999_999)),
            (false, at(i32::MAX.into(), 1)),
            (true, at(-(1 << 31), 0)),
            (true, at(0, 0)),
            // The last moment that the kernel lets through, 2486-07-02 20:20:24.
            (true, at(16_299_260_424, 709_551_615)),
        ];
        for (big_time, time) in cases {
            let disk = DiskTimestamp::encode(time, big_time).unwrap();
            assert_eq!(disk.decode(big_time), time);
        }
        assert_eq!(DiskTimestamp::encode(at(1 << 31, 0), false), None);
        assert_eq!(DiskTimestamp::encode(at(-(1 << 31) - 1, 0), true), None);
        assert_eq!(DiskTimestamp::encode(at(0, 1_000_000_000), true), None);
    }

    #[test]
    fn times_out_of_range_become_the_nearest_that_is_in_it() {
        for (big_time, first, last) in
            [(false, i64::from(i32::MIN), i64::from(i32::MAX)), (true, -(1 << 31), 16_299_260_424)]
        {
            let clamped = |seconds| {
                let time = Timestamp { seconds, nanoseconds: 999_999_999 };
                DiskTimestamp::encode_clamped(time, big_time).decode(big_time)
            };
            assert_eq!(clamped(i64::MIN), Timestamp { seconds: first, nanoseconds: 0 });
            assert_eq!(clamped(i64::MAX), Timestamp { seconds: last, nanoseconds: 0 });
            assert_eq!(clamped(first), Timestamp { seconds: first, nanoseconds: 999_999_999 });
            assert_eq!(clamped(last - 1), Timestamp { seconds: last - 1, nanoseconds: 999_999_999 });
        }
    }

    #[test]
    fn any_bytes_decode() {
        for raw in [0, 1, u64::MAX, 0xffff_ffff, 1 << 63, 0x8000_0000_ffff_ffff] {
            for big_time in [false, true] {
                assert!(DiskTimestamp(U64::new(raw)).decode(big_time).nanoseconds < 1_000_000_000);
            }
        }
    }
}
