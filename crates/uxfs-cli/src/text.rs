//! Modes, times, sizes and names as people read and write them.

use std::{
    io::{self, Write},
    num::NonZeroUsize,
    os::unix::ffi::OsStrExt,
    path::Path,
};

/// Threads of one command, at most: each takes address space and mappings, which the system bounds.
const MOST_THREADS: usize = 1024;

/// A count with its noun, as "1 inode" or "2 inodes".
pub fn counted(count: u64, noun: &str) -> String {
    format!("{count} {noun}{}", if count == 1 { "" } else { "s" })
}

/// Parses a number, decimal or hexadecimal after `0x`.
pub fn parse_number(text: &str) -> Option<u64> {
    match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    }
}

/// Parses a size in bytes: a number with an optional suffix K, M, G, T, P or E (powers of 1024).
pub fn parse_size(text: &str) -> Result<u64, String> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let number: u64 = digits.parse().map_err(|_| format!("`{text}` is not a size such as 512, 4K or 1G"))?;
    let shift = match text[digits.len()..].to_ascii_lowercase().as_str() {
        "" | "b" => 0,
        "k" | "kib" => 10,
        "m" | "mib" => 20,
        "g" | "gib" => 30,
        "t" | "tib" => 40,
        "p" | "pib" => 50,
        "e" | "eib" => 60,
        suffix => return Err(format!("unknown size suffix `{suffix}`: use K, M, G, T, P or E")),
    };
    number.checked_mul(1 << shift).ok_or_else(|| format!("`{text}` is too large"))
}

/// Parses a number of threads.
pub fn parse_threads(text: &str) -> Result<NonZeroUsize, String> {
    let threads = text.parse().ok().filter(|threads: &NonZeroUsize| threads.get() <= MOST_THREADS);
    threads.ok_or_else(|| format!("`{text}` is not a number of threads from 1 to {MOST_THREADS}"))
}

/// Writes bytes with everything that is not printable ASCII or valid UTF-8 text escaped as `\ooo`.
pub fn write_escaped(writer: &mut impl Write, bytes: &[u8]) -> io::Result<()> {
    for chunk in bytes.utf8_chunks() {
        for character in chunk.valid().chars() {
            if character.is_control() || character == '\\' {
                let mut buffer = [0; 4];
                for byte in character.encode_utf8(&mut buffer).bytes() {
                    write!(writer, "\\{byte:03o}")?;
                }
            } else {
                write!(writer, "{character}")?;
            }
        }
        for byte in chunk.invalid() {
            write!(writer, "\\{byte:03o}")?;
        }
    }
    Ok(())
}

/// As [`write_escaped`] writes them.
pub fn escaped(bytes: &[u8]) -> String {
    let mut text = Vec::with_capacity(bytes.len());
    // Writing to memory cannot fail, and what is written is valid UTF-8.
    let _ = write_escaped(&mut text, bytes);
    String::from_utf8_lossy(&text).into_owned()
}

/// A path as messages show it.
pub fn shown_path(path: &[u8]) -> String {
    if path.is_empty() { "\"\"".to_owned() } else { escaped(path) }
}

/// Bytes as one word of a command line of sh, bash or zsh, to be pasted.
pub fn shell_word(bytes: &[u8]) -> String {
    let is_plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"-_=.:/+,@%".contains(byte);
    let guard = if bytes.starts_with(b"-") { "./" } else { "" };
    match std::str::from_utf8(bytes) {
        Ok(text) if !text.is_empty() && bytes.iter().all(is_plain) => format!("{guard}{text}"),
        Ok(text) if !text.chars().any(char::is_control) => {
            format!("'{guard}{}'", text.replace('\'', "'\\''"))
        }
        _ => format!("$'{guard}{}'", bytes.escape_ascii()),
    }
}

/// As [`shell_word`], of a path.
pub fn shell_path(path: &Path) -> String {
    shell_word(path.as_os_str().as_bytes())
}

/// Bytes as hexadecimal digits.
pub fn hexadecimal(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let digit = |nibble: u8| char::from(DIGITS[usize::from(nibble)]);
    bytes.iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]).collect()
}

/// A mode as `ls -l` writes it: `drwxr-sr-x`.
pub fn mode_string(mode: u16) -> [u8; 10] {
    let kind = match mode & 0o170_000 {
        0o040_000 => b'd',
        0o120_000 => b'l',
        0o020_000 => b'c',
        0o060_000 => b'b',
        0o010_000 => b'p',
        0o140_000 => b's',
        0o100_000 => b'-',
        _ => b'?',
    };
    let mut text = [kind; 10];
    for (index, letter) in b"rwxrwxrwx".iter().enumerate() {
        text[index + 1] = if mode & (0o400 >> index) != 0 { *letter } else { b'-' };
    }
    for (bit, index, letter) in [(0o4000, 3, b's'), (0o2000, 6, b's'), (0o1000, 9, b't')] {
        if mode & bit != 0 {
            text[index] = if text[index] == b'x' { letter } else { letter.to_ascii_uppercase() };
        }
    }
    text
}

/// A moment of the Gregorian calendar in UTC.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Moment {
    /// Year.
    pub year: i64,
    /// 1 to 12.
    pub month: u32,
    /// 1 to 31.
    pub day: u32,
    /// 0 to 23.
    pub hour: u32,
    /// 0 to 59.
    pub minute: u32,
    /// 0 to 59.
    pub second: u32,
}

impl Moment {
    /// From seconds since 1970.
    pub fn from_unix_seconds(seconds: i64) -> Self {
        let days = seconds.div_euclid(86_400);
        let rest = seconds.rem_euclid(86_400) as u32;
        // Days counted from 1 March 0000, so that the leap day ends a year: 400 years are one era of 146,097 days.
        let shifted = days + 719_468;
        let era = shifted.div_euclid(146_097);
        let day_of_era = shifted.rem_euclid(146_097);
        let year_of_era =
            (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
        let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
        let month_from_march = (5 * day_of_year + 2) / 153;
        let day = (day_of_year - (153 * month_from_march + 2) / 5 + 1) as u32;
        let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 } as u32;
        let year = year_of_era + era * 400 + i64::from(month <= 2);
        Self { year, month, day, hour: rest / 3600, minute: rest / 60 % 60, second: rest % 60 }
    }
}

/// A time as `2026-11-20 13:00:14.123456789 +0000`.
pub fn full_time(seconds: i64, nanoseconds: u32) -> String {
    let Moment { year, month, day, hour, minute, second } = Moment::from_unix_seconds(seconds);
    format!("{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02}.{nanoseconds:09} +0000")
}

/// A size for people: `1.5G`.
pub fn human_size(bytes: u64) -> String {
    const UNITS: [&str; 6] = ["K", "M", "G", "T", "P", "E"];
    if bytes < 1024 {
        return bytes.to_string();
    }
    let mut value = bytes as f64 / 1024.0;
    let mut unit = 0;
    while value >= 1024.0 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    if value < 10.0 { format!("{value:.1}{}", UNITS[unit]) } else { format!("{value:.0}{}", UNITS[unit]) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes() {
        assert_eq!(parse_size("1M"), Ok(1 << 20));
        assert_eq!(parse_size("512"), Ok(512));
        assert!(parse_size("1X").is_err());
        assert!(parse_size("99999999T").is_err());
        assert_eq!(human_size(1536), "1.5K");
        assert_eq!(human_size(5 << 30), "5.0G");
    }

    #[test]
    fn modes() {
        assert_eq!(&mode_string(0o040_755), b"drwxr-xr-x");
        assert_eq!(&mode_string(0o104_711), b"-rws--x--x");
        assert_eq!(&mode_string(0o041_666), b"drw-rw-rwT");
    }

    #[test]
    fn dates_far_and_near() {
        assert_eq!(full_time(0, 0), "1970-01-01 00:00:00.000000000 +0000");
        assert_eq!(full_time(-1, 5), "1969-12-31 23:59:59.000000005 +0000");
        assert_eq!(full_time(1_795_179_614, 0), "2026-11-20 13:00:14.000000000 +0000");
        assert_eq!(full_time(16_299_260_424, 0), "2486-07-02 20:20:24.000000000 +0000");
        assert_eq!(full_time(951_782_400, 0), "2000-02-29 00:00:00.000000000 +0000");
    }

    #[test]
    fn names_cannot_steer_a_terminal() {
        let mut text = Vec::new();
        write_escaped(&mut text, b"a\x1b[2J\\\xff\xc3\xa9").unwrap();
        assert_eq!(text, "a\\033[2J\\134\\377é".as_bytes());
    }
}
