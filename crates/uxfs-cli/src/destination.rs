//! Where the result of a command goes: a file that the user names, or standard output for `-`.
//!
//! Links are followed by the system, and stay: what they lead to is written. A file that is there already is truncated ([`create`]) or
//! replaced as a whole ([`Replacement`]); what is no regular file is written to, and nothing takes its place.

use std::{
    fs::{self, File, OpenOptions, Permissions},
    io::{self, IsTerminal, Write},
    os::{
        fd::AsFd,
        unix::fs::{FileTypeExt, MetadataExt, PermissionsExt},
    },
    path::{Path, PathBuf},
};

use crate::{
    failure::{About, Failure},
    kind::Kind,
    output,
};

/// Links that are followed one after the other.
const MOST_LINKS: usize = 40;
/// Links below it lead to open files, whatever their text says.
const PROCESSES: &str = "/proc";

/// Whether the result goes to standard output.
pub(crate) fn is_standard_output(path: &Path) -> bool {
    path == Path::new("-")
}

/// Names it in a failure.
pub(crate) fn named(failure: Failure, path: &Path) -> Failure {
    match is_standard_output(path) {
        true => failure.at_host(path).about("standard output"),
        false => failure.about_host(path),
    }
}

/// Refuses a result on standard output, where that is closed or a terminal.
///
/// # Errors
/// It is.
pub(crate) fn must_take(path: &Path, what: &str) -> Result<(), Failure> {
    if !is_standard_output(path) {
        return Ok(());
    }
    if io::stdout().is_terminal() {
        return Err(Failure::usage(format!(
            "refusing to write {what} to a terminal; redirect it or name a file"
        )));
    }
    output::must_be_open()
}

/// Refuses a result for which there is no folder.
///
/// # Errors
/// There is none.
pub(crate) fn must_have_folder(path: &Path) -> Result<(), Failure> {
    match folder_of(path) {
        folder if is_standard_output(path) || folder.is_dir() => Ok(()),
        folder => Err(Failure::refused(Kind::NotFound, "no such directory")).about_host(folder),
    }
}

/// Opens it to be written from the beginning.
///
/// # Errors
/// The host.
pub(crate) fn create(path: &Path) -> io::Result<File> {
    match is_standard_output(path) {
        true => Ok(File::from(io::stdout().as_fd().try_clone_to_owned()?)),
        false => File::create(path),
    }
}

/// A file that gets all of its contents at once, or none.
#[derive(Debug)]
pub(crate) struct Replacement {
    path: PathBuf,
}

/// What a path leads to that takes bytes, and whose place no file takes.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Taker {
    StandardOutput,
    /// A character device, a pipe or an open file of a process, at this path.
    At(PathBuf),
}

/// What this path leads to, unless it is a file or directory, or nothing that can be looked at is there.
///
/// # Errors
/// It is a block device. The host.
pub(crate) fn taker(path: &Path) -> Result<Option<Taker>, Failure> {
    let Ok(found) = fs::metadata(path) else { return Ok(None) };
    if found.file_type().is_block_device() {
        return Err(Failure::usage("it is a disk, and only cat and a redirection write to one"))
            .about_host(path);
    }
    Ok(match way(path).about_host(path)? {
        Way::StandardOutput => Some(Taker::StandardOutput),
        Way::Into(place) if !place.is_dir() => Some(Taker::At(place)),
        Way::Into(_) | Way::Rename(_) => None,
    })
}

/// How contents come to a path.
#[derive(Debug, PartialEq, Eq)]
enum Way {
    /// A regular file at this path takes the place of the one that is there, if any.
    Rename(PathBuf),
    /// The bytes go into the device node or pipe at this path.
    Into(PathBuf),
    /// It is standard output.
    StandardOutput,
}

impl Replacement {
    /// Of what is at this path, or will be.
    ///
    /// # Errors
    /// It can only be meant for something else: it is a directory or a block device. There is no folder for it.
    pub fn of(path: &Path) -> Result<Self, Failure> {
        let found = fs::metadata(path).ok().map(|found| found.file_type());
        if found.is_some_and(|found| found.is_dir()) {
            return Err(Failure::refused(Kind::IsADirectory, "it is a directory")).about_host(path);
        }
        if found.is_some_and(|found| found.is_block_device()) {
            return Err(Failure::usage("this is written to a file, not to a disk")).about_host(path);
        }
        match way(path).about_host(path)? {
            Way::Rename(place) if !folder_of(&place).is_dir() => {
                Err(Failure::refused(Kind::NotFound, "no such directory")).about_host(folder_of(&place))
            }
            Way::StandardOutput => output::must_be_open().map(|()| Self { path: path.to_owned() }),
            Way::Rename(_) | Way::Into(_) => Ok(Self { path: path.to_owned() }),
        }
    }

    /// Writes the contents.
    ///
    /// # Errors
    /// The host.
    pub fn write(&self, contents: &[u8]) -> io::Result<()> {
        match way(&self.path)? {
            Way::Rename(place) => replace(&place, contents),
            Way::Into(place) => {
                let mut file = OpenOptions::new().write(true).truncate(true).open(place)?;
                file.write_all(contents)
            }
            Way::StandardOutput => {
                let mut stdout = io::stdout().lock();
                stdout.write_all(contents)?;
                stdout.flush()
            }
        }
    }
}

fn way(path: &Path) -> io::Result<Way> {
    // The system refuses to follow some links of other users. It is asked first.
    let found = match fs::metadata(path) {
        Ok(found) => Some(found),
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        Err(error) => return Err(error),
    };
    let (place, is_open_file) = followed(path)?;
    Ok(match found {
        Some(found) if is_open_file && is_own_output(&found) => Way::StandardOutput,
        Some(found) if is_open_file || !found.is_file() => Way::Into(place),
        _ => Way::Rename(place),
    })
}

/// Where links lead, and whether that is an open file of a process.
fn followed(path: &Path) -> io::Result<(PathBuf, bool)> {
    let mut path = path.to_owned();
    for _ in 0..MOST_LINKS {
        let Ok(target) = fs::read_link(&path) else { return Ok((path, false)) };
        if fs::canonicalize(folder_of(&path)).is_ok_and(|folder| folder.starts_with(PROCESSES)) {
            return Ok((path, true));
        }
        path = folder_of(&path).join(target);
    }
    Err(rustix::io::Errno::LOOP.into())
}

fn is_own_output(found: &fs::Metadata) -> bool {
    rustix::fs::fstat(io::stdout()).is_ok_and(|own| (own.st_dev, own.st_ino) == (found.dev(), found.ino()))
}

/// Puts a new file there when it is complete.
fn replace(place: &Path, contents: &[u8]) -> io::Result<()> {
    let mut temporary = tempfile::Builder::new();
    let temporary = temporary.prefix(".uxfs-new-").permissions(Permissions::from_mode(0o644));
    // Its error would name the temporary file.
    let made = temporary.tempfile_in(folder_of(place));
    let mut file = made.map_err(|error| io::Error::from(error.kind()))?;
    file.write_all(contents)?;
    file.persist(place).map_err(|error| error.error)?;
    Ok(())
}

/// The folder that a file lies in.
fn folder_of(file: &Path) -> &Path {
    file.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::os::{fd::AsRawFd, unix::fs::symlink};

    use super::*;

    #[test]
    fn links_stay_and_lead_to_what_is_written() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        fs::create_dir(at("folder")).unwrap();
        fs::write(at("folder/there"), "a longer text").unwrap();
        symlink("folder/there", at("one")).unwrap();
        symlink("one", at("two")).unwrap();
        symlink("folder/new", at("dangling")).unwrap();
        symlink("loop", at("loop")).unwrap();
        for (name, target) in [("two", "folder/there"), ("dangling", "folder/new"), ("plain", "plain")] {
            Replacement::of(&at(name)).unwrap().write(b"text").unwrap();
            assert_eq!(fs::read(at(target)).unwrap(), b"text", "{name}");
            assert_eq!(at(name).is_symlink(), name != target, "{name}");
        }
        for refused in ["folder", "loop", "missing/file"] {
            assert!(Replacement::of(&at(refused)).is_err(), "{refused}");
        }
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 6);
    }

    #[test]
    fn what_is_no_regular_file_or_is_open_stays() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        let file = OpenOptions::new().read(true).write(true).create_new(true).open(&path).unwrap();
        let open = PathBuf::from(format!("/proc/self/fd/{}", file.as_raw_fd()));
        symlink(&open, folder.path().join("link")).unwrap();
        for name in [open, folder.path().join("link")] {
            Replacement::of(&name).unwrap().write(b"text").unwrap();
            assert_eq!(file.metadata().unwrap().len(), 4);
            file.set_len(0).unwrap();
        }
        Replacement::of(Path::new("/dev/null")).unwrap().write(b"text").unwrap();
        assert!(fs::metadata("/dev/null").unwrap().file_type().is_char_device());
    }
}
