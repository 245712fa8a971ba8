//! Numbers of tests: `5`, `+5` for more, `-5` for less; sizes and ages.

use std::cmp::Ordering;

use uxfs_volume::inode::Timestamp;

const NANOSECONDS: i128 = 1_000_000_000;
/// A minute, in nanoseconds.
pub const MINUTE: i128 = 60 * NANOSECONDS;
/// A day, in nanoseconds.
pub const DAY: i128 = 24 * 60 * MINUTE;

/// How a number is to compare.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Comparison<T> {
    order: Ordering,
    number: T,
}

impl<T: Ord + Copy> Comparison<T> {
    /// Equal to a number.
    pub fn equal(number: T) -> Self {
        Self { order: Ordering::Equal, number }
    }

    /// Whether a value compares so.
    pub fn holds(&self, value: T) -> bool {
        value.cmp(&self.number) == self.order
    }
}

/// The sign in front, and the rest.
fn sign(word: &str) -> (Ordering, &str) {
    match word.as_bytes().first() {
        Some(b'+') => (Ordering::Greater, &word[1..]),
        Some(b'-') => (Ordering::Less, &word[1..]),
        _ => (Ordering::Equal, word),
    }
}

/// Reads `N`, `+N` or `-N`.
pub fn parse(word: &str) -> Option<Comparison<u64>> {
    let (order, digits) = sign(word);
    let is_number = digits.bytes().all(|byte| byte.is_ascii_digit());
    Some(Comparison { order, number: digits.parse().ok().filter(|_| is_number)? })
}

/// A size in units, rounded up.
#[derive(Debug, Clone, Copy)]
pub struct SizeTest {
    comparison: Comparison<u64>,
    unit_bytes: u64,
}

impl SizeTest {
    /// Reads a number of blocks of 512 bytes, or of the units `c`, `w`, `b`, `k`, `M` or `G`.
    pub fn parse(word: &str) -> Option<Self> {
        let unit_bytes = match word.as_bytes().last()? {
            b'0'..=b'9' => return Some(Self { comparison: parse(word)?, unit_bytes: 512 }),
            b'c' => 1,
            b'w' => 2,
            b'b' => 512,
            b'k' => 1 << 10,
            b'M' => 1 << 20,
            b'G' => 1 << 30,
            _ => return None,
        };
        Some(Self { comparison: parse(&word[..word.len() - 1])?, unit_bytes })
    }

    /// Whether a file of this size is meant.
    pub fn holds(&self, size_bytes: u64) -> bool {
        self.comparison.holds(size_bytes.div_ceil(self.unit_bytes))
    }
}

/// A time in nanoseconds since 1970.
pub fn nanoseconds_of(time: Timestamp) -> i128 {
    i128::from(time.seconds) * NANOSECONDS + i128::from(time.nanoseconds)
}

/// An age, in days or minutes.
#[derive(Debug, Clone, Copy)]
pub struct AgeTest {
    order: Ordering,
    /// The age.
    age: i128,
    /// The length of its unit.
    unit: i128,
    /// The moment from which it counts.
    now: i128,
}

impl AgeTest {
    /// Reads a number of units, which may have a fraction.
    pub fn parse(word: &str, unit: i128, now: i128) -> Option<Self> {
        let (order, digits) = sign(word);
        let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
        let is_number = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
        if !is_number(whole)
            || !is_number(fraction)
            || whole.len() > 12
            || fraction.len() > 9
            || digits.is_empty()
        {
            return None;
        }
        let scale = 10_i128.pow(u32::try_from(fraction.len()).ok()?);
        let number = format!("0{whole}{fraction}").parse::<i128>().ok()?;
        Some(Self { order, age: number * unit / scale, unit, now })
    }

    /// Whether a file of this time is meant. Days are counted in whole: an age of 47 hours is 1. Minutes are counted from the other side: an
    /// age of 30 seconds is 1, and neither more nor less than that is measured in whole minutes.
    pub fn holds(&self, time: Timestamp) -> bool {
        let age = self.now - nanoseconds_of(time);
        let unit = self.unit;
        match (self.unit == DAY, self.order) {
            (_, Ordering::Less) => age < self.age,
            (true, Ordering::Greater) => age >= self.age + unit,
            (true, Ordering::Equal) => (self.age..self.age + unit).contains(&age),
            (false, Ordering::Greater) => age > self.age,
            (false, Ordering::Equal) => (self.age - unit..self.age).contains(&age),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages() {
        let is_met = |word: &str, unit: i128, age_seconds: i64| {
            let time = Timestamp { seconds: 1_000_000 - age_seconds, nanoseconds: 0 };
            AgeTest::parse(word, unit, 1_000_000 * NANOSECONDS).unwrap().holds(time)
        };
        for (age, met) in [(30, ["1", "+0", "-1", "-2"]), (61, ["2", "+0", "+1", "-2"])] {
            for word in ["0", "1", "2", "+0", "+1", "-1", "-2"] {
                assert_eq!(is_met(word, MINUTE, age), met.contains(&word), "{age} {word}");
            }
        }
        for (hours, met) in [(23, ["0", "-1", "-2"]), (25, ["1", "+0", "-2"]), (49, ["2", "+0", "+1"])] {
            for word in ["0", "1", "2", "+0", "+1", "-1", "-2"] {
                assert_eq!(is_met(word, DAY, hours * 3600), met.contains(&word), "{hours} {word}");
            }
        }
        assert!(is_met("-1.5", DAY, 35 * 3600) && !is_met("-1.5", DAY, 37 * 3600));
        assert!(AgeTest::parse("x", DAY, 0).is_none() && AgeTest::parse("", DAY, 0).is_none());
    }

    #[test]
    fn sizes() {
        for (word, size, is_met) in
            [("1", 512, true), ("-1k", 1, false), ("-1M", 0, true), ("+0c", 1, true), ("2w", 3, true)]
        {
            assert_eq!(SizeTest::parse(word).unwrap().holds(size), is_met, "{word} {size}");
        }
        assert!(
            SizeTest::parse("0.5k").is_none()
                && SizeTest::parse("1x").is_none()
                && SizeTest::parse("k").is_none()
        );
    }
}
