//! How much of a tree is still there, path by path.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::Arc,
};

use serde::{Deserialize, Serialize};
use uxfs_testkit::manifest::{Attribute, Details, FileKind, Manifest, UNREADABLE};

/// Where repairs put what has lost its name.
const ORPHANAGE: &[u8] = b"/lost+found";
/// Paths that are told of each way to differ.
const SHOWN: usize = 3;

/// What lies at one path.
#[derive(Debug, Clone)]
struct Item {
    inode: Option<u64>,
    kind: FileKind,
    details: Arc<Details>,
}

/// A tree as a manifest tells it.
#[derive(Debug, Clone, Default)]
pub struct Tree {
    items: BTreeMap<Vec<u8>, Item>,
}

/// Things in which two items differ.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Differences {
    kind: bool,
    contents: bool,
    owner: bool,
    times: bool,
    attributes: bool,
}

impl Differences {
    fn any(self) -> bool {
        self.any_but_times() || self.times
    }

    fn any_but_times(self) -> bool {
        self.kind || self.contents || self.owner || self.attributes
    }

    fn words(self) -> String {
        let all = [
            (self.kind, "type"),
            (self.contents, "contents"),
            (self.owner, "mode or owner"),
            (self.times, "times"),
            (self.attributes, "attributes"),
        ];
        let words: Vec<_> = all.into_iter().filter(|(differs, _)| *differs).map(|(_, word)| word).collect();
        words.join(", ")
    }
}

/// How many entries of a tree survived.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Survival {
    /// Entries of the truth.
    pub entries: usize,
    /// The same at their path: type, contents, mode, owner, times and attributes.
    pub intact: usize,
    /// Not at their path, but the same elsewhere, times aside.
    pub moved: usize,
    /// At their path, but different.
    pub changed: usize,
    /// Of those: with contents or attributes that cannot be read.
    pub unreadable: usize,
    /// Of those: with other contents that can be read.
    pub wrong_bytes: usize,
    /// Of those: the damage itself has overwritten contents.
    #[serde(default)]
    pub overwritten: usize,
    /// Of the others with wrong contents: the repair says that something of the inode is lost or a guess.
    #[serde(default)]
    pub declared: usize,
    /// Of those: with other times, and else the same.
    pub only_times: usize,
    /// Nowhere.
    pub lost: usize,
    /// Paths that the truth does not have, and that are no moved entries.
    pub extra: usize,
    /// The first paths of each way to differ.
    pub examples: Vec<String>,
    /// How many paths differ in each way.
    pub ways: BTreeMap<String, usize>,
}

/// What is known of inodes beside the trees.
#[derive(Debug, Default)]
pub struct Known {
    /// Their contents were overwritten.
    pub overwritten: BTreeSet<u64>,
    /// The repair speaks of a loss or a guess.
    pub declared: BTreeSet<u64>,
}

impl Survival {
    /// Entries with wrong contents of which nothing tells.
    pub fn silently_wrong(&self) -> usize {
        self.wrong_bytes.saturating_sub(self.overwritten + self.declared)
    }

    /// Whether all is there, and nothing else.
    pub fn is_lossless(&self) -> bool {
        self.intact == self.entries && self.extra == 0
    }

    /// Whether all is there but for times.
    pub fn is_lossless_but_for_times(&self) -> bool {
        self.intact + self.only_times == self.entries && self.extra == 0
    }
}

impl Tree {
    /// Later links get the details of the first.
    pub fn new(manifest: &Manifest) -> Self {
        let mut by_inode: HashMap<Option<u64>, Arc<Details>> = HashMap::new();
        for entry in &manifest.entries {
            if let Some(details) = &entry.details {
                by_inode.insert(entry.inode, Arc::new((**details).clone()));
            }
        }
        let items = manifest.entries.iter().filter_map(|entry| {
            let details = Arc::clone(by_inode.get(&entry.inode)?);
            Some((entry.path.0.clone(), Item { inode: entry.inode, kind: entry.kind, details }))
        });
        Self { items: items.collect() }
    }

    /// How many paths it has.
    pub fn len(&self) -> usize {
        self.items.len()
    }

    /// All paths.
    pub fn paths(&self) -> impl Iterator<Item = &[u8]> {
        self.items.keys().map(Vec::as_slice)
    }

    /// Whether a path has the same in another tree.
    pub fn is_same_in(&self, other: &Self, path: &[u8]) -> bool {
        let (was, now) = (self.items.get(path), other.items.get(path));
        was.zip(now).is_some_and(|(was, now)| !differences(was, now).any())
    }

    /// The inode of the directory below the root with the most directories below it.
    pub fn largest_directory(&self) -> Option<u64> {
        let directories: Vec<_> =
            self.items.iter().filter(|(_, item)| item.kind == FileKind::Directory).collect();
        let below = |path: &[u8]| {
            let start = [path, b"/"].concat();
            directories.iter().filter(|(other, _)| other.starts_with(&start)).count()
        };
        let largest =
            directories.iter().filter(|(path, _)| path.len() > 1).max_by_key(|(path, _)| below(path));
        largest.and_then(|(_, item)| item.inode)
    }
}

/// Compares what was found with the truth.
pub fn compare(truth: &Tree, found: &Tree, known: &Known) -> Survival {
    let mut survival = Survival { entries: truth.len(), ..Survival::default() };
    let mut missing = Vec::new();
    for (path, item) in &truth.items {
        let Some(now) = found.items.get(path) else {
            missing.push((path, item));
            continue;
        };
        let differences = differences(item, now);
        if !differences.any() {
            survival.intact += 1;
            continue;
        }
        survival.changed += 1;
        let is_unreadable = is_unreadable(&now.details);
        survival.unreadable += usize::from(is_unreadable);
        let is_wrong = !is_unreadable && (differences.contents || differences.kind);
        let is_silent = is_wrong && survival.add_wrong(item, known);
        survival.only_times += usize::from(!differences.any_but_times());
        match is_silent {
            true => survival.tell(path, "other contents, and nothing tells", b""),
            false => survival.tell(path, &differences.words(), b""),
        }
    }
    let mut elsewhere = Elsewhere::new(truth, found);
    for (path, item) in missing {
        match elsewhere.take(item) {
            Some(new) => {
                survival.moved += 1;
                survival.tell(path, "is at ", new);
            }
            None => {
                survival.lost += 1;
                survival.tell(path, "is lost", b"");
            }
        }
    }
    survival.extra = elsewhere.paths.len();
    elsewhere.paths.iter().for_each(|path| survival.tell(path, "was not there before", b""));
    survival
}

impl Survival {
    /// Counts an entry with other contents. Returns whether nothing tells of them.
    fn add_wrong(&mut self, item: &Item, known: &Known) -> bool {
        let is_in = |inodes: &BTreeSet<u64>| item.inode.is_some_and(|inode| inodes.contains(&inode));
        self.wrong_bytes += 1;
        match (is_in(&known.overwritten), is_in(&known.declared)) {
            (true, _) => self.overwritten += 1,
            (false, true) => self.declared += 1,
            (false, false) => return true,
        }
        false
    }

    fn tell(&mut self, path: &[u8], way: &str, more: &[u8]) {
        let told = self.ways.entry(way.to_owned()).or_default();
        *told += 1;
        if *told <= SHOWN {
            self.examples.push(format!("{}: {way}{}", path.escape_ascii(), more.escape_ascii()));
        }
    }
}

/// Paths that only the repaired tree has.
struct Elsewhere<'a> {
    paths: BTreeSet<&'a [u8]>,
    found: &'a Tree,
    by_inode: HashMap<u64, Vec<&'a [u8]>>,
    /// For repairs that give new numbers.
    by_contents: HashMap<(u64, &'a str), Vec<&'a [u8]>>,
}

impl<'a> Elsewhere<'a> {
    fn new(truth: &Tree, found: &'a Tree) -> Self {
        let (mut by_inode, mut by_contents): (HashMap<u64, Vec<_>>, HashMap<_, Vec<_>>) = Default::default();
        let mut paths = BTreeSet::new();
        let new = found.items.iter().filter(|(path, _)| !truth.items.contains_key(*path));
        for (path, item) in new.filter(|(path, _)| path.as_slice() != ORPHANAGE) {
            paths.insert(path.as_slice());
            if let Some(inode) = item.inode {
                by_inode.entry(inode).or_default().push(path.as_slice());
            }
            if let Some(key) = contents_of(item) {
                by_contents.entry(key).or_default().push(path.as_slice());
            }
        }
        Self { paths, found, by_inode, by_contents }
    }

    /// A path at which this item is, which is then taken.
    fn take(&mut self, item: &Item) -> Option<&'a [u8]> {
        let by_inode = item.inode.and_then(|inode| self.by_inode.get(&inode));
        let by_contents = contents_of(item).and_then(|key| self.by_contents.get(&key));
        let candidates = by_inode.into_iter().chain(by_contents).flatten().copied();
        let mut same = candidates.filter(|path| {
            let now = self.found.items.get(*path);
            self.paths.contains(path) && now.is_some_and(|now| !differences(item, now).any_but_times())
        });
        let path = same.next()?;
        self.paths.remove(path);
        Some(path)
    }
}

/// Contents by which a file can be told from others: empty ones cannot.
fn contents_of(item: &Item) -> Option<(u64, &str)> {
    let size = item.details.size_bytes.filter(|size| *size > 0)?;
    Some((size, item.details.sha256.as_deref()?))
}

fn is_unreadable(details: &Details) -> bool {
    let is_attribute =
        |attribute: &Attribute| attribute.value == UNREADABLE || attribute.name.0 == UNREADABLE.as_bytes();
    details.sha256.as_deref() == Some(UNREADABLE)
        || details.target.as_ref().is_some_and(|target| target.0 == UNREADABLE.as_bytes())
        || details.attributes.as_ref().is_some_and(|attributes| attributes.iter().any(is_attribute))
}

fn differences(was: &Item, now: &Item) -> Differences {
    let (a, b) = (&*was.details, &*now.details);
    let is_file = was.kind == FileKind::Regular;
    Differences {
        kind: was.kind != now.kind,
        contents: a.sha256 != b.sha256
            || a.target != b.target
            || a.device != b.device
            || (is_file && a.size_bytes != b.size_bytes),
        owner: (a.mode, a.user_id, a.group_id) != (b.mode, b.user_id, b.group_id),
        times: (a.access_time, a.modification_time, a.change_time, a.birth_time)
            != (b.access_time, b.modification_time, b.change_time, b.birth_time),
        attributes: a.attributes != b.attributes,
    }
}

#[cfg(test)]
#[path = "survival_tests.rs"]
mod tests;
