//! Times by the letters of strftime(3), in universal time and the C locale, and by those of find, whose seconds have a fraction.

use std::io::{self, Write};

use uxfs_volume::inode::Timestamp;

use crate::text::Moment;

const DAYS: [&str; 7] = ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"];
const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];
/// The letters that [`write_find`] knows.
pub const LETTERS: &[u8] = b"@+aAbBcCdDeFgGhHIjklmMnprRsStTuUVwWxXyYzZ%";

/// A moment with the fields that follow from it.
struct Fields {
    at: Moment,
    /// From 0, Sunday.
    weekday: i64,
    /// From 0, the first of January.
    day_of_year: i64,
}

impl Fields {
    fn new(time: Timestamp) -> Self {
        let at = Moment::from_unix_seconds(time.seconds);
        let days = time.seconds.div_euclid(86_400);
        let before = [0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334];
        let month = usize::try_from(at.month).unwrap_or(1).saturating_sub(1);
        let leap_day = i64::from(is_leap(at.year) && at.month > 2);
        let day_of_year = before.get(month).copied().unwrap_or(0) + leap_day + i64::from(at.day) - 1;
        // 1970 began on a Thursday.
        Self { at, weekday: (days + 4).rem_euclid(7), day_of_year }
    }

    fn day_name(&self) -> &'static str {
        usize::try_from(self.weekday).ok().and_then(|day| DAYS.get(day)).copied().unwrap_or_default()
    }

    fn month_name(&self) -> &'static str {
        let month = usize::try_from(self.at.month).unwrap_or(1).saturating_sub(1);
        MONTHS.get(month).copied().unwrap_or_default()
    }

    fn hour_of_twelve(&self) -> u32 {
        (self.at.hour + 11) % 12 + 1
    }

    fn half(&self) -> &'static str {
        if self.at.hour < 12 { "AM" } else { "PM" }
    }

    /// The year and the week of ISO 8601.
    fn iso_week(&self) -> (i64, i64) {
        let monday_first = (self.weekday + 6) % 7;
        // The Thursday of a week says to which year the week belongs.
        let thursday = self.day_of_year - monday_first + 3;
        let year = self.at.year;
        let length = |year| if is_leap(year) { 366 } else { 365 };
        if thursday < 0 {
            (year - 1, (thursday + length(year - 1)) / 7 + 1)
        } else if thursday >= length(year) {
            (year + 1, (thursday - length(year)) / 7 + 1)
        } else {
            (year, thursday / 7 + 1)
        }
    }
}

fn is_leap(year: i64) -> bool {
    year % 4 == 0 && (year % 100 != 0 || year % 400 == 0)
}

fn short(name: &str) -> &str {
    name.get(..3).unwrap_or(name)
}

/// Writes a time by a letter of strftime(3), or `N` for nanoseconds.
///
/// # Errors
/// Those of the output.
pub fn write(output: &mut impl Write, letter: u8, time: Timestamp) -> io::Result<()> {
    let Moment { hour, minute, second, .. } = Moment::from_unix_seconds(time.seconds);
    match letter {
        b'N' => write!(output, "{:09}", time.nanoseconds),
        b'S' => write!(output, "{second:02}"),
        b'T' | b'X' => write!(output, "{hour:02}:{minute:02}:{second:02}"),
        _ => write_find(output, letter, time),
    }
}

/// Writes a time by one of the [`LETTERS`] of find.
///
/// # Errors
/// Those of the output.
pub fn write_find(output: &mut impl Write, letter: u8, time: Timestamp) -> io::Result<()> {
    let fields = Fields::new(time);
    let Moment { year, month, day, hour, minute, second } = fields.at;
    let nanoseconds = time.nanoseconds;
    match letter {
        b'@' => write_seconds(output, time),
        b'+' => {
            write!(output, "{year}-{month:02}-{day:02}+{hour:02}:{minute:02}:{second:02}.{nanoseconds:09}0")
        }
        b'T' | b'X' => write!(output, "{hour:02}:{minute:02}:{second:02}.{nanoseconds:09}0"),
        b'S' => write!(output, "{second:02}.{nanoseconds:09}0"),
        b's' => write!(output, "{}", time.seconds),
        b'H' => write!(output, "{hour:02}"),
        b'I' => write!(output, "{:02}", fields.hour_of_twelve()),
        b'k' => write!(output, "{hour:2}"),
        b'l' => write!(output, "{:2}", fields.hour_of_twelve()),
        b'M' => write!(output, "{minute:02}"),
        b'p' => output.write_all(fields.half().as_bytes()),
        b'r' => {
            let (twelfth, half) = (fields.hour_of_twelve(), fields.half());
            write!(output, "{twelfth:02}:{minute:02}:{second:02} {half}")
        }
        b'R' => write!(output, "{hour:02}:{minute:02}"),
        b'z' => output.write_all(b"+0000"),
        b'Z' => output.write_all(b"UTC"),
        b'n' => output.write_all(b"\n"),
        b't' => output.write_all(b"\t"),
        b'%' => output.write_all(b"%"),
        _ => write_date(output, letter, &fields),
    }
}

fn write_date(output: &mut impl Write, letter: u8, fields: &Fields) -> io::Result<()> {
    let Moment { year, month, day, hour, minute, second } = fields.at;
    let (day_name, month_name) = (fields.day_name(), fields.month_name());
    match letter {
        b'a' => output.write_all(short(day_name).as_bytes()),
        b'A' => output.write_all(day_name.as_bytes()),
        b'b' | b'h' => output.write_all(short(month_name).as_bytes()),
        b'B' => output.write_all(month_name.as_bytes()),
        b'c' => {
            let (day_name, month_name) = (short(day_name), short(month_name));
            write!(output, "{day_name} {month_name} {day:2} {hour:02}:{minute:02}:{second:02} {year}")
        }
        b'C' => write!(output, "{:02}", year.div_euclid(100)),
        b'd' => write!(output, "{day:02}"),
        b'D' | b'x' => write!(output, "{month:02}/{day:02}/{:02}", year.rem_euclid(100)),
        b'e' => write!(output, "{day:2}"),
        b'F' => write!(output, "{year}-{month:02}-{day:02}"),
        b'g' => write!(output, "{:02}", fields.iso_week().0.rem_euclid(100)),
        b'G' => write!(output, "{}", fields.iso_week().0),
        b'V' => write!(output, "{:02}", fields.iso_week().1),
        b'j' => write!(output, "{:03}", fields.day_of_year + 1),
        b'm' => write!(output, "{month:02}"),
        b'u' => write!(output, "{}", (fields.weekday + 6) % 7 + 1),
        b'w' => write!(output, "{}", fields.weekday),
        b'U' => write!(output, "{:02}", (fields.day_of_year + 7 - fields.weekday) / 7),
        b'W' => write!(output, "{:02}", (fields.day_of_year + 7 - (fields.weekday + 6) % 7) / 7),
        b'y' => write!(output, "{:02}", year.rem_euclid(100)),
        b'Y' => write!(output, "{year}"),
        _ => Ok(()),
    }
}

/// Seconds since 1970 with their fraction, also before 1970: half a second before it is -0.5.
fn write_seconds(output: &mut impl Write, time: Timestamp) -> io::Result<()> {
    let Timestamp { seconds, nanoseconds } = time;
    match (seconds < 0, nanoseconds) {
        (true, 1..) => {
            let sign = if seconds == -1 { "-" } else { "" };
            write!(output, "{sign}{}.{:09}0", seconds + 1, 1_000_000_000 - nanoseconds)
        }
        _ => write!(output, "{seconds}.{nanoseconds:09}0"),
    }
}

/// Writes a time as `Sat Nov 28 11:10:23.0000000000 2026`.
///
/// # Errors
/// Those of the output.
pub fn write_full(output: &mut impl Write, time: Timestamp) -> io::Result<()> {
    let fields = Fields::new(time);
    let Moment { year, day, hour, minute, second, .. } = fields.at;
    let (day_name, month_name) = (short(fields.day_name()), short(fields.month_name()));
    let nanoseconds = time.nanoseconds;
    write!(
        output,
        "{day_name} {month_name} {day:2} {hour:02}:{minute:02}:{second:02}.{nanoseconds:09}0 {year}"
    )
}

/// Writes a time as `ls -l` does: with the hour within half a year of now, with the year elsewhere.
///
/// # Errors
/// Those of the output.
pub fn write_short(output: &mut impl Write, time: Timestamp, now: Timestamp) -> io::Result<()> {
    /// Half a year of 365.2425 days.
    const HALF_YEAR_SECONDS: i64 = 31_556_952 / 2;
    let fields = Fields::new(time);
    let Moment { year, day, hour, minute, .. } = fields.at;
    let month = short(fields.month_name());
    let age = now.seconds.saturating_sub(time.seconds);
    if (-3600..HALF_YEAR_SECONDS).contains(&age) {
        write!(output, "{month} {day:2} {hour:02}:{minute:02}")
    } else {
        write!(output, "{month} {day:2} {year:5}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(letters: &str, seconds: i64, nanoseconds: u32) -> String {
        let mut text = Vec::new();
        for letter in letters.bytes() {
            write_find(&mut text, letter, Timestamp { seconds, nanoseconds }).unwrap();
            text.push(b'|');
        }
        String::from_utf8(text).unwrap()
    }

    #[test]
    fn letters() {
        assert_eq!(
            shown("@+TS", -2, 750_000_000),
            "-1.2500000000|1969-12-31+23:59:58.7500000000|23:59:58.7500000000|58.7500000000|"
        );
        assert_eq!(shown("@", -1, 500_000_000), "-0.5000000000|");
        assert_eq!(
            shown("aAbBcCdDeF", -2, 0),
            "Wed|Wednesday|Dec|December|Wed Dec 31 23:59:58 1969|19|31|12/31/69|31|1969-12-31|"
        );
        assert_eq!(shown("gGVjuwUWyYrkl", -2, 0), "70|1970|01|365|3|3|52|52|69|1969|11:59:58 PM|23|11|");
        assert_eq!(shown("GVUW", 1_609_459_200, 0), "2020|53|00|00|");
    }
}
