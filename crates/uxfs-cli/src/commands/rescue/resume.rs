//! What a rescue leaves for the one that goes on with it.
//!
//! A copy of a failing disk has zeros where nothing could be read. Only its map tells: a rescue that goes on without the map would take them
//! for contents, and a file that was partial would become whole. So a note lies in the directory until everything is whole, and the
//! manifest says the same.

use std::{
    fs::{self, File},
    io::{self, BufRead, BufReader, Write},
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
};

use serde_json::{Value, json};

use crate::{
    failure::{About, Failure},
    kind,
    output::notice,
};

/// The name of the note.
const NAME: &str = ".uxfs-rescue";
/// What tells a note from a file of the image.
const KIND: &str = "uxfs_rescue_note";
/// Bytes that a note has at most.
const MOST_BYTES: u64 = 64 << 10;
/// Version of the note.
const SCHEMA_VERSION: u32 = 1;

/// A note in a directory that files are written to.
#[derive(Debug)]
pub(super) struct Note<'a> {
    pub directory: &'a Path,
    pub image: &'a Path,
    pub map: Option<&'a Path>,
}

impl Note<'_> {
    /// Writes it. A rescue goes on without: it may be the last read of a disk.
    pub fn put(&self, failed_bytes: u64) {
        if self.map.is_none() && failed_bytes == 0 {
            return;
        }
        if let Err(error) = self.write(failed_bytes) {
            notice!(
                kind::Note::Host,
                "{}: cannot be made: {error}; --resume will not know that --map is needed",
                self.path().display()
            );
        }
    }

    fn path(&self) -> PathBuf {
        self.directory.join(NAME)
    }

    fn write(&self, failed_bytes: u64) -> io::Result<()> {
        let path = self.path();
        if fs::symlink_metadata(&path).is_ok() && read(&path).is_none() {
            return Err(io::Error::new(io::ErrorKind::AlreadyExists, "the image has a file of this name"));
        }
        let text = |path: &Path| path.to_string_lossy().into_owned();
        let note = json!({
            "schema_version": SCHEMA_VERSION,
            "type": KIND,
            "map": self.map.map(text),
            "image": text(&absolute(self.image)),
            "failed_bytes": failed_bytes,
        });
        let mut builder = tempfile::Builder::new();
        let builder = builder.prefix(NAME).permissions(fs::Permissions::from_mode(0o644));
        // No link of that name is followed.
        let mut file = builder.tempfile_in(self.directory)?;
        writeln!(file, "{note}")?;
        file.persist(path).map_err(|error| error.error)?;
        Ok(())
    }

    /// Removes it, where nothing is partial any more.
    pub fn remove(&self) {
        let path = self.path();
        if read(&path).is_some() {
            let _ = fs::remove_file(path);
        }
    }

    /// Refuses to go on without the map of the earlier rescue. `unreadable_bytes` are those that are known without it.
    pub fn require_map(&self, manifest: Option<&Path>, unreadable_bytes: u64) -> Result<(), Failure> {
        if self.map.is_some() {
            return Ok(());
        }
        let by_note = read(&self.path()).and_then(|note| self.reason_of_note(&note));
        let by_manifest = || manifest.and_then(|path| reason_of_manifest(path, unreadable_bytes));
        let Some(reason) = by_note.or_else(by_manifest) else { return Ok(()) };
        let failure = Failure::usage(format!("--resume: {reason}: zeros would pass for contents"));
        Err(failure.with_remedy("give its map with --map, or remove the directory and begin anew"))
            .about_host(self.directory)
    }

    fn reason_of_note(&self, note: &Value) -> Option<String> {
        if let Some(map) = note["map"].as_str() {
            return Some(format!("the earlier rescue had the map {map}, and no --map is given now"));
        }
        let image = note["image"].as_str().unwrap_or_default();
        let is_other = *image != *absolute(self.image).to_string_lossy();
        (is_other && note["failed_bytes"].as_u64() > Some(0))
            .then(|| format!("the earlier rescue could not read all of {image}, and this is another image"))
    }
}

fn absolute(path: &Path) -> PathBuf {
    fs::canonicalize(path).unwrap_or_else(|_| path.to_owned())
}

/// The note at this path. The image may have a file of this name.
fn read(path: &Path) -> Option<Value> {
    let found = fs::symlink_metadata(path).ok()?;
    if !found.is_file() || found.len() > MOST_BYTES {
        return None;
    }
    let note: Value = serde_json::from_slice(&fs::read(path).ok()?).ok()?;
    (note["type"] == KIND).then_some(note)
}

/// Why the rescue that wrote this manifest cannot be gone on with. Older ones do not name the map, but say how much was unreadable.
fn reason_of_manifest(path: &Path, unreadable_bytes: u64) -> Option<String> {
    if !fs::metadata(path).is_ok_and(|found| found.is_file()) {
        return None;
    }
    let lines = BufReader::new(File::open(path).ok()?).lines().map_while(Result::ok);
    let lines = lines
        .filter(|line| line.contains(r#""type":"image""#) || line.contains(r#""type":"summary""#))
        .filter_map(|line| serde_json::from_str::<Value>(&line).ok());
    let mut most_bytes = 0;
    for line in lines {
        if let Some(map) = line["map"].as_str() {
            return Some(format!("the earlier rescue had the map {map}, and no --map is given now"));
        }
        let of = |name: &str| line[name].as_u64().unwrap_or(0);
        // Sectors that failed may do so again.
        most_bytes = most_bytes.max(of("unreadable_bytes").saturating_sub(of("failed_bytes")));
    }
    (most_bytes > unreadable_bytes).then(|| {
        format!("{most_bytes} bytes of the image could not be read before, and no --map is given now")
    })
}
