//! Extended attributes as text: the form that getfattr prints and setfattr takes.

use std::io::{self, Write};

use crate::text::hexadecimal;

/// How values are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Encoding {
    /// In quotes; some bytes as `\ooo`
    Text,
    /// 0x and hexadecimal digits
    Hex,
    /// 0s and base64
    Base64,
}

/// One byte in so many may be none that prints, in a value that is shown as text by itself.
const PRINTED_PER_OTHER: usize = 8;

/// Writes a value: in an encoding, or as text where most of it prints and else in base64.
///
/// # Errors
/// Of the writer.
pub fn write_value(
    writer: &mut impl Write,
    value: &[u8],
    encoding: Option<Encoding>,
    is_terminal: bool,
) -> io::Result<()> {
    // Programs in C store the zero byte behind their texts. It is not shown.
    let text = value.strip_suffix(b"\0").unwrap_or(value);
    let encoding = encoding.unwrap_or_else(|| match is_mostly_text(text) {
        true => Encoding::Text,
        false => Encoding::Base64,
    });
    match encoding {
        Encoding::Text => {
            writer.write_all(b"\"")?;
            write_escaped(writer, text, b"\0\n\r", b"\"\\", is_terminal)?;
            writer.write_all(b"\"")
        }
        Encoding::Hex => write!(writer, "0x{}", hexadecimal(value)),
        Encoding::Base64 => write!(writer, "0s{}", base64(value)),
    }
}

/// Writes a name.
///
/// # Errors
/// Of the writer.
pub fn write_name(writer: &mut impl Write, name: &[u8], is_terminal: bool) -> io::Result<()> {
    write_escaped(writer, name, b"\n\r\\=", b"", is_terminal)
}

/// Writes a path.
///
/// # Errors
/// Of the writer.
pub fn write_path(writer: &mut impl Write, path: &[u8], is_terminal: bool) -> io::Result<()> {
    write_escaped(writer, path, b"\n\r\\", b"", is_terminal)
}

fn is_mostly_text(text: &[u8]) -> bool {
    let others = text.iter().filter(|byte| !is_printed(byte)).count();
    others.saturating_mul(PRINTED_PER_OTHER) <= text.len()
}

fn is_printed(byte: &u8) -> bool {
    (b' '..=b'~').contains(byte)
}

/// Bytes of `octal` are written as `\ooo`, those of `quoted` with a backslash. On a terminal so is whatever could steer it.
fn write_escaped(
    writer: &mut impl Write,
    bytes: &[u8],
    octal: &[u8],
    quoted: &[u8],
    is_terminal: bool,
) -> io::Result<()> {
    // All of a text that is UTF-8 prints, but for its control characters.
    let is_text = std::str::from_utf8(bytes).is_ok_and(|text| !text.chars().any(char::is_control));
    for byte in bytes {
        let steers = is_terminal && !is_printed(byte) && !is_text;
        if octal.contains(byte) || steers {
            write!(writer, "\\{byte:03o}")?;
        } else {
            if quoted.contains(byte) {
                writer.write_all(b"\\")?;
            }
            writer.write_all(&[*byte])?;
        }
    }
    Ok(())
}

fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for chunk in bytes.chunks(3) {
        let byte = |index: usize| u32::from(chunk.get(index).copied().unwrap_or(0));
        let bits = byte(0) << 16 | byte(1) << 8 | byte(2);
        for digit in 0..4 {
            let index = (bits >> (18 - 6 * digit)) & 63;
            text.push(if digit <= chunk.len() { char::from(DIGITS[index as usize]) } else { '=' });
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(bytes: &[u8], encoding: Option<Encoding>, is_terminal: bool) -> String {
        let mut text = Vec::new();
        write_value(&mut text, bytes, encoding, is_terminal).unwrap();
        String::from_utf8_lossy(&text).into_owned()
    }

    #[test]
    fn values_are_text_where_most_of_them_prints() {
        for (bytes, expected) in [
            (&b"hello"[..], "\"hello\""),
            (b"", "\"\""),
            (b"a\"b\\c", "\"a\\\"b\\\\c\""),
            (b"line\nline", "\"line\\012line\""),
            (b"text\0", "\"text\""),
            (b"abcdef\x01\0", "0sYWJjZGVmAQA="),
            (b"\x01", "0sAQ=="),
            (b"caf\xe9", "0sY2Fm6Q=="),
        ] {
            assert_eq!(value(bytes, None, false), expected);
        }
        assert_eq!(value(b"a\x1b[2J", Some(Encoding::Text), true), "\"a\\033[2J\"");
        assert_eq!(value("ä".as_bytes(), Some(Encoding::Text), true), "\"ä\"");
        assert_eq!(value(b"\0\xff", Some(Encoding::Hex), true), "0x00ff");
    }
}
