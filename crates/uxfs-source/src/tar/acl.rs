//! POSIX access control lists: from the text in archives to the form of the VFS attributes.

use std::collections::HashMap;

use crate::host_names::HostNames;

const VERSION: u32 = 2;
const NO_ID: u32 = u32::MAX;
/// More entries than the kernel takes in one attribute.
const MAX_ENTRIES: usize = 8191;
/// Names remembered.
const MAX_NAMES: usize = 1 << 16;

const USER_OWNER: u16 = 0x01;
const USER: u16 = 0x02;
const GROUP_OWNER: u16 = 0x04;
const GROUP: u16 = 0x08;
const MASK: u16 = 0x10;
const OTHER: u16 = 0x20;

/// Numbers of users and groups, as the members of the archive itself tell them. GNU tar writes names alone in lists: for
/// those whom nothing in the archive belongs to, the machine that it was most likely made on is asked: this one, unless the
/// caller has other files of names.
#[derive(Debug, Default)]
pub(super) struct Owners {
    users: HashMap<Box<[u8]>, u32>,
    groups: HashMap<Box<[u8]>, u32>,
    host: Option<HostNames>,
}

impl Owners {
    /// Which ask the host too.
    pub(super) fn with_host(host: HostNames) -> Self {
        Self { host: Some(host), ..Self::default() }
    }

    fn user(&self, name: &[u8]) -> Option<u32> {
        self.users.get(name).copied().or_else(|| self.host.as_ref()?.user(name))
    }

    fn group(&self, name: &[u8]) -> Option<u32> {
        self.groups.get(name).copied().or_else(|| self.host.as_ref()?.group(name))
    }

    /// Remembers what a member says of its owners.
    pub(super) fn learn(&mut self, user: (&[u8], u32), group: (&[u8], u32)) {
        for (names, (name, id)) in [(&mut self.users, user), (&mut self.groups, group)] {
            if !name.is_empty() && names.len() < MAX_NAMES && !names.contains_key(name) {
                names.insert(name.into(), id);
            }
        }
    }
}

/// A list.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Parsed {
    /// As the value of an attribute.
    List(Vec<u8>),
    /// It says no more than the mode does.
    Trivial,
    /// It names somebody whom the archive does not number.
    UnknownName(Vec<u8>),
    /// The text means nothing.
    Malformed,
}

/// Reads `user::rwx,user:lisa:r-x:1000,…`: entries between commas or newlines; a name may be a number, or have its number
/// behind.
pub(super) fn parse(text: &[u8], owners: &Owners) -> Parsed {
    let mut entries: Vec<(u16, u32, u16)> = Vec::new();
    for part in text.split(|byte| matches!(byte, b',' | b'\n')) {
        let part = part.split(|byte| *byte == b'#').next().unwrap_or_default().trim_ascii();
        if part.is_empty() {
            continue;
        }
        match parse_entry(part, owners) {
            Ok((tag, id, permissions)) if entries.len() < MAX_ENTRIES => entries.push((tag, id, permissions)),
            Ok(_) => return Parsed::Malformed,
            Err(error) => return error,
        }
    }
    entries.sort_unstable();
    let has_twins = entries.windows(2).any(|pair| matches!(pair, [a, b] if (a.0, a.1) == (b.0, b.1)));
    let has = |tag: u16| entries.iter().any(|entry| entry.0 == tag);
    let needs_mask = has(USER) || has(GROUP);
    let is_whole = has(USER_OWNER) && has(GROUP_OWNER) && has(OTHER) && (has(MASK) || !needs_mask);
    // A default list may be empty; it then is not there.
    if entries.is_empty() || (is_whole && !has(MASK)) {
        return Parsed::Trivial;
    }
    if has_twins || !is_whole {
        return Parsed::Malformed;
    }
    Parsed::List(encode(&entries))
}

/// As [`parse`], for the list that new files get, where three entries say something too.
pub(super) fn parse_default(text: &[u8], owners: &Owners) -> Parsed {
    match parse(text, owners) {
        Parsed::Trivial if !text.trim_ascii().is_empty() => {
            let parts = text.split(|byte| matches!(byte, b',' | b'\n')).map(<[u8]>::trim_ascii);
            let parsed = parts.filter(|part| !part.is_empty()).map(|part| parse_entry(part, owners));
            let mut entries: Vec<_> = parsed.filter_map(Result::ok).collect();
            entries.sort_unstable();
            if entries.is_empty() { Parsed::Trivial } else { Parsed::List(encode(&entries)) }
        }
        parsed => parsed,
    }
}

fn encode(entries: &[(u16, u32, u16)]) -> Vec<u8> {
    let mut value = VERSION.to_le_bytes().to_vec();
    for (tag, id, permissions) in entries {
        value.extend_from_slice(&tag.to_le_bytes());
        value.extend_from_slice(&permissions.to_le_bytes());
        value.extend_from_slice(&id.to_le_bytes());
    }
    value
}

fn parse_entry(entry: &[u8], owners: &Owners) -> Result<(u16, u32, u16), Parsed> {
    let entry = entry.strip_prefix(b"default:").unwrap_or(entry);
    let mut fields: Vec<&[u8]> = entry.split(|byte| *byte == b':').map(<[u8]>::trim_ascii).collect();
    let word = fields.first().copied().unwrap_or_default();
    // Solaris leaves out the empty name.
    if matches!(word, b"mask" | b"m" | b"other" | b"o") && fields.len() == 2 {
        fields.insert(1, b"");
    }
    let (name, permissions, number) = match fields.as_slice() {
        [_, name, permissions] => (*name, *permissions, None),
        [_, name, permissions, number] => (*name, *permissions, Some(*number)),
        _ => return Err(Parsed::Malformed),
    };
    type Lookup = fn(&Owners, &[u8]) -> Option<u32>;
    let (tag, lookup) = match (word, name.is_empty()) {
        (b"user" | b"u", true) => (USER_OWNER, None),
        (b"user" | b"u", false) => (USER, Some(Owners::user as Lookup)),
        (b"group" | b"g", true) => (GROUP_OWNER, None),
        (b"group" | b"g", false) => (GROUP, Some(Owners::group as Lookup)),
        (b"mask" | b"m", true) => (MASK, None),
        (b"other" | b"o", true) => (OTHER, None),
        _ => return Err(Parsed::Malformed),
    };
    let mut bits = 0;
    for letter in permissions {
        bits |= match letter {
            b'r' => 4,
            b'w' => 2,
            b'x' => 1,
            b'-' => 0,
            _ => return Err(Parsed::Malformed),
        };
    }
    let Some(lookup) = lookup else { return Ok((tag, NO_ID, bits)) };
    let known = number.and_then(decimal).or_else(|| decimal(name)).or_else(|| lookup(owners, name));
    known.map(|id| (tag, id, bits)).ok_or_else(|| Parsed::UnknownName(name.to_vec()))
}

fn decimal(text: &[u8]) -> Option<u32> {
    let text = std::str::from_utf8(text).ok()?;
    text.parse().ok().filter(|id| *id != NO_ID && text.bytes().all(|byte| byte.is_ascii_digit()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(entries: &[(u16, u16, u32)]) -> Parsed {
        Parsed::List(encode(&entries.iter().map(|(tag, bits, id)| (*tag, *id, *bits)).collect::<Vec<_>>()))
    }

    #[test]
    fn every_entry_in_every_writing() {
        let mut owners = Owners::default();
        owners.learn((b"lisa", 1000), (b"wheel", 10));
        let expected = list(&[
            (1, 7, u32::MAX),
            (2, 5, 1000),
            (4, 4, u32::MAX),
            (8, 6, 10),
            (16, 7, u32::MAX),
            (32, 0, u32::MAX),
        ]);
        for text in [
            "user::rwx,user:1000:r-x,group::r--,group:10:rw-,mask::rwx,other::---",
            "other::---\nmask::rwx\ngroup:wheel:rw-\ngroup::r--\nuser:lisa:r-x\nuser::rwx\n",
            "u::rwx,u:somebody:rx:1000,g::r,g:else:rw:10,mask:rwx,other:---",
            " user::rwx , user:lisa:r-x #effective:r--\n,group::r--,group:10:rw-,mask::rwx,other::",
        ] {
            assert_eq!(parse(text.as_bytes(), &owners), expected, "{text}");
        }
        assert_eq!(parse(b"user::rwx,group::r--,other::---", &owners), Parsed::Trivial);
        let three = list(&[(1, 7, u32::MAX), (4, 4, u32::MAX), (32, 0, u32::MAX)]);
        assert_eq!(parse_default(b"user::rwx,group::r--,other::---", &owners), three);
        assert_eq!(parse_default(b"", &owners), Parsed::Trivial);
    }

    #[test]
    fn what_means_nothing() {
        let owners = Owners::default();
        for text in [
            "user",
            "user::rwz,group::r--,other::---",
            "user::rwx,other::---",
            "user::rwx,user:1:rwx,group::r--,other::---",
            "user::rwx,user:1:rwx,user:1:r--,group::r--,mask::rwx,other::---",
            "mask:name:rwx,user::rwx,group::r--,other::---",
            "who::rwx",
        ] {
            assert_eq!(parse(text.as_bytes(), &owners), Parsed::Malformed, "{text}");
        }
        let unknown = parse(b"user::rwx,user:lisa:rwx,group::r--,mask::rwx,other::---", &owners);
        assert_eq!(unknown, Parsed::UnknownName(b"lisa".to_vec()));
    }
}
