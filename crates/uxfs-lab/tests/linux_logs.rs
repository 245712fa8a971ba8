//! Logs of kernel mounts that were cut off: our recovery makes of them what the kernel's does. `cargo xtask linux-logs` tries
//! as many as wanted.

use std::path::PathBuf;

use uxfs_lab::linux_logs::{
    self, Tally,
    crashes::{CrashTally, during_recovery},
    hostile::{HostileTally, damage},
};
use uxfs_testkit::{
    golden::GoldenImage,
    judges::{self, Judge},
    seeds::Seed,
};

#[test]
fn a_few_logs_of_linux_are_recovered_as_linux_does() {
    let judges = [Judge::Kernel, Judge::Mkfs, Judge::XfsIo, Judge::XfsRepair];
    if !judges::all_present(&judges, "logs of Linux") {
        return;
    }
    let seed = Seed::from_environment("logs of Linux", 1);
    let mut random = seed.random();
    let mut tally = Tally::default();
    for _ in 0..3 {
        linux_logs::run(random.next_u64(), 2, kept().as_deref(), &mut tally).unwrap();
    }
    judges::judged("kernel", &format!("recovery of its logs: {tally:?}"));
    assert!(tally.logs >= 3, "{tally:?}");
}

/// Directory for images of failed tests, from `UXFS_KEEP_DIR`.
fn kept() -> Option<PathBuf> {
    std::env::var_os("UXFS_KEEP_DIR").map(PathBuf::from)
}

#[test]
fn crashes_during_recovery_change_nothing_of_what_it_comes_to() {
    let folder = tempfile::tempdir().unwrap();
    let image = folder.path().join("image");
    GoldenImage::dirty_log().unpack_to(&image).unwrap();
    let mut tally = CrashTally::default();
    if !judges::all_present(&[Judge::XfsRepair], "crashes during recovery") {
        return;
    }
    during_recovery(&image, 60, 1, &mut tally).unwrap();
    assert!(tally.states >= 30, "{tally:?}");
    if judges::all_present(
        &[Judge::Kernel, Judge::Mkfs, Judge::XfsIo],
        "crashes while a log of Linux is recovered",
    ) {
        linux_logs::with_dirty_image(5, kept().as_deref(), |image| during_recovery(image, 30, 5, &mut tally))
            .unwrap();
    }
    judges::judged("xfs_repair", &format!("crashes during recovery: {tally:?}"));
}

#[test]
fn damaged_logs_are_answered_and_leave_the_image_alone() {
    let folder = tempfile::tempdir().unwrap();
    let image = folder.path().join("image");
    GoldenImage::dirty_log().unpack_to(&image).unwrap();
    let seed = Seed::from_environment("damaged logs", 1);
    let mut tally = HostileTally::default();
    damage(&image, 300, seed.random().next_u64(), &mut tally).unwrap();
    assert!(tally.refused > 50 && tally.replayed > 20, "{tally:?}");
}
