//! Compiled files of labels, as `sefcontext_compile` writes them: `file_contexts.bin`.
//!
//! Numbers have 32 bits and the byte order of the machine. Version 5, with PCRE2:
//!
//! | part | holds |
//! |---|---|
//! | head | magic, version; the version of PCRE2 and the architecture, each a length and text |
//! | stems | their count; of each a length, text and a zero byte |
//! | rules | their count; of each the context and the expression, each a length with a zero byte, and text; the file type as in a mode, 0 for any; stem; whether it is more than a path; length of the part without special characters; the compiled expression, a length and data |
//!
//! Stems and compiled expressions say nothing that is not in the text of the expressions: they are passed over. Version 6, of
//! libselinux 3.8, is a tree.

use std::io::{self, Read};

use super::{Rule, kind_of_mode, label_of};
use crate::error::{CompiledFault, Shown, SourceError, TextFault};

/// How a compiled file begins.
pub(super) const MAGIC: [u8; 4] = 0xf97c_ff8a_u32.to_ne_bytes();
/// The same of a machine with the other byte order.
pub(super) const OTHER_MAGIC: [u8; 4] = 0xf97c_ff8a_u32.swap_bytes().to_ne_bytes();

const VERSION: u32 = 5;
/// Contexts, expressions and names.
const MAX_TEXT_BYTES: u32 = 64 << 10;
/// Stems are first components of paths.
const MAX_STEMS: u32 = 1 << 20;
/// A compiled expression; those of policies have some kilobytes.
const MAX_EXPRESSION_BYTES: u32 = 64 << 20;

/// A compiled file, rule by rule.
pub(super) struct Compiled<R> {
    name: Shown,
    stream: R,
    count: u32,
    /// The last rule that was read.
    number: u32,
}

impl<R: Read> Compiled<R> {
    /// Of a stream whose first four bytes, a magic, have been read.
    pub(super) fn open(name: Shown, start: [u8; 4], stream: R) -> Result<Self, SourceError> {
        let mut compiled = Self { name, stream, count: 0, number: 0 };
        if start != MAGIC {
            return Err(compiled.fault(CompiledFault::ByteOrder));
        }
        let version = compiled.number("its head")?;
        if version != VERSION {
            return Err(compiled.fault(CompiledFault::Version(version)));
        }
        let expressions = compiled.text("its head")?;
        if !expressions.starts_with(b"10.") {
            return Err(compiled.fault(CompiledFault::Expressions(Shown::from(&*expressions))));
        }
        compiled.text("its head")?;
        let stems = compiled.number_up_to(MAX_STEMS, "stems", "the number")?;
        for _ in 0..stems {
            let length = compiled.number_up_to(MAX_TEXT_BYTES, "a stem", "the length")?;
            compiled.skip(u64::from(length) + 1, "a stem")?;
        }
        compiled.count = compiled.number("the number of its rules")?;
        Ok(compiled)
    }

    /// The next rule, with the name of the file for faults that the caller finds.
    pub(super) fn next(&mut self) -> Result<Option<Rule>, SourceError> {
        if self.number == self.count {
            return match self.stream.read(&mut [0]).map_err(|error| self.failed(error))? {
                0 => Ok(None),
                _ => Err(self.fault(CompiledFault::Behind)),
            };
        }
        self.number += 1;
        let label = self.terminated()?;
        let pattern = self.terminated()?;
        let mode = self.number("a rule")?;
        self.skip(3 * 4, "a rule")?;
        let length = self.number_up_to(MAX_EXPRESSION_BYTES, "an expression", "the length")?;
        self.skip(length.into(), "an expression")?;
        let rule = || {
            let pattern = std::str::from_utf8(&pattern);
            let pattern = pattern.map_err(|_| TextFault::Pattern("the expression is no text".to_owned()))?;
            Ok(Rule { pattern: pattern.into(), kind: kind_of_mode(mode)?, label: label_of(&label)? })
        };
        rule().map(Some).map_err(|fault| self.rule_fault(fault))
    }

    /// Something wrong with the last rule.
    pub(super) fn rule_fault(&self, fault: TextFault) -> SourceError {
        self.fault(CompiledFault::Rule { number: self.number, fault })
    }

    fn fault(&self, fault: CompiledFault) -> SourceError {
        SourceError::Compiled { file: self.name.clone(), fault }
    }

    fn failed(&self, error: io::Error) -> SourceError {
        SourceError::io(&self.name.0, "read", error)
    }

    fn cut(&self, error: io::Error, within: &'static str) -> SourceError {
        match error.kind() {
            io::ErrorKind::UnexpectedEof => self.fault(CompiledFault::Truncated(within)),
            _ => self.failed(error),
        }
    }

    fn number(&mut self, within: &'static str) -> Result<u32, SourceError> {
        let mut bytes = [0; 4];
        self.stream.read_exact(&mut bytes).map_err(|error| self.cut(error, within))?;
        Ok(u32::from_ne_bytes(bytes))
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
        let mut bytes = Vec::new();
        let read = self.stream.by_ref().take(length.into()).read_to_end(&mut bytes);
        match read.map_err(|error| self.failed(error))? as u64 == u64::from(length) {
            true => Ok(bytes),
            false => Err(self.fault(CompiledFault::Truncated(within))),
        }
    }

    /// The same, with a zero byte at the end that belongs to it.
    fn terminated(&mut self) -> Result<Vec<u8>, SourceError> {
        let mut text = self.text("a rule")?;
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

#[cfg(test)]
mod tests {
    use std::{
        fs,
        path::{Path, PathBuf},
        process::Command,
    };

    use uxfs_testkit::{judges::Judge, require};

    use crate::{
        content::Content,
        entry::{DeviceNumber, DirectoryId, Kind},
        error::{CompiledFault, SourceError},
        labels::Labels,
    };

    const POLICY: &str = "/.* u:object_r:default_t:s0\n/etc(/.*)? u:object_r:etc_t:s0-s0:c0.c1023\n\
        /etc/passwd -- u:object_r:passwd_t\n/usr/lib(/.*)? -d u:object_r:libdir_t:s0\n\
        /usr/lib/.+\\.so -l u:object_r:lib_t:s0\n/dev/[^/]* -c u:object_r:char_t:s0\n\
        /dev/[^/]* -b u:object_r:block_t:s0\n/dev/[^/]* -p u:object_r:pipe_t:s0\n\
        /dev/[^/]* -s u:object_r:socket_t:s0\n/run/.* <<none>>\n/a\\.b u:object_r:dot_t:s0\n";

    /// The compiled form of a text, by SELinux's own program.
    fn compile(text: &Path) -> PathBuf {
        let to = PathBuf::from(format!("{}.bin", text.display()));
        let program = Judge::SelabelLookup.path().unwrap().with_file_name("sefcontext_compile");
        assert!(Command::new(program).arg("-o").arg(&to).arg(text).status().unwrap().success());
        to
    }

    fn fault_of(path: &Path) -> CompiledFault {
        match Labels::open(&[path]) {
            Err(SourceError::Compiled { fault, .. }) => fault,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn compiled_files_give_the_labels_of_their_texts() {
        require!(Judge::SelabelLookup);
        let folder = tempfile::tempdir().unwrap();
        let text = folder.path().join("file_contexts");
        fs::write(&text, POLICY).unwrap();
        let by_text = Labels::open(&[&text]).unwrap();
        let bin = compile(&text);
        let by_bin = Labels::open(&[&bin]).unwrap();
        let number = DeviceNumber { major: 1, minor: 3 };
        let kinds = [
            (Kind::Regular { size_bytes: 0, content: Content::Hole }, 0o100_000),
            (Kind::Directory(DirectoryId::ROOT), 0o040_000),
            (Kind::Symlink { target: b"x"[..].into() }, 0o120_000),
            (Kind::CharacterDevice(number), 0o020_000),
            (Kind::BlockDevice(number), 0o060_000),
            (Kind::Fifo, 0o010_000),
            (Kind::Socket, 0o140_000),
        ];
        let paths = ["etc", "etc/passwd", "usr/lib", "usr/lib/x.so", "dev/a", "run/x", "a.b", "axb", "x/y"];
        for (path, (kind, mode)) in paths.iter().flat_map(|path| kinds.iter().map(move |kind| (path, kind))) {
            let mut lookup = Judge::SelabelLookup.command();
            lookup.args(["-b", "file", "-k", &format!("/{path}"), "-t", &format!("{mode}"), "-f"]).arg(&text);
            let said = String::from_utf8(lookup.output().unwrap().stdout).unwrap();
            let judged = said.strip_prefix("Default context: ").map(str::trim_end);
            for labels in [&by_text, &by_bin] {
                let label = labels.label(path.as_bytes(), kind).unwrap().map(<[u8]>::escape_ascii);
                assert_eq!(label.map(|label| label.to_string()).as_deref(), judged, "{path} {}", kind.word());
            }
        }
        // A companion, and then the file itself, of which only the compiled form is there.
        let local = folder.path().join("file_contexts.local");
        fs::write(&local, "/etc/mine u:object_r:mine_t:s0\n").unwrap();
        compile(&local);
        fs::remove_file(&local).unwrap();
        fs::remove_file(&text).unwrap();
        for named in [&text, &bin] {
            let labels = Labels::open(&[named]).unwrap();
            let found = labels.label(b"etc/mine", &kinds[0].0).unwrap();
            assert_eq!(found, Some(b"u:object_r:mine_t:s0".as_slice()));
        }
        assert_eq!(Labels::companions(&text).len(), 1);
    }

    #[test]
    fn damaged_and_other_compiled_files_are_told() {
        require!(Judge::SelabelLookup);
        let folder = tempfile::tempdir().unwrap();
        let text = folder.path().join("contexts");
        fs::write(&text, POLICY).unwrap();
        let bin = compile(&text);
        let whole = fs::read(&bin).unwrap();
        let with = |change: &dyn Fn(&mut Vec<u8>)| {
            let mut bytes = whole.clone();
            change(&mut bytes);
            fs::write(&bin, bytes).unwrap();
            fault_of(&bin)
        };
        assert_eq!(with(&|bytes| bytes[4] = 6), CompiledFault::Version(6));
        assert_eq!(with(&|bytes| bytes[..4].reverse()), CompiledFault::ByteOrder);
        assert_eq!(with(&|bytes| bytes.push(0)), CompiledFault::Behind);
        assert!(matches!(with(&|bytes| bytes[12] = b'8'), CompiledFault::Expressions(_)));
        assert!(matches!(with(&|bytes| bytes[11] = 1), CompiledFault::TooMuch { .. }));
        let label = whole.windows(8).position(|window| window == b"u:object").unwrap();
        assert!(matches!(with(&|bytes| bytes[label + 1] = b' '), CompiledFault::Rule { number: 1, .. }));
        for length in (4..whole.len()).step_by(61) {
            assert!(matches!(with(&|bytes| bytes.truncate(length)), CompiledFault::Truncated(_)), "{length}");
        }
        // Anything may be in it: an error or labels, and soon.
        for at in (0..whole.len()).step_by(41) {
            let mut bytes = whole.clone();
            bytes[at] ^= 0xff;
            fs::write(&bin, bytes).unwrap();
            let _ = Labels::open(&[&bin]);
        }
    }
}
