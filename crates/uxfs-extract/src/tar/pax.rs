//! Records of a pax extended header: `length keyword=value\n`, the length counting itself.

use crate::entry::Timestamp;

/// Decimal digits of a number, without a heap allocation.
#[derive(Debug, Clone, Copy)]
pub struct Decimal {
    digits: [u8; 20],
    start: usize,
}

impl Decimal {
    /// The digits of `value`.
    pub fn new(value: u64) -> Self {
        let mut decimal = Self { digits: [b'0'; 20], start: 20 };
        let mut rest = value;
        for (index, digit) in decimal.digits.iter_mut().enumerate().rev() {
            *digit = b'0' + (rest % 10) as u8;
            rest /= 10;
            decimal.start = index;
            if rest == 0 {
                break;
            }
        }
        decimal
    }

    /// As text.
    pub fn as_bytes(&self) -> &[u8] {
        self.digits.get(self.start..).unwrap_or_default()
    }
}

/// Records on their way into one extended header.
#[derive(Debug, Default)]
pub struct Records {
    bytes: Vec<u8>,
}

impl Records {
    /// Starts again with none.
    pub fn clear(&mut self) {
        self.bytes.clear();
    }

    /// The records so far.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Adds a record.
    pub fn add(&mut self, keyword: &str, value: &[u8]) {
        self.add_pieces(&[keyword.as_bytes()], value);
    }

    /// Adds a record whose keyword comes in pieces.
    pub fn add_pieces(&mut self, keyword: &[&[u8]], value: &[u8]) {
        let keyword_length: usize = keyword.iter().map(|piece| piece.len()).sum();
        // A space, an equals sign and a newline.
        let length = record_length(keyword_length + value.len() + 3);
        self.bytes.extend_from_slice(Decimal::new(length).as_bytes());
        self.bytes.push(b' ');
        keyword.iter().for_each(|piece| self.bytes.extend_from_slice(piece));
        self.bytes.push(b'=');
        self.bytes.extend_from_slice(value);
        self.bytes.push(b'\n');
    }

    /// Adds a number.
    pub fn add_number(&mut self, keyword: &str, value: u64) {
        self.add(keyword, Decimal::new(value).as_bytes());
    }

    /// Adds a time in seconds with its nanoseconds as a decimal fraction.
    pub fn add_time(&mut self, keyword: &str, time: Timestamp) {
        let mut text = [0; 32];
        let length = format_time(time, &mut text);
        self.add(keyword, text.get(..length).unwrap_or_default());
    }
}

/// Length of a record of which all but the length itself takes `rest` bytes.
fn record_length(rest: usize) -> u64 {
    let rest = rest as u64;
    let mut length = rest;
    loop {
        let next = rest + Decimal::new(length).as_bytes().len() as u64;
        if next == length {
            return length;
        }
        length = next;
    }
}

/// Writes `-12.000000005`; gives the length.
fn format_time(time: Timestamp, text: &mut [u8; 32]) -> usize {
    // Nanoseconds count forward from the second below; a decimal fraction counts away from zero.
    let (sign, seconds, nanoseconds): (&[u8], u64, u32) = match (time.seconds < 0, time.nanoseconds) {
        (false, nanoseconds) => (b"", time.seconds.unsigned_abs(), nanoseconds),
        (true, 0) => (b"-", time.seconds.unsigned_abs(), 0),
        (true, nanoseconds) => {
            (b"-", time.seconds.unsigned_abs() - 1, 1_000_000_000_u32.saturating_sub(nanoseconds))
        }
    };
    let whole = Decimal::new(seconds);
    // The leading 1 keeps the zeros of the fraction.
    let fraction = Decimal::new(u64::from(nanoseconds) + 1_000_000_000);
    let fraction: &[u8] =
        if nanoseconds == 0 { b"" } else { fraction.as_bytes().get(1..).unwrap_or_default() };
    let point: &[u8] = if fraction.is_empty() { b"" } else { b"." };
    let mut length = 0;
    for byte in [sign, whole.as_bytes(), point, fraction].into_iter().flatten() {
        if let Some(place) = text.get_mut(length) {
            *place = *byte;
            length += 1;
        }
    }
    length
}

#[cfg(test)]
mod tests {
    use super::*;

    fn time(seconds: i64, nanoseconds: u32) -> String {
        let mut text = [0; 32];
        let length = format_time(Timestamp { seconds, nanoseconds }, &mut text);
        String::from_utf8(text[..length].to_vec()).unwrap()
    }

    #[test]
    fn lengths_count_themselves() {
        for length in 0..3000 {
            let mut records = Records::default();
            records.add("k", &vec![b'x'; length]);
            let bytes = records.as_bytes();
            let space = bytes.iter().position(|byte| *byte == b' ').unwrap();
            let said: usize = std::str::from_utf8(&bytes[..space]).unwrap().parse().unwrap();
            assert_eq!(said, bytes.len(), "{length}");
        }
    }

    #[test]
    fn times_before_and_after_1970() {
        assert_eq!(time(0, 0), "0");
        assert_eq!(time(1, 5), "1.000000005");
        assert_eq!(time(-1, 0), "-1");
        assert_eq!(time(-1, 5), "-0.999999995");
        assert_eq!(time(-2, 500_000_000), "-1.500000000");
        assert_eq!(time(i64::MIN, 999_999_999), "-9223372036854775807.000000001");
    }
}
