//! `remount,rw` of a mount with `ro`: by what it has read it writes, so no other program may have written, nor be able to.

use std::{
    fs,
    process::{Command, Stdio},
    thread,
    time::Duration,
};

use uxfs_testkit::{judges::Judge, loop_device::LoopDevice, require, verdict::repair_is_silent};

use crate::common::mount_place::{KernelMount, Place, processes, succeeded};
use crate::common::{program, succeeds, text, uxfs};

const CHANGED: &str = "another program may have changed the image";

#[track_caller]
fn is_refused(arguments: &[&str], words: &str) {
    let output = uxfs(arguments);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && said.contains(words), "{arguments:?}: {said}");
}

/// The kernel takes no lock. Once it has unmounted, its writes show in the times of the file, also below a loop device.
#[test]
fn an_image_that_the_kernel_has_or_had_is_not_changed() {
    require!(Judge::XfsRepair, Judge::Kernel);
    let place = Place::new();
    let directory = text(&place.directory);
    for is_device in [false, true] {
        let own = is_device.then(|| LoopDevice::attach(&place.image, &[]).unwrap());
        let image = text(own.as_ref().map_or(place.image.as_path(), LoopDevice::path));
        let remount = ["mount", "-o", "remount,rw", image, directory];
        succeeds(&["mount", "-o", "ro", image, directory]);
        let other = LoopDevice::attach(&place.image, &[]).unwrap();
        is_refused(&remount, &format!("it is attached to {} for writing", text(other.path())));
        drop(other);
        // It has written nothing.
        succeeds(&remount);
        fs::create_dir(place.directory.join(format!("here-{is_device}"))).unwrap();
        succeeds(&["umount", directory]);

        succeeds(&["mount", "-o", "ro", image, directory]);
        let other = LoopDevice::attach(&place.image, &[]).unwrap();
        let kernel = KernelMount::new(other.path(), "nouuid").unwrap();
        is_refused(&remount, &format!("it is mounted at {}", text(kernel.path())));
        fs::create_dir(kernel.path().join(format!("there-{is_device}"))).unwrap();
        is_refused(&remount, &format!("it is mounted at {}", text(kernel.path())));
        drop(kernel);
        drop(other);
        for _ in 0..2 {
            is_refused(&remount, CHANGED);
        }
        // Nothing of this mount is lost, and nothing is to be repaired.
        let output = uxfs(&["umount", directory]);
        succeeded(&output);
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(said.contains(CHANGED) && !said.contains("repair"), "{said}");
        drop(own);
        repair_is_silent(&place.image).unwrap();
    }
    let listed = succeeds(&["ls", text(&place.image)]);
    assert_eq!(listed, "here-false\nhere-true\nthere-false\nthere-true\n");
}

/// Invariant 2 of `uxfs_block::claim`: the attempt of one must not take the other's lock away.
#[test]
fn of_two_mounts_for_reading_neither_takes_changes() {
    require!(Judge::XfsRepair);
    let place = Place::new();
    let second = place.folder.path().join("second");
    fs::create_dir(&second).unwrap();
    let image = text(&place.image);
    let remount = |directory| uxfs(&["mount", "-o", "remount,rw", image, directory]);
    let directories = [text(&place.directory), text(&second)];
    directories.iter().for_each(|directory| _ = succeeds(&["mount", "-o", "ro", image, directory]));
    thread::scope(|scope| {
        for directory in directories {
            scope.spawn(move || {
                for _ in 0..3 {
                    let output = remount(directory);
                    let said = String::from_utf8_lossy(&output.stderr);
                    assert!(said.contains("another program has the image open"), "{said}");
                }
            });
        }
    });
    succeeds(&["umount", directories[1]]);
    succeeded(&remount(directories[0]));
    fs::write(place.file(), "contents").unwrap();
    is_refused(&["mount", "-o", "ro", image, directories[1]], "another program is changing it");
    place.unmount();
    assert_eq!(succeeds(&["cat", image, "/file"]), "contents");
}

/// Otherwise programs would write to the directory beneath the mount.
#[test]
fn a_server_that_ends_while_it_is_asked_is_told() {
    require!(Judge::XfsRepair);
    let place = Place::new();
    succeeded(&place.mount(&["-o", "ro"]));
    // Cache the attributes, so that the remount does not ask the server for them.
    fs::metadata(&place.directory).unwrap();
    let name = |process: &str| fs::read_to_string(format!("/proc/{process}/comm")).unwrap_or_default();
    let server = processes(&place.image).into_iter().find(|process| name(process).trim() == "uxfs-serve");
    let server = server.unwrap();
    let signal = |signal: &str| succeeded(&Command::new("kill").args([signal, &server]).output().unwrap());
    signal("-STOP");
    let mut command = Command::new(program());
    command.args(["mount", "-o", "remount,rw", text(&place.image), text(&place.directory)]);
    let remounting = command.stderr(Stdio::piped()).spawn().unwrap();
    thread::sleep(Duration::from_millis(300));
    signal("-KILL");
    let output = remounting.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && said.contains("its server has ended"), "{said}");
}
