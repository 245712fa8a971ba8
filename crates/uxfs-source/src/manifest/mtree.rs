//! A line of an mtree file: a path and keywords.

use super::{DescribedKind, Description, clean, escapes, unpack_device};
use crate::{
    entry::{Attribute, DeviceNumber},
    error::{Shown, TextFault},
    host_names::HostNames,
    lines::{decimal, octal, time, unexpected},
    path,
    stream::MAX_PATH_BYTES,
    tar::pax::base64,
};

/// Words of one line, and defaults.
const MAX_KEYWORDS: usize = 4096;

/// Settings that earlier lines make for later ones.
#[derive(Default)]
pub(super) struct State {
    /// As given by `/set`, keyword and value.
    defaults: Vec<(Vec<u8>, Option<Vec<u8>>)>,
    /// Of relative entries.
    directory: Vec<u8>,
    /// A line that goes on in the next.
    begun: Vec<u8>,
    /// Whether the path is the last word of a line, as `mtree -D` writes it. Known from the first entry on.
    is_path_last: Option<bool>,
}

impl State {
    /// The description in a line; `None` where it is no entry.
    pub(super) fn parse(&mut self, line: &[u8], names: &HostNames) -> Result<Option<Description>, TextFault> {
        const MAX_BEGUN_BYTES: usize = 16 << 20;
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        // Two of them are one that belongs to the last word.
        let backslashes = line.iter().rev().take_while(|byte| **byte == b'\\').count();
        if let Some(part) = line.strip_suffix(b"\\").filter(|_| backslashes % 2 == 1) {
            if self.begun.len() + part.len() > MAX_BEGUN_BYTES {
                return Err(TextFault::LineTooLong);
            }
            self.begun.extend_from_slice(part);
            self.begun.push(b' ');
            return Ok(None);
        }
        let mut whole = std::mem::take(&mut self.begun);
        whole.extend_from_slice(line);
        let mut words = words_of(&whole);
        let Some(first) = words.next() else { return Ok(None) };
        match first {
            _ if first.starts_with(b"#") => Ok(None),
            b"/set" => {
                words.try_for_each(|word| self.set(word))?;
                Ok(None)
            }
            b"/unset" => {
                words.for_each(|word| self.defaults.retain(|(key, _)| word != b"all" && key != word));
                Ok(None)
            }
            _ if first.starts_with(b"/") && !first.get(1..).unwrap_or_default().contains(&b'/') => {
                Err(unexpected(first, "special command"))
            }
            b".." => {
                // Behind the root's own entries some write one too.
                let parent = path::split(&self.directory).0.len();
                self.directory.truncate(parent);
                Ok(None)
            }
            _ if *self.is_path_last.get_or_insert_with(|| is_path_last(&whole)) => {
                let Some(last) = words_of(&whole).next_back() else { return Ok(None) };
                let mut words = words_of(&whole);
                words.next_back();
                self.entry(last, words, names).map(Some)
            }
            _ => self.entry(first, words, names).map(Some),
        }
    }

    fn set(&mut self, word: &[u8]) -> Result<(), TextFault> {
        let (key, value) = split_word(word);
        self.defaults.retain(|(known, _)| known != key);
        if self.defaults.len() >= MAX_KEYWORDS {
            return Err(TextFault::TooMuch("keywords"));
        }
        self.defaults.push((key.to_vec(), value.map(<[u8]>::to_vec)));
        Ok(())
    }

    fn entry<'a>(
        &mut self,
        name: &'a [u8],
        words: impl Iterator<Item = &'a [u8]>,
        names: &HostNames,
    ) -> Result<Description, TextFault> {
        let is_full = name.contains(&b'/');
        let name = escapes::vis(name)?;
        let mut entry = Keywords::default();
        for (key, value) in &self.defaults {
            entry.add(key, value.as_deref())?;
        }
        for (index, word) in words.enumerate() {
            if index >= MAX_KEYWORDS {
                return Err(TextFault::TooMuch("keywords"));
            }
            let (key, value) = split_word(word);
            entry.add(key, value)?;
        }
        let mut description = entry.finish(names)?;
        let name = clean(&name)?;
        if is_full {
            description.path = name;
            return Ok(description);
        }
        description.path = if name.is_empty() {
            self.directory.as_slice().into()
        } else {
            path::join(&self.directory, &name)
        };
        if description.path.len() > MAX_PATH_BYTES {
            return Err(TextFault::BadPath(Shown::from(&*description.path)));
        }
        if description.kind == Some(DescribedKind::Directory) {
            self.directory = description.path.to_vec();
        }
        Ok(description)
    }
}

fn words_of(line: &[u8]) -> impl DoubleEndedIterator<Item = &[u8]> + Clone {
    line.split(|byte| matches!(byte, b' ' | b'\t')).filter(|word| !word.is_empty())
}

/// Whether a word gives a keyword of mtree a value.
fn is_keyword(word: &[u8]) -> bool {
    const KEYWORDS: [&[u8]; 15] = [
        b"type",
        b"mode",
        b"uid",
        b"gid",
        b"uname",
        b"gname",
        b"time",
        b"size",
        b"link",
        b"nlink",
        b"device",
        b"flags",
        b"content",
        b"contents",
        b"cksum",
    ];
    matches!(split_word(word), (key, Some(_)) if KEYWORDS.contains(&key))
}

/// Whether an entry begins with keywords and ends with its path.
fn is_path_last(line: &[u8]) -> bool {
    let mut words = words_of(line);
    let is_path = |word: &[u8]| word == b"." || (word.contains(&b'/') && !is_keyword(word));
    words.next().is_some_and(is_keyword) && words.next_back().is_some_and(is_path)
}

/// Whether a line, the first but for comments, is one of mtree.
pub(super) fn looks_like(line: &[u8]) -> bool {
    let mut words = words_of(line);
    let Some(first) = words.next() else { return false };
    let is_set = matches!(first, b"/set" | b"/unset");
    let keywords = words.clone().filter(|word| is_keyword(word)).count();
    let mut others = words.filter(|word| !is_keyword(word));
    // All that follows a path is a keyword, with a value or alone.
    let is_other_word = |word: &[u8]| {
        word == b"\\"
            || split_word(word).0.iter().all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(byte))
    };
    is_set
        || is_path_last(line)
        || (!is_keyword(first) && others.all(is_other_word) && (keywords > 0 || line.ends_with(b"\\")))
}

fn split_word(word: &[u8]) -> (&[u8], Option<&[u8]>) {
    match word.iter().position(|byte| *byte == b'=') {
        Some(equals) => (word.get(..equals).unwrap_or_default(), word.get(equals + 1..)),
        None => (word, None),
    }
}

/// Keywords of one entry.
#[derive(Default)]
struct Keywords {
    description: Description,
    user_name: Option<Vec<u8>>,
    group_name: Option<Vec<u8>>,
    link: Option<Vec<u8>>,
    contents: Option<Vec<u8>>,
}

impl Keywords {
    fn add(&mut self, key: &[u8], value: Option<&[u8]>) -> Result<(), TextFault> {
        let described = &mut self.description;
        let value = match (key, value) {
            (b"optional", _) => {
                described.is_optional = true;
                return Ok(());
            }
            (_, Some(value)) => value,
            // `ignore`, `nochange` and whatever else is said without a value.
            (_, None) => return Ok(()),
        };
        match key {
            b"type" => described.kind = Some(kind(value)?),
            b"mode" => described.mode = Some(octal::<u16>(value, "mode").map(|mode| mode & 0o7777)?),
            b"uid" => described.user = Some(decimal(value, "uid")?),
            b"gid" => described.group = Some(decimal(value, "gid")?),
            b"uname" => self.user_name = Some(escapes::vis(value)?),
            b"gname" => self.group_name = Some(escapes::vis(value)?),
            b"time" => described.modification = Some(time(value)?),
            b"size" => described.size_bytes = Some(decimal(value, "size")?),
            b"link" => self.link = Some(escapes::vis(value)?),
            b"contents" | b"content" => self.contents = Some(escapes::vis(value)?),
            b"device" => described.device = Some(device(value)?),
            _ => {
                let name = key.strip_prefix(b"xattr.").or_else(|| key.strip_prefix(b"xattrs."));
                if let Some(name) = name {
                    let name = escapes::vis(name)?;
                    let value = base64(value).ok_or_else(|| unexpected(value, "value in base 64"))?;
                    if name.is_empty() || name.contains(&0) {
                        return Err(unexpected(key, "attribute"));
                    }
                    described.attributes.retain(|attribute| *attribute.name != *name);
                    described.attributes.push(Attribute { name: name.into(), value: value.into() });
                }
                // Checksums, flags, and what others have added.
            }
        }
        Ok(())
    }

    fn finish(mut self, names: &HostNames) -> Result<Description, TextFault> {
        let described = &mut self.description;
        if let (None, Some(name)) = (described.user, &self.user_name) {
            let unknown = || TextFault::UnknownName { kind: "user", name: Shown::from(name.as_slice()) };
            described.user = Some(names.user(name).ok_or_else(unknown)?);
        }
        if let (None, Some(name)) = (described.group, &self.group_name) {
            let unknown = || TextFault::UnknownName { kind: "group", name: Shown::from(name.as_slice()) };
            described.group = Some(names.group(name).ok_or_else(unknown)?);
        }
        let payload = match described.kind {
            Some(DescribedKind::Symlink) => self.link,
            Some(DescribedKind::Regular) => self.contents,
            _ => None,
        };
        described.payload = payload.map(Vec::into_boxed_slice);
        described.attributes.sort();
        Ok(self.description)
    }
}

fn kind(word: &[u8]) -> Result<DescribedKind, TextFault> {
    Ok(match word {
        b"block" => DescribedKind::BlockDevice,
        b"char" => DescribedKind::CharacterDevice,
        b"dir" => DescribedKind::Directory,
        b"fifo" => DescribedKind::Fifo,
        b"file" => DescribedKind::Regular,
        b"link" => DescribedKind::Symlink,
        b"socket" => DescribedKind::Socket,
        _ => return Err(unexpected(word, "type of file")),
    })
}

/// `native,MAJOR,MINOR`, `linux,MAJOR,MINOR`, or a number as Linux packs it.
fn device(word: &[u8]) -> Result<DeviceNumber, TextFault> {
    let expected = "device number";
    let number = |word: &[u8]| match word.strip_prefix(b"0x") {
        Some(digits) => {
            let text = std::str::from_utf8(digits).ok();
            text.and_then(|text| u64::from_str_radix(text, 16).ok()).ok_or_else(|| unexpected(word, expected))
        }
        None => decimal(word, expected),
    };
    let small =
        |word: &[u8]| number(word).and_then(|n| u32::try_from(n).map_err(|_| unexpected(word, expected)));
    let parts: Vec<&[u8]> = word.split(|byte| *byte == b',').take(5).collect();
    match parts.as_slice() {
        [packed] => Ok(unpack_device(number(packed)?)),
        [b"native" | b"linux", major, minor] => {
            Ok(DeviceNumber { major: small(major)?, minor: small(minor)? })
        }
        _ => Err(unexpected(word, expected)),
    }
}
