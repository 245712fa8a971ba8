//! Users and groups by name: from the image, else from the host.

use std::{collections::HashMap, fs};

use uxfs_volume::error::Error;
use uxfs_volume::file_data::reader::FilePiece;
use uxfs_volume::volume::Volume;

use crate::{kind::Note, output::notice};

/// Longest list that is read.
const LIST_BYTES_MAX: u64 = 16 << 20;

/// The list of users.
const PASSWD: &str = "/etc/passwd";
/// The list of groups.
const GROUP: &str = "/etc/group";

/// Names of users and groups by number, of an image only.
#[derive(Debug, Default)]
pub struct PeopleNames {
    users: HashMap<u32, String>,
    groups: HashMap<u32, String>,
    unread: Option<String>,
}

impl PeopleNames {
    /// Reads `/etc/passwd` and `/etc/group` of an image. A list that cannot be read has no names.
    pub fn of_image(filesystem: &Volume) -> Self {
        let mut unread = None;
        let mut list = |path: &str| names_by_number(&list_of_image(filesystem, path, &mut unread));
        let (users, groups) = (list(PASSWD), list(GROUP));
        Self { users, groups, unread }
    }

    /// As [`of_image`](Self::of_image), with a word about a list that is there and cannot be read.
    pub fn of_image_with_notice(filesystem: &Volume) -> Self {
        let names = Self::of_image(filesystem);
        if let Some(unread) = &names.unread {
            notice!(Note::Incomplete, "warning: {unread}; owners are shown by number");
        }
        names
    }

    /// Says of a list that is there and cannot be read why not.
    pub fn unread(&self) -> Option<&str> {
        self.unread.as_deref()
    }

    /// The name of a user.
    pub fn user(&self, uid: u32) -> Option<&str> {
        self.users.get(&uid).map(String::as_str)
    }

    /// The name of a group.
    pub fn group(&self, gid: u32) -> Option<&str> {
        self.groups.get(&gid).map(String::as_str)
    }
}

/// The first name of each number. Names that are no plain text are left out: they could steer a terminal.
fn names_by_number(list: &[u8]) -> HashMap<u32, String> {
    let mut names = HashMap::new();
    for line in list.split(|byte| *byte == b'\n') {
        let mut fields = line.split(|byte| *byte == b':');
        let (name, id) = (fields.next(), number(fields.nth(1)));
        let name = name.and_then(|name| std::str::from_utf8(name).ok());
        let name = name.filter(|name| !name.is_empty() && !name.contains(char::is_control));
        if let (Some(name), Some(id)) = (name, id) {
            names.entry(id).or_insert_with(|| name.to_owned());
        }
    }
    names
}

/// Users and groups by name.
#[derive(Debug, Default)]
pub struct People {
    users: HashMap<Vec<u8>, (u32, u32)>,
    groups: HashMap<Vec<u8>, u32>,
    /// Why a list of the image cannot be read. No other list stands in for it.
    unread: Option<String>,
    with_host: bool,
}

/// The requested owner and group; `None` leaves it unchanged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Owner {
    /// User.
    pub uid: Option<u32>,
    /// Group.
    pub gid: Option<u32>,
}

impl People {
    /// Reads `/etc/passwd` and `/etc/group` of an image, and those of the host for names that it does not have.
    pub fn of_image(filesystem: &Volume) -> Self {
        Self::of(filesystem, true)
    }

    /// Reads `/etc/passwd` and `/etc/group` of an image alone.
    pub fn of_image_alone(filesystem: &Volume) -> Self {
        Self::of(filesystem, false)
    }

    /// The number of a user's name, as [`owner`](Self::owner) finds it.
    ///
    /// # Errors
    /// The name is unknown, and no number.
    pub fn user_number(&self, name: &[u8]) -> Result<u32, String> {
        self.user(name).map(|(uid, _)| uid)
    }

    /// The number of a group's name.
    ///
    /// # Errors
    /// The name is unknown, and no number.
    pub fn group_number(&self, name: &[u8]) -> Result<u32, String> {
        self.group(name)
    }

    fn of(filesystem: &Volume, with_host: bool) -> Self {
        let mut people = Self { with_host, ..Self::default() };
        let of_image = [PASSWD, GROUP].map(|path| list_of_image(filesystem, path, &mut people.unread));
        let host = Some(()).filter(|()| with_host && people.unread.is_none());
        let of_host = host.map(|()| [PASSWD, GROUP].map(|path| fs::read(path).unwrap_or_default()));
        // The later ones count.
        for [users, groups] in of_host.into_iter().chain([of_image]) {
            for line in users.split(|byte| *byte == b'\n').rev() {
                let mut fields = line.split(|byte| *byte == b':');
                let (name, uid, gid) = (fields.next(), fields.nth(1), fields.next());
                if let (Some(name), Some(uid), Some(gid)) = (name, number(uid), number(gid)) {
                    people.users.insert(name.to_vec(), (uid, gid));
                }
            }
            for line in groups.split(|byte| *byte == b'\n').rev() {
                let mut fields = line.split(|byte| *byte == b':');
                let (name, gid) = (fields.next(), fields.nth(1));
                if let (Some(name), Some(gid)) = (name, number(gid)) {
                    people.groups.insert(name.to_vec(), gid);
                }
            }
        }
        people
    }

    /// Parses `USER`, `USER:GROUP`, `USER:` (with the user's login group) or `:GROUP`. A number that is not a name is an
    /// id.
    ///
    /// # Errors
    /// There is no user or group of that name.
    pub fn owner(&self, text: &[u8]) -> Result<Owner, String> {
        let (user, group) = match text.iter().position(|byte| *byte == b':') {
            Some(colon) => (&text[..colon], Some(&text[colon + 1..])),
            None => (text, None),
        };
        let (uid, own_group) = match user {
            b"" => (None, None),
            name => {
                let (uid, gid) = self.user(name)?;
                (Some(uid), gid)
            }
        };
        let gid = match group {
            None => None,
            Some(b"") if user.is_empty() => None,
            Some(b"") => Some(own_group.ok_or("a numeric user has no login group: write USER:GROUP")?),
            Some(name) => Some(self.group(name)?),
        };
        Ok(Owner { uid, gid })
    }

    fn user(&self, name: &[u8]) -> Result<(u32, Option<u32>), String> {
        if let Some((uid, gid)) = self.users.get(name) {
            return Ok((*uid, Some(*gid)));
        }
        let uid = plain_number(name).ok_or_else(|| self.unknown("user", name))?;
        Ok((uid, None))
    }

    fn group(&self, name: &[u8]) -> Result<u32, String> {
        let known = self.groups.get(name).copied();
        known.or_else(|| plain_number(name)).ok_or_else(|| self.unknown("group", name))
    }

    fn unknown(&self, what: &str, name: &[u8]) -> String {
        let is_number = name.iter().all(u8::is_ascii_digit);
        let name = crate::text::escaped(name);
        match &self.unread {
            _ if is_number => format!("{what} {name} is out of range: the largest is {}", u32::MAX - 1),
            Some(unread) => format!("no {what} `{name}` is known: {unread}; use a number"),
            None if self.with_host => {
                format!("no {what} `{name}` in the image's /etc or the host's; use a number")
            }
            None => format!("no {what} `{name}` in the image's /etc; use a number"),
        }
    }
}

fn number(field: Option<&[u8]>) -> Option<u32> {
    std::str::from_utf8(field?).ok()?.parse().ok()
}

/// A number, with a plus in front if it could also be a user's name.
fn plain_number(text: &[u8]) -> Option<u32> {
    let number = number(Some(text.strip_prefix(b"+").unwrap_or(text)))?;
    // To Linux this id means "unchanged".
    (number != u32::MAX).then_some(number)
}

/// A list of the image; empty where there is none. Where it cannot be read, `unread` says so.
fn list_of_image(filesystem: &Volume, path: &str, unread: &mut Option<String>) -> Vec<u8> {
    match read(filesystem, path.as_bytes()) {
        Ok(list) => list,
        Err(Error::Operation(_)) => Vec::new(),
        Err(error) => {
            *unread = Some(format!("{path} of the image cannot be read ({error})"));
            Vec::new()
        }
    }
}

fn read(filesystem: &Volume, path: &[u8]) -> Result<Vec<u8>, Error> {
    let inode = filesystem.resolve(path, true)?;
    let mut list = Vec::new();
    if inode.size_bytes() > LIST_BYTES_MAX {
        return Ok(list);
    }
    let mut reader = filesystem.file_reader(&inode)?;
    while let Some(piece) = reader.next_piece()? {
        match piece {
            FilePiece::Data { bytes, .. } => list.extend_from_slice(bytes),
            FilePiece::Hole { length_bytes, .. } => {
                let length = usize::try_from(length_bytes).unwrap_or(usize::MAX);
                list.resize(list.len().saturating_add(length), 0);
            }
        }
    }
    Ok(list)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn owners_by_name_and_number() {
        let mut people = People::default();
        people.users.insert(b"ann".to_vec(), (1000, 100));
        people.groups.insert(b"staff".to_vec(), 50);
        let owner = |text: &str| people.owner(text.as_bytes()).map(|owner| (owner.uid, owner.gid));
        assert_eq!(owner("ann"), Ok((Some(1000), None)));
        assert_eq!(owner("ann:"), Ok((Some(1000), Some(100))));
        assert_eq!(owner("ann:staff"), Ok((Some(1000), Some(50))));
        assert_eq!(owner(":7"), Ok((None, Some(7))));
        assert_eq!(owner("+8:9"), Ok((Some(8), Some(9))));
        assert_eq!(owner(":"), Ok((None, None)));
        assert!(owner("nobody-here").is_err());
        assert!(owner("8:").is_err());
        assert!(owner("4294967295").is_err());
    }
}
