//! Locks on block devices that another process holds for this one.
//!
//! Programs that work on a device lock it, and call tools for parts of the work while they do: systemd-repart and `udevadm lock`
//! call mkfs.xfs. Such a lock keeps others away from the tool.

use std::{
    fs::{self, File, Metadata},
    io::Read,
    os::unix::fs::MetadataExt,
};

use rustix::fs::{major, minor};

/// Most of the kernel's list that is read.
const MAX_LIST_BYTES: u64 = 16 << 20;
/// Processes between this one and the first.
const MAX_ANCESTORS: usize = 100;

/// Whether all that hold a lock on the device node wait for this process: they have started it, or those that did.
pub(crate) fn is_held_for_us(node: &Metadata) -> bool {
    let holders = holders_of(node);
    !holders.is_empty() && {
        let ancestors = ancestors();
        holders.iter().all(|holder| ancestors.contains(holder))
    }
}

/// Whether another process than `holder` has taken a BSD lock on a file or device node. Those of other process namespaces are not seen.
pub(crate) fn is_held_besides(node: &Metadata, holder: u32) -> bool {
    holders_of(node).iter().any(|other| *other != holder)
}

fn holders_of(node: &Metadata) -> Vec<u32> {
    let mut list = String::new();
    let read = File::open("/proc/locks").and_then(|file| file.take(MAX_LIST_BYTES).read_to_string(&mut list));
    let place = format!("{:02x}:{:02x}:{}", major(node.dev()), minor(node.dev()), node.ino());
    if read.is_err() { Vec::new() } else { holders(&list, &place) }
}

/// The processes that took BSD locks on a file. A line is `1: FLOCK  ADVISORY  WRITE 345 08:01:678 0 EOF`; those that wait
/// have an arrow.
fn holders(list: &str, place: &str) -> Vec<u32> {
    let holder = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        match words.as_slice() {
            [_, "FLOCK", _, _, process, at, ..] if *at == place => Some(process.parse().unwrap_or(0)),
            _ => None,
        }
    };
    list.lines().filter_map(holder).collect()
}

fn ancestors() -> Vec<u32> {
    let mut all = Vec::new();
    let mut process = "self".to_owned();
    while all.len() < MAX_ANCESTORS {
        let status = fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
        let Some(parent) = parent_in(&status).filter(|parent| *parent != 0) else { break };
        all.push(parent);
        process = parent.to_string();
    }
    all
}

/// `678 (name) S 345 …`; the name may hold anything.
fn parent_in(status: &str) -> Option<u32> {
    let (_, behind_name) = status.rsplit_once(')')?;
    behind_name.split_whitespace().nth(1)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_the_kernel() {
        let list = "1: FLOCK  ADVISORY  WRITE 345 08:01:678 0 EOF\n\
                    1: -> FLOCK  ADVISORY  WRITE 9 08:01:678 0 EOF\n\
                    2: POSIX  ADVISORY  WRITE 7 08:01:678 0 EOF\n\
                    3: FLOCK  ADVISORY  READ 8 08:01:67 0 EOF\n\
                    4: FLOCK  ADVISORY  READ 99999999999 08:01:6 0 EOF\n";
        assert_eq!(holders(list, "08:01:678"), [345]);
        assert_eq!(holders(list, "08:01:67"), [8]);
        assert_eq!(holders(list, "08:01:6"), [0]);
        assert!(holders(list, "08:02:678").is_empty());
    }

    #[test]
    fn ancestors_of_this_process() {
        assert_eq!(parent_in("678 (a) b) S 345 1 2"), Some(345));
        assert_eq!(parent_in(""), None);
        assert_eq!(ancestors().first().copied(), Some(std::os::unix::process::parent_id()));
    }
}
