//! `uxfs repair` that is killed, and that finds the host's file system full.

use std::{
    fs::{self, OpenOptions},
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use uxfs_block::zeros::is_zero;
use uxfs_testkit::{
    golden::GoldenImage,
    image::memory_folder,
    judges::{Judge, judged},
    require,
    seeds::{Random, Seed},
    sparse::Contents,
    verdict::repair_is_silent,
};

use crate::common::{host, program, text, uxfs};

/// Times that a repair is killed.
const KILLS: u64 = 6;

/// An image without any header of its groups, and with its first MiB behind them overwritten.
fn damaged(folder: &Path) -> PathBuf {
    let image = folder.join("image");
    GoldenImage::lean("default").unwrap().unpack_to(&image).unwrap();
    let file = OpenOptions::new().read(true).write(true).open(&image).unwrap();
    let mut superblock = [0; 512];
    file.read_exact_at(&mut superblock, 0).unwrap();
    let number = |at: usize| u32::from_be_bytes(superblock[at..at + 4].try_into().unwrap());
    let (block_bytes, group_blocks, groups) = (number(4), number(84), number(88));
    for group in 0..u64::from(groups) {
        let start = group * u64::from(group_blocks) * u64::from(block_bytes);
        file.write_all_at(&[0; 3 * 512], start + 512).unwrap();
    }
    file.write_all_at(&[0; 256 << 10], 4096).unwrap();
    image
}

fn same(one: &Contents, other: &Contents, what: &str) {
    assert_eq!(one.difference(other), None, "{what}");
}

/// Starts a repair, and kills it after this time. Gives whether it was still running.
fn kill_after(time: Duration, arguments: &[&str]) -> bool {
    let mut command = Command::new(program());
    let mut child = command.args(arguments).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    thread::sleep(time);
    let was_running = child.try_wait().unwrap().is_none();
    child.kill().unwrap();
    child.wait().unwrap();
    was_running
}

fn moment(whole: Duration, random: &mut Random) -> Duration {
    // Most of the time nothing is written: half of the kills come in the last fifth.
    let share = if random.below(2) == 0 { random.below(100) } else { 80 + random.below(22) };
    whole * u32::try_from(share).unwrap() / 100
}

#[test]
fn a_repair_that_is_killed_is_finished_by_the_next_and_can_be_taken_back() {
    require!(Judge::XfsRepair);
    let mut random = Seed::from_environment("a_repair_that_is_killed", 1).random();
    let folder = tempfile::tempdir_in(memory_folder()).unwrap();
    let image = damaged(folder.path());
    let before = Contents::read(&image).unwrap();
    let started = Instant::now();
    let done = uxfs(&["repair", text(&image)]);
    assert_eq!(done.status.code(), Some(0), "{}", String::from_utf8_lossy(&done.stdout));
    let (first, after) = (started.elapsed(), Contents::read(&image).unwrap());
    repair_is_silent(&image).unwrap();
    let undo = folder.path().join("image.uxfs-undo");
    // Later runs are faster than the first.
    before.write(&image).unwrap();
    fs::remove_file(&undo).unwrap();
    let started = Instant::now();
    assert_eq!(uxfs(&["repair", text(&image)]).status.code(), Some(0));
    let whole = started.elapsed().min(first);
    let mut killed = 0;
    for _ in 0..KILLS {
        before.write(&image).unwrap();
        let _ = fs::remove_file(&undo);
        killed += u32::from(kill_after(moment(whole, &mut random), &["repair", text(&image)]));
        let left = Contents::read(&image).unwrap();
        let again = uxfs(&["repair", text(&image)]);
        assert_eq!(again.status.code(), Some(0), "{}", String::from_utf8_lossy(&again.stderr));
        same(&Contents::read(&image).unwrap(), &after, "repaired again");
        // From where it was killed, the way back: where it had written anything, there is an undo file.
        left.write(&image).unwrap();
        if left != before {
            assert_eq!(uxfs(&["undo", text(&image)]).status.code(), Some(0));
        }
        same(&Contents::read(&image).unwrap(), &before, "taken back");
    }
    judged("killed repairs", &format!("{killed} of {KILLS} were running"));
    assert!(killed > 0, "none was running any more");
}

#[test]
fn a_repair_without_an_undo_file_that_is_killed_can_be_repeated() {
    require!(Judge::XfsRepair);
    let mut random = Seed::from_environment("without_an_undo_file", 1).random();
    let folder = tempfile::tempdir_in(memory_folder()).unwrap();
    let image = damaged(folder.path());
    let before = Contents::read(&image).unwrap();
    let started = Instant::now();
    assert_eq!(uxfs(&["repair", "--no-undo", text(&image)]).status.code(), Some(0));
    let whole = started.elapsed();
    for _ in 0..KILLS / 2 {
        before.write(&image).unwrap();
        kill_after(moment(whole, &mut random), &["repair", "--no-undo", text(&image)]);
        let again = uxfs(&["repair", "--no-undo", text(&image)]);
        assert_eq!(again.status.code(), Some(0), "{}", String::from_utf8_lossy(&again.stdout));
        repair_is_silent(&image).unwrap();
    }
    assert!(!folder.path().join("image.uxfs-undo").exists());
}

#[test]
fn a_host_that_is_full_ends_a_repair_before_its_first_write() {
    require!(Judge::Kernel, Judge::XfsRepair);
    let folder = tempfile::tempdir().unwrap();
    let small = folder.path().join("small");
    fs::create_dir(&small).unwrap();
    host("mount", &["-t", "tmpfs", "-o", "size=80m", "tmpfs", text(&small)]);
    let result = std::panic::catch_unwind(|| on_a_full_host(&small, folder.path()));
    host("umount", &[text(&small)]);
    result.unwrap();
}

fn on_a_full_host(small: &Path, elsewhere: &Path) {
    let image = damaged(small);
    // The blocks of new structures have no room in the file.
    let file = OpenOptions::new().write(true).open(&image).unwrap();
    let before = Contents::read(&image).unwrap();
    let mut punched = 0;
    for (number, page) in before.to_bytes().chunks(4096).enumerate() {
        if is_zero(page) {
            let from = u64::try_from(number).unwrap() * 4096;
            let flags = rustix::fs::FallocateFlags::PUNCH_HOLE | rustix::fs::FallocateFlags::KEEP_SIZE;
            rustix::fs::fallocate(&file, flags, from, 4096).unwrap();
            punched += 1;
        }
    }
    assert!(punched > 1000);
    let balloon = small.join("balloon");
    let fill = || {
        let file = fs::File::create(&balloon).unwrap();
        let mut at = 0;
        while file.write_all_at(&[1; 4096], at).is_ok() {
            at += 4096;
        }
        file
    };
    // Some room, as much as a few blocks take: it would be used up in the middle.
    let balloon_file = fill();
    let filled_bytes = balloon_file.metadata().unwrap().len();
    balloon_file.set_len(filled_bytes - (128 << 10)).unwrap();
    let undo = elsewhere.join("undo");
    let mut missing_bytes = 0;
    for options in [&[][..], &["--no-undo"], &["--undo", text(&undo)]] {
        let refused = uxfs(&[&["repair"], options, &[text(&image)]].concat());
        let words = String::from_utf8_lossy(&refused.stderr).into_owned();
        assert_eq!(refused.status.code(), Some(1), "{options:?}: {words}");
        for expected in ["holes of the image file", "nothing was changed: make room on the host"] {
            assert!(words.contains(expected), "{options:?}: {words}");
        }
        let number = words.split(" bytes are missing").next().unwrap().rsplit(' ').next().unwrap();
        missing_bytes = number.parse::<u64>().unwrap();
        for left in [small.join("image.uxfs-undo"), small.join("image.uxfs-undo.part"), undo.clone()] {
            assert!(!left.exists(), "{options:?}: {}", left.display());
        }
        same(&Contents::read(&image).unwrap(), &before, "refused");
    }
    // What it said is enough.
    assert!(missing_bytes > 128 << 10, "{missing_bytes}");
    balloon_file.set_len(balloon_file.metadata().unwrap().len() - missing_bytes).unwrap();
    let done = uxfs(&["repair", "--undo", text(&undo), text(&image)]);
    assert_eq!(done.status.code(), Some(0), "{}", String::from_utf8_lossy(&done.stderr));
    repair_is_silent(&image).unwrap();
    // Back needs no room.
    fill();
    assert_eq!(uxfs(&["undo", "--undo", text(&undo), text(&image)]).status.code(), Some(0));
    same(&Contents::read(&image).unwrap(), &before, "taken back");
    // Into a copy with other holes it does, and says so before it begins.
    assert_eq!(uxfs(&["repair", "--undo", text(&undo), text(&image)]).status.code(), Some(0));
    punch(&image, &before);
    let punched = Contents::read(&image).unwrap();
    fill();
    let refused = uxfs(&["undo", "--force", "--undo", text(&undo), text(&image)]);
    let words = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert_eq!(refused.status.code(), Some(1), "{words}");
    assert!(words.contains("holes of the image file") && words.contains("nothing was changed"), "{words}");
    same(&Contents::read(&image).unwrap(), &punched, "refused");
    balloon_file.set_len(0).unwrap();
    assert_eq!(uxfs(&["undo", "--force", "--undo", text(&undo), text(&image)]).status.code(), Some(0));
}

/// Makes holes of the pages that a repair changed, and that held something else than zeros before, but the first.
fn punch(image: &Path, before: &Contents) {
    let file = OpenOptions::new().write(true).open(image).unwrap();
    let flags = rustix::fs::FallocateFlags::PUNCH_HOLE | rustix::fs::FallocateFlags::KEEP_SIZE;
    let (before, after) = (before.to_bytes(), fs::read(image).unwrap());
    let pages = (0_u64..).step_by(4096).zip(before.chunks(4096).zip(after.chunks(4096)));
    let changed = pages.filter(|(_, (old, new))| old != new && !is_zero(old));
    let mut count = 0;
    for (from, _) in changed.filter(|(from, _)| *from > 0) {
        rustix::fs::fallocate(&file, flags, from, 4096).unwrap();
        count += 1;
    }
    assert!(count > 0);
}
