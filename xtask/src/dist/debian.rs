//! The Debian package.

use std::{
    fmt::Write as _,
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result};

use super::{DESCRIPTION, HOMEPAGE, PACKAGER, Release, SUMMARY};
use crate::process;

/// Packs the tree.
pub fn pack(root: &Path, program: &Path, output: &Path, release: &Release) -> Result<PathBuf> {
    let architecture = match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    };
    let control = root.join("DEBIAN");
    fs::create_dir_all(&control)?;
    fs::set_permissions(&control, fs::Permissions::from_mode(0o755))?;
    fs::write(
        control.join("control"),
        text(architecture, dependencies(program)?.as_deref(), size_kibibytes(root)?, release)?,
    )?;
    let copyright = format!(
        "Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/\nUpstream-Name: uxfs\nSource: {HOMEPAGE}\n\n\
         Files: *\nCopyright: the uxfs developers\nLicense: MIT or Apache-2.0\n See LICENSE-MIT and LICENSE-APACHE beside this file.\n"
    );
    fs::write(root.join("usr/share/doc/uxfs/copyright"), copyright)?;
    let path = output.join(format!("uxfs_{}_{architecture}.deb", release.version));
    let mut tool = Command::new("dpkg-deb");
    // One thread: with more the bytes of the packed archive differ from run to run.
    tool.args(["--root-owner-group", "-Zxz", "--threads-max=1", "--build"]).arg(root).arg(&path);
    tool.env("SOURCE_DATE_EPOCH", &release.time_seconds);
    tool.stdout(std::process::Stdio::null());
    process::run(&mut tool).context("the Debian package (it needs dpkg-deb)")?;
    fs::remove_dir_all(control)?;
    Ok(path)
}

fn text(
    architecture: &str,
    dependencies: Option<&str>,
    size_kibibytes: u64,
    release: &Release,
) -> Result<String> {
    let mut text = String::new();
    writeln!(text, "Package: uxfs\nVersion: {}\nArchitecture: {architecture}", release.version)?;
    writeln!(text, "Maintainer: {PACKAGER}\nInstalled-Size: {size_kibibytes}")?;
    if let Some(dependencies) = dependencies {
        writeln!(text, "Depends: {dependencies}")?;
    }
    writeln!(
        text,
        "Recommends: fuse3\nSuggests: xfsprogs\nSection: admin\nPriority: optional\nHomepage: {HOMEPAGE}"
    )?;
    writeln!(text, "Description: {SUMMARY}\n {DESCRIPTION}")?;
    Ok(text)
}

/// The C library in the version that the program asks for, and the compiler's library; `None` for a static program.
fn dependencies(program: &Path) -> Result<Option<String>> {
    let newest = newest_version(&fs::read(program)?, b"GLIBC_2.");
    Ok(newest.map(|newest| format!("libc6 (>= 2.{newest}), libgcc-s1")))
}

/// The largest number behind a word, in a program's table of names.
fn newest_version(bytes: &[u8], word: &[u8]) -> Option<u32> {
    let places = bytes.windows(word.len()).enumerate().filter(|(_, window)| *window == word);
    let numbers = places.filter_map(|(place, _)| {
        let digits = bytes.get(place + word.len()..)?;
        let length = digits.iter().take_while(|byte| byte.is_ascii_digit()).count();
        std::str::from_utf8(digits.get(..length)?).ok()?.parse().ok()
    });
    numbers.max()
}

fn size_kibibytes(folder: &Path) -> Result<u64> {
    let mut size = 0;
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        size += match entry.file_type()? {
            kind if kind.is_dir() => size_kibibytes(&entry.path())?,
            _ => entry.metadata()?.len().div_ceil(1024),
        };
    }
    Ok(size)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_version_is_found() {
        let bytes = b"\0GLIBC_2.2.5\0GLIBC_2.34\0GLIBC_2.9\0GLIBC_2.x\0GLIBC_PRIVATE\0";
        assert_eq!(newest_version(bytes, b"GLIBC_2."), Some(34));
        assert_eq!(newest_version(b"musl", b"GLIBC_2."), None);
    }
}
