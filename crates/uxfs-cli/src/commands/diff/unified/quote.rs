//! Names in headers, as git writes them: in quotation marks where they have other bytes than plain ASCII. A name cannot end its line, and
//! nothing behind it is taken for a part of it.

use std::fmt::Write;

/// A path behind the `a/` or `b/` of its side.
pub(in super::super) fn quoted(side: &str, path: &[u8]) -> String {
    // A space as well: other readers of patches take it for the end.
    let is_plain = |byte: &u8| (b'!'..0x7f).contains(byte) && !matches!(byte, b'"' | b'\\');
    let mut words = String::with_capacity(path.len().saturating_add(4));
    if path.iter().all(is_plain) {
        words.push_str(side);
        words.extend(path.iter().copied().map(char::from));
        return words;
    }
    words.push('"');
    words.push_str(side);
    for byte in path {
        // Writing to memory cannot fail.
        let _ = match byte {
            b'"' | b'\\' => write!(words, "\\{}", char::from(*byte)),
            b'\x07' => words.write_str("\\a"),
            b'\x08' => words.write_str("\\b"),
            b'\t' => words.write_str("\\t"),
            b'\n' => words.write_str("\\n"),
            b'\x0b' => words.write_str("\\v"),
            b'\x0c' => words.write_str("\\f"),
            b'\r' => words.write_str("\\r"),
            b' '..0x7f => words.write_char(char::from(*byte)),
            byte => write!(words, "\\{byte:03o}"),
        };
    }
    words.push('"');
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_end_where_they_end() {
        assert_eq!(quoted("a/", b"etc/x-1"), "a/etc/x-1");
        assert_eq!(quoted("b/", b"a b"), "\"b/a b\"");
        assert_eq!(
            quoted("a/", b"x\n+++ b/y\t\x1b\"\\\xff\xc3\xbc"),
            "\"a/x\\n+++ b/y\\t\\033\\\"\\\\\\377\\303\\274\""
        );
        assert_eq!(quoted("", b"\x07\x08\x0b\x0c\r\x7f"), "\"\\a\\b\\v\\f\\r\\177\"");
    }
}
