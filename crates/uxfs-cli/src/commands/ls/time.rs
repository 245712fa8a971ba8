//! Times as `ls` writes them.

use std::{
    io::{self, Write},
    time::{SystemTime, UNIX_EPOCH},
};

use uxfs_volume::inode::Timestamp;

use crate::{calendar, text::Moment};

/// Half of a year of 365.2425 days.
const RECENT_SECONDS: i64 = 31_556_952 / 2;

/// How times are written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TimeStyle {
    /// Of times that are neither older than half a year nor to come.
    recent: Vec<Part>,
    /// Of others; as recent ones where there is none.
    other: Option<Vec<Part>>,
    now_seconds: i64,
}

/// One part of a format.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Part {
    Text(Vec<u8>),
    Field(u8),
}

impl TimeStyle {
    /// As `2026-11-20 13:00`.
    pub fn long() -> Self {
        Self::of("%Y-%m-%d %H:%M", None)
    }

    /// As `2026-11-20 13:00:14.123456789 +0000`.
    pub fn full() -> Self {
        Self::of("%Y-%m-%d %H:%M:%S.%N %z", None)
    }

    /// Parses the name of a style, or `+FORMAT`, with a second format for times that are not recent behind an end of line.
    ///
    /// # Errors
    /// Neither.
    pub fn parse(text: &str) -> Result<Self, String> {
        let formats = match text.strip_prefix("posix-").unwrap_or(text) {
            "long-iso" => return Ok(Self::long()),
            "full-iso" => return Ok(Self::full()),
            "iso" => ("%m-%d %H:%M", Some("%Y-%m-%d ")),
            "locale" => ("%b %e %H:%M", Some("%b %e  %Y")),
            text => match text.strip_prefix('+').map(|formats| (formats, formats.split_once('\n'))) {
                Some((_, Some((other, recent)))) => (recent, Some(other)),
                Some((format, None)) => (format, None),
                None => {
                    return Err(format!(
                        "`{text}` is no style of time: long-iso, full-iso, iso, locale or +FORMAT"
                    ));
                }
            },
        };
        let style = Self::of(formats.0, formats.1);
        let parts = style.recent.iter().chain(style.other.iter().flatten());
        for part in parts {
            if let Part::Field(field) = part
                && !b"YmdHMSNbBejyaAFTDRskzZIplnt".contains(field)
            {
                return Err(format!("--time-style: %{} is not known", char::from(*field)));
            }
        }
        Ok(style)
    }

    fn of(recent: &str, other: Option<&str>) -> Self {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let now_seconds = i64::try_from(now.as_secs()).unwrap_or(i64::MAX);
        Self { recent: parts(recent), other: other.map(parts), now_seconds }
    }

    /// Writes a time.
    pub fn write(&self, output: &mut Vec<u8>, time: Timestamp) {
        let is_recent = time.seconds > self.now_seconds - RECENT_SECONDS && time.seconds <= self.now_seconds;
        let parts = match &self.other {
            Some(other) if !is_recent => other,
            _ => &self.recent,
        };
        let moment = Moment::from_unix_seconds(time.seconds);
        for part in parts {
            match part {
                Part::Text(text) => output.extend_from_slice(text),
                // Writing to memory does not fail.
                Part::Field(field) => drop(write_field(output, *field, time, &moment)),
            }
        }
    }
}

fn parts(format: &str) -> Vec<Part> {
    let mut parts = Vec::new();
    let mut text = Vec::new();
    let mut rest = format.bytes();
    while let Some(byte) = rest.next() {
        match (byte, byte == b'%') {
            (_, true) => match rest.next() {
                Some(b'%') | None => text.push(b'%'),
                Some(field) => {
                    if !text.is_empty() {
                        parts.push(Part::Text(std::mem::take(&mut text)));
                    }
                    parts.push(Part::Field(field));
                }
            },
            (byte, false) => text.push(byte),
        }
    }
    if !text.is_empty() {
        parts.push(Part::Text(text));
    }
    parts
}

/// A number with zeros in front.
fn digits(output: &mut Vec<u8>, number: u32, length: usize) {
    let mut rest = number;
    let begin = output.len();
    output.resize(begin + length, b'0');
    for place in output.iter_mut().rev().take(length) {
        *place = b'0' + (rest % 10) as u8;
        rest /= 10;
    }
}

fn year(output: &mut Vec<u8>, year: i64) {
    match u32::try_from(year) {
        Ok(year) if year < 10_000 => digits(output, year, 4),
        // Writing to memory does not fail.
        _ => drop(write!(output, "{year:04}")),
    }
}

fn date(output: &mut Vec<u8>, moment: &Moment) {
    year(output, moment.year);
    output.push(b'-');
    digits(output, moment.month, 2);
    output.push(b'-');
    digits(output, moment.day, 2);
}

fn clock(output: &mut Vec<u8>, moment: &Moment) {
    digits(output, moment.hour, 2);
    output.push(b':');
    digits(output, moment.minute, 2);
}

/// The fields of the usual styles are written without the machinery of formats: a long list is full of them.
fn write_field(output: &mut Vec<u8>, field: u8, time: Timestamp, moment: &Moment) -> io::Result<()> {
    match field {
        b'Y' => year(output, moment.year),
        b'm' => digits(output, moment.month, 2),
        b'd' => digits(output, moment.day, 2),
        b'H' => digits(output, moment.hour, 2),
        b'M' => digits(output, moment.minute, 2),
        b'S' => digits(output, moment.second, 2),
        b'N' => digits(output, time.nanoseconds, 9),
        b'F' => date(output, moment),
        b'R' => clock(output, moment),
        _ => calendar::write(output, field, time)?,
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn styles_and_formats() {
        let written = |style: &str, seconds: i64| {
            let mut text = Vec::new();
            let style = TimeStyle::parse(style).unwrap();
            style.write(&mut text, Timestamp { seconds, nanoseconds: 5 });
            String::from_utf8(text).unwrap()
        };
        assert_eq!(written("full-iso", 1_795_179_614), "2026-11-20 13:00:14.000000005 +0000");
        assert_eq!(written("long-iso", -1), "1969-12-31 23:59");
        assert_eq!(written("iso", 0), "1970-01-01 ");
        assert_eq!(written("locale", 86_400 * 8), "Jan  9  1970");
        assert_eq!(written("+%a %j %D|%s%%", 951_782_400), "Tue 060 02/29/00|951782400%");
        assert!(TimeStyle::parse("short").is_err() && TimeStyle::parse("+%Q").is_err());
    }
}
