//! Two to eight threads at once, each with a model of its own directory, and all in one that they share: what is there at the
//! end, and after a crash in the middle, is what the models say.

use std::{
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use uxfs_block::device::BlockDevice;
use uxfs_engine::options::{LogOptions, MountOptions};
use uxfs_filesystem::mount;
use uxfs_filesystem::{filesystem::FileSystem, recovery::mount_recovered};
use uxfs_lab::{
    crash::{
        geometry::{SHAPES, Shape},
        image::ImageDevice,
        volume::mount_options,
    },
    crowd::{Crowd, Tally, consistent_tree},
};
use uxfs_testkit::{
    judges::{self, Judge},
    seeds::{Random, Seed},
    verdict::kernel_removes_everything,
};

use super::judge;

/// `UXFS_THREAD_RUNS=100` for more; the seed of each is printed when it fails.
const RUNS_VARIABLE: &str = "UXFS_THREAD_RUNS";
const OPERATIONS: usize = 1200;

/// How one run goes: all of it follows from the seed, but who comes first.
#[derive(Debug)]
struct Setup {
    seed: u64,
    shape: Shape,
    threads: usize,
    /// `None` for bulk mode.
    log: Option<LogOptions>,
}

impl Setup {
    fn new(seed: u64) -> Self {
        let mut random = Random::new(seed);
        let log = LogOptions {
            is_immediate: random.below(5) == 0,
            record_size_bytes: [0, 0, 64 << 10, 256 << 10][random.below(4) as usize],
            has_background: random.below(4) != 0,
            checkpoint_interval: (random.below(3) == 0).then_some(Duration::from_millis(2)),
        };
        Self {
            seed,
            shape: SHAPES[random.below(SHAPES.len() as u64) as usize].clone(),
            threads: 2 + random.below(7) as usize,
            log: (random.below(6) != 0).then_some(log),
        }
    }

    fn mount(&self, device: &Arc<ImageDevice>) -> Arc<FileSystem> {
        let options = mount_options(8);
        match self.log {
            None => FileSystem::mount_bulk(device.clone(), &options).map(Arc::new),
            Some(log) => FileSystem::mount_logged(device.clone(), &MountOptions { log, ..options }),
        }
        .unwrap()
    }
}

/// Gives what was done, and how many crashes were looked at.
fn run(setup: &Setup, folder: Option<&Path>) -> (Tally, usize) {
    let device = Arc::new(ImageDevice::new(setup.shape.make().unwrap()));
    let file_system = setup.mount(&device);
    let is_over = AtomicBool::new(false);
    let mut crowd =
        Crowd::found(&file_system, "", setup.seed, setup.threads, |kind| setup.shape.allows(kind)).unwrap();
    let operations = OPERATIONS / setup.threads;
    // Crashes at any time: what the device holds then, and what had been promised.
    let (tally, crashes) = crowd
        .work(&file_system, operations, &is_over, |watch| {
            let mut crashes = Vec::new();
            let mut pause = Random::new(setup.seed ^ 0xc4a5);
            while setup.log.is_some() && watch.is_running() && crashes.len() < 12 {
                let begin = Instant::now();
                let length = Duration::from_millis(pause.below(60));
                while watch.is_running() && begin.elapsed() < length {
                    thread::sleep(Duration::from_millis(1));
                }
                crashes.push(watch.moment(|| device.image()));
            }
            crashes
        })
        .unwrap();
    is_over.store(true, Ordering::Relaxed);
    crowd.check(&file_system).unwrap();
    if let Some(counters) = setup.log.map(|_| file_system.journal_counters()) {
        assert_eq!(counters.overruns, 0);
    }
    file_system.close().unwrap();
    drop(file_system);
    let read_only = Arc::new(ImageDevice::read_only(device.image()));
    let read = mount::open_volume(read_only, &mount_options(2)).unwrap();
    consistent_tree(&read).unwrap();
    crowd.check(&read).unwrap();
    if let Some(folder) = folder {
        let path = folder.join("image");
        device.image().save(&path).unwrap();
        judge(&path);
        kernel_removes_everything(&path, setup.seed).unwrap();
    }
    let count = crashes.len();
    for (moment, image) in crashes {
        let crashed: Arc<dyn BlockDevice> = Arc::new(ImageDevice::read_only(image));
        let (recovered, _) = mount_recovered(&crashed, &mount_options(4)).unwrap();
        consistent_tree(&recovered).unwrap();
        crowd.check_crash(&recovered, &moment).unwrap();
    }
    (tally, count)
}

#[test]
fn threads_leave_what_their_models_say() {
    let test = "threads_leave_what_their_models_say";
    let has_judges = judges::all_present(&[Judge::XfsRepair, Judge::XfsIo, Judge::Kernel], test);
    let folder = tempfile::tempdir().unwrap();
    let runs = std::env::var(RUNS_VARIABLE).ok().and_then(|runs| runs.parse().ok()).unwrap_or(4);
    let mut random = Seed::from_environment(test, 1).random();
    let (mut sum, mut crashes) = (Tally::default(), 0);
    for _ in 0..runs {
        let setup = Setup::new(random.next_u64() >> 32);
        let result = std::panic::catch_unwind(|| run(&setup, has_judges.then(|| folder.path())));
        let (tally, count) = result.unwrap_or_else(|panic| {
            eprintln!("{setup:?}");
            std::panic::resume_unwind(panic)
        });
        sum.own += tally.own;
        sum.shared += tally.shared;
        sum.refused += tally.refused;
        sum.no_space += tally.no_space;
        crashes += count;
    }
    eprintln!("{runs} runs: {sum:?}, {crashes} crashes");
    if has_judges {
        let what = format!("{runs} runs of 2 to 8 threads: {sum:?}; {crashes} crashes");
        judges::judged("kernel, xfs_repair and models", &what);
    }
}
