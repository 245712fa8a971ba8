//! The RPM.

use std::{
    fmt::Write as _,
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use anyhow::{Context, Result};

use super::{DESCRIPTION, HOMEPAGE, LICENSE, PACKAGER, Release, SUMMARY};
use crate::process;

/// Folders of other packages: the files in them are ours.
const SHARED_FOLDERS: [&str; 17] = [
    "/usr",
    "/usr/bin",
    "/usr/sbin",
    "/usr/libexec",
    "/usr/share",
    "/usr/share/man",
    "/usr/share/man/man1",
    "/usr/share/man/man8",
    "/usr/share/doc",
    "/usr/share/bash-completion",
    "/usr/share/bash-completion/completions",
    "/usr/share/zsh",
    "/usr/share/zsh/site-functions",
    "/usr/share/zsh/vendor-completions",
    "/usr/share/fish",
    "/usr/share/fish/vendor_completions.d",
    "/",
];

/// Packs the tree.
pub fn pack(root: &Path, output: &Path, release: &Release) -> Result<PathBuf> {
    let work = tempfile::tempdir()?;
    let specification = work.path().join("uxfs.spec");
    fs::write(&specification, text(root, release)?)?;
    let mut tool = Command::new("rpmbuild");
    tool.args(["-bb", "--quiet"]).env("SOURCE_DATE_EPOCH", &release.time_seconds).stdout(Stdio::null());
    for (name, value) in [
        ("_topdir", work.path().display().to_string()),
        ("_rpmdir", work.path().join("made").display().to_string()),
        ("_buildhost", "localhost".to_owned()),
        ("use_source_date_epoch_as_buildtime", "1".to_owned()),
        ("clamp_mtime_to_source_date_epoch", "1".to_owned()),
        ("source_date_epoch_from_changelog", "0".to_owned()),
        // What is packed is finished: it is not stripped or packed again.
        ("debug_package", "%{nil}".to_owned()),
        ("__os_install_post", "%{nil}".to_owned()),
        ("_build_id_links", "none".to_owned()),
        ("_binary_payload", "w19.zstdio".to_owned()),
    ] {
        tool.arg("--define").arg(format!("{name} {value}"));
    }
    process::run(tool.arg(&specification)).context("the RPM (it needs rpmbuild)")?;
    let folder = work.path().join("made").join(std::env::consts::ARCH);
    let made =
        fs::read_dir(&folder)?.next().with_context(|| format!("nothing in {}", folder.display()))??;
    let path = output.join(made.file_name());
    fs::copy(made.path(), &path)?;
    Ok(path)
}

fn text(root: &Path, release: &Release) -> Result<String> {
    let mut text = String::new();
    writeln!(text, "Name: uxfs\nVersion: {}\nRelease: 1\nSummary: {SUMMARY}", release.version)?;
    writeln!(text, "License: {LICENSE}\nURL: {HOMEPAGE}\nPackager: {PACKAGER}\nRecommends: fuse3")?;
    writeln!(text, "\n%description\n{DESCRIPTION}\n\n%prep\n\n%build\n\n%install")?;
    writeln!(
        text,
        "mkdir -p %{{buildroot}}\ncp -a {}/. %{{buildroot}}/\n\n%files\n%defattr(-,root,root)",
        root.display()
    )?;
    list(root, Path::new("/"), &mut text)?;
    Ok(text)
}

/// The lines of `%files`, in order.
fn list(folder: &Path, place: &Path, text: &mut String) -> Result<()> {
    if !SHARED_FOLDERS.iter().any(|shared| place == Path::new(shared)) {
        writeln!(text, "%dir \"{}\"", place.display())?;
    }
    let mut names = fs::read_dir(folder)?.map(|entry| Ok(entry?.file_name())).collect::<Result<Vec<_>>>()?;
    names.sort();
    for name in names {
        let (path, place) = (folder.join(&name), place.join(&name));
        match fs::symlink_metadata(&path)?.is_dir() {
            true => list(&path, &place, text)?,
            false => writeln!(text, "\"{}\"", place.display())?,
        }
    }
    Ok(())
}
