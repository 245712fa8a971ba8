//! Compiled files of labels, as `sefcontext_compile` writes them: `file_contexts.bin`.
//!
//! | version | written by libselinux | numbers | holds |
//! |---|---|---|---|
//! | 5, with PCRE2 | before 3.8 | in the byte order of the machine | the rules in their order ([`ordered`]) |
//! | 6 | from 3.8 on | big-endian | a tree of folders, with the rules for what lies below them ([`tree`]) |
//!
//! Both begin with magic, version, the version of PCRE2 and the architecture; of the latter two a length and the text. Compiled
//! expressions say nothing that is not in their text: they are passed over.

mod ordered;
#[cfg(test)]
mod tests;
mod tree;

use std::io::{self, Read};

use super::Rule;
use crate::error::{CompiledFault, Shown, SourceError, TextFault};

const MAGIC: u32 = 0xf97c_ff8a;
const ORDERED_VERSION: u32 = 5;
const TREE_VERSION: u32 = 6;

/// Contexts, expressions and names.
const MAX_TEXT_BYTES: u32 = 64 << 10;
/// All of these together: some hundred times those of the largest policies. Unit tests are not optimised.
const MAX_TEXTS_BYTES: u32 = if cfg!(test) { 4 << 20 } else { 64 << 20 };
/// A compiled expression; those of policies have some kilobytes.
const MAX_EXPRESSION_BYTES: u32 = 64 << 20;

/// Takes the rules one by one.
type Add<'a> = &'a mut dyn FnMut(Rule) -> Result<(), TextFault>;

/// Whether a file that begins so is compiled.
pub(super) fn is_magic(start: [u8; 4]) -> bool {
    [u32::from_le_bytes(start), u32::from_be_bytes(start)].contains(&MAGIC)
}

/// A compiled file that is read.
pub(super) struct Compiled<R> {
    name: Shown,
    stream: R,
    is_big_endian: bool,
    /// How many bytes of texts may follow.
    texts_left: u32,
    /// The last rule that was read.
    number: u32,
}

impl<R: Read> Compiled<R> {
    /// Of a stream whose first four bytes, a magic, have been read.
    pub(super) fn new(name: Shown, start: [u8; 4], stream: R) -> Self {
        let is_big_endian = u32::from_be_bytes(start) == MAGIC;
        Self { name, stream, is_big_endian, texts_left: MAX_TEXTS_BYTES, number: 0 }
    }

    /// Gives all rules to `add`, those that go before others behind them.
    pub(super) fn read(&mut self, add: Add<'_>) -> Result<(), SourceError> {
        let version = self.number("its head")?;
        let is_own_order = self.is_big_endian == cfg!(target_endian = "big");
        match version {
            ORDERED_VERSION if is_own_order => {
                self.pass_expression_version()?;
                ordered::read(self, add)?;
            }
            TREE_VERSION if self.is_big_endian => {
                self.pass_expression_version()?;
                tree::read(self, add)?;
            }
            ..=ORDERED_VERSION if !is_own_order => return Err(self.fault(CompiledFault::ByteOrder)),
            other => return Err(self.fault(CompiledFault::Version(other))),
        }
        match self.stream.read(&mut [0]).map_err(|error| self.failed(error))? {
            0 => Ok(()),
            _ => Err(self.fault(CompiledFault::Behind)),
        }
    }

    fn pass_expression_version(&mut self) -> Result<(), SourceError> {
        let expressions = self.text("its head")?;
        if !expressions.starts_with(b"10.") {
            return Err(self.fault(CompiledFault::Expressions(Shown::from(&*expressions))));
        }
        self.text("its head")?;
        Ok(())
    }

    /// Passes over a compiled expression.
    fn pass_expression(&mut self) -> Result<(), SourceError> {
        let length = self.number_up_to(MAX_EXPRESSION_BYTES, "an expression", "the length")?;
        self.skip(length.into(), "an expression")
    }

    /// Something wrong with the last rule.
    fn rule_fault(&self, fault: TextFault) -> SourceError {
        self.fault(CompiledFault::Rule { number: self.number, fault })
    }

    pub(super) fn fault(&self, fault: CompiledFault) -> SourceError {
        SourceError::Compiled { file: self.name.clone(), fault }
    }

    fn failed(&self, error: io::Error) -> SourceError {
        SourceError::io(&self.name.0, "read", error)
    }

    fn bytes<const COUNT: usize>(&mut self, within: &'static str) -> Result<[u8; COUNT], SourceError> {
        let mut bytes = [0; COUNT];
        match self.stream.read_exact(&mut bytes) {
            Ok(()) => Ok(bytes),
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
                Err(self.fault(CompiledFault::Truncated(within)))
            }
            Err(error) => Err(self.failed(error)),
        }
    }

    fn number(&mut self, within: &'static str) -> Result<u32, SourceError> {
        let bytes = self.bytes(within)?;
        Ok(if self.is_big_endian { u32::from_be_bytes(bytes) } else { u32::from_le_bytes(bytes) })
    }

    fn number_up_to(
        &mut self,
        limit: u32,
        within: &'static str,
        what: &'static str,
    ) -> Result<u32, SourceError> {
        let found = self.number(within)?;
        match found > limit {
            true => Err(self.fault(CompiledFault::TooMuch { what, found, limit })),
            false => Ok(found),
        }
    }

    /// A length and so many bytes.
    fn text(&mut self, within: &'static str) -> Result<Vec<u8>, SourceError> {
        let length = self.number_up_to(MAX_TEXT_BYTES, within, "the length")?;
        self.text_of(length, within)
    }

    fn text_of(&mut self, length: u32, within: &'static str) -> Result<Vec<u8>, SourceError> {
        let too_much = CompiledFault::TooMuch { what: "texts", found: length, limit: self.texts_left };
        let left = self.texts_left.checked_sub(length);
        self.texts_left = left.ok_or_else(|| self.fault(too_much))?;
        let mut bytes = Vec::new();
        let read = self.stream.by_ref().take(length.into()).read_to_end(&mut bytes);
        match read.map_err(|error| self.failed(error))? as u64 == u64::from(length) {
            true => Ok(bytes),
            false => Err(self.fault(CompiledFault::Truncated(within))),
        }
    }

    /// What a text of a rule is without the zero byte at its end.
    fn terminated(&self, mut text: Vec<u8>) -> Result<Vec<u8>, SourceError> {
        match text.pop() {
            Some(0) if !text.contains(&0) => Ok(text),
            _ => Err(self.rule_fault(TextFault::Missing("the zero byte behind a text"))),
        }
    }

    fn skip(&mut self, bytes: u64, within: &'static str) -> Result<(), SourceError> {
        let skipped = io::copy(&mut self.stream.by_ref().take(bytes), &mut io::sink());
        match skipped.map_err(|error| self.failed(error))? == bytes {
            true => Ok(()),
            false => Err(self.fault(CompiledFault::Truncated(within))),
        }
    }
}

/// An expression as it is to be matched.
fn expression(text: &[u8]) -> Result<&str, TextFault> {
    std::str::from_utf8(text).map_err(|_| TextFault::Pattern("the expression is no text".to_owned()))
}
