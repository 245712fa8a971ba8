//! Programs that keep a mount busy.

use std::{
    fs,
    path::{Path, PathBuf},
};

/// Most programs listed.
const NAMED: usize = 5;

/// The first programs with an open file or directory below a mount point, as `bash (process 123)`. `None` if there are none, or if they
/// belong to other users and this process is not root. Sends no request to the mount, which may hang.
pub(crate) fn users_of(mount_point: &Path) -> Option<String> {
    let processes = fs::read_dir("/proc").ok()?.flatten().map(|entry| entry.path());
    let own = std::process::id();
    let mut users = processes.filter(|process| {
        let number = process.file_name().and_then(|name| name.to_str()?.parse::<u32>().ok());
        number.is_some_and(|number| number != own) && uses(process, mount_point)
    });
    let named: Vec<_> = users.by_ref().take(NAMED).filter_map(|process| name_of(&process)).collect();
    let others = match users.count() {
        0 => "",
        _ => " and others",
    };
    (!named.is_empty()).then(|| format!("{}{others}", named.join(", ")))
}

fn uses(process: &Path, mount_point: &Path) -> bool {
    let is_below = |link: PathBuf| fs::read_link(link).is_ok_and(|path| path.starts_with(mount_point));
    let has_one = |folder: &str| {
        let entries = fs::read_dir(process.join(folder)).into_iter().flatten().flatten();
        entries.into_iter().any(|entry| is_below(entry.path()))
    };
    ["cwd", "root", "exe"].into_iter().any(|link| is_below(process.join(link)))
        || has_one("fd")
        || has_one("map_files")
}

fn name_of(process: &Path) -> Option<String> {
    let name = fs::read_to_string(process.join("comm")).ok()?;
    Some(format!("{} (process {})", name.trim_end(), process.file_name()?.to_str()?))
}
