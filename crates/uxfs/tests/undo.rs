//! `uxfs undo`: an image is byte for byte as before, or is left alone.

use std::{
    fs::{self, File},
    path::{Path, PathBuf},
    process::{Command, Output},
    sync::atomic::{AtomicBool, Ordering},
};

use crate::common::{succeeds, text, uxfs};
use tempfile::TempDir;
use uxfs_block::{
    device::{BlockDevice, DeviceError, DeviceOperation, WriteSegment},
    device_wrapper::DeviceWrapper,
    engine::{OpenOptions, sync::SyncDevice},
};
use uxfs_format::units::Uuid;
use uxfs_repair::commit::{About, Existing, State, UndoFile, apply, default_path, prepare, state_of};
use uxfs_testkit::{
    image::memory_folder,
    judges::{Judge, all_present},
    verdict::repair_is_silent,
    xfs_db::XfsDb,
};

/// An image, what it was before a "repair" (a few edits), and what it is after it.
struct Repaired {
    folder: TempDir,
    image: PathBuf,
    before: Vec<u8>,
    after: Vec<u8>,
}

const START_BYTES: u64 = 1 << 20;

impl Repaired {
    /// The file system begins at this byte of the image.
    fn at(start_bytes: u64) -> Self {
        let folder = tempfile::tempdir_in(memory_folder()).unwrap();
        let at = |name: &str| folder.path().join(name);
        let (image, plain) = (at("image"), at("plain"));
        succeeds(&["mkfs", "--unsupported", "--size", "64M", text(&plain)]);
        let make = |path: &Path| {
            let contents = [vec![9; start_bytes as usize], fs::read(&plain).unwrap()].concat();
            fs::write(path, &contents).unwrap();
            contents
        };
        let before = make(&image);
        succeeds(&["shell", text(&plain), "-c", "mkdir /folder; touch /folder/a /b; chmod 600 /b"]);
        let after = make(&at("repaired"));
        let open = |name, writable| {
            let options = OpenOptions { start_bytes, writable, ..OpenOptions::default() };
            uxfs_block::engine::open(&at(name), &options).unwrap()
        };
        let (old, new) = (open("image", true), open("repaired", false));
        let about = About {
            path: default_path(&image).unwrap(),
            filesystem_uuid: Uuid([1; 16]),
            start_bytes,
            existing: Existing::Refuse,
        };
        let all = 0..old.size_bytes();
        let file = prepare(&*old, &*new, std::slice::from_ref(&all), &about).unwrap().unwrap();
        apply(&file, &*old).unwrap();
        assert!(fs::read(&image).unwrap() == after, "the new contents were carried over");
        Self { folder, image, before, after }
    }

    fn undo_file(&self) -> PathBuf {
        default_path(&self.image).unwrap()
    }

    fn undo(&self, options: &[&str]) -> Output {
        uxfs(&[&["undo", text(&self.image)], options].concat())
    }

    #[track_caller]
    fn must_hold(&self, expected: &[u8]) {
        assert!(fs::read(&self.image).unwrap() == expected, "other contents than expected");
    }

    #[track_caller]
    fn must_be_refused(&self, options: &[&str], words: &str) {
        let contents = fs::read(&self.image).unwrap();
        let output = self.undo(options);
        let message = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(1), "{message}");
        assert!(message.contains(words), "{message}");
        self.must_hold(&contents);
    }
}

fn stdout(output: &Output) -> String {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn a_repair_is_taken_back_to_the_byte() {
    let repaired = Repaired::at(0);
    let facts = UndoFile::open(&repaired.undo_file()).unwrap().facts().clone();
    let words = stdout(&repaired.undo(&[]));
    assert_eq!(words, format!("restored: {} bytes in {} ranges\n", facts.changed_bytes, facts.ranges));
    repaired.must_hold(&repaired.before);
    assert_eq!(stdout(&repaired.undo(&[])), "the image is as it was before the repair: nothing to do\n");
    if all_present(&[Judge::XfsRepair], "an image whose repair was taken back is sound") {
        repair_is_silent(&repaired.image).unwrap();
    }
    let document = |output: &Output| serde_json::from_str::<serde_json::Value>(&stdout(output)).unwrap();
    let nothing = document(&repaired.undo(&["--json"]));
    assert_eq!((&nothing["found"], &nothing["changed"]), (&"not_applied".into(), &false.into()));
    // Done again from the file, and taken back with it.
    let device = SyncDevice::open(&repaired.image, &OpenOptions { writable: true, ..OpenOptions::default() });
    let file = UndoFile::open(&repaired.undo_file()).unwrap();
    apply(&file, &device.unwrap()).unwrap();
    repaired.must_hold(&repaired.after);
    let undone = document(&repaired.undo(&["--json", "--remove"]));
    assert_eq!((&undone["found"], &undone["changed"]), (&"applied".into(), &true.into()));
    assert_eq!(undone["restored_bytes"], facts.changed_bytes);
    assert_eq!(undone["undo_file_removed"], true);
    repaired.must_hold(&repaired.before);
    assert!(!repaired.undo_file().exists());
    repaired.must_be_refused(&[], "cannot open the undo file");
    repaired.must_be_refused(&[], "give that with --undo FILE; nothing was changed");
}

#[test]
fn in_a_partition_the_file_says_where_it_begins() {
    let repaired = Repaired::at(START_BYTES);
    repaired.must_be_refused(&["--offset", "2M"], "at byte 1048576, not of that at byte 2097152");
    let elsewhere = repaired.folder.path().join("elsewhere");
    fs::rename(repaired.undo_file(), &elsewhere).unwrap();
    stdout(&repaired.undo(&["--undo", text(&elsewhere), "--offset", "1M"]));
    repaired.must_hold(&repaired.before);
    assert!(elsewhere.exists());
}

#[test]
fn an_image_that_was_changed_since_is_left_alone() {
    let repaired = Repaired::at(0);
    succeeds(&["chmod", text(&repaired.image), "640", "/b"]);
    repaired.must_be_refused(&[], "the image was changed since");
    stdout(&repaired.undo(&["--force"]));
    let file = UndoFile::open(&repaired.undo_file()).unwrap();
    let device = SyncDevice::open_read_only(&repaired.image, 0).unwrap();
    assert_eq!(state_of(&file, &device).unwrap(), State::NotApplied);
}

/// Nothing can be restored behind the end: `--force` is no remedy.
#[test]
fn a_shortened_image_is_told_with_its_length() {
    let repaired = Repaired::at(START_BYTES);
    let whole_bytes = fs::metadata(&repaired.image).unwrap().len();
    let file = File::options().write(true).open(&repaired.image).unwrap();
    file.set_len(whole_bytes - 4096).unwrap();
    for options in [&[][..], &["--force"]] {
        repaired.must_be_refused(options, "the image is 4096 bytes too short");
        repaired.must_be_refused(options, &format!("truncate -s {whole_bytes} "));
        let output = repaired.undo(options);
        assert!(!String::from_utf8_lossy(&output.stderr).contains("restores all the same"), "{output:?}");
    }
    file.set_len(whole_bytes).unwrap();
    stdout(&repaired.undo(&[]));
    // A longer one may have been lengthened on purpose.
    file.set_len(whole_bytes + 4096).unwrap();
    repaired.must_be_refused(&[], "--force restores all the same");
    stdout(&repaired.undo(&["--force"]));
}

#[test]
fn images_in_use_and_damaged_files_are_refused() {
    let repaired = Repaired::at(0);
    let lock = File::open(&repaired.image).unwrap();
    lock.lock().unwrap();
    repaired.must_be_refused(&[], "another program is changing it");
    drop(lock);
    let path = repaired.undo_file();
    let whole = fs::read(&path).unwrap();
    fs::write(&path, &whole[..whole.len() - 1]).unwrap();
    repaired.must_be_refused(&["--force"], "cannot be used");
    let mut damaged = whole.clone();
    *damaged.last_mut().unwrap() ^= 1;
    fs::write(&path, &damaged).unwrap();
    repaired.must_be_refused(&["--force"], "checksum");
    let other = repaired.folder.path().join("other");
    fs::write(&other, &repaired.after[..32 << 20]).unwrap();
    fs::write(&path, &whole).unwrap();
    let output = uxfs(&["undo", text(&other), "--undo", text(&path), "--force"]);
    assert_eq!(output.status.code(), Some(1));
    // A pipe is not waited for.
    let pipe = repaired.folder.path().join("pipe");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    repaired.must_be_refused(&["--undo", text(&pipe)], "cannot open the undo file");
}

/// A device that takes the first write only, as a kill behind it would.
#[derive(Debug)]
struct FirstWrite(SyncDevice, AtomicBool);

impl DeviceWrapper for FirstWrite {
    type Inner = SyncDevice;

    fn inner(&self) -> &SyncDevice {
        &self.0
    }

    fn before_write(&self, _: &[WriteSegment<'_>]) -> Result<(), DeviceError> {
        if self.1.swap(true, Ordering::Relaxed) {
            let operation = DeviceOperation::Write;
            return Err(DeviceError::outside(operation, 0, 0));
        }
        Ok(())
    }
}

#[test]
fn what_is_half_done_is_marked_for_other_programs() {
    let repaired = Repaired::at(0);
    stdout(&repaired.undo(&[]));
    let options = OpenOptions { writable: true, ..OpenOptions::default() };
    let device = FirstWrite(SyncDevice::open(&repaired.image, &options).unwrap(), false.into());
    apply(&UndoFile::open(&repaired.undo_file()).unwrap(), &device).unwrap_err();
    drop(device);
    let output = uxfs(&["ls", text(&repaired.image)]);
    assert_eq!(output.status.code(), Some(4), "uxfs refuses it: {}", String::from_utf8_lossy(&output.stderr));
    if all_present(&[Judge::XfsDb], "a marked superblock has NEEDSREPAIR and a right checksum") {
        let words = XfsDb::new(&repaired.image).run(&["version", "sb 0", "p crc"]).unwrap();
        assert!(words.contains("NEEDSREPAIR") && words.contains("(correct)"), "{words}");
    }
    stdout(&repaired.undo(&[]));
    repaired.must_hold(&repaired.before);
}
