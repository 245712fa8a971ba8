//! Sizes as du and df print them, rounded up: in units of a size, or for people.

/// The letters of powers, from the first.
const LETTERS: &[u8; 6] = b"KMGTPE";

/// A unit in which sizes are printed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Unit {
    /// In multiples of so many bytes, with this behind them.
    Fixed {
        /// The unit.
        bytes: u64,
        /// What follows the number.
        suffix: String,
    },
    /// Such as 1.5K, in powers of 1024.
    Human,
    /// Such as 1.5k, in powers of 1000.
    HumanSi,
}

impl Unit {
    /// A unit of so many bytes.
    pub fn of(bytes: u64) -> Self {
        Self::Fixed { bytes, suffix: String::new() }
    }

    /// Reads `4096`, `1K`, `KiB`, `MB`, `human-readable` or `si`. A unit without a number is printed behind each size.
    ///
    /// # Errors
    /// It is none of these.
    pub fn parse(text: &str) -> Result<Self, String> {
        match text {
            "human" | "human-readable" => return Ok(Self::Human),
            "si" => return Ok(Self::HumanSi),
            _ => {}
        }
        let bytes = parse_bytes(text)?;
        if bytes == 0 {
            return Err("the unit is 0".to_owned());
        }
        let has_number = text.starts_with(|first: char| first.is_ascii_digit());
        let suffix = match text.strip_suffix('B') {
            _ if has_number => String::new(),
            Some(power) if !power.ends_with('i') => text.replacen('K', "k", 1),
            _ => text.to_ascii_uppercase().replace("IB", "iB"),
        };
        Ok(Self::Fixed { bytes, suffix })
    }

    /// A size.
    pub fn shown(&self, bytes: u64) -> String {
        match self {
            Self::Fixed { bytes: unit, suffix } => format!("{}{suffix}", bytes.div_ceil(*unit)),
            Self::Human => human(bytes, 1024),
            Self::HumanSi => human(bytes, 1000),
        }
    }

    /// A number of things, such as inodes, which have no unit.
    pub fn counted(&self, count: u64) -> String {
        match self {
            Self::Fixed { .. } => count.to_string(),
            Self::Human | Self::HumanSi => self.shown(count),
        }
    }

    /// The head of a column of sizes.
    pub fn heading(&self) -> String {
        let Self::Fixed { bytes, .. } = self else { return "Size".to_owned() };
        for (base, behind) in [(1024, ""), (1000, "B")] {
            let (mut number, mut power) = (*bytes, 0);
            while number.is_multiple_of(base) && power < LETTERS.len() {
                number /= base;
                power += 1;
            }
            if let Some(letter) = power.checked_sub(1).and_then(|power| LETTERS.get(power)) {
                let letter = char::from(if base == 1000 && power == 1 { b'k' } else { *letter });
                return format!("{number}{letter}{behind}-blocks");
            }
        }
        format!("{bytes}B-blocks")
    }
}

/// Reads a number of bytes: `512`, `4K`, `4KiB`, `4KB`, or a unit alone.
///
/// # Errors
/// It is none of these, or too large.
pub fn parse_bytes(text: &str) -> Result<u64, String> {
    let wrong = || format!("`{text}` is not a size such as 512, 4K or 1MB");
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, suffix) = text.split_at(digits);
    let number: u64 = if number.is_empty() { 1 } else { number.parse().map_err(|_| wrong())? };
    let mut letters = suffix.chars();
    let Some(letter) = letters.next() else {
        return if digits == 0 { Err(wrong()) } else { Ok(number) };
    };
    let base: u64 = match letters.as_str() {
        "" | "iB" => 1024,
        "B" => 1000,
        _ => return Err(wrong()),
    };
    let upper = if letter == 'k' { 'K' } else { letter };
    let power = LETTERS.iter().position(|known| char::from(*known) == upper).ok_or_else(wrong)?;
    let power = u32::try_from(power + 1).map_err(|_| wrong())?;
    base.checked_pow(power).and_then(|unit| unit.checked_mul(number)).ok_or(format!("`{text}` is too large"))
}

/// With one digit behind the point below ten, and none above.
fn human(number: u64, base: u64) -> String {
    if number < base {
        return number.to_string();
    }
    let (number, base) = (u128::from(number), u128::from(base));
    let mut unit = base;
    for letter in LETTERS {
        let letter = char::from(if base == 1000 && *letter == b'K' { b'k' } else { *letter });
        let tenths = (number * 10).div_ceil(unit);
        if tenths < 100 {
            return format!("{}.{}{letter}", tenths / 10, tenths % 10);
        }
        let whole = number.div_ceil(unit);
        if whole < base || letter == 'E' {
            return format!("{whole}{letter}");
        }
        unit *= base;
    }
    number.to_string()
}

/// The unit of sizes; of several the last one counts.
#[derive(Debug, clap::Args)]
pub struct UnitArguments {
    /// Sizes such as 1.5K, in powers of 1024
    #[arg(short = 'h', long, overrides_with_all = ["si", "block_size", "kibibytes", "mebibytes"])]
    human_readable: bool,
    /// Sizes such as 1.5k, in powers of 1000
    #[arg(long, overrides_with_all = ["human_readable", "block_size", "kibibytes", "mebibytes"])]
    si: bool,
    /// Sizes in units of SIZE
    #[arg(short = 'B', long, value_name = "SIZE", value_parser = Unit::parse, overrides_with_all = ["human_readable", "si", "kibibytes", "mebibytes"])]
    block_size: Option<Unit>,
    /// Sizes in units of 1024 bytes
    #[arg(short = 'k', overrides_with_all = ["human_readable", "si", "block_size", "mebibytes"])]
    kibibytes: bool,
    /// Sizes in units of 1048576 bytes
    #[arg(short = 'm', overrides_with_all = ["human_readable", "si", "block_size", "kibibytes"])]
    mebibytes: bool,
}

impl UnitArguments {
    /// The unit that is asked for.
    pub fn unit(&self) -> Option<Unit> {
        match () {
            () if self.human_readable => Some(Unit::Human),
            () if self.si => Some(Unit::HumanSi),
            () if self.kibibytes => Some(Unit::of(1 << 10)),
            () if self.mebibytes => Some(Unit::of(1 << 20)),
            () => self.block_size.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units() {
        let shown = |unit: &str, bytes| Unit::parse(unit).unwrap().shown(bytes);
        assert_eq!(shown("M", 1_519_616), "2M");
        assert_eq!(shown("1M", 1_519_616), "2");
        assert_eq!(shown("KB", 1_519_616), "1520kB");
        assert_eq!(shown("KiB", 1_519_616), "1484KiB");
        assert_eq!(shown("si", 1_519_616), "1.6M");
        assert_eq!(shown("human", 1_048_064), "1.0M");
        assert_eq!(shown("human", 10_241), "11K");
        assert_eq!(shown("human", 1023), "1023");
        assert_eq!(shown("human", u64::MAX), "16E");
        for wrong in ["", "0", "x", "1B", "KK", "1Z", "99999999T"] {
            assert!(Unit::parse(wrong).is_err(), "{wrong}");
        }
        assert_eq!(Unit::of(1024).heading(), "1K-blocks");
        assert_eq!(Unit::of(1_000_000).heading(), "1MB-blocks");
        assert_eq!(Unit::of(1).heading(), "1B-blocks");
    }
}
