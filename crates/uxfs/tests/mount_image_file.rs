//! What other programs do to the image file of a mount: they shorten it, remove it, replace it, give it another name. The mount says so at the
//! latest when it is unmounted, and nothing that was lost passes for written.

use std::{
    fs::{self, File},
    io::Write,
    os::unix::fs::FileExt,
    path::Path,
    process::Output,
    thread,
    time::{Duration, Instant},
};

use uxfs_testkit::{judges::Judge, require, verdict::repair_is_silent};

use crate::common::mount_place::{Place, succeeded};
use crate::common::{succeeds, text, uxfs};

/// A change that is not noticed for so long is not noticed at all.
const LONGEST: Duration = Duration::from_secs(20);
const MEBIBYTE: u64 = 1 << 20;

fn words(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn mounted() -> Place {
    let place = Place::new();
    succeeded(&place.mount(&[]));
    let mut file = File::create(place.file()).unwrap();
    file.write_all(&vec![7; 60 * MEBIBYTE as usize]).unwrap();
    file.sync_all().unwrap();
    place
}

fn set_length(image: &Path, length_bytes: u64) {
    File::options().write(true).open(image).unwrap().set_len(length_bytes).unwrap();
}

/// Unmounting fails and says this.
fn is_refused(place: &Place, expected: &str) {
    let output = uxfs(&["umount", text(&place.directory)]);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    assert!(words(&output).contains(expected), "{}", words(&output));
}

#[test]
fn what_is_written_to_a_shortened_image_fails() {
    require!(Judge::XfsRepair);
    let place = mounted();
    set_length(&place.image, 100 * MEBIBYTE);
    // The kernel takes it into its cache.
    let mut file = File::create(place.directory.join("new")).unwrap();
    file.write_all(b"contents").unwrap();
    assert_eq!(file.sync_all().unwrap_err().raw_os_error(), Some(5));
    // The length comes back, and the contents do not.
    set_length(&place.image, 300 * MEBIBYTE);
    assert!(fs::write(place.directory.join("another"), "contents").is_err());
    drop(file);
    is_refused(&place, "shortened");
}

/// Nothing is written meanwhile, and so nothing flushed.
#[test]
fn a_mount_notices_that_its_image_is_shortened() {
    require!(Judge::XfsRepair);
    let place = mounted();
    set_length(&place.image, 250 * MEBIBYTE);
    let begun = Instant::now();
    while fs::create_dir(place.directory.join("new")).is_ok() {
        fs::remove_dir(place.directory.join("new")).unwrap();
        assert!(begun.elapsed() < LONGEST, "nothing was noticed");
        thread::sleep(Duration::from_millis(100));
    }
    is_refused(&place, "shortened");
    // With its length back, it holds what was synced.
    let place = mounted();
    set_length(&place.image, 299 * MEBIBYTE);
    is_refused(&place, "shortened");
}

#[test]
fn what_a_shortened_image_has_lost_cannot_be_read() {
    require!(Judge::XfsRepair);
    let place = mounted();
    place.unmount();
    succeeded(&place.mount(&["-o", "ro"]));
    let file = File::open(place.file()).unwrap();
    set_length(&place.image, MEBIBYTE);
    let mut buffer = vec![0; 1 << 16];
    let failed = (0..60 * 16).filter(|piece| file.read_exact_at(&mut buffer, piece << 16).is_err()).count();
    assert!(failed > 900, "{failed}");
    drop(file);
    // Nothing of it was to be changed.
    succeeds(&["umount", text(&place.directory)]);
}

#[test]
fn an_image_that_was_removed_or_replaced_is_told() {
    require!(Judge::XfsRepair);
    let place = mounted();
    fs::remove_file(&place.image).unwrap();
    is_refused(&place, "removed while it was mounted");

    let place = mounted();
    let other = place.folder.path().join("other");
    succeeds(&["mkfs", "--size", "300M", text(&other)]);
    fs::rename(&other, &place.image).unwrap();
    is_refused(&place, "replaced by another file while it was mounted");
    repair_is_silent(&place.image).unwrap();

    // A mount for reading that takes changes later loses them.
    succeeded(&place.mount(&["-o", "ro"]));
    succeeded(&place.mount(&["-o", "remount,rw"]));
    let copy = place.folder.path().join("copy");
    fs::rename(&place.image, &copy).unwrap();
    fs::copy(&copy, &place.image).unwrap();
    fs::remove_file(&copy).unwrap();
    is_refused(&place, "replaced by another file while it was mounted");

    // For reading nothing is lost.
    succeeded(&place.mount(&["-o", "ro"]));
    fs::remove_file(&place.image).unwrap();
    succeeds(&["umount", text(&place.directory)]);
}

#[test]
fn an_image_with_another_name_has_the_changes() {
    require!(Judge::XfsRepair);
    let place = mounted();
    let other = place.folder.path().join("other");
    fs::rename(&place.image, &other).unwrap();
    let output = uxfs(&["umount", text(&place.directory)]);
    assert!(output.status.success() && words(&output).contains("has another name now"), "{output:?}");
    repair_is_silent(&other).unwrap();
    assert_eq!(succeeds(&["ls", text(&other)]), "file\n");

    // A hard link keeps the file that is replaced.
    fs::rename(&other, &place.image).unwrap();
    fs::hard_link(&place.image, &other).unwrap();
    succeeded(&place.mount(&[]));
    fs::write(place.directory.join("more"), "contents").unwrap();
    let third = place.folder.path().join("third");
    succeeds(&["mkfs", "--size", "300M", text(&third)]);
    fs::rename(&third, &place.image).unwrap();
    let output = uxfs(&["umount", text(&place.directory)]);
    assert!(output.status.success() && words(&output).contains("this is another file now"), "{output:?}");
    assert_eq!(succeeds(&["ls", text(&other)]), "file\nmore\n");
    repair_is_silent(&other).unwrap();
}
