//! How manifests write bytes that are no plain letters.

use crate::{
    error::{Shown, TextFault},
    tar::pax::hexadecimal,
};

/// composefs: `\xHH`, `\n`, `\r`, `\t`, `\\`.
pub(super) fn composefs(text: &[u8]) -> Result<Vec<u8>, TextFault> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((first, behind)) = rest.split_first() {
        rest = behind;
        if *first != b'\\' {
            bytes.push(*first);
            continue;
        }
        let (byte, length) = match behind {
            [b'x', high, low, ..] => (hexadecimal(*high, *low), 3),
            [b'n', ..] => (Some(b'\n'), 1),
            [b'r', ..] => (Some(b'\r'), 1),
            [b't', ..] => (Some(b'\t'), 1),
            [b'\\', ..] => (Some(b'\\'), 1),
            _ => (None, 0),
        };
        bytes.push(byte.ok_or_else(|| TextFault::Escape(Shown::from(text)))?);
        rest = behind.get(length..).unwrap_or_default();
    }
    Ok(bytes)
}

/// Decodes any style of vis(3): octal, those of C, and `\M-x`, `\M^x`, `\^x`.
pub(super) fn vis(text: &[u8]) -> Result<Vec<u8>, TextFault> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((first, behind)) = rest.split_first() {
        rest = behind;
        if *first != b'\\' {
            bytes.push(*first);
            continue;
        }
        let (byte, length) = escape(behind).ok_or_else(|| TextFault::Escape(Shown::from(text)))?;
        bytes.extend(byte);
        rest = behind.get(length..).unwrap_or_default();
    }
    Ok(bytes)
}

/// The byte that an escape stands for, if for any, and its length behind the backslash.
fn escape(text: &[u8]) -> Option<(Option<u8>, usize)> {
    let octal = |byte: &u8| matches!(byte, b'0'..=b'7').then(|| byte - b'0');
    let digits = text.iter().take(3).map_while(octal).count();
    if digits > 0 {
        let value = text
            .iter()
            .take(digits)
            .filter_map(octal)
            .fold(0_u32, |value, digit| value << 3 | u32::from(digit));
        return Some((Some(u8::try_from(value).ok()?), digits));
    }
    let control = |letter: u8| if letter == b'?' { 0x7f } else { letter & 0x1f };
    Some(match text {
        [b'M', b'-', letter, ..] => (Some(letter | 0x80), 3),
        [b'M', b'^', letter, ..] => (Some(control(*letter) | 0x80), 3),
        [b'^', letter, ..] => (Some(control(*letter)), 2),
        [b'x', high, low, ..] => (Some(hexadecimal(*high, *low)?), 3),
        [b'n', ..] => (Some(b'\n'), 1),
        [b'r', ..] => (Some(b'\r'), 1),
        [b'b', ..] => (Some(0x08), 1),
        [b'a', ..] => (Some(0x07), 1),
        [b'v', ..] => (Some(0x0b), 1),
        [b't', ..] => (Some(b'\t'), 1),
        [b'f', ..] => (Some(0x0c), 1),
        [b's', ..] => (Some(b' '), 1),
        [b'E', ..] => (Some(0x1b), 1),
        // Written to keep others apart, and standing for nothing.
        [b'-' | b'$', ..] => (None, 1),
        [other @ (b'\\' | b'#' | b'=' | b' ' | b'*' | b'?' | b'[' | b'"' | b'\''), ..] => (Some(*other), 1),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_styles() {
        assert_eq!(composefs(br"a\x20b\n\r\t\\\xff").unwrap(), b"a b\n\r\t\\\xff");
        for text in [r"\x", r"\x2", r"\xgg", r"\q", r"a\"] {
            assert!(composefs(text.as_bytes()).is_err(), "{text}");
        }
        assert_eq!(vis(br"a\040b\s\#\\\M-C\M^A\^?\012\$\-\0x").unwrap(), b"a b #\\\xc3\x81\x7f\n\0x");
        for text in [r"\", r"\400", r"\M", r"\q"] {
            assert!(vis(text.as_bytes()).is_err(), "{text}");
        }
    }
}
