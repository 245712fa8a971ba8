//! The files of a package, laid out as they are installed.

use std::{
    fs::{self, File},
    io::{self, Write},
    os::unix::fs::{PermissionsExt, symlink},
    path::Path,
};

use anyhow::{Context, Result};
use flate2::{Compression, GzBuilder};

use super::documents;
use crate::manual;

/// Links beside the programs of the system: no other package has these names.
const LINKS: [&str; 5] = ["mount.uxfs", "mount.fuse.uxfs", "umount.uxfs", "umount.fuse.uxfs", "fsck.uxfs"];
/// Links under the names of xfsprogs, which may be installed as well: in a folder of their own, to be put into PATH.
const DROP_INS: [&str; 8] = [
    "mkfs.xfs",
    "xfs_repair",
    "fsck.xfs",
    "xfs_info",
    "xfs_admin",
    "xfs_metadump",
    "xfs_mdrestore",
    "xfs_copy",
];
/// Where each shell looks for completions.
const COMPLETIONS: [(&str, &str); 4] = [
    ("uxfs.bash", "usr/share/bash-completion/completions/uxfs"),
    ("_uxfs", "usr/share/zsh/vendor-completions/_uxfs"),
    ("_uxfs", "usr/share/zsh/site-functions/_uxfs"),
    ("uxfs.fish", "usr/share/fish/vendor_completions.d/uxfs.fish"),
];
/// Lays the tree out in a folder, which is rebuilt.
pub fn lay_out(program: &Path, root: &Path) -> Result<()> {
    let _ = fs::remove_dir_all(root);
    install(program, &root.join("usr/bin/uxfs"), 0o755)?;
    for name in LINKS {
        link("../bin/uxfs", &root.join("usr/sbin").join(name))?;
    }
    for name in DROP_INS {
        link("../../bin/uxfs", &root.join("usr/libexec/uxfs").join(name))?;
    }
    let manual = tempfile::tempdir()?;
    manual::write(manual.path())?;
    pages(&manual.path().join("man"), root)?;
    for (name, place) in COMPLETIONS {
        install(&manual.path().join("completions").join(name), &root.join(place), 0o644)?;
    }
    documents::lay_out(&root.join("usr/share/doc/uxfs"))?;
    folders(root)
}

/// Copies a file, whatever its permissions are here.
pub fn install(from: &Path, to: &Path, mode: u32) -> Result<()> {
    let cannot = || format!("cannot copy {} to {}", from.display(), to.display());
    if let Some(parent) = to.parent() {
        fs::create_dir_all(parent).with_context(cannot)?;
    }
    fs::copy(from, to).with_context(cannot)?;
    fs::set_permissions(to, fs::Permissions::from_mode(mode)).with_context(cannot)
}

/// Writes a file.
pub fn write(bytes: &[u8], to: &Path, mode: u32) -> Result<()> {
    if let Some(parent) = to.parent() {
        fs::create_dir_all(parent)?;
    }
    fs::write(to, bytes).with_context(|| format!("cannot write {}", to.display()))?;
    Ok(fs::set_permissions(to, fs::Permissions::from_mode(mode))?)
}

fn link(target: &str, place: &Path) -> Result<()> {
    if let Some(parent) = place.parent() {
        fs::create_dir_all(parent)?;
    }
    Ok(symlink(target, place)?)
}

/// Man pages, packed without name and time. Those of xfsprogs' names would stand in the way of its own: they lie beside the links.
fn pages(from: &Path, root: &Path) -> Result<()> {
    for page in fs::read_dir(from)? {
        let path = page?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let (tool, section) = name.rsplit_once('.').context("a page without a section")?;
        let folder = if DROP_INS.contains(&tool) { "usr/share/uxfs/man" } else { "usr/share/man" };
        let place = root.join(folder).join(format!("man{section}"));
        fs::create_dir_all(&place)?;
        let place = place.join(format!("{name}.gz"));
        let mut packed = GzBuilder::new().write(File::create(&place)?, Compression::best());
        io::copy(&mut File::open(&path)?, &mut packed)?;
        packed.finish()?.flush()?;
        fs::set_permissions(&place, fs::Permissions::from_mode(0o644))?;
    }
    Ok(())
}

/// Folders are for all, whatever the umask is.
fn folders(folder: &Path) -> Result<()> {
    fs::set_permissions(folder, fs::Permissions::from_mode(0o755))?;
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            folders(&entry.path())?;
        }
    }
    Ok(())
}
