//! The steps that every test of damages takes: plant the damage, look for findings, repair.

pub mod damages;
pub mod quota_image;

use std::{
    fs,
    num::NonZero,
    os::unix::fs::FileExt,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
    thread,
};

use uxfs_block::{device::BlockDevice, engine::sync::SyncDevice};
use uxfs_repair::{
    CheckOptions, Finding, check,
    check::all,
    opening::{self, OpeningOptions},
    repair::{RepairOptions, Staged, repair},
};
use uxfs_testkit::{image::memory_folder, seeds::Part, xfs_db::XfsDb};
use uxfs_volume::inode::scan::ScanOptions;

/// Tries the run's part of all cases, as many at once as there are processors, each with the path of an image of its own. Gives what they found wrong.
pub fn try_all<T: Sync>(cases: &[T], wrong_with: impl Fn(&T, &Path) -> Vec<String> + Sync) -> Vec<String> {
    let (next, part) = (AtomicUsize::new(0), Part::of_run(2));
    let work = || {
        let folder = tempfile::tempdir_in(memory_folder()).unwrap();
        let image = folder.path().join("image");
        let mut wrong = Vec::new();
        loop {
            let index = next.fetch_add(1, Relaxed);
            let Some(case) = cases.get(index) else { break };
            if part.has(index) {
                wrong.extend(wrong_with(case, &image));
            }
        }
        wrong
    };
    let threads = thread::available_parallelism().map_or(1, NonZero::get);
    thread::scope(|scope| {
        let workers: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        workers.into_iter().flat_map(|worker| worker.join().unwrap()).collect()
    })
}

/// Runs commands of `xfs_db` that write. Gives what it printed.
pub fn plant(image: &Path, commands: &[&str]) -> String {
    XfsDb::new(image).write(commands).unwrap()
}

/// All findings of an image, opened as `uxfs check` opens it.
pub fn findings_of(image: &Path) -> Vec<Finding> {
    findings_with(image, &CheckOptions::default())
}

/// As [`findings_of`], with options but for the threads: there is one.
pub fn findings_with(image: &Path, options: &CheckOptions) -> Vec<Finding> {
    findings_with_threads(image, &CheckOptions { scan: ScanOptions::in_order(), ..*options })
}

/// As [`findings_of`], with options.
pub fn findings_with_threads(image: &Path, options: &CheckOptions) -> Vec<Finding> {
    let mut opened = opening::open(&open_read_only(image), &OpeningOptions::default()).unwrap();
    let mut findings = std::mem::take(&mut opened.findings);
    check(&opened.volume, options, &mut all(&mut findings));
    findings
}

/// Repairs an image, and writes what was staged.
pub fn repair_image(image: &Path) -> Staged {
    repair_image_with(image, &in_order())
}

/// Repairs an image without the copies that its log holds, and writes what was staged.
pub fn repair_image_without_log(image: &Path) -> Staged {
    repair_image_with(image, &RepairOptions { ignore_log_copies: true, ..in_order() })
}

/// Repairs an image and writes nothing.
pub fn stage(image: &Path, options: &RepairOptions) -> Staged {
    repair(&open_read_only(image), options).unwrap()
}

/// A repair by one thread, so that its report has one order.
pub fn in_order() -> RepairOptions {
    RepairOptions { scan: ScanOptions::in_order(), ..RepairOptions::default() }
}

/// Writes what was staged.
pub fn write_staged(image: &Path, staged: &Staged) {
    let file = fs::OpenOptions::new().write(true).open(image).unwrap();
    for (start, length) in staged.overlay.runs(0) {
        let mut bytes = vec![0; length as usize];
        staged.overlay.read(start, &mut bytes).unwrap();
        file.write_all_at(&bytes, start).unwrap();
    }
}

fn repair_image_with(image: &Path, options: &RepairOptions) -> Staged {
    let staged = stage(image, options);
    write_staged(image, &staged);
    staged
}

fn open_read_only(image: &Path) -> Arc<dyn BlockDevice> {
    Arc::new(SyncDevice::open_read_only(image, 0).unwrap())
}
