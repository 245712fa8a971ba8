//! The files that a disk is based on.
//!
//! A disk names any file of the host, and what that holds would be shown as a part of the disk. So none is opened unless the user allows
//! it, and each is told. Only plain files are opened, and of a name with a protocol none.

use std::{
    ffi::OsStr,
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
    sync::Arc,
};

use uxfs_block::{
    claim::Lock,
    device::BlockDevice,
    engine::{self, Engine, OpenOptions},
};

use super::{
    device::Qcow2Device,
    header::{BackingName, Header},
};
use crate::{
    error::{ImageError, Result},
    open::Options,
};

/// Files that are based on each other, at most.
const MOST_FILES: usize = 16;
const REMEDY: &str = "qemu-img convert -O raw makes one plain image of it and what it is based on";
const ALLOW: &str = "--backing-files reads that too; qemu-img convert -O raw makes one plain image of both";

/// Whether other files may be opened that a disk is based on.
#[derive(Clone, Copy)]
pub enum BackingFiles<'a> {
    /// None.
    Refused,
    /// Any plain file. Each is told before it is opened.
    Allowed(&'a dyn Fn(&Path)),
}

/// Opens what a disk is based on; `None` where that is nothing.
///
/// # Errors
/// It may not be opened, cannot be, or is of a kind that is not read here.
pub(super) fn open(
    header: &Header,
    file: &Arc<dyn BlockDevice>,
    path: &Path,
    options: Options<'_>,
) -> Result<Option<Arc<dyn BlockDevice>>> {
    let mut opened = vec![Arc::clone(file)];
    let (mut above, mut path, mut disks) = (header.backing.clone(), path.to_owned(), Vec::new());
    let mut last = None;
    while let Some(backing) = above.take() {
        path = allowed_path(&backing, &path, options)?;
        if opened.len() >= MOST_FILES {
            return Err(unsupported(format!("a qcow2 disk that is based on more than {MOST_FILES} files")));
        }
        let next = open_plain(&path)?;
        if opened.iter().any(|file| file.identity() == next.identity()) {
            return Err(ImageError::Damaged(format!(
                "{} is based on itself",
                shown(path.as_os_str().as_bytes())
            )));
        }
        if is_qcow2(&backing)? {
            let header = Header::read(&*next)?;
            above.clone_from(&header.backing);
            disks.push((Arc::clone(&next), header));
        } else {
            last = Some(Arc::clone(&next));
        }
        opened.push(next);
    }
    let cache_bytes = options.cache_bytes / MOST_FILES as u64;
    for (file, header) in disks.into_iter().rev() {
        last = Some(Arc::new(Qcow2Device::new(file, &header, last, cache_bytes)));
    }
    Ok(last)
}

/// The path of a backing file, which is told. Names are relative to the folder of the file that has them.
fn allowed_path(backing: &BackingName, of: &Path, options: Options<'_>) -> Result<PathBuf> {
    let name = Path::new(OsStr::from_bytes(&backing.name));
    let first = backing.name.split(|byte| *byte == b'/').next().unwrap_or_default();
    let BackingFiles::Allowed(tell) = options.files else {
        let what = format!("a qcow2 disk that is based on another file, {}", shown(&backing.name));
        return Err(ImageError::Unsupported { what, remedy: ALLOW });
    };
    if first.contains(&b':') {
        return Err(unsupported(format!(
            "a qcow2 disk that is based on {}, which is no file",
            shown(&backing.name)
        )));
    }
    let path = of.parent().unwrap_or(Path::new("")).join(name);
    tell(&path);
    Ok(path)
}

fn open_plain(path: &Path) -> Result<Arc<dyn BlockDevice>> {
    let options = OpenOptions { engine: Engine::Sync, lock: Lock::Shared, ..OpenOptions::default() };
    let failed =
        |why: String| unsupported(format!("it is based on {}: {why}", shown(path.as_os_str().as_bytes())));
    let file = engine::open(path, &options).map_err(|error| failed(error.to_string()))?;
    // Devices have no inode.
    match file.identity().and_then(|identity| identity.inode) {
        Some(_) => Ok(file),
        None => Err(failed("it is no plain file".to_owned())),
    }
}

/// Whether it is a qcow2 disk itself. A file without a named format could be made to look like one by what wrote into it.
fn is_qcow2(backing: &BackingName) -> Result<bool> {
    match backing.format.as_deref() {
        Some(b"raw") => Ok(false),
        Some(b"qcow2") => Ok(true),
        Some(other) => {
            Err(unsupported(format!("a qcow2 disk that is based on a file of the format {}", shown(other))))
        }
        None => Err(unsupported(
            "a qcow2 disk that does not say which format the file has that it is based on".to_owned(),
        )),
    }
}

/// A name that the disk chose, for messages: without bytes that could steer a terminal.
fn shown(name: &[u8]) -> String {
    let characters = |character: char| match character.is_control() {
        true => character.escape_default().to_string(),
        false => character.to_string(),
    };
    String::from_utf8_lossy(name).chars().map(characters).collect()
}

fn unsupported(what: String) -> ImageError {
    ImageError::Unsupported { what, remedy: REMEDY }
}
