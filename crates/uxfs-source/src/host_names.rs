//! Numbers of the host's users and groups, from its own two files. Directories on the network are not asked.

use std::{collections::HashMap, fs, sync::OnceLock};

/// The host's users and groups, read when first asked for.
#[derive(Debug, Default)]
pub(crate) struct HostNames {
    users: OnceLock<HashMap<Box<[u8]>, u32>>,
    groups: OnceLock<HashMap<Box<[u8]>, u32>>,
}

impl HostNames {
    pub(crate) fn user(&self, name: &[u8]) -> Option<u32> {
        self.users.get_or_init(|| read("/etc/passwd")).get(name).copied()
    }

    pub(crate) fn group(&self, name: &[u8]) -> Option<u32> {
        self.groups.get_or_init(|| read("/etc/group")).get(name).copied()
    }
}

/// `name:password:number:…`, the first of several of one name.
fn read(path: &str) -> HashMap<Box<[u8]>, u32> {
    let text = fs::read(path).unwrap_or_default();
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
