//! Lists of mount options: commas between words, `\,` for a comma in a value.

use std::{fmt::Display, fs};

use super::OptionError;
use crate::log::Level;

/// One word of a list: a flag, or a key with its value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Word {
    /// The flag or the key.
    pub key: String,
    /// Behind the `=`; `None` for a flag.
    pub value: Option<String>,
}

impl Word {
    fn new(text: &str) -> Self {
        match text.split_once('=') {
            Some((key, value)) => Self { key: key.to_owned(), value: Some(value.to_owned()) },
            None => Self { key: text.to_owned(), value: None },
        }
    }

    /// The word as it stood in the list.
    pub fn text(&self) -> String {
        match &self.value {
            Some(value) => format!("{}={value}", self.key),
            None => self.key.clone(),
        }
    }

    /// The value of a key that needs one.
    pub fn text_value(&self) -> Result<String, OptionError> {
        match &self.value {
            Some(value) if !value.is_empty() => Ok(value.clone()),
            _ => Err(OptionError::NeedsValue { key: self.key.clone() }),
        }
    }

    /// The value as a number from `least` to `most`.
    pub fn number(&self, least: u64, most: u64) -> Result<u64, OptionError> {
        let value = self.text_value()?;
        let number = value.parse().ok().filter(|number| (least..=most).contains(number));
        number.ok_or_else(|| self.bad_value(format!("a number from {least} to {most}")))
    }

    /// The value as a number that the type decides the range of.
    pub fn small_number<N: TryFrom<u64>>(&self, least: u64, most: u64) -> Result<N, OptionError> {
        let number = self.number(least, most)?;
        N::try_from(number).map_err(|_| self.bad_value(format!("a number from {least} to {most}")))
    }

    /// The value as the number of a user or group, or as its name in `list`: `/etc/passwd` or `/etc/group`.
    pub fn account_number(&self, list: &str, most: u64) -> Result<u32, OptionError> {
        let value = self.text_value()?;
        let is_number = value.bytes().all(|byte| byte.is_ascii_digit());
        let named = || number_of_account(&fs::read(list).unwrap_or_default(), value.as_bytes());
        match named().filter(|_| !is_number) {
            Some(number) => Ok(number),
            None => self
                .small_number(0, most)
                .map_err(|_| self.bad_value(format!("a number from 0 to {most}, or a name in {list}"))),
        }
    }

    /// The value as the level of a log.
    pub fn level(&self) -> Result<Level, OptionError> {
        let value = self.text_value()?;
        let level = Level::ALL.into_iter().find(|level| level.name() == value);
        level.ok_or_else(|| self.bad_value(Level::ALL.map(Level::name).join(", ")))
    }

    /// The value as a size: bytes, or with K, M, G or T.
    pub fn size_bytes(&self) -> Result<u64, OptionError> {
        let value = self.text_value()?;
        parse_size(&value).ok_or_else(|| self.bad_value("a size such as 4096, 64K, 256M or 1G"))
    }

    /// The value as a size of at least so much, in mebibytes.
    pub fn size_bytes_from(&self, least_bytes: u64) -> Result<u64, OptionError> {
        let size_bytes = Some(self.size_bytes()?).filter(|size_bytes| *size_bytes >= least_bytes);
        size_bytes.ok_or_else(|| self.bad_value(format!("{}M or more, such as 256M", least_bytes >> 20)))
    }

    fn bad_value(&self, wanted: impl Display) -> OptionError {
        let value = self.value.clone().unwrap_or_default();
        OptionError::BadValue { key: self.key.clone(), value, wanted: wanted.to_string() }
    }
}

/// The words of a list. Empty ones are left out, as mount(8) does.
pub(super) fn split(list: &str) -> Vec<Word> {
    let mut texts = vec![String::new()];
    let mut characters = list.chars().peekable();
    while let Some(character) = characters.next() {
        let escaped = (character == '\\').then(|| characters.next_if(|next| matches!(next, ',' | '\\')));
        match (character, escaped.flatten(), texts.last_mut()) {
            (',', ..) => texts.push(String::new()),
            (_, Some(escaped), Some(text)) => text.push(escaped),
            (_, None, Some(text)) => text.push(character),
            (.., None) => {}
        }
    }
    texts.iter().filter(|text| !text.is_empty()).map(|text| Word::new(text)).collect()
}

/// A value as it stands in a list.
pub(super) fn escaped(value: &[u8]) -> Vec<u8> {
    let mut text = Vec::with_capacity(value.len());
    for byte in value {
        if matches!(byte, b',' | b'\\') {
            text.push(b'\\');
        }
        text.push(*byte);
    }
    text
}

/// The third field of the line of this name.
fn number_of_account(list: &[u8], name: &[u8]) -> Option<u32> {
    let mut lines = list.split(|byte| *byte == b'\n').map(|line| line.split(|byte| *byte == b':'));
    let number = lines.find_map(|mut fields| (fields.next()? == name).then(|| fields.nth(1)).flatten())?;
    std::str::from_utf8(number).ok()?.parse().ok()
}

/// Bytes, or with a suffix that stands for a power of 1024.
fn parse_size(text: &str) -> Option<u64> {
    let digits = text.trim_end_matches(|letter: char| letter.is_ascii_alphabetic());
    let shift = match text.get(digits.len()..)?.to_ascii_lowercase().as_str() {
        "" | "b" => 0,
        "k" | "kib" => 10,
        "m" | "mib" => 20,
        "g" | "gib" => 30,
        "t" | "tib" => 40,
        _ => return None,
    };
    digits.parse::<u64>().ok()?.checked_mul(1 << shift)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(list: &str) -> Vec<String> {
        split(list).iter().map(Word::text).collect()
    }

    #[test]
    fn commas_separate_unless_escaped() {
        assert_eq!(texts("ro,,noexec,"), ["ro", "noexec"]);
        assert_eq!(texts(r"fsname=a\,b\\c\d,ro"), [r"fsname=a,b\c\d", "ro"]);
        assert_eq!(texts(""), [""; 0]);
        assert_eq!(texts(r"\"), [r"\"]);
        assert_eq!(split("a=b=c"), [Word { key: "a".to_owned(), value: Some("b=c".to_owned()) }]);
    }

    #[test]
    fn values_come_back_from_a_list() {
        for value in ["", "plain", "a,b", r"a\", r"\,", r"\\,\"] {
            let list = format!("fsname=x{},ro", String::from_utf8(escaped(value.as_bytes())).unwrap());
            assert_eq!(texts(&list), [format!("fsname=x{value}"), "ro".to_owned()]);
        }
    }

    #[test]
    fn accounts_have_names() {
        let list = b"root:x:0:0:root:/root:/bin/sh\nshort:x\n\nann:x:1000:100::/:\n";
        let number = |name: &str| number_of_account(list, name.as_bytes());
        assert_eq!((number("root"), number("ann")), (Some(0), Some(1000)));
        assert_eq!((number("short"), number("bob"), number("")), (None, None, None));
        let account = |text: &str| Word::new(text).account_number("/etc/passwd", 9);
        assert_eq!((account("uid=root").unwrap(), account("uid=7").unwrap()), (0, 7));
        assert!(
            account("uid=10").is_err() && account("uid=no such user").is_err() && account("uid=").is_err()
        );
    }

    #[test]
    fn sizes_have_suffixes() {
        for (text, bytes) in
            [("0", 0), ("12", 12), ("4k", 4096), ("1KiB", 1024), ("3M", 3 << 20), ("1G", 1 << 30)]
        {
            assert_eq!(parse_size(text), Some(bytes), "{text}");
        }
        for text in ["", "k", "1x", "-1", "1.5G", "1 k", "99999999999999999999", "16777216T", "ä"] {
            assert_eq!(parse_size(text), None, "{text}");
        }
    }
}
