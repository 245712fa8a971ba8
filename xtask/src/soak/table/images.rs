//! Laboratories that work on images.

use uxfs_lab::fuzz;
use uxfs_testkit::shapes;

use super::{KEPT, KERNEL, Laboratory, MKFS, Slice, UXFS, XFS_REPAIR, laboratory};
use crate::{extremes, soak::needs::Need::Fuzzer};

/// Golden images of different features that are quick to read.
const GOLDEN: [&str; 12] = [
    "default",
    "block-1k",
    "block-2k",
    "directory-16k",
    "groups-16",
    "inode-1k",
    "metadir",
    "no-feature",
    "no-finobt",
    "no-parent",
    "no-rmapbt",
    "no-sparse",
];
/// Those of which there are copies that `xfs_repair` judges quickly.
const SMALL: [&str; 6] = ["default", "block-1k", "no-rmapbt", "no-parent", "no-feature", "groups-16"];
/// Parts of the list of lies.
const LIES: [&str; 7] = ["btree/", "group/", "superblock/", "inode/", "directory/", "attribute/", "log/"];

/// A shape that the kernel mounts.
fn shape(slice: &Slice) -> &'static str {
    let all = shapes::SHAPES.iter().chain(&shapes::SIZES).map(|shape| shape.name);
    slice.one(all.filter(|name| *name != "ascii-ci"))
}

fn crash(slice: &Slice, form: &str) -> String {
    let (seconds, seed) = (slice.of(60), slice.seed);
    // Many workloads with some states of each, and not few with all.
    format!(
        "crash --states 1000000000 --states-per-run 3000 --seconds {seconds} --seed {seed} --keep {KEPT} {form}"
    )
}

fn field_fuzz(slice: &Slice, cases: u64, image: &str, form: &str) -> String {
    format!("field-fuzz --image {image} --cases {} --seed {} {form}", slice.of(cases), slice.seed)
}

fn linux_logs(slice: &Slice, count: u64, form: &str) -> String {
    format!("linux-logs --count {} --seed {} --keep {KEPT} {form}", slice.of(count), slice.seed)
}

pub(super) const ALL: &[Laboratory] = &[
    laboratory("crash/states", "crash states of random workloads", &[], (2.0, 60.0), |slice| {
        crash(slice, "")
    }),
    laboratory(
        "crash/kernel",
        "the same, and the kernel recovers some states, too",
        &[KERNEL],
        (2.0, 60.0),
        |slice| crash(slice, "--linux-every 500"),
    ),
    laboratory("crash/threads", "crash states of four threads at once", &[], (2.0, 60.0), |slice| {
        crash(slice, "--threads 4")
    }),
    laboratory(
        "crash/background",
        "crash states with the journal's background thread",
        &[],
        (2.0, 60.0),
        |slice| crash(slice, "--threads 2 --background"),
    ),
    laboratory(
        "crash/failures",
        "the device fails at every read, write and flush of a workload",
        &[],
        (0.0, 60.0),
        |slice| format!("crash --failures --operations {} --seed {}", slice.of(150), slice.seed),
    ),
    laboratory(
        "crash/full",
        "every kind of operation at every level of fullness",
        &[XFS_REPAIR],
        (0.0, 60.0),
        |slice| format!("crash --full {} --seed {}", slice.of(60), slice.seed),
    ),
    laboratory(
        "linux-logs/recovery",
        "logs of the kernel, recovered by it and by uxfs",
        &[KERNEL, MKFS, XFS_REPAIR],
        (0.0, 60.0),
        |slice| linux_logs(slice, 20, ""),
    ),
    laboratory(
        "linux-logs/chain",
        "uxfs and the kernel in turn, each after a shutdown of the other",
        &[KERNEL, MKFS, XFS_REPAIR],
        (0.0, 60.0),
        |slice| linux_logs(slice, 20, "--chain"),
    ),
    laboratory(
        "linux-logs/crashes",
        "crashes while uxfs recovers logs of the kernel",
        &[KERNEL, MKFS, XFS_REPAIR],
        (0.0, 60.0),
        |slice| linux_logs(slice, 3, "--crashes 100"),
    ),
    laboratory(
        "linux-logs/damage",
        "logs of the kernel that lie",
        &[KERNEL, MKFS, XFS_REPAIR],
        (0.0, 60.0),
        |slice| linux_logs(slice, 12, "--damage 200"),
    ),
    laboratory(
        "hostile",
        "images whose structures lie, with right checksums",
        &[XFS_REPAIR],
        (0.0, 60.0),
        |slice| {
            let only = if slice.scale > 0.5 { String::new() } else { format!(" --only {}", slice.one(LIES)) };
            format!("hostile --image {} --uxfs {UXFS}{only}", slice.one(GOLDEN))
        },
    ),
    laboratory(
        "field-fuzz/read",
        "every reading command on images with a damaged field",
        &[],
        (10.0, 50.0),
        |slice| field_fuzz(slice, 20_000, slice.one(GOLDEN), "--binary-cases 20"),
    ),
    laboratory("field-fuzz/edit", "edits of images with a damaged field", &[], (0.0, 60.0), |slice| {
        field_fuzz(slice, 700, slice.one(GOLDEN), "--edit")
    }),
    laboratory(
        "field-fuzz/check",
        "check and repair of images with a damaged field, beside xfs_repair",
        &[KERNEL, XFS_REPAIR],
        (0.0, 60.0),
        |slice| field_fuzz(slice, 150, &format!("small-{}", slice.one(SMALL)), "--check"),
    ),
    laboratory("fuzz", "coverage-guided fuzzing, four targets a round", &[Fuzzer], (5.0, 60.0), |slice| {
        let targets = slice.some(4, fuzz::TARGETS.iter().map(|target| target.name)).join(" --target ");
        format!("fuzz --seconds {} --target {targets}", slice.of(30))
    }),
    laboratory(
        "repair-fuzz/judged",
        "several damages at once, repaired and edited, judged by xfs_repair",
        &[XFS_REPAIR],
        (0.0, 60.0),
        |slice| format!("repair-fuzz --cases {} --threads --seed {}", slice.of(12), slice.seed),
    ),
    laboratory(
        "repair-fuzz/limited",
        "the same in little memory, without a judge",
        &[],
        (0.0, 60.0),
        |slice| format!("repair-fuzz --no-judge --cases {} --seed {}", slice.of(25), slice.seed),
    ),
    laboratory(
        "repair-kills",
        "repairs and undos that are killed and run again",
        &[XFS_REPAIR],
        (5.0, 55.0),
        |slice| {
            let (image, kills) = (slice.one(SMALL), slice.of(20));
            format!(
                "repair-kills --image small-{image} --damaged 2 --kills {kills} --seed {} --uxfs {UXFS}",
                slice.seed
            )
        },
    ),
    laboratory("rescue-fuzz", "rescues from damaged images and failing devices", &[], (0.0, 60.0), |slice| {
        format!("rescue-fuzz --image {} --cases {} --seed {}", slice.one(SMALL), slice.of(10), slice.seed)
    }),
    laboratory(
        "revive",
        "what uxfs repair saves of a damaged image, path by path",
        &[KERNEL, MKFS, XFS_REPAIR],
        (20.0, 40.0),
        |slice| {
            let (shape, kinds, seed, folder) = (shape(slice), slice.of(20), slice.seed, slice.folder());
            format!(
                "revive --uxfs-only --shapes {shape} --kinds {kinds} --seed {seed} --directory {folder} --uxfs {UXFS}"
            )
        },
    ),
    laboratory(
        "sound",
        "images without damage, aged by the kernel and by uxfs: none may have findings",
        &[KERNEL, MKFS, XFS_REPAIR],
        (25.0, 40.0),
        |slice| {
            let (operations, seed, folder) = (slice.of(20_000), slice.seed, slice.folder());
            format!("sound --operations {operations} --seed {seed} --directory {folder} --uxfs {UXFS}")
        },
    ),
    laboratory(
        "extremes",
        "an image with very many files, names, links, extents or attributes",
        &[KERNEL, XFS_REPAIR],
        (0.0, 30.0),
        |slice| {
            let case = slice.one(extremes::cases().filter(|name| *name != "usr"));
            let part = (4.0 / slice.scale).ceil() as u32;
            format!("extremes --only {case} --part {part} --uxfs {UXFS}")
        },
    ),
];
