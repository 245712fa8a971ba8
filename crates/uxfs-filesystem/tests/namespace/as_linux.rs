//! The same operations, possible ones and impossible ones, for the kernel and for uxfs: both say the same of each, and
//! show the same files, links, owners and modes afterwards; the same times have changed.

use std::time::Duration;

use uxfs_lab::crash::geometry::Shape;
use uxfs_testkit::{
    judges::{self, Judge},
    mount::{Access, LoopMount},
    require,
    seeds::Seed,
};

use super::{
    images::{How, Volume},
    kernel_side::Kernel,
    own_side::Own,
    script::{Generator, Operation, Side, Snapshot, shown},
};

const OPERATIONS: usize = 600;

fn differences(kernel: &Snapshot, own: &Snapshot, before: &Snapshot) -> String {
    let mut words = String::new();
    for (path, file) in before {
        let names: Vec<String> = path.iter().map(|name| shown(name)).collect();
        words.push_str(&format!("before: /{} {:o} {} links\n", names.join("/"), file.mode, file.links));
    }
    for path in kernel.keys().chain(own.keys().filter(|path| !kernel.contains_key(*path))) {
        let (there, here) = (kernel.get(path), own.get(path));
        if there != here {
            let names: Vec<String> = path.iter().map(|name| shown(name)).collect();
            words.push_str(&format!("/{}\n  kernel {there:?}\n  uxfs   {here:?}\n", names.join("/")));
        }
    }
    words
}

/// Of two files that are exchanged, XFS changes the time of the last change only where
/// their parent pointers, if there are any, lie in the inode; uxfs does so always.
fn forgive(operation: &Operation, kernel: &Snapshot, own: &mut Snapshot) {
    if !matches!(operation, Operation::Rename { flags: 2, .. }) {
        return;
    }
    for (path, file) in own {
        if kernel.get(path).is_some_and(|kernel| !kernel.has_new_change_time) {
            file.has_new_change_time = false;
        }
    }
}

fn run(shape: &Shape, how: How, seed: u64) -> usize {
    let folder = tempfile::tempdir().unwrap();
    let image = folder.path().join("kernel");
    shape.make().unwrap().save(&image).unwrap();
    let mut kernel = Kernel::new(LoopMount::new(&image, Access::ReadWrite).unwrap());
    let volume = Volume::new(shape, how);
    let mut generator = Generator::new(seed);
    let mut refused = 0;
    {
        let mut own = Own::new(&volume.file_system);
        let mut snapshot = kernel.look();
        own.look();
        for number in 0..OPERATIONS {
            let operation = generator.next(&snapshot);
            // Times are those of the last tick, and two operations must not have the same.
            let last = volume.file_system.now();
            while volume.file_system.now() == last {
                std::thread::sleep(Duration::from_millis(1));
            }
            let (there, here) = (kernel.perform(&operation), own.perform(&operation));
            assert_eq!(there, here, "{shape}, seed {seed}, {number}: {operation:?}: kernel, uxfs");
            refused += usize::from(there.is_err());
            let before = std::mem::replace(&mut snapshot, kernel.look());
            let mut seen = own.look();
            forgive(&operation, &snapshot, &mut seen);
            assert!(
                snapshot == seen,
                "{shape}, seed {seed}, {number}: {operation:?} ({there:?})\n{}",
                differences(&snapshot, &seen, &before)
            );
        }
    }
    kernel.finish();
    volume.judge("as_linux");
    refused
}

#[test]
fn the_kernel_would_have_done_the_same() {
    require!(Judge::Kernel);
    require!(Judge::XfsIo);
    let seeds = Seed::from_environment("the_kernel_would_have_done_the_same", 5);
    let mut random = seeds.random();
    for (name, how) in [
        ("default", How::Logged),
        ("default", How::Bulk),
        ("no-parent", How::Logged),
        ("block-1k", How::Bulk),
        ("default", How::Logged),
        ("plain", How::Bulk),
    ] {
        let shape = Shape::named(name).unwrap();
        let seed = random.next_u64() >> 32;
        let refused = run(&shape, how, seed);
        let what = format!("{OPERATIONS} operations, {refused} of them refused, {shape}, {how:?}");
        judges::judged("the kernel's own doing", &what);
    }
}
