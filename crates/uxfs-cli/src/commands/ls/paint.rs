//! Colours by type, and by the rules of `LS_COLORS`.

use std::{env, os::unix::ffi::OsStrExt};

use uxfs_volume::inode::FileType;

use crate::commands::ls::row::{Leads, Row, Status};

/// What is coloured where `LS_COLORS` says nothing.
const USUAL: &[u8] = b"rs=0:di=01;34:ln=01;36:pi=33:so=01;35:bd=01;33:cd=01;33:ex=01;32:do=01;35:su=37;41:sg=30;43:st=37;44:ow=34;42:tw=30;42";
const CODES: usize = Code::Reset as usize + 1;

/// Colours of types, by the words of `LS_COLORS`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Code {
    File,
    Directory,
    Link,
    Pipe,
    Socket,
    BlockDevice,
    CharacterDevice,
    Missing,
    Orphan,
    Executable,
    SetUid,
    SetGid,
    Sticky,
    OtherWritable,
    StickyOtherWritable,
    SeveralLinks,
    Reset,
}

/// The colours.
#[derive(Debug)]
pub struct Paint {
    codes: [Vec<u8>; CODES],
    /// Ends of names in lower case, and their colours; the last one that fits counts.
    ends: Vec<(Vec<u8>, Vec<u8>)>,
    /// Links have the colours of their targets.
    links_as_targets: bool,
    /// A colour has been written.
    is_begun: bool,
}

impl Paint {
    /// As `LS_COLORS` says.
    pub fn of_environment() -> Self {
        let mut paint =
            Self { codes: Default::default(), ends: Vec::new(), links_as_targets: false, is_begun: false };
        paint.learn(USUAL);
        if let Some(rules) = env::var_os("LS_COLORS") {
            paint.learn(rules.as_bytes());
        }
        paint
    }

    fn learn(&mut self, rules: &[u8]) {
        for rule in rules.split(|byte| *byte == b':') {
            let Some(equals) = rule.iter().rposition(|byte| *byte == b'=') else { continue };
            let (word, color) =
                (rule.get(..equals).unwrap_or_default(), rule.get(equals + 1..).unwrap_or_default());
            // Anything else could steer the terminal.
            if !color.iter().all(|byte| byte.is_ascii_digit() || b";:".contains(byte)) && color != b"target" {
                continue;
            }
            if let Some(end) = word.strip_prefix(b"*") {
                self.ends.push((end.to_ascii_lowercase(), color.to_vec()));
                continue;
            }
            let Some(code) = Code::of_word(word) else { continue };
            let is_target = color == b"target";
            if code == Code::Link {
                self.links_as_targets = is_target;
            }
            if let Some(place) = self.codes.get_mut(code as usize) {
                *place = if is_target { Vec::new() } else { color.to_vec() };
            }
        }
    }

    fn color(&self, code: Code) -> Option<&[u8]> {
        self.codes.get(code as usize).map(Vec::as_slice).filter(|color| !color.is_empty())
    }

    fn has(&self, code: Code) -> bool {
        self.color(code).is_some_and(|color| color != b"0" && color != b"00")
    }

    /// Whether a colour depends on where symbolic links lead.
    pub fn needs_targets(&self, is_long: bool) -> bool {
        self.links_as_targets || self.has(Code::Orphan) || is_long && self.has(Code::Missing)
    }

    /// Writes a name in its colour.
    pub fn name(&mut self, output: &mut Vec<u8>, row: &Row, name: &[u8], shown: &[u8]) {
        let code = match &row.status {
            Some(status) => self.code(status),
            None => Code::of_type(row.listed.file_type),
        };
        self.write(output, code, name, shown);
    }

    /// Writes the target of a symbolic link in the colour of that file.
    pub fn target(&mut self, output: &mut Vec<u8>, status: &Status, name: &[u8], shown: &[u8]) {
        let code = match status.leads {
            Leads::To(mode) => self.code_of_mode(mode, 1),
            Leads::Nowhere if self.has(Code::Missing) => Code::Missing,
            Leads::Nowhere | Leads::Unknown => Code::Orphan,
        };
        self.write(output, code, name, shown);
    }

    fn code(&self, status: &Status) -> Code {
        match (status.leads, status.mode & 0o170_000 == 0o120_000) {
            (Leads::Nowhere, true) if self.has(Code::Orphan) || self.links_as_targets => Code::Orphan,
            (Leads::To(mode), true) if self.links_as_targets => self.code_of_mode(mode, 1),
            _ => self.code_of_mode(status.mode, status.links),
        }
    }

    fn code_of_mode(&self, mode: u16, links: u32) -> Code {
        let has = |bit: u16| mode & bit != 0;
        let pick = |is_so: bool, code: Code| is_so && self.has(code);
        match mode & 0o170_000 {
            0o100_000 if pick(has(0o4000), Code::SetUid) => Code::SetUid,
            0o100_000 if pick(has(0o2000), Code::SetGid) => Code::SetGid,
            0o100_000 if pick(has(0o111), Code::Executable) => Code::Executable,
            0o100_000 if pick(links > 1, Code::SeveralLinks) => Code::SeveralLinks,
            0o100_000 => Code::File,
            0o040_000 if pick(has(0o1000) && has(0o002), Code::StickyOtherWritable) => {
                Code::StickyOtherWritable
            }
            0o040_000 if pick(has(0o002), Code::OtherWritable) => Code::OtherWritable,
            0o040_000 if pick(has(0o1000), Code::Sticky) => Code::Sticky,
            0o040_000 => Code::Directory,
            0o120_000 => Code::Link,
            0o010_000 => Code::Pipe,
            0o140_000 => Code::Socket,
            0o060_000 => Code::BlockDevice,
            0o020_000 => Code::CharacterDevice,
            _ => Code::Orphan,
        }
    }

    fn write(&mut self, output: &mut Vec<u8>, code: Code, name: &[u8], shown: &[u8]) {
        let by_end = (code == Code::File).then(|| self.color_of_end(name)).flatten();
        let Some(color) = by_end.or_else(|| self.color(code)) else {
            output.extend_from_slice(shown);
            return;
        };
        let reset = self.color(Code::Reset).unwrap_or(b"0");
        if !self.is_begun {
            escape(output, reset);
        }
        escape(output, color);
        output.extend_from_slice(shown);
        escape(output, reset);
        self.is_begun = true;
    }

    fn color_of_end(&self, name: &[u8]) -> Option<&[u8]> {
        let fits = |end: &[u8]| {
            let begin = name.len().checked_sub(end.len());
            begin.and_then(|begin| name.get(begin..)).is_some_and(|tail| tail.eq_ignore_ascii_case(end))
        };
        self.ends.iter().rev().find(|(end, _)| fits(end)).map(|(_, color)| color.as_slice())
    }
}

fn escape(output: &mut Vec<u8>, color: &[u8]) {
    output.extend_from_slice(b"\x1b[");
    output.extend_from_slice(color);
    output.push(b'm');
}

impl Code {
    fn of_word(word: &[u8]) -> Option<Self> {
        Some(match word {
            b"fi" => Self::File,
            b"di" => Self::Directory,
            b"ln" => Self::Link,
            b"pi" => Self::Pipe,
            b"so" => Self::Socket,
            b"bd" => Self::BlockDevice,
            b"cd" => Self::CharacterDevice,
            b"mi" => Self::Missing,
            b"or" => Self::Orphan,
            b"ex" => Self::Executable,
            b"su" => Self::SetUid,
            b"sg" => Self::SetGid,
            b"st" => Self::Sticky,
            b"ow" => Self::OtherWritable,
            b"tw" => Self::StickyOtherWritable,
            b"mh" => Self::SeveralLinks,
            b"rs" => Self::Reset,
            _ => return None,
        })
    }

    fn of_type(file_type: Option<FileType>) -> Self {
        match file_type {
            Some(FileType::Regular) => Self::File,
            Some(FileType::Directory) => Self::Directory,
            Some(FileType::SymbolicLink) => Self::Link,
            Some(FileType::CharacterDevice) => Self::CharacterDevice,
            Some(FileType::BlockDevice) => Self::BlockDevice,
            Some(FileType::Fifo) => Self::Pipe,
            Some(FileType::Socket) => Self::Socket,
            None => Self::Orphan,
        }
    }
}
