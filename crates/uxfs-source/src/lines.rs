//! Lines of a text that may be anything, packed or not.

use std::{
    fs::File,
    io::{BufRead, BufReader, Read},
    path::Path,
};

use crate::{
    error::{Shown, SourceError, TextFault},
    packing::{Unpacked, unpack},
};

/// Longest line: one with the content of a small file and its attributes.
const MAX_LINE_BYTES: u64 = 64 << 20;

/// A text, line by line.
pub(crate) struct Lines {
    name: Shown,
    reader: BufReader<Unpacked>,
    line: Vec<u8>,
    number: u64,
}

impl Lines {
    pub(crate) fn open(path: &Path) -> Result<Self, SourceError> {
        let failed = |error| SourceError::host(path, "open", error);
        let file = File::open(path).map_err(failed)?;
        let text = unpack(BufReader::new(file)).map_err(failed)?;
        Ok(Self::of(Shown::from(path.as_os_str().as_encoded_bytes()), text))
    }

    pub(crate) fn new(name: Shown, reader: Box<dyn Read + Send>) -> Self {
        Self::of(name, Unpacked::plain(reader))
    }

    /// Of a text that has been unpacked.
    pub(crate) fn of(name: Shown, text: Unpacked) -> Self {
        Self { name, reader: BufReader::with_capacity(128 << 10, text), line: Vec::new(), number: 0 }
    }

    pub(crate) fn name(&self) -> &Shown {
        &self.name
    }

    /// The next line without its end, or `None`.
    pub(crate) fn next(&mut self) -> Result<Option<&[u8]>, SourceError> {
        self.line.clear();
        self.number += 1;
        let mut limited = (&mut self.reader).take(MAX_LINE_BYTES);
        let read = limited.read_until(b'\n', &mut self.line);
        let read = read.map_err(|error| SourceError::io(&self.name.0, "read", error))?;
        if read == 0 {
            return match self.reader.get_ref().behind() {
                None => Ok(None),
                // What was to be a further part would be missing.
                Some((start_bytes, length_bytes)) => {
                    Err(self.error(TextFault::BehindPacked { start_bytes, length_bytes }))
                }
            };
        }
        if self.line.last() == Some(&b'\n') {
            self.line.pop();
        } else if read as u64 >= MAX_LINE_BYTES {
            return Err(self.error(TextFault::LineTooLong));
        }
        Ok(Some(&self.line))
    }

    /// Something wrong with the last line.
    pub(crate) fn error(&self, fault: TextFault) -> SourceError {
        SourceError::Text { file: self.name.clone(), line: self.number, fault }
    }
}

/// Bytes of an unexpected word that a message shows.
const MOST_SHOWN_BYTES: usize = 80;

/// A word that is not what it ought to be.
pub(crate) fn unexpected(word: &[u8], expected: &'static str) -> TextFault {
    // A file that is no text may have a word of any length.
    let shown = word.get(..MOST_SHOWN_BYTES).unwrap_or(word);
    TextFault::Unexpected { word: Shown::from(shown), expected }
}

/// A number in decimal digits.
pub(crate) fn decimal<T: TryFrom<u64>>(word: &[u8], expected: &'static str) -> Result<T, TextFault> {
    number(word, 10, expected)
}

/// A number in octal digits.
pub(crate) fn octal<T: TryFrom<u64>>(word: &[u8], expected: &'static str) -> Result<T, TextFault> {
    number(word, 8, expected)
}

fn number<T: TryFrom<u64>>(word: &[u8], radix: u32, expected: &'static str) -> Result<T, TextFault> {
    let digit = |value: Option<u64>, byte: &u8| {
        let digit = char::from(*byte).to_digit(radix)?;
        value?.checked_mul(radix.into())?.checked_add(digit.into())
    };
    let value = if word.is_empty() { None } else { word.iter().fold(Some(0), digit) };
    value.and_then(|value| T::try_from(value).ok()).ok_or_else(|| unexpected(word, expected))
}

/// Seconds, and behind a point nanoseconds: a number of them, not a fraction.
pub(crate) fn time(word: &[u8]) -> Result<crate::entry::Timestamp, TextFault> {
    let bad = || unexpected(word, "time");
    let (is_negative, text) = word.strip_prefix(b"-").map_or((false, word), |rest| (true, rest));
    let mut parts = text.splitn(2, |byte| *byte == b'.');
    let seconds: i64 = decimal::<i64>(parts.next().unwrap_or_default(), "time").map_err(|_| bad())?;
    let nanoseconds = parts.next().map_or(Ok(0), |word| decimal::<u32>(word, "time")).map_err(|_| bad())?;
    if nanoseconds >= 1_000_000_000 {
        return Err(bad());
    }
    Ok(crate::entry::Timestamp { seconds: if is_negative { -seconds } else { seconds }, nanoseconds })
}
