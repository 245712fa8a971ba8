//! Differences between what a judge says and what we say, path by path.

use std::{collections::BTreeMap, fmt};

use super::{
    Attribute, Bytes, Details, DirectoryEntry, Entry, Extent, Manifest, independent::filefrag_count,
};

/// One thing in which two manifests differ.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Difference {
    /// Where.
    pub path: Bytes,
    /// The property that differs.
    pub subject: String,
    /// The judge's value.
    pub expected: String,
    /// The value of uxfs.
    pub found: String,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}: expected {}, found {}", self.path, self.subject, self.expected, self.found)
    }
}

/// All differences. Whatever `expected` does not say is not compared.
pub fn differences(expected: &Manifest, found: &Manifest) -> Vec<Difference> {
    let mut all = Vec::new();
    let found_paths: BTreeMap<&Bytes, &Entry> = found.entries.iter().map(|e| (&e.path, e)).collect();
    let expected_paths: BTreeMap<&Bytes, &Entry> = expected.entries.iter().map(|e| (&e.path, e)).collect();
    for (path, entry) in &expected_paths {
        let mut differ = Differ { path, all: &mut all };
        match found_paths.get(path) {
            Some(ours) => differ.entry(entry, ours),
            None => differ.add("path", "to be there", "nothing"),
        }
    }
    for path in found_paths.keys().filter(|path| !expected_paths.contains_key(*path)) {
        Differ { path, all: &mut all }.add("path", "nothing", "it");
    }
    all
}

/// The first `limit` differences as lines, and how many there are; `None` where there are none.
pub fn report(differences: &[Difference], limit: usize) -> Option<String> {
    if differences.is_empty() {
        return None;
    }
    let mut lines: Vec<String> = differences.iter().take(limit).map(ToString::to_string).collect();
    lines.push(format!("{} differences", differences.len()));
    Some(lines.join("\n"))
}

struct Differ<'a> {
    path: &'a Bytes,
    all: &'a mut Vec<Difference>,
}

impl Differ<'_> {
    fn add(&mut self, subject: impl fmt::Display, expected: impl fmt::Display, found: impl fmt::Display) {
        self.all.push(Difference {
            path: self.path.clone(),
            subject: subject.to_string(),
            expected: expected.to_string(),
            found: found.to_string(),
        });
    }

    fn same<T: PartialEq + fmt::Debug>(&mut self, subject: &str, expected: &T, found: &T) {
        if expected != found {
            self.add(subject, format_args!("{expected:?}"), format_args!("{found:?}"));
        }
    }

    /// Compares only what the judge says.
    fn said<T: PartialEq + fmt::Debug>(&mut self, subject: &str, expected: &Option<T>, found: &Option<T>) {
        if expected.is_some() {
            self.same(subject, expected, found);
        }
    }

    fn entry(&mut self, expected: &Entry, found: &Entry) {
        self.said("inode", &expected.inode, &found.inode);
        self.same("type", &expected.kind, &found.kind);
        match (&expected.details, &found.details) {
            (Some(expected), Some(found)) => self.details(expected, found),
            (Some(_), None) => self.add("details", "the first path of its inode", "a later one"),
            (None, _) => {}
        }
    }

    fn details(&mut self, expected: &Details, found: &Details) {
        self.same("mode", &expected.mode, &found.mode);
        self.same("owner", &expected.user_id, &found.user_id);
        self.same("group", &expected.group_id, &found.group_id);
        self.said("size", &expected.size_bytes, &found.size_bytes);
        self.said("link count", &expected.link_count, &found.link_count);
        self.said("sectors", &expected.sectors, &found.sectors);
        self.said("device", &expected.device, &found.device);
        self.said("access time", &expected.access_time, &found.access_time);
        self.said("modification time", &expected.modification_time, &found.modification_time);
        self.said("change time", &expected.change_time, &found.change_time);
        self.said("birth time", &expected.birth_time, &found.birth_time);
        self.said("contents", &expected.sha256, &found.sha256);
        self.said("target", &expected.target, &found.target);
        self.said("flags", &expected.flags, &found.flags);
        let extent_count = found.extents.as_deref().map(filefrag_count);
        self.said("extent count", &expected.extent_count, &extent_count);
        self.lists("extent", &expected.extents, &found.extents);
        self.lists("attribute fork extent", &expected.attribute_extents, &found.attribute_extents);
        self.lists("attribute", &expected.attributes, &found.attributes);
        self.lists("directory entry", &without_end(&expected.entries), &without_end(&found.entries));
    }

    /// Names the first element that differs: whole lists would be unreadable.
    fn lists<T: PartialEq + Shown>(&mut self, what: &str, expected: &Option<Vec<T>>, found: &Option<Vec<T>>) {
        let Some(expected) = expected else { return };
        let nothing = Vec::new();
        let found = found.as_ref().unwrap_or(&nothing);
        let length = expected.len().max(found.len());
        let differing = (0..length).find(|index| expected.get(*index) != found.get(*index));
        if let Some(index) = differing {
            let show = |list: &[T]| list.get(index).map_or_else(|| "nothing".to_owned(), Shown::show);
            let subject = format!("{what} {index} (of {} and {})", expected.len(), found.len());
            self.add(subject, show(expected), show(found));
        }
    }
}

/// Behind a directory's last entry there is nothing to go on to, and Linux says different things: the end of the entry
/// or that of the block, by the directory's form. Any of them reads as the end.
fn without_end(entries: &Option<Vec<DirectoryEntry>>) -> Option<Vec<DirectoryEntry>> {
    let mut entries = entries.clone();
    if let Some(last) = entries.as_mut().and_then(|entries| entries.last_mut()) {
        last.next_cookie = u64::MAX;
    }
    entries
}

/// How a list's element is shown in a difference.
trait Shown {
    fn show(&self) -> String;
}

impl Shown for Extent {
    fn show(&self) -> String {
        let state = if self.unwritten { " unwritten" } else { "" };
        format!("{} at {} length {}{state}", self.offset_bytes, self.disk_bytes, self.length_bytes)
    }
}

impl Shown for Attribute {
    fn show(&self) -> String {
        let start: String = self.value.chars().take(64).collect();
        format!("{}=0x{start} ({} bytes)", self.name, self.value.len() / 2)
    }
}

impl Shown for DirectoryEntry {
    fn show(&self) -> String {
        format!("{} inode {} {:?} next {}", self.name, self.inode, self.kind, self.next_cookie)
    }
}

#[cfg(test)]
mod tests {
    use super::super::{FileKind, Header};
    use super::*;

    fn manifest(entries: Vec<Entry>) -> Manifest {
        let header = Header { image: String::new(), judge: String::new(), made_by: String::new() };
        Manifest { header, entries }
    }

    fn file(path: &str, inode: u64) -> Entry {
        Entry { path: path.as_bytes().into(), inode: Some(inode), kind: FileKind::Regular, details: None }
    }

    #[test]
    fn names_each_difference() {
        let expected = manifest(vec![file("/a", 1), file("/b", 2), file("/c", 3)]);
        let found = manifest(vec![file("/a", 1), file("/b", 9), file("/d", 3)]);
        let lines: Vec<String> = differences(&expected, &found).iter().map(ToString::to_string).collect();
        assert_eq!(
            lines,
            [
                "/b: inode: expected Some(2), found Some(9)",
                "/c: path: expected to be there, found nothing",
                "/d: path: expected nothing, found it",
            ]
        );
        assert_eq!(report(&differences(&expected, &expected), 5), None);
    }
}
