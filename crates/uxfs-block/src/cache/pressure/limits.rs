//! Memory that the system and the control groups of this process leave available.

use std::{
    fs,
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
    budget_for(System::default().available_bytes())
}

fn budget_for(available_bytes: Option<u64>) -> u64 {
    let share = available_bytes.map_or(u64::MAX, |bytes| bytes / AVAILABLE_SHARE);
    share.clamp(MIN_BUDGET_BYTES, DEFAULT_BUDGET_BYTES)
}

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

    /// Bytes that this process may still take before the system or a control group runs short: the least of all that
    /// is said. What page cache holds counts as free.
    pub fn available_bytes(&self) -> Option<u64> {
        let groups = self.groups();
        groups.iter().filter_map(Group::available_bytes).chain(self.memory_available_bytes()).min()
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

    fn memory_available_bytes(&self) -> Option<u64> {
        let memory = self.read("proc/meminfo");
        let line = memory.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
        line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
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
    fn number(&self, file: &str) -> Option<u64> {
        fs::read_to_string(self.directory.join(file)).ok()?.trim().parse().ok()
    }

    /// Limit less use; none where the group has no limit.
    fn available_bytes(&self) -> Option<u64> {
        let (limit, used) = if self.is_unified {
            let limits = [self.number("memory.max"), self.number("memory.high")];
            (limits.into_iter().flatten().min()?, self.number("memory.current")?)
        } else {
            (self.number("memory.limit_in_bytes")?, self.number("memory.usage_in_bytes")?)
        };
        Some(limit.saturating_sub(used.saturating_sub(self.page_cache_bytes())))
    }

    /// Page cache that has not been used lately: the kernel reclaims it before anything else.
    fn page_cache_bytes(&self) -> u64 {
        let statistics = fs::read_to_string(self.directory.join("memory.stat")).unwrap_or_default();
        let name = if self.is_unified { "inactive_file " } else { "total_inactive_file " };
        let line = statistics.lines().find_map(|line| line.strip_prefix(name));
        line.and_then(|number| number.trim().parse().ok()).unwrap_or(0)
    }
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
        assert_eq!(system(&[MEMORY]).1.available_bytes(), Some(8000 << 10));
        assert_eq!(system(&[]).1.available_bytes(), None);
        assert_eq!(system(&[("proc/meminfo", "MemAvailable: x kB\n")]).1.available_bytes(), None);
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
        assert_eq!(system.available_bytes(), Some(3500));
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
        assert_eq!(system.available_bytes(), Some(100));
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
