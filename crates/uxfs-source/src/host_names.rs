//! Numbers of the host's users and groups, from its own two files. Directories on the network are not asked.

use std::{
    collections::HashMap,
    fs::{self, File},
    io::{self, Read},
    path::Path,
    sync::{Arc, OnceLock},
};

use crate::error::SourceError;

/// Most bytes of such a file: a million users.
const MAX_BYTES: u64 = 64 << 20;

/// Users and groups by name: the host's, read when first asked for, or those of another folder. Clones share them.
#[derive(Debug, Clone, Default)]
pub struct HostNames {
    names: Arc<Names>,
}

#[derive(Debug, Default)]
struct Names {
    users: OnceLock<HashMap<Box<[u8]>, u32>>,
    groups: OnceLock<HashMap<Box<[u8]>, u32>>,
}

impl HostNames {
    /// Those in the files `passwd` and `group` of a folder.
    ///
    /// # Errors
    /// One of them cannot be read.
    pub fn of_folder(folder: &Path) -> Result<Self, SourceError> {
        let read = |name| {
            let path = folder.join(name);
            let text = bytes_of(&path).map_err(|error| SourceError::host(&path, "read", error));
            text.map(|text| OnceLock::from(parse(&text)))
        };
        Ok(Self { names: Arc::new(Names { users: read("passwd")?, groups: read("group")? }) })
    }

    /// The number of a user.
    pub fn user(&self, name: &[u8]) -> Option<u32> {
        self.names.users.get_or_init(|| read("/etc/passwd")).get(name).copied()
    }

    /// The number of a group.
    pub fn group(&self, name: &[u8]) -> Option<u32> {
        self.names.groups.get_or_init(|| read("/etc/group")).get(name).copied()
    }
}

fn bytes_of(path: &Path) -> io::Result<Vec<u8>> {
    // Opening a pipe would wait for a program that writes.
    if !fs::metadata(path)?.is_file() {
        return Err(io::Error::other("not a regular file"));
    }
    let mut text = Vec::new();
    File::open(path)?.take(MAX_BYTES).read_to_end(&mut text)?;
    Ok(text)
}

fn read(path: &str) -> HashMap<Box<[u8]>, u32> {
    parse(&fs::read(path).unwrap_or_default())
}

/// `name:password:number:…`, the first of several of one name.
fn parse(text: &[u8]) -> HashMap<Box<[u8]>, u32> {
    let mut names = HashMap::new();
    for line in text.split(|byte| *byte == b'\n') {
        let mut fields = line.split(|byte| *byte == b':');
        let (name, number) = (fields.next(), fields.nth(1));
        let number = number.and_then(|number| std::str::from_utf8(number).ok()?.parse().ok());
        if let (Some(name), Some(number)) = (name, number) {
            names.entry(name.into()).or_insert(number);
        }
    }
    names
}
