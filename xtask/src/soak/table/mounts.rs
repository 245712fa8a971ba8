//! Laboratories that work on mounts through FUSE. Each load of `mount-load` has a line, so that a missing program costs no other load.

use super::{KEPT, KERNEL, Laboratory, Slice, UXFS, XFS_REPAIR, laboratory};
use crate::soak::needs::Need::{self, Folder, Fuse, Program, Root};

const MOUNT: [Need; 4] = [Root, Fuse, KERNEL, XFS_REPAIR];

fn model(slice: &Slice, form: &str) -> String {
    let (images, seed) = (slice.of(4), slice.seed);
    format!("mount-model --images {images} --rounds 8 --seed {seed} --keep {KEPT} --uxfs {UXFS} {form}")
}

fn load(slice: &Slice, name: &str, form: &str) -> String {
    let seed = slice.seed;
    format!("mount-load --only {name} --seed {seed} --keep --uxfs {UXFS} {form}")
}

pub(super) const ALL: &[Laboratory] = &[
    laboratory(
        "mount-model/calls",
        "random system calls of four threads, equal to a model",
        &MOUNT,
        (0.0, 60.0),
        |slice| model(slice, ""),
    ),
    laboratory(
        "mount-model/kills",
        "the same, and the processes of the mount are killed",
        &MOUNT,
        (0.0, 60.0),
        |slice| model(slice, "--kills"),
    ),
    laboratory("mount-model/two", "the same on two mounts at once", &MOUNT, (0.0, 60.0), |slice| {
        model(slice, "--two-images --kills")
    }),
    laboratory("mount-load/fsx", "one file, every way to read and write it", &MOUNT, (5.0, 60.0), |slice| {
        load(slice, "fsx", &format!("--operations {}", slice.of(400_000)))
    }),
    laboratory(
        "mount-load/fio",
        "four engines at once, every block verified",
        &[Root, Fuse, KERNEL, XFS_REPAIR, Program("fio", "fio")],
        (5.0, 60.0),
        |slice| load(slice, "fio", &format!("--minutes {:.2}", slice.scale)),
    ),
    laboratory(
        "mount-load/dbench",
        "1, 4 and 12 clients of a file server",
        &[Root, Fuse, KERNEL, XFS_REPAIR, Program("dbench", "dbench")],
        (60.0, 20.0),
        |slice| load(slice, "dbench", &format!("--minutes {:.2}", slice.scale)),
    ),
    laboratory(
        "mount-load/fsmark",
        "files synced in eight ways, then many in many directories",
        &MOUNT,
        (60.0, 0.0),
        |slice| load(slice, "fsmark", "--minutes 0.1"),
    ),
    laboratory(
        "mount-load/source",
        "this source tree unpacked, built and removed",
        &[Root, Fuse, KERNEL, XFS_REPAIR, Program("git", "git"), Program("cargo", "rustup")],
        (150.0, 0.0),
        |slice| load(slice, "source", ""),
    ),
    laboratory(
        "mount-load/git",
        "clone, repack, check, old versions checked out",
        &[Root, Fuse, KERNEL, XFS_REPAIR, Program("git", "git")],
        (20.0, 0.0),
        |slice| load(slice, "git", ""),
    ),
    laboratory(
        "mount-load/rsync",
        "a tree copied twice",
        &[Root, Fuse, KERNEL, XFS_REPAIR, Program("rsync", "rsync")],
        (30.0, 0.0),
        |slice| load(slice, "rsync", ""),
    ),
    laboratory(
        "mount-load/kills",
        "files made, renamed and synced while the processes are killed",
        &MOUNT,
        (5.0, 45.0),
        |slice| load(slice, "kills", &format!("--rounds {}", slice.of(160))),
    ),
    laboratory(
        "mount-load/sqlite",
        "clients of SQLite that commit while the processes are killed",
        &[Root, Fuse, KERNEL, XFS_REPAIR, Program("python3", "python3")],
        (5.0, 60.0),
        |slice| load(slice, "sqlite", &format!("--rounds {}", slice.of(15))),
    ),
    laboratory(
        "mount-load/postgresql",
        "clients of PostgreSQL that commit while the processes are killed",
        &[Root, Fuse, KERNEL, XFS_REPAIR, Folder("/usr/lib/postgresql", "postgresql")],
        (10.0, 60.0),
        |slice| load(slice, "postgresql", &format!("--rounds {}", slice.of(14))),
    ),
    laboratory(
        "mount-load/container-root",
        "owners, devices, capabilities and lists, as on the kernel's XFS",
        &[
            Root,
            Fuse,
            KERNEL,
            XFS_REPAIR,
            Program("setcap", "libcap2-bin"),
            Program("setfacl", "acl"),
            Program("setfattr", "attr"),
        ],
        (40.0, 0.0),
        |slice| load(slice, "container-root", ""),
    ),
    laboratory("mount-load/full-host", "an image on a host that becomes full", &MOUNT, (5.0, 0.0), |slice| {
        load(slice, "full-host", "")
    }),
    laboratory("mount-load/damaged", "mounts of damaged images", &MOUNT, (20.0, 0.0), |slice| {
        load(slice, "damaged", "")
    }),
    laboratory(
        "mount-load/users",
        "root, a user with fusermount3, a user namespace",
        &[Root, Fuse, KERNEL, XFS_REPAIR, Program("fusermount3", "fuse3"), Program("setpriv", "util-linux")],
        (5.0, 0.0),
        |slice| load(slice, "users", ""),
    ),
    laboratory(
        "long-run",
        "mixed work: memory and descriptors of the mount must not grow",
        &MOUNT,
        (20.0, 120.0),
        |slice| {
            let (minutes, seed) = (f64::max(2.0 * slice.scale, 1.0), slice.seed);
            format!("long-run --minutes {minutes:.1} --every 2 --seed {seed} --keep --uxfs {UXFS}")
        },
    ),
];
