//! `cargo xtask dist`: the packages install, hold all that they should, and are the same each time.
#![allow(clippy::unwrap_used)]

use std::{
    collections::BTreeSet,
    fs,
    os::unix::fs::{MetadataExt, PermissionsExt},
    path::{Path, PathBuf},
    process::Command,
};

use regex::Regex;
use uxfs_testkit::{
    judges::{Judge, workspace_directory},
    require,
};

fn succeeds(command: &mut Command) -> String {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// Packs a program that takes no time to compress.
fn packages(output: &Path) -> [PathBuf; 3] {
    let mut xtask = Command::new(env!("CARGO_BIN_EXE_xtask"));
    xtask.args(["dist", "--binary", "/bin/true", "--output"]).arg(output);
    let told = succeeds(xtask.current_dir(workspace_directory()).env("SOURCE_DATE_EPOCH", "1700000000"));
    assert_eq!(told.matches("sha256").count(), 3, "{told}");
    let files: Vec<PathBuf> = fs::read_dir(output).unwrap().map(|entry| entry.unwrap().path()).collect();
    ["gz", "deb", "rpm"].map(|end| {
        let mut files = files.iter().filter(|file| file.extension().is_some_and(|found| found == end));
        files.next().unwrap().clone()
    })
}

/// Paths of all files of an installed package, without the records of the package manager.
fn files(root: &Path, folder: &Path, found: &mut BTreeSet<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let metadata = fs::symlink_metadata(&path).unwrap();
        if metadata.is_dir() {
            assert_eq!(metadata.permissions().mode() & 0o7777, 0o755, "{}", path.display());
            files(root, &path, found);
        } else {
            assert_eq!((metadata.uid(), metadata.gid()), (0, 0), "{}", path.display());
            assert_eq!(metadata.mtime(), 1_700_000_000, "{}", path.display());
            found.insert(path.strip_prefix(root).unwrap().to_path_buf());
        }
    }
}

#[test]
fn packages_install_and_are_the_same_each_time() {
    require!(Judge::Rpmbuild);
    let folder = tempfile::tempdir().unwrap();
    let made = [folder.path().join("first"), folder.path().join("second")].map(|output| packages(&output));
    for (first, second) in made[0].iter().zip(&made[1]) {
        assert!(fs::read(first).unwrap() == fs::read(second).unwrap(), "{}", first.display());
    }
    let [archive, deb, rpm] = &made[0];
    let roots = ["archive", "deb", "rpm"].map(|name| folder.path().join(name));
    roots.iter().for_each(|root| fs::create_dir(root).unwrap());
    succeeds(Command::new("tar").arg("-xf").arg(archive).arg("-C").arg(&roots[0]));
    succeeds(Command::new("dpkg-deb").arg("-x").arg(deb).arg(&roots[1]));
    // Dependencies are not in that root.
    succeeds(Command::new("rpm").arg("--root").arg(&roots[2]).args(["--nodeps", "-i"]).arg(rpm));
    let listed = succeeds(Command::new("rpm").arg("--root").arg(&roots[2]).args(["-ql", "uxfs"]));
    assert!(listed.contains("/usr/bin/uxfs"), "{listed}");

    let mut installed = [BTreeSet::new(), BTreeSet::new()];
    for (root, found) in roots[1..].iter().zip(&mut installed) {
        files(root, &root.join("usr"), found);
    }
    let [of_deb, of_rpm] = installed;
    for wanted in [
        "usr/bin/uxfs",
        "usr/sbin/mount.uxfs",
        "usr/sbin/fsck.uxfs",
        "usr/libexec/uxfs/mkfs.xfs",
        "usr/share/man/man1/uxfs.1.gz",
        "usr/share/man/man1/uxfs-mkfs.1.gz",
        "usr/share/bash-completion/completions/uxfs",
        "usr/share/fish/vendor_completions.d/uxfs.fish",
        "usr/share/doc/uxfs/README.md",
        "usr/share/doc/uxfs/docs/json.schema.json",
    ] {
        assert!(of_deb.contains(Path::new(wanted)) && of_rpm.contains(Path::new(wanted)), "{wanted}");
    }
    // Debian's records of changes and copyright are its own.
    let more: Vec<_> = of_deb.symmetric_difference(&of_rpm).collect();
    assert!(
        more.iter().all(|path| path.ends_with("copyright") || path.ends_with("changelog.gz")),
        "{more:?}"
    );
    for link in of_deb.iter().map(|path| roots[1].join(path)) {
        assert!(fs::metadata(&link).unwrap().is_file(), "{} leads nowhere", link.display());
    }
    for folder in [roots[1].join("usr/share/doc/uxfs"), top_folder(&roots[0])] {
        let count = links_lead_somewhere(&folder) + links_lead_somewhere(&folder.join("docs"));
        assert!(count > 40, "only {count} links in {}", folder.display());
    }
    // A package that is removed leaves nothing behind.
    succeeds(Command::new("rpm").arg("--root").arg(&roots[2]).args(["-e", "uxfs"]));
    let left = succeeds(Command::new("find").arg(roots[2].join("usr")).args(["-name", "*uxfs*"]));
    assert_eq!(left, "");
}

fn top_folder(root: &Path) -> PathBuf {
    fs::read_dir(root).unwrap().next().unwrap().unwrap().path()
}

/// All documents of a folder lead to files that are there; gives how many links do.
fn links_lead_somewhere(folder: &Path) -> usize {
    let links = Regex::new(r"\]\(([^)#:\s]+)(#[^)\s]*)?\)").unwrap();
    let mut count = 0;
    for entry in fs::read_dir(folder).unwrap() {
        let page = entry.unwrap().path();
        if page.extension().is_none_or(|extension| extension != "md") {
            continue;
        }
        let text = fs::read_to_string(&page).unwrap();
        for link in links.captures_iter(&text) {
            assert!(folder.join(&link[1]).exists(), "{}: {}", page.display(), &link[1]);
            count += 1;
        }
    }
    count
}
