//! The command as people use it, and trees to fill images from.

pub mod damaged;
pub mod layers;
pub mod mount_place;
pub mod random_tree;

use std::{
    fs,
    os::unix::fs::{FileExt, PermissionsExt, symlink},
    path::Path,
    process::{Command, Output},
    sync::OnceLock,
    time::{Duration, SystemTime},
};

use uxfs_testkit::judges::PROGRAM_VARIABLE;

/// Behind the times of all files that tests make: those of `mkfs --from` are clamped to it.
pub const NOW: &str = "2000000000";

/// The program under test: the one that `UXFS_PROGRAM` names, else the one that was built with the tests.
pub fn program() -> &'static str {
    static PROGRAM: OnceLock<String> = OnceLock::new();
    PROGRAM.get_or_init(|| {
        std::env::var(PROGRAM_VARIABLE).unwrap_or_else(|_| env!("CARGO_BIN_EXE_uxfs").to_owned())
    })
}

pub fn uxfs(arguments: &[&str]) -> Output {
    let mut command = Command::new(program());
    let epoch = if arguments.contains(&"--from") { NOW } else { "1700000000" };
    command.args(arguments).env("SOURCE_DATE_EPOCH", epoch).env("DETERMINISTIC_SEED", "1");
    command.output().unwrap()
}

pub fn succeeds(arguments: &[&str]) -> String {
    let output = uxfs(arguments);
    let words = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{arguments:?}: {words}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Files of several sizes, holes, links; owned by the user that runs the test.
pub fn tree(root: &Path) {
    fs::create_dir_all(root.join("folder/deeper")).unwrap();
    for number in 0..200_usize {
        fs::write(root.join(format!("folder/file-{number}")), vec![number as u8; number * 500]).unwrap();
    }
    fs::write(root.join("large"), vec![7; 3_000_000]).unwrap();
    let sparse = fs::File::create(root.join("sparse")).unwrap();
    sparse.write_all_at(b"end", 50_000_000).unwrap();
    fs::hard_link(root.join("large"), root.join("folder/deeper/same")).unwrap();
    symlink("folder/file-1", root.join("link")).unwrap();
    fs::set_permissions(root.join("folder"), fs::Permissions::from_mode(0o2750)).unwrap();
    // Reading leaves access times alone that lie behind all others.
    let far = fs::FileTimes::new().set_accessed(SystemTime::now() + Duration::from_secs(3600));
    let mut paths = vec![root.to_path_buf()];
    while let Some(path) = paths.pop() {
        if path.is_dir() {
            paths.extend(fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
        }
        if !path.is_symlink() {
            fs::File::open(&path).unwrap().set_times(far).unwrap();
        }
    }
}

pub fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// Runs a program of the host.
pub fn host(program: &str, arguments: &[&str]) {
    let output = Command::new(program).args(arguments).output().unwrap();
    let words = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{program} {arguments:?}: {words}");
}
