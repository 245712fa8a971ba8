//! Numbers as mkfs.xfs reads them: decimal, `0x…` or octal `0…`, and sizes with a unit.

use super::OptionError;

/// Sizes of the units `b` and `s`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Units {
    /// `b`, once it is known.
    pub block_bytes: Option<u64>,
    /// `s`, once it is known.
    pub sector_bytes: Option<u64>,
}

/// Splits `text` into a number and what follows it. The number saturates.
fn leading_number(text: &str) -> Option<(i128, &str)> {
    let trimmed = text.trim_start();
    let (is_negative, digits) = match trimmed.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, trimmed.strip_prefix('+').unwrap_or(trimmed)),
    };
    let is_hexadecimal = |text: &str| {
        let rest = text.strip_prefix("0x").or_else(|| text.strip_prefix("0X"))?;
        rest.starts_with(|c: char| c.is_ascii_hexdigit()).then_some(rest.len())
    };
    let (radix, digits) = match is_hexadecimal(digits) {
        Some(length) => (16, &digits[digits.len() - length..]),
        None if digits.starts_with('0') => (8, digits),
        None => (10, digits),
    };
    let length = digits.find(|c: char| !c.is_digit(radix)).unwrap_or(digits.len());
    let (number, rest) = digits.split_at(length);
    if number.is_empty() {
        return None;
    }
    let value = number.chars().filter_map(|c| c.to_digit(radix)).fold(0i128, |sum, digit| {
        // Larger than anything that any option allows is as good as any other such number.
        (sum * i128::from(radix) + i128::from(digit)).min(i128::from(u64::MAX) * 16)
    });
    Some((if is_negative { -value } else { value }, rest))
}

/// A number without a unit.
///
/// # Errors
/// Something else.
pub fn plain(text: &str) -> Result<i128, OptionError> {
    match leading_number(text) {
        Some((number, "")) => Ok(number),
        Some(_) => Err(OptionError::UnitNotAllowed { value: text.to_owned() }),
        None => Err(OptionError::NotANumber { value: text.to_owned() }),
    }
}

/// A size: a number, and one of the units b, s, k, m, g, t, p, e.
///
/// # Errors
/// Something else, or a unit that is not known (yet).
pub fn size(text: &str, units: Units) -> Result<i128, OptionError> {
    let bad = || OptionError::NotASize { value: text.to_owned() };
    let (number, unit) = leading_number(text).ok_or_else(bad)?;
    let factor: u64 = match unit.to_ascii_lowercase().as_str() {
        "" => 1,
        "b" => units.block_bytes.ok_or_else(bad)?,
        "s" => units.sector_bytes.ok_or_else(bad)?,
        "k" => 1 << 10,
        "m" => 1 << 20,
        "g" => 1 << 30,
        "t" => 1 << 40,
        "p" => 1 << 50,
        "e" => 1 << 60,
        _ => return Err(bad()),
    };
    number.checked_mul(factor.into()).ok_or_else(bad)
}

#[cfg(test)]
mod tests {
    use super::*;

    const UNITS: Units = Units { block_bytes: Some(4096), sector_bytes: None };

    #[test]
    fn numbers_have_three_bases() {
        assert_eq!(plain("10"), Ok(10));
        assert_eq!(plain("0x10"), Ok(16));
        assert_eq!(plain("010"), Ok(8));
        assert_eq!(plain("-3"), Ok(-3));
        assert_eq!(plain(" +3"), Ok(3));
        assert!(matches!(plain("4k"), Err(OptionError::UnitNotAllowed { .. })));
        assert!(matches!(plain("k"), Err(OptionError::NotANumber { .. })));
        assert!(matches!(plain("0x"), Err(OptionError::UnitNotAllowed { .. })));
        assert!(plain("99999999999999999999999999999999999999999999999999").unwrap() > i128::from(u64::MAX));
    }

    #[test]
    fn sizes_have_units() {
        assert_eq!(size("3b", UNITS), Ok(3 * 4096));
        assert_eq!(size("2K", UNITS), Ok(2048));
        assert_eq!(size("1e", UNITS), Ok(1 << 60));
        assert!(size("1s", UNITS).is_err());
        assert!(size("1kb", UNITS).is_err());
        assert!(size("1m ", UNITS).is_err());
        assert!(size("", UNITS).is_err());
    }
}
