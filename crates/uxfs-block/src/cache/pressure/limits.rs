//! Memory that the system and the control groups of this process leave available.

use std::{
    fs::{self, File},
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
};

/// Budget where memory is plenty.
pub const DEFAULT_BUDGET_BYTES: u64 = 256 << 20;
/// The cache takes at most one part in this many of the memory that is available.
const AVAILABLE_SHARE: u64 = 4;
/// Below this the budget does not go.
const MIN_BUDGET_BYTES: u64 = 4 << 20;

/// [`DEFAULT_BUDGET_BYTES`], or a quarter of the available memory where that is less.
pub fn default_budget_bytes() -> u64 {
    budget_for(System::default().open().available_bytes())
}

fn budget_for(available_bytes: Option<u64>) -> u64 {
    let share = available_bytes.map_or(u64::MAX, |bytes| bytes / AVAILABLE_SHARE);
    share.clamp(MIN_BUDGET_BYTES, DEFAULT_BUDGET_BYTES)
}

/// No file that is read here is longer.
const TEXT_BYTES: usize = 64 << 10;

/// Where the system tells about itself.
#[derive(Debug, Clone)]
pub struct System {
    root: PathBuf,
}

impl Default for System {
    fn default() -> Self {
        Self::at(Path::new("/"))
    }
}

/// A control group of this process that accounts for memory.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Group {
    directory: PathBuf,
    is_unified: bool,
}

impl System {
    /// A system whose `/proc` and `/sys` lie below `root`.
    pub fn at(root: &Path) -> Self {
        Self { root: root.to_owned() }
    }

    /// Opens what tells how much memory is available.
    pub fn open(&self) -> OpenSystem {
        let memory = File::open(self.root.join("proc/meminfo")).ok();
        OpenSystem { memory, groups: self.groups().iter().filter_map(Group::open).collect() }
    }

    /// Files that report stalls, the nearest first.
    pub fn stall_files(&self) -> Vec<PathBuf> {
        let own = self.groups().into_iter().find(|group| group.is_unified);
        let own = own.map(|group| group.directory.join("memory.pressure"));
        own.into_iter().chain([self.root.join("proc/pressure/memory")]).collect()
    }

    fn read(&self, path: &str) -> String {
        fs::read_to_string(self.root.join(path)).unwrap_or_default()
    }

    /// The groups of this process, from its own up to the root of what is mounted.
    fn groups(&self) -> Vec<Group> {
        let mounts = self.read("proc/self/mountinfo");
        let memberships = self.read("proc/self/cgroup");
        let mut groups = Vec::new();
        for membership in memberships.lines() {
            // hierarchy:controllers:path, with neither number nor controllers in the unified hierarchy.
            let mut fields = membership.splitn(3, ':').skip(1);
            let (Some(controllers), Some(path)) = (fields.next(), fields.next()) else { continue };
            let is_unified = controllers.is_empty();
            if !is_unified && !controllers.split(',').any(|name| name == "memory") {
                continue;
            }
            let Some(mount) = mounts.lines().find_map(|line| Mount::parse(line, is_unified)) else {
                continue;
            };
            // In a namespace, or where only a part is mounted, the path begins at the mount's root.
            let path = path.strip_prefix(mount.root.trim_end_matches('/')).unwrap_or(path);
            let top = self.root.join(mount.point.trim_start_matches('/'));
            let own = top.join(path.trim_start_matches('/'));
            let chain = own.ancestors().take_while(|directory| directory.starts_with(&top));
            groups.extend(chain.map(|directory| Group { directory: directory.to_owned(), is_unified }));
        }
        groups
    }
}

/// A mounted hierarchy of control groups.
struct Mount<'a> {
    root: &'a str,
    point: &'a str,
}

impl<'a> Mount<'a> {
    /// A line of mountinfo, if it is the hierarchy that is looked for.
    fn parse(line: &'a str, is_unified: bool) -> Option<Self> {
        let (front, back) = line.split_once(" - ")?;
        let mut front = front.split(' ').skip(3);
        let (root, point) = (front.next()?, front.next()?);
        let mut back = back.split(' ');
        let (kind, options) = (back.next()?, back.nth(1)?);
        let is_wanted = if is_unified {
            kind == "cgroup2"
        } else {
            kind == "cgroup" && options.split(',').any(|option| option == "memory")
        };
        is_wanted.then_some(Self { root, point })
    }
}

impl Group {
    /// Opens its files; `None` where the group has no limit.
    fn open(&self) -> Option<OpenGroup> {
        let file = |name: &str| File::open(self.directory.join(name)).ok();
        let (limits, used) = match self.is_unified {
            true => (vec![file("memory.max"), file("memory.high")], file("memory.current")?),
            false => (vec![file("memory.limit_in_bytes")], file("memory.usage_in_bytes")?),
        };
        let limits = limits.into_iter().flatten().collect();
        Some(OpenGroup { limits, used, statistics: file("memory.stat"), is_unified: self.is_unified })
    }
}

/// The files that tell about memory, open: they can be read where no path can be looked up any more.
#[derive(Debug)]
pub struct OpenSystem {
    memory: Option<File>,
    groups: Vec<OpenGroup>,
}

#[derive(Debug)]
struct OpenGroup {
    limits: Vec<File>,
    used: File,
    statistics: Option<File>,
    is_unified: bool,
}

impl OpenSystem {
    /// Bytes that this process may still take before the system or a control group runs short: the least of all that
    /// is said. What page cache holds counts as free.
    pub fn available_bytes(&self) -> Option<u64> {
        self.groups.iter().filter_map(OpenGroup::available_bytes).chain(self.memory_available_bytes()).min()
    }

    fn memory_available_bytes(&self) -> Option<u64> {
        let memory = text_of(self.memory.as_ref()?);
        let line = memory.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
        line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
    }
}

impl OpenGroup {
    /// Limit less use; none where the group has no limit.
    fn available_bytes(&self) -> Option<u64> {
        let limit = self.limits.iter().filter_map(number_in).min()?;
        Some(limit.saturating_sub(number_in(&self.used)?.saturating_sub(self.page_cache_bytes())))
    }

    /// Page cache that has not been used lately: the kernel reclaims it before anything else.
    fn page_cache_bytes(&self) -> u64 {
        let statistics = self.statistics.as_ref().map(text_of).unwrap_or_default();
        let name = if self.is_unified { "inactive_file " } else { "total_inactive_file " };
        let line = statistics.lines().find_map(|line| line.strip_prefix(name));
        line.and_then(|number| number.trim().parse().ok()).unwrap_or(0)
    }
}

fn number_in(file: &File) -> Option<u64> {
    text_of(file).trim().parse().ok()
}

/// All of a file, from its beginning, whatever was read of it before. These files are short.
fn text_of(file: &File) -> String {
    let mut bytes = vec![0; TEXT_BYTES];
    let mut length = 0;
    while let Some(rest) = bytes.get_mut(length..).filter(|rest| !rest.is_empty()) {
        match file.read_at(rest, length as u64) {
            Ok(0) | Err(_) => break,
            Ok(count) => length += count,
        }
    }
    bytes.truncate(length);
    String::from_utf8(bytes).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Files below a directory that stands for the root of a system.
    fn system(files: &[(&str, &str)]) -> (tempfile::TempDir, System) {
        let directory = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let path = directory.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        let system = System::at(directory.path());
        (directory, system)
    }

    const MEMORY: (&str, &str) = ("proc/meminfo", "MemTotal: 9000 kB\nMemAvailable:    8000 kB\n");

    #[test]
    fn without_groups_the_system_says() {
        assert_eq!(system(&[MEMORY]).1.open().available_bytes(), Some(8000 << 10));
        assert_eq!(system(&[]).1.open().available_bytes(), None);
        assert_eq!(system(&[("proc/meminfo", "MemAvailable: x kB\n")]).1.open().available_bytes(), None);
    }

    #[test]
    fn unified_groups_and_their_ancestors_limit() {
        let (_directory, system) = system(&[
            MEMORY,
            ("proc/self/cgroup", "0::/a/b\n"),
            ("proc/self/mountinfo", "41 31 0:38 / /sys/fs/cgroup rw,relatime - cgroup2 cgroup2 rw\n"),
            ("sys/fs/cgroup/a/b/memory.max", "max\n"),
            ("sys/fs/cgroup/a/b/memory.high", "max\n"),
            ("sys/fs/cgroup/a/b/memory.current", "100\n"),
            ("sys/fs/cgroup/a/memory.max", "9000\n"),
            ("sys/fs/cgroup/a/memory.high", "7000\n"),
            ("sys/fs/cgroup/a/memory.current", "5000\n"),
            ("sys/fs/cgroup/a/memory.stat", "anon 1\ninactive_file 1500\nactive_file 300\n"),
        ]);
        assert_eq!(system.open().available_bytes(), Some(3500));
        let files = system.stall_files();
        assert!(files[0].ends_with("sys/fs/cgroup/a/b/memory.pressure"), "{files:?}");
        assert!(files[1].ends_with("proc/pressure/memory"));
    }

    #[test]
    fn legacy_groups_limit() {
        let (_directory, system) = system(&[
            MEMORY,
            ("proc/self/cgroup", "9:name=systemd:/x\n4:cpu,memory:/docker/c1\n0::/\n"),
            (
                "proc/self/mountinfo",
                "30 31 0:9 / /sys/fs/cgroup/pids rw - cgroup cgroup rw,pids\n\
                 35 31 0:32 /docker/c1 /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory\n",
            ),
            ("sys/fs/cgroup/memory/memory.limit_in_bytes", "4000\n"),
            ("sys/fs/cgroup/memory/memory.usage_in_bytes", "3999\n"),
            ("sys/fs/cgroup/memory/memory.stat", "inactive_file 7\ntotal_inactive_file 99\n"),
        ]);
        assert_eq!(system.open().available_bytes(), Some(100));
    }

    #[test]
    fn the_budget_is_a_share_within_bounds() {
        assert_eq!(budget_for(None), DEFAULT_BUDGET_BYTES);
        assert_eq!(budget_for(Some(1 << 40)), DEFAULT_BUDGET_BYTES);
        assert_eq!(budget_for(Some(400 << 20)), 100 << 20);
        assert_eq!(budget_for(Some(0)), MIN_BUDGET_BYTES);
        assert!((MIN_BUDGET_BYTES..=DEFAULT_BUDGET_BYTES).contains(&default_budget_bytes()));
    }
}
