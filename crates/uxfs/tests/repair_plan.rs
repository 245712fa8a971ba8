//! A repair that is kept in a file: shown by commands that read, carried out, and refused where it does not fit.

use std::{
    fs::{self, OpenOptions},
    os::unix::fs::{FileExt, symlink},
    path::{Path, PathBuf},
    process::Output,
};

use serde_json::Value as Json;
use tempfile::TempDir;
use uxfs_testkit::{
    golden::GoldenImage,
    image::memory_folder,
    judges::Judge,
    require,
    seeds::Seed,
    sparse::{self, Contents},
    verdict::repair_is_silent,
    xfs_db::XfsDb,
};

use crate::common::{text, uxfs};

/// An image, and its plan beside it.
struct Bench {
    folder: TempDir,
}

fn words(output: &Output) -> String {
    String::from_utf8_lossy(&[output.stdout.as_slice(), output.stderr.as_slice()].concat()).into_owned()
}

impl Bench {
    fn sound() -> Self {
        let folder = tempfile::tempdir_in(memory_folder()).unwrap();
        GoldenImage::lean("default").unwrap().unpack_to(&folder.path().join("image")).unwrap();
        Self { folder }
    }

    /// Two directories are gone, the root among them, and the first superblock.
    fn damaged() -> Self {
        let bench = Self::sound();
        for place in ["inode 128", "path /directories"] {
            XfsDb::new(bench.at("image"))
                .write(&[place, "write -d core.magic 0", "write -d core.mode 0"])
                .unwrap();
        }
        bench.overwrite("image", 0, &[0; 512]);
        bench
    }

    fn at(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn path(&self, name: &str) -> String {
        text(&self.at(name)).to_owned()
    }

    fn contents(&self, name: &str) -> Contents {
        Contents::read(self.at(name)).unwrap()
    }

    fn overwrite(&self, name: &str, offset_bytes: u64, bytes: &[u8]) {
        let file = OpenOptions::new().write(true).open(self.at(name)).unwrap();
        file.write_all_at(bytes, offset_bytes).unwrap();
    }

    #[track_caller]
    fn run(&self, arguments: &[&str], code: i32) -> Output {
        let output = uxfs(arguments);
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {}", words(&output));
        output
    }

    /// Makes a plan, which leaves the image as it is.
    fn plan(&self, code: i32) {
        let before = self.contents("image");
        self.run(&["repair", "-n", "--plan", &self.path("plan"), &self.path("image")], code);
        assert!(before == self.contents("image"), "the image was changed");
    }

    fn repaired(&self) -> String {
        format!("--repaired={}", self.path("plan"))
    }

    /// The plan is refused by a command that reads, and by a repair, with these words; the image stays.
    #[track_caller]
    fn refuses(&self, expected: &str) {
        let (image, plan) = (self.path("image"), self.path("plan"));
        let before = self.contents("image");
        for arguments in [&["ls", &self.repaired(), &image][..], &["repair", "--plan", &plan, &image]] {
            let output = self.run(arguments, 1);
            let words = words(&output);
            assert!(
                words.contains(expected) && words.contains("make a new plan: "),
                "{arguments:?}: {words}"
            );
            assert!(!words.contains("panicked"), "{words}");
        }
        assert!(before == self.contents("image"), "the image was changed");
    }
}

/// What is read through a plan is what is read after the repair; the repair by the plan is that without it, and can be taken back.
#[test]
fn a_plan_shows_and_carries_out_the_same_repair() {
    require!(Judge::XfsDb, Judge::XfsRepair);
    let bench = Bench::damaged();
    bench.plan(3);
    let (image, whole) = (bench.path("image"), bench.path("whole"));
    sparse::copy(bench.at("image"), bench.at("whole")).unwrap();
    bench.run(&["repair", "-q", &whole], 0);
    for command in
        [&["ls", "-lR"][..], &["find", "-ls"], &["tree"], &["extract", "--tar", "-"], &["du", "-a"]]
    {
        let (command, options) = command.split_first().unwrap();
        let shown = bench.run(&[&[command, &*bench.repaired(), &image], options].concat(), 0);
        let expected = bench.run(&[&[command, &*whole], options].concat(), 0);
        assert!(shown.stdout == expected.stdout, "{command}");
        assert!(words(&shown).contains("nothing is written"), "{command}");
    }
    let damaged = bench.contents("image");
    let done = bench.run(&["--json", "repair", "--plan", &bench.path("plan"), &image], 0);
    let document: Json = serde_json::from_slice(&done.stdout).unwrap();
    assert_eq!((&document["type"], &document["written"]), (&"carried_out".into(), &true.into()));
    repair_is_silent(&bench.at("image")).unwrap();
    assert!(bench.contents("image") == bench.contents("whole"), "it came to something else");
    let again = bench.run(&["repair", "--plan", &bench.path("plan"), &image], 0);
    assert!(words(&again).starts_with("nothing to repair"), "{}", words(&again));
    bench.run(&["ls", &bench.repaired(), &image], 0);
    bench.run(&["undo", &image], 0);
    assert!(damaged == bench.contents("image"), "undo did not restore it");
}

/// Names of commands that follow come from the page.
#[test]
fn the_page_of_a_dry_run_says_what_to_do_with_the_plan() {
    let bench = Bench::sound();
    bench.overwrite("image", 512, &[0; 1536]);
    let (image, plan) = (bench.path("image"), bench.path("plan"));
    let page = words(&bench.run(&["repair", "-n", "--plan", &plan, &image], 3));
    for next in
        [format!("uxfs ls -lR --repaired={plan} {image}\n"), format!("uxfs repair --plan {plan} {image}\n")]
    {
        assert!(page.contains(&next), "{page}");
    }
    let json = bench.run(&["--json", "repair", "-nq", "--plan", &plan, &image], 3);
    let summary: Json = serde_json::from_slice(&json.stdout).unwrap();
    assert_eq!(summary["plan"], plan.as_str());
    let done = words(&bench.run(&["repair", "--plan", &plan, &image], 0));
    assert!(done.contains("repaired as planned") && done.contains("to take it back: uxfs undo"), "{done}");
}

/// Changes of the image that a plan must not be carried out over: where it writes, in the superblock, in the header of a group, in the log.
#[test]
fn a_plan_for_other_contents_is_refused() {
    let bench = Bench::sound();
    // The plan writes to the second group only.
    let group_bytes = {
        let info: Json =
            serde_json::from_slice(&bench.run(&["--json", "info", &bench.path("image")], 0).stdout).unwrap();
        info["group_blocks"].as_u64().or(info["ag_blocks"].as_u64()).unwrap_or(16384) * 4096
    };
    bench.overwrite("image", group_bytes + 512, &[0; 512]);
    bench.plan(3);
    sparse::copy(bench.at("image"), bench.at("kept")).unwrap();
    let restore = || sparse::copy(bench.at("kept"), bench.at("image")).unwrap();
    for (offset_bytes, what) in
        [(group_bytes + 600, "AGF"), (200, "superblock"), (2 * group_bytes + 1100, "AGI")]
    {
        bench.overwrite("image", offset_bytes, &[0x5a; 8]);
        let found = words(&uxfs(&["ls", &bench.repaired(), &bench.path("image")]));
        assert!(found.contains("the plan does not fit the image"), "{what}: {found}");
        bench.refuses("the image was changed since");
        restore();
    }
    let file = OpenOptions::new().write(true).open(bench.at("image")).unwrap();
    let length = file.metadata().unwrap().len();
    file.set_len(length + 4096).unwrap();
    bench.refuses("now there are");
    restore();
    bench.run(&["repair", "--plan", &bench.path("plan"), &bench.path("image")], 0);
}

/// A change that goes through the log is seen, wherever it is made.
#[test]
fn a_change_of_the_file_system_is_seen() {
    let bench = Bench::sound();
    bench.plan(0);
    let image = bench.path("image");
    let shown = bench.run(&["ls", &bench.repaired(), &image], 0);
    assert!(words(&shown).contains("there is nothing to repair"), "{}", words(&shown));
    bench.run(&["touch", &image, "/directories"], 0);
    bench.refuses("the image was changed since");
}

/// Bits that changed, files that end early, files that are none: an error each time.
#[test]
fn a_damaged_plan_is_an_error() {
    let bench = Bench::sound();
    bench.overwrite("image", 512, &[0; 1536]);
    bench.plan(3);
    let plan = fs::read(bench.at("plan")).unwrap();
    let seed = Seed::from_environment("a_damaged_plan_is_an_error", 20_261_130);
    let mut random = seed.random();
    for _ in 0..60 {
        let mut damaged = plan.clone();
        let place = random.index(damaged.len());
        damaged[place] ^= 1 << random.below(8);
        fs::write(bench.at("plan"), &damaged).unwrap();
        bench.refuses("the plan ");
    }
    for length in [0, 1, 127, 128, 200, plan.len() / 2, plan.len() - 1] {
        fs::write(bench.at("plan"), &plan[..length]).unwrap();
        bench.refuses("the plan ");
    }
    fs::remove_file(bench.at("plan")).unwrap();
    bench.refuses("cannot open the plan");
    fs::create_dir(bench.at("plan")).unwrap();
    bench.refuses("the plan");
}

/// A plan takes the place of a plan and of nothing else; an undo file is none.
#[test]
fn only_a_plan_is_replaced_by_a_plan() {
    let bench = Bench::sound();
    bench.overwrite("image", 512, &[0; 1536]);
    let (image, plan) = (bench.path("image"), bench.path("plan"));
    bench.plan(3);
    bench.plan(3);
    fs::create_dir(bench.at("links")).unwrap();
    symlink("../plan", bench.at("links/plan")).unwrap();
    bench.run(&["repair", "-nq", "--plan", &bench.path("links/plan"), &image], 3);
    assert!(fs::symlink_metadata(bench.at("links/plan")).unwrap().is_symlink());
    bench.run(&["repair", &image], 0);
    let undo_file = bench.path("image.uxfs-undo");
    fs::write(bench.at("other"), "other").unwrap();
    for kept in [&undo_file, &bench.path("other"), &image, "/dev/null"] {
        let before = fs::metadata(kept).unwrap().len();
        bench.run(&["repair", "-n", "--plan", kept, &image], 2);
        assert_eq!(fs::metadata(kept).unwrap().len(), before, "{kept}");
    }
    bench.run(&["repair", "-n", "--plan", &bench.path("none/plan"), &image], 1);
    let refused = words(&bench.run(&["ls", &format!("--repaired={undo_file}"), &image], 1));
    assert!(refused.contains("it is no plan of uxfs"), "{refused}");
    let refused = words(&bench.run(&["undo", "--undo", &plan, &image], 1));
    assert!(refused.contains("it is no undo file of uxfs"), "{refused}");
    // Nor is the plan written over by the undo file of its repair.
    bench.run(&["undo", &image], 0);
    bench.run(&["repair", "--plan", &plan, "--undo", &plan, &image], 2);
}

/// What decides about a repair belongs to the dry run.
#[test]
fn options_that_the_plan_has_decided_are_refused() {
    let bench = Bench::sound();
    bench.plan(0);
    let (image, plan) = (bench.path("image"), bench.path("plan"));
    for option in [&["--superblock", "1"][..], &["--no-log-copies"]] {
        bench.run(&[&["repair", "--plan", &plan], option, &[&image]].concat(), 2);
    }
    bench.run(&["ls", &bench.repaired(), "--superblock", "1", &image], 2);
    bench.run(&["check", &bench.repaired(), &image], 2);
    // An option without a value takes no path.
    bench.run(&["ls", "--repaired", &image, "/directories"], 0);
    assert!(Path::new(&plan).exists());
}
