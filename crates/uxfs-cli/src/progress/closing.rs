//! The sentence at the end of long work: `extracted 12,345 files and 320 directories, 1.25 GiB in 3.4 s (376.47 MiB/s)`.

use std::{
    fmt::{self, Display},
    time::{Duration, Instant},
};

use indicatif::{BinaryBytes, HumanCount};
use uxfs_engine::engine::statistics::Statistics;

use super::is_shown;
use crate::{
    kind::Note,
    output::{is_json, notice},
};

/// A rate of shorter work says nothing.
const RATED_AFTER: Duration = Duration::from_millis(500);

/// What long work has done so far.
#[derive(Debug, Clone, Copy)]
pub struct Closing {
    /// When it began.
    begun: Instant,
    /// What was done, as a participle.
    pub done: &'static str,
    /// Things that were worked on, and their name in the plural.
    pub things: (u64, &'static str),
    /// Directories, where these are no things.
    pub directories: u64,
    /// Bytes that were moved.
    pub bytes: u64,
    /// Free bytes in the file system afterwards, and how many it has.
    pub free: Option<(u64, u64)>,
}

/// Free bytes and all bytes, as `df` shows them.
pub fn free_space(statistics: Statistics) -> (u64, u64) {
    let bytes = |blocks: u64| blocks.saturating_mul(u64::from(statistics.block_size_bytes));
    (bytes(statistics.free_blocks), bytes(statistics.blocks))
}

impl Closing {
    /// Nothing is done yet.
    pub fn begin(done: &'static str) -> Self {
        Self { begun: Instant::now(), done, things: (0, "files"), directories: 0, bytes: 0, free: None }
    }

    /// Whether it took so long that a person was waiting.
    pub fn is_long(&self) -> bool {
        self.begun.elapsed() >= RATED_AFTER
    }

    /// Tells it on standard error where that is a terminal.
    pub fn tell(&self, is_quiet: bool) {
        if !is_quiet && is_shown() && !is_json() {
            notice!(Note::Progress, "{self}");
        }
    }
}

impl Display for Closing {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}", Words { closing: self, time: self.begun.elapsed() })
    }
}

struct Words<'a> {
    closing: &'a Closing,
    time: Duration,
}

impl Display for Words<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Closing { done, things: (count, name), directories, bytes, free, .. } = *self.closing;
        write!(formatter, "{done} {}", Counted(count, name))?;
        if directories > 0 {
            write!(formatter, " and {}", Counted(directories, "directories"))?;
        }
        if bytes > 0 {
            write!(formatter, ", {}", BinaryBytes(bytes))?;
        }
        write!(formatter, " in {}", Seconds(self.time))?;
        if bytes > 0 && self.time >= RATED_AFTER {
            write!(formatter, " ({}/s)", BinaryBytes((bytes as f64 / self.time.as_secs_f64()) as u64))?;
        }
        if let Some((free_bytes, size_bytes)) = free {
            let percent = free_bytes as f64 * 100.0 / size_bytes.max(1) as f64;
            write!(
                formatter,
                "; {} of {} ({percent:.1} %) free",
                BinaryBytes(free_bytes),
                BinaryBytes(size_bytes)
            )?;
        }
        Ok(())
    }
}

/// A number with the name of what is counted; the name is given in the plural.
struct Counted(u64, &'static str);

impl Display for Counted {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(count, plural) = *self;
        let name = match (count, plural.strip_suffix("ies")) {
            (1, Some(stem)) => format!("{stem}y"),
            (1, None) => plural.strip_suffix('s').unwrap_or(plural).to_owned(),
            _ => plural.to_owned(),
        };
        write!(formatter, "{} {name}", HumanCount(count))
    }
}

struct Seconds(Duration);

impl Display for Seconds {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = self.0.as_secs();
        match seconds {
            0..60 => write!(formatter, "{:.1} s", self.0.as_secs_f64()),
            60..3600 => write!(formatter, "{} min {} s", seconds / 60, seconds % 60),
            _ => write!(formatter, "{} h {} min", seconds / 3600, seconds % 3600 / 60),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(closing: Closing, milliseconds: u64) -> String {
        Words { closing: &closing, time: Duration::from_millis(milliseconds) }.to_string()
    }

    #[test]
    fn sentences() {
        let none = Closing::begin("extracted");
        assert_eq!(words(none, 20), "extracted 0 files in 0.0 s");
        let one = Closing { things: (1, "files"), directories: 1, bytes: 1 << 10, ..none };
        assert_eq!(words(one, 20), "extracted 1 file and 1 directory, 1.00 KiB in 0.0 s");
        let many = Closing {
            things: (12_345, "files"),
            directories: 320,
            bytes: 3 << 30,
            free: Some((1 << 30, 4 << 30)),
            ..none
        };
        assert_eq!(
            words(many, 3000),
            "extracted 12,345 files and 320 directories, 3.00 GiB in 3.0 s (1.00 GiB/s); 1.00 GiB of 4.00 GiB (25.0 %) free"
        );
        assert!(words(many, 61_000).contains(" in 1 min 1 s "));
        assert!(words(many, 7_260_000).contains(" in 2 h 1 min "));
    }
}
