//! Other owners than the source has.
//!
//! A map is a list of rules, between commas or, in a file, on lines of their own; `#` begins a comment. The first rule that
//! fits holds, an owner whom no rule fits stays.
//!
//! | rule | meaning |
//! |---|---|
//! | `FROM:TO:COUNT` | ids `FROM`, `FROM`+1, … become `TO`, `TO`+1, … as in idmapped mounts: `0:100000:65536` |
//! | `LOW-HIGH:TO` | the same, with the last instead of the count: `1000-1999:0` |
//! | `FROM:TO` | one id |
//! | `*:TO` | all (others), to one id: `*:0` |
//! | `u:…`, `g:…` | for users or groups alone; `b:…` for both, as all that say nothing |
//!
//! `FROM` and `TO` are numbers, or names of users and groups: those of the host, or of the files that
//! [`HostNames::of_folder`] reads. A rule for both needs a user and a group of that name. `u`, `g` and `b` in front are
//! never names.
//!
//! ACLs and the root user in file capabilities are mapped too, as an idmapped mount does.

use crate::{
    entry::{ACL_ACCESS, ACL_DEFAULT, Metadata},
    error::{Shown, SourceError, TextFault},
    host_names::HostNames,
};

/// No id: the kernel's sign of one that cannot be mapped.
const NOBODY_AT_ALL: u32 = u32::MAX;
/// Rules of one map.
const MAX_RULES: usize = 10_000;

/// Rules for owners.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct OwnerMap {
    users: Vec<Rule>,
    groups: Vec<Rule>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Rule {
    first: u32,
    last: u32,
    to: u32,
    /// All to the same.
    is_one: bool,
}

impl OwnerMap {
    /// Reads rules; `name` is where they come from, and `names` has the users and groups that they may name.
    ///
    /// # Errors
    /// One of them means nothing.
    pub fn parse(name: &str, text: &str, names: &HostNames) -> Result<Self, SourceError> {
        let mut map = Self::default();
        for (index, line) in text.lines().enumerate() {
            let rules = line.split('#').next().unwrap_or_default();
            for rule in rules.split(|c: char| c == ',' || c.is_whitespace()).filter(|rule| !rule.is_empty()) {
                map.add(rule, names).map_err(|fault| SourceError::Text {
                    file: Shown::from(name.as_bytes()),
                    line: index as u64 + 1,
                    fault,
                })?;
            }
        }
        Ok(map)
    }

    fn add(&mut self, text: &str, names: &HostNames) -> Result<(), TextFault> {
        let (rest, users, groups) = match text.split_once(':') {
            Some(("u", rest)) => (rest, true, false),
            Some(("g", rest)) => (rest, false, true),
            Some(("b", rest)) => (rest, true, true),
            _ => (text, true, true),
        };
        let expected = "rule for owners (FROM:TO, FROM:TO:COUNT, LOW-HIGH:TO or *:TO)";
        let unexpected = || TextFault::Unexpected { word: Shown::from(text.as_bytes()), expected };
        let user = |name: &str| names.user(name.as_bytes()).ok_or_else(|| unknown("user", name));
        let group = |name: &str| names.group(name.as_bytes()).ok_or_else(|| unknown("group", name));
        let kinds: [(&mut Vec<Rule>, bool, NumberOf<'_>); 2] =
            [(&mut self.users, users, &user), (&mut self.groups, groups, &group)];
        for (rules, wanted, number_of) in kinds {
            if wanted {
                if rules.len() >= MAX_RULES {
                    return Err(TextFault::TooMuch("rules for owners"));
                }
                rules.push(Rule::parse(rest, number_of)?.ok_or_else(unexpected)?);
            }
        }
        Ok(())
    }

    /// The user that `user` becomes.
    pub fn user(&self, user: u32) -> u32 {
        map(&self.users, user)
    }

    /// The group that `group` becomes.
    pub fn group(&self, group: u32) -> u32 {
        map(&self.groups, group)
    }

    /// Whether it changes nothing.
    pub fn is_empty(&self) -> bool {
        self.users.is_empty() && self.groups.is_empty()
    }

    /// Maps all owners of a file.
    pub fn apply(&self, metadata: &mut Metadata) {
        if self.is_empty() {
            return;
        }
        metadata.user = self.user(metadata.user);
        metadata.group = self.group(metadata.group);
        for attribute in &mut metadata.attributes {
            match &*attribute.name {
                ACL_ACCESS | ACL_DEFAULT => self.apply_acl(&mut attribute.value),
                b"security.capability" => self.apply_capability(&mut attribute.value),
                _ => {}
            }
        }
    }

    fn apply_acl(&self, value: &mut [u8]) {
        let entries = value.get_mut(4..).unwrap_or_default();
        for entry in entries.chunks_exact_mut(8) {
            let Some((tag, rest)) = entry.split_first_chunk_mut::<2>() else { continue };
            let Some((_, id)) = rest.split_last_chunk_mut::<4>() else { continue };
            let old = u32::from_le_bytes(*id);
            match u16::from_le_bytes(*tag) {
                0x02 => *id = self.user(old).to_le_bytes(),
                0x08 => *id = self.group(old).to_le_bytes(),
                _ => {}
            }
        }
    }

    /// The third version names the root user for whom the capabilities hold.
    fn apply_capability(&self, value: &mut [u8]) {
        const WITH_ROOT_BYTES: usize = 24;
        if value.len() == WITH_ROOT_BYTES
            && value.get(3) == Some(&3)
            && let Some((_, root)) = value.split_last_chunk_mut::<4>()
        {
            *root = self.user(u32::from_le_bytes(*root)).to_le_bytes();
        }
    }
}

/// The number of a user or group of this name.
type NumberOf<'a> = &'a dyn Fn(&str) -> Result<u32, TextFault>;

impl Rule {
    /// `None` for what is no rule. `number_of` is asked for names.
    fn parse(text: &str, number_of: NumberOf<'_>) -> Result<Option<Self>, TextFault> {
        let fields: Vec<&str> = text.split(':').collect();
        let (from, to, count) = match *fields.as_slice() {
            [from, to] => (from, to, None),
            [from, to, count] => (from, to, Some(count)),
            _ => return Ok(None),
        };
        let id = |text: &str| match id(text) {
            None if is_name(text) => number_of(text).map(|id| Some(id).filter(|id| *id != NOBODY_AT_ALL)),
            id => Ok(id),
        };
        let Some(to) = id(to)? else { return Ok(None) };
        if from == "*" {
            let all = Self { first: 0, last: NOBODY_AT_ALL - 1, to, is_one: true };
            return Ok(count.is_none().then_some(all));
        }
        let range = from.split_once('-').filter(|(low, high)| is_number(low) && is_number(high));
        let ids = match (range, count) {
            (Some((low, high)), None) => id(low)?.zip(id(high)?),
            (None, None) => id(from)?.map(|id| (id, id)),
            (None, Some(count)) => id(from)?.and_then(|first| {
                Some((first, first.checked_add(count.parse::<u32>().ok()?.checked_sub(1)?)?))
            }),
            (Some(_), Some(_)) => None,
        };
        Ok(ids.and_then(|(first, last)| Self::of_ids(first, last, to)))
    }

    fn of_ids(first: u32, last: u32, to: u32) -> Option<Self> {
        let end = to.checked_add(last.checked_sub(first)?)?;
        (last != NOBODY_AT_ALL && end != NOBODY_AT_ALL).then_some(Self { first, last, to, is_one: false })
    }
}

fn unknown(kind: &'static str, name: &str) -> TextFault {
    TextFault::UnknownName { kind, name: Shown::from(name.as_bytes()) }
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

/// A number, also one that is too large, is no name, nor is a range of numbers.
fn is_name(text: &str) -> bool {
    text.bytes().any(|byte| !byte.is_ascii_digit() && byte != b'-' && byte != b'*')
}

fn id(text: &str) -> Option<u32> {
    text.parse().ok().filter(|id| *id != NOBODY_AT_ALL && is_number(text))
}

fn map(rules: &[Rule], id: u32) -> u32 {
    let rule = rules.iter().find(|rule| (rule.first..=rule.last).contains(&id));
    rule.map_or(id, |rule| if rule.is_one { rule.to } else { rule.to + (id - rule.first) })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(name: &str, text: &str) -> Result<OwnerMap, SourceError> {
        OwnerMap::parse(name, text, &HostNames::default())
    }

    #[test]
    fn names_of_users_and_groups() {
        let folder = tempfile::tempdir().unwrap();
        assert!(HostNames::of_folder(folder.path()).is_err());
        let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
        write(
            "passwd",
            "root:x:0:0::/:/bin/sh\nbuild-er:x:1000:7::/:\nbuild-er:x:5:5::/:\nbad\nalice:x:60:60::/:\n",
        );
        write("group", "root:x:0:\nbuild-er:x:7:\nstaff:x:50:\n");
        let names = HostNames::of_folder(folder.path()).unwrap();
        let map = |text: &str| OwnerMap::parse("-", text, &names);
        let both = map("build-er:root,u:alice:1234,g:9:staff,*:alice").unwrap_err();
        assert!(both.to_string().contains("unknown group alice"), "{both}");
        let found = map("build-er:root,u:alice:1234,g:9:staff,u:70-80:build-er,u:*:alice").unwrap();
        assert_eq!((found.user(1000), found.group(7), found.user(60), found.group(9)), (0, 0, 1234, 50));
        assert_eq!((found.user(71), found.user(5), found.group(1000)), (1001, 60, 1000));
        assert_eq!(map("u:build-er:100:5").unwrap().user(1004), 104);
        for text in ["u:bob:0", "u:0:bob", "g:alice:0", "alice:0", "u:0-bob:0", "u:-:0", "u::0", "u:1-2-3:0"]
        {
            assert!(map(text).is_err(), "{text}");
        }
    }

    #[test]
    fn rules_in_order() {
        let map = parse("-", "u:0:100000:1000, u:1000-1999:0\ng:1000:5 # staff\nb:7:8,*:65534").unwrap();
        assert_eq!((map.user(0), map.user(999), map.user(1000), map.user(1999)), (100_000, 100_999, 0, 999));
        assert_eq!((map.group(1000), map.group(7), map.user(2000), map.group(1001)), (5, 8, 65_534, 65_534));
        let empty = parse("-", " # nothing\n\n").unwrap();
        assert!(empty.is_empty());
        assert_eq!(empty.user(42), 42);
    }

    #[test]
    fn what_is_no_rule() {
        for text in [
            "1",
            "1:",
            ":1",
            "a:1",
            "1:2:0",
            "1:2:3:4",
            "2-1:0",
            "1-2:3:4",
            "*:1:2",
            "4294967295:0",
            "0:4294967295",
            "1:4294967290:10",
            "x:1:2:3",
            "+1:2",
            "0:0:4294967296",
        ] {
            assert!(parse("-", text).is_err(), "{text}");
        }
        let Err(SourceError::Text { line, .. }) = parse("map", "1:2\n\nnonsense") else { panic!("read") };
        assert_eq!(line, 3);
    }

    #[test]
    fn owners_in_attributes() {
        let map = parse("-", "0-10000:100000").unwrap();
        let mut metadata = Metadata { user: 1, group: 2, ..Metadata::default() };
        let entry =
            |tag: u16, id: u32| [&tag.to_le_bytes()[..], &7_u16.to_le_bytes(), &id.to_le_bytes()].concat();
        let acl = |a, b| {
            [2_u32.to_le_bytes().to_vec(), entry(1, u32::MAX), entry(2, a), entry(8, b), entry(32, u32::MAX)]
                .concat()
        };
        metadata.set_attribute(ACL_ACCESS, &acl(3, 4));
        let capability = |root: u32| [&[1, 0, 0, 3][..], &[9; 16], &root.to_le_bytes()].concat();
        metadata.set_attribute(b"security.capability", &capability(0));
        map.apply(&mut metadata);
        assert_eq!((metadata.user, metadata.group), (100_001, 100_002));
        assert_eq!(metadata.attribute(ACL_ACCESS).unwrap(), acl(100_003, 100_004));
        assert_eq!(metadata.attribute(b"security.capability").unwrap(), capability(100_000));
    }
}
