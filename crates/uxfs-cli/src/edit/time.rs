//! Times as touch takes them. Without a zone they are universal time, as everything that uxfs prints is.

use uxfs_volume::inode::Timestamp;

/// Reads `now`, `@SECONDS[.FRACTION]`, or a date with or without time and zone: `2026-11-20`, `2026-11-20 13:00`,
/// `2026-11-20T13:00:14.5+01:00`, `…Z`.
///
/// # Errors
/// It is none of these.
pub fn parse_date(text: &str, now: Timestamp) -> Result<Timestamp, String> {
    let wrong = || {
        format!(
            "`{text}` is not a time such as `2026-11-20 13:00:14`, `2026-11-20T13:00:14.5+01:00`, `@1700000000` or `now`"
        )
    };
    if text == "now" {
        return Ok(now);
    }
    if let Some(seconds) = text.strip_prefix('@') {
        return parse_seconds(seconds).ok_or_else(wrong);
    }
    parse_calendar(text).ok_or_else(wrong)
}

/// Reads `[[CC]YY]MMDDhhmm[.ss]`.
///
/// # Errors
/// It is no such time.
pub fn parse_stamp(text: &str, now: Timestamp) -> Result<Timestamp, String> {
    let parse = || {
        let (digits, seconds) =
            text.split_once('.').map_or((text, "00"), |(digits, seconds)| (digits, seconds));
        if !digits.bytes().chain(seconds.bytes()).all(|byte| byte.is_ascii_digit()) || seconds.len() != 2 {
            return None;
        }
        let number = |range: std::ops::Range<usize>| digits.get(range)?.parse::<i64>().ok();
        let years = digits.len().checked_sub(8)?;
        let year = match years {
            0 => crate::text::Moment::from_unix_seconds(now.seconds).year,
            2 => match number(0..2)? {
                year @ 69.. => 1900 + year,
                year => 2000 + year,
            },
            4 => number(0..4)?,
            _ => return None,
        };
        let at = |index: usize| number(years + index..years + index + 2);
        let time = [at(4)?, at(6)?, seconds.parse().ok()?];
        Some(Timestamp { seconds: unix_seconds([year, at(0)?, at(2)?], time)?, nanoseconds: 0 })
    };
    parse().ok_or_else(|| format!("`{text}` is not a time of the form [[CC]YY]MMDDhhmm[.ss]"))
}

fn parse_seconds(text: &str) -> Option<Timestamp> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let seconds: i64 = whole.parse().ok()?;
    let nanoseconds = parse_fraction(fraction)?;
    if whole.starts_with('-') && nanoseconds > 0 {
        // Nanoseconds are added to the second, also before 1970.
        return Some(Timestamp {
            seconds: seconds.checked_sub(1)?,
            nanoseconds: 1_000_000_000 - nanoseconds,
        });
    }
    Some(Timestamp { seconds, nanoseconds })
}

/// Digits behind a point as nanoseconds.
fn parse_fraction(digits: &str) -> Option<u32> {
    if !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let nine: String = digits.chars().chain("000000000".chars()).take(9).collect();
    nine.parse().ok()
}

fn parse_calendar(text: &str) -> Option<Timestamp> {
    let (text, offset_seconds) = split_zone(text)?;
    let (date, time) = match text.split_once(['T', ' ']) {
        Some((date, time)) => (date, time.trim()),
        None => (text, "00:00"),
    };
    let mut fields = date.split('-');
    let mut number = || fields.next()?.parse::<i64>().ok();
    let date = [number()?, number()?, number()?];
    if fields.next().is_some() {
        return None;
    }
    let (clock, fraction) = time.split_once(['.', ',']).unwrap_or((time, ""));
    let mut fields = clock.split(':');
    let hour = fields.next()?.parse().ok()?;
    let minute = fields.next()?.parse().ok()?;
    let second = fields.next().map_or(Some(0), |second| second.parse().ok())?;
    if fields.next().is_some() {
        return None;
    }
    let seconds = unix_seconds(date, [hour, minute, second])?.checked_sub(offset_seconds)?;
    Some(Timestamp { seconds, nanoseconds: parse_fraction(fraction)? })
}

/// The zone at the end, in seconds east.
fn split_zone(text: &str) -> Option<(&str, i64)> {
    let text = text.trim();
    for name in ["Z", "UTC"] {
        if let Some(rest) = text.strip_suffix(name) {
            return Some((rest.trim_end(), 0));
        }
    }
    // Dates have signs, too: a zone comes behind the hours.
    let clock = text.find(':').unwrap_or(text.len());
    let Some(sign) = text[clock..].find(['+', '-']).map(|sign| clock + sign) else { return Some((text, 0)) };
    let (rest, zone) = text.split_at(sign);
    let digits: String = zone[1..].chars().filter(|character| *character != ':').collect();
    if !matches!(digits.len(), 2 | 4) || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let hours: i64 = digits[..2].parse().ok()?;
    let minutes: i64 = digits.get(2..4).map_or(Some(0), |minutes| minutes.parse().ok())?;
    let east = hours * 3600 + minutes * 60;
    Some((rest.trim_end(), if zone.starts_with('-') { -east } else { east }))
}

/// Seconds since 1970 of a moment of the Gregorian calendar.
fn unix_seconds([year, month, day]: [i64; 3], [hour, minute, second]: [i64; 3]) -> Option<i64> {
    let is_leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let days_in_month = match month {
        2 => 28 + i64::from(is_leap),
        4 | 6 | 9 | 11 => 30,
        1..=12 => 31,
        _ => return None,
    };
    let is_possible = (1..=days_in_month).contains(&day)
        && (0..24).contains(&hour)
        && (0..60).contains(&minute)
        && (0..=60).contains(&second)
        && (-9999..=9999).contains(&year);
    if !is_possible {
        return None;
    }
    // Years begin in March, so that the leap day ends one; 400 of them are 146,097 days.
    let shifted = if month <= 2 { year - 1 } else { year };
    let (era, year_of_era) = (shifted.div_euclid(400), shifted.rem_euclid(400));
    let month_from_march = (month + 9) % 12;
    let day_of_year = (153 * month_from_march + 2) / 5 + day - 1;
    let days =
        era * 146_097 + year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year - 719_468;
    Some(days * 86_400 + hour * 3600 + minute * 60 + second)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::full_time;

    const NOW: Timestamp = Timestamp { seconds: 1_795_179_614, nanoseconds: 5 };

    fn shown(text: &str) -> String {
        let time = parse_date(text, NOW).unwrap();
        full_time(time.seconds, time.nanoseconds)
    }

    #[test]
    fn dates() {
        for (text, time) in [
            ("2026-11-20", "2026-11-20 00:00:00.000000000 +0000"),
            ("2026-11-20 13:00", "2026-11-20 13:00:00.000000000 +0000"),
            ("2000-02-29T23:59:59.25Z", "2000-02-29 23:59:59.250000000 +0000"),
            ("2026-11-20 13:00:14 +0130", "2026-11-20 11:30:14.000000000 +0000"),
            ("1969-12-31T19:00:00-05:00", "1970-01-01 00:00:00.000000000 +0000"),
            ("@1700000000.5", "2023-11-14 22:13:20.500000000 +0000"),
            ("@-1.25", "1969-12-31 23:59:58.750000000 +0000"),
            ("2486-07-02 20:20:24", "2486-07-02 20:20:24.000000000 +0000"),
        ] {
            assert_eq!(shown(text), time, "{text}");
        }
        assert_eq!(parse_date("now", NOW), Ok(NOW));
        for text in ["", "tomorrow", "2026-13-01", "2026-02-29", "2026-11-20 25:00", "2026-11-20 1", "@x"] {
            assert!(parse_date(text, NOW).is_err(), "{text}");
        }
    }

    #[test]
    fn stamps() {
        let shown = |text| {
            let time = parse_stamp(text, NOW).unwrap();
            full_time(time.seconds, time.nanoseconds)
        };
        assert_eq!(shown("202611201300.14"), "2026-11-20 13:00:14.000000000 +0000");
        assert_eq!(shown("7001010000"), "1970-01-01 00:00:00.000000000 +0000");
        assert_eq!(shown("01020304"), "2026-01-02 03:04:00.000000000 +0000");
        assert!(parse_stamp("1", NOW).is_err() && parse_stamp("202611201300.1", NOW).is_err());
    }
}
