//! Finding programs that mount and unmount.

use std::{
    env,
    ffi::OsStr,
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
};

/// Where programs are looked for besides `PATH`, which lacks the folders of system programs for some users.
const USUAL_FOLDERS: [&str; 4] = ["/usr/bin", "/bin", "/usr/sbin", "/sbin"];

/// Where a program is: on `PATH`, else in the usual folders. Relative folders of `PATH` are left out: what they lead to
/// depends on the working directory.
pub(super) fn find(name: &str) -> Option<PathBuf> {
    find_in(env::var_os("PATH").as_deref().unwrap_or_default(), name)
}

fn find_in(path: &OsStr, name: &str) -> Option<PathBuf> {
    let folders = env::split_paths(path).chain(USUAL_FOLDERS.iter().map(PathBuf::from));
    folders
        .filter(|folder| folder.is_absolute())
        .map(|folder| folder.join(name))
        .find(|path| is_program(path))
}

fn is_program(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    const NAME: &str = "uxfs-mounts-nothing";

    #[test]
    fn programs_are_found_by_absolute_folders() {
        let folder = tempfile::tempdir_in(env::current_dir().unwrap()).unwrap();
        let program = folder.path().join(NAME);
        fs::write(&program, "").unwrap();
        let path = OsStr::new(folder.path());
        assert_eq!(find_in(path, NAME), None, "it may not be run");
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
        assert_eq!(find_in(path, NAME), Some(program));
        assert_eq!(
            find_in(folder.path().file_name().unwrap(), NAME),
            None,
            "relative to the working directory"
        );
        assert_eq!(find_in(OsStr::new(""), NAME), None);
        assert!(find_in(OsStr::new(""), "sh").unwrap().is_absolute());
    }
}
