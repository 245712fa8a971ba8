//! Errors of the host in words.

use std::{borrow::Cow, fmt::Display};

/// What the standard library puts behind the words of an error of the system.
const NUMBER: &str = " (os error ";

/// The text without the numbers of the system's errors: "File too large (os error 27)" is "File too large".
pub fn without_error_numbers(text: &str) -> Cow<'_, str> {
    if !text.contains(NUMBER) {
        return Cow::Borrowed(text);
    }
    let mut words = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, behind)) = rest.split_once(NUMBER) {
        words.push_str(before);
        let digits = behind.trim_start_matches(|digit: char| digit.is_ascii_digit());
        match digits.strip_prefix(')') {
            Some(after) if digits.len() < behind.len() => rest = after,
            _ => {
                words.push_str(NUMBER);
                rest = behind;
            }
        }
    }
    words.push_str(rest);
    Cow::Owned(words)
}

/// An error in words, without the numbers of the system's errors.
pub fn in_words(error: &impl Display) -> String {
    without_error_numbers(&error.to_string()).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_errors_are_left_out() {
        let error = std::io::Error::from_raw_os_error(27);
        assert!(error.to_string().ends_with("(os error 27)"), "{error}");
        assert_eq!(in_words(&error), "File too large");
        for (text, expected) in [
            ("a: b (os error 2) (c)", "a: b (c)"),
            ("one (os error 1), two (os error 22)", "one, two"),
            ("no number", "no number"),
            ("a file (os error of mine)", "a file (os error of mine)"),
            ("a (os error )", "a (os error )"),
            ("a (os error 5", "a (os error 5"),
            ("(os error x) (os error 7)", "(os error x)"),
        ] {
            assert_eq!(without_error_numbers(text), expected);
        }
    }
}
