//! The identity of a file system: uuid, time and random numbers.

use std::{
    ffi::OsStr,
    time::{SystemTime, UNIX_EPOCH},
};

use rustix::rand::{GetRandomFlags, getrandom};
use uxfs_format::{inode::timestamp::Timestamp, units::Uuid};

/// Gives every generation number, as in mkfs.xfs.
pub const SEED_VARIABLE: &str = "DETERMINISTIC_SEED";
/// Seconds since 1970 that stand for now, as in many tools (reproducible-builds.org).
pub const TIME_VARIABLE: &str = "SOURCE_DATE_EPOCH";
/// "SEED": what mkfs.xfs takes for a random number where numbers must not be random.
const FIXED_NUMBER: u32 = 0x5345_4544;

/// The uuid of images that are to be reproduced and are given none: version 8, as RFC 9562 has it for such uses.
const REPRODUCIBLE_UUID: Uuid = Uuid(*b"\x75\x78\x66\x73\x72\x65\x87\x0d\xb5\x63\x69\x62\x6c\x65\x00\x01");

/// Uuid, time and random numbers of a new file system.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Identity {
    /// The uuid.
    pub uuid: Uuid,
    /// The present time.
    pub now: Timestamp,
    /// Where generation numbers come from.
    pub numbers: Numbers,
}

/// A source of generation numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Numbers {
    /// Always this one.
    Fixed(u32),
    /// The system's.
    Random,
}

impl Numbers {
    /// The next number.
    pub fn next(self) -> u32 {
        match self {
            Self::Fixed(number) => number,
            Self::Random => u32::from_ne_bytes(random_bytes()),
        }
    }
}

/// A time variable that is not a number of seconds; the clock is asked instead.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{TIME_VARIABLE} `{value}` is not a number of seconds and is ignored")]
pub struct BadTime {
    /// As given.
    pub value: String,
}

impl Identity {
    /// Removes random numbers and the clock: a fixed number for every generation, 1970 unless a time was given, and a fixed
    /// uuid unless one was given. Two such images of one content are equal; to mount both at once, give one of them
    /// another uuid.
    pub fn make_reproducible(&mut self, has_uuid: bool, has_time: bool) {
        self.numbers = Numbers::Fixed(FIXED_NUMBER);
        if !has_time {
            self.now = Timestamp { seconds: 0, nanoseconds: 0 };
        }
        if !has_uuid {
            self.uuid = REPRODUCIBLE_UUID;
        }
    }

    /// From the environment, as mkfs.xfs takes it; `variable` looks one up. Without a uuid a random one.
    pub fn from_environment<S: AsRef<OsStr>>(
        uuid: Option<Uuid>,
        variable: impl Fn(&str) -> Option<S>,
    ) -> (Self, Option<BadTime>) {
        let numbers = match variable(SEED_VARIABLE) {
            Some(_) => Numbers::Fixed(FIXED_NUMBER),
            None => Numbers::Random,
        };
        let (now, problem) = match variable(TIME_VARIABLE) {
            None => (clock(), None),
            Some(value) => {
                let value = value.as_ref().to_string_lossy().into_owned();
                match value.parse() {
                    Ok(seconds) => (Timestamp { seconds, nanoseconds: 0 }, None),
                    Err(_) => (clock(), Some(BadTime { value })),
                }
            }
        };
        (Self { uuid: uuid.unwrap_or_else(random_uuid), now, numbers }, problem)
    }
}

fn clock() -> Timestamp {
    let now = SystemTime::now();
    match now.duration_since(UNIX_EPOCH) {
        Ok(since) => {
            let seconds = i64::try_from(since.as_secs()).unwrap_or(i64::MAX);
            Timestamp { seconds, nanoseconds: since.subsec_nanos() }
        }
        // A clock before 1970 is wrong anyway.
        Err(_) => Timestamp::default(),
    }
}

/// A random uuid, version 4.
pub fn random_uuid() -> Uuid {
    let mut bytes: [u8; 16] = random_bytes();
    bytes[6] = bytes[6] & 0x0f | 0x40;
    bytes[8] = bytes[8] & 0x3f | 0x80;
    Uuid(bytes)
}

fn random_bytes<const N: usize>() -> [u8; N] {
    let mut bytes = [0; N];
    let mut filled = 0;
    while filled < N {
        match getrandom(&mut bytes[filled..], GetRandomFlags::empty()) {
            Ok(count) => filled += count,
            Err(rustix::io::Errno::INTR) => {}
            // Every Linux that uxfs runs on has the call. Without it the clock must do: these numbers only tell
            // things apart.
            Err(_) => {
                let mut word = clock().nanoseconds;
                for byte in &mut bytes[filled..] {
                    word = word.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                    *byte = (word >> 24) as u8;
                }
                return bytes;
            }
        }
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_environment_makes_it_reproducible() {
        let fixed = |name: &str| Some(if name == TIME_VARIABLE { "1700000000" } else { "x" });
        let (identity, problem) = Identity::from_environment(None, fixed);
        assert_eq!(problem, None);
        assert_eq!(identity.now, Timestamp { seconds: 1_700_000_000, nanoseconds: 0 });
        assert_eq!(identity.numbers.next(), 0x5345_4544);
    }

    #[test]
    fn a_time_that_is_none_is_told() {
        let (identity, problem) =
            Identity::from_environment(None, |name: &str| (name == TIME_VARIABLE).then_some("soon"));
        assert_eq!(problem, Some(BadTime { value: "soon".to_owned() }));
        assert!(identity.now.seconds > 1_700_000_000);
    }

    #[test]
    fn random_uuids_say_that_they_are() {
        let text = random_uuid().to_string();
        assert_eq!(&text[14..15], "4", "{text}");
        assert_ne!(random_uuid(), random_uuid());
    }
}
