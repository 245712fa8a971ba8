//! Devices that fail at the n-th request, and processes that are killed.

use std::{collections::BTreeMap, process::Command};

use uxfs_block::device::DeviceOperation;
use uxfs_lab::crash::{
    failures::{requests, try_failure},
    flaky::Failure,
    geometry::Shape,
    kill,
    run::Setup,
};
use uxfs_testkit::{judges, seeds::Seed, sparse};

/// Failures of each kind that are tried here.
const TRIED: u64 = 20;

#[test]
fn failing_devices_leave_what_was_synced() {
    let seed = Seed::from_environment("failing_devices_leave_what_was_synced", 3);
    let mut random = seed.random();
    let mut fates = BTreeMap::new();
    for is_immediate in [false, true] {
        let setup = Setup {
            operations: 500,
            is_immediate,
            ..Setup::new(random.next_u64() >> 40, Some(Shape::named("default").unwrap()))
        };
        let counts = requests(&setup).unwrap();
        let kinds = [DeviceOperation::Read, DeviceOperation::Write, DeviceOperation::Flush];
        for (operation, count) in kinds.into_iter().zip(counts) {
            let step = count.div_ceil(TRIED).max(1);
            for request in (random.below(step)..count).step_by(step as usize) {
                for stays in [false, true] {
                    let fate = try_failure(&setup, Failure { operation, request, stays });
                    let fate = fate.unwrap_or_else(|error| panic!("{error:#}"));
                    *fates.entry(format!("{operation} {fate:?}")).or_insert(0) += 1;
                }
            }
        }
    }
    eprintln!("{fates:?}");
    judges::judged("model", &format!("failing devices: {fates:?}"));
}

const VICTIM: &str = "UXFS_CRASH_VICTIM";

/// Not a test of its own: what the other one starts and kills.
#[test]
fn victim() {
    let Ok(text) = std::env::var(VICTIM) else { return };
    let mut words = text.split(' ');
    let (image, shape, seed) = (words.next().unwrap(), words.next().unwrap(), words.next().unwrap());
    let shape = Shape::named(shape).unwrap();
    // Past the test harness, which keeps what tests print.
    let mut told = std::fs::OpenOptions::new().write(true).open("/dev/stdout").unwrap();
    let has_background = words.next() == Some("true");
    kill::work(image.as_ref(), &shape, seed.parse().unwrap(), has_background, &mut told).unwrap();
}

/// With the thread that writes checkpoints and without, by turns. `UXFS_CRASH_KILLS` sets how many, `UXFS_CRASH_BACKGROUND`
/// (0 or 1) chooses one of both, `UXFS_CRASH_KEEP` names a folder for the image that was left.
#[test]
fn killed_processes_leave_what_was_synced() {
    let seed = Seed::from_environment("killed_processes_leave_what_was_synced", 5);
    let mut random = seed.random();
    let folder = tempfile::tempdir().unwrap();
    let image = folder.path().join("image");
    let number = |name: &str| std::env::var(name).ok().map(|text| text.parse::<usize>().unwrap());
    let (kills, chosen) = (number("UXFS_CRASH_KILLS").unwrap_or(16), number("UXFS_CRASH_BACKGROUND"));
    let (mut begun, mut killed) = (0, 0);
    while killed < kills {
        let has_background = chosen.map_or(killed % 2 == 1, |chosen| chosen != 0);
        let shape = Shape::any(&mut random);
        let seed = random.next_u64() >> 40;
        let mut victim = Command::new(std::env::current_exe().unwrap());
        victim.args(["--exact", "crash_failures::victim", "--nocapture"]);
        victim.env(VICTIM, format!("{} {} {seed} {has_background}", image.display(), shape.name));
        let life = kill::life(&mut random);
        let (operations, _) =
            kill::kill_and_judge(&mut victim, &image, &shape, seed, life).unwrap_or_else(|error| {
                if let Some(folder) = std::env::var_os("UXFS_CRASH_KEEP") {
                    sparse::copy(&image, std::path::Path::new(&folder).join(format!("killed-{seed}.img")))
                        .unwrap();
                }
                panic!("{shape}, seed {seed}, background {has_background}, killed after {life:?}: {error:#}")
            });
        begun += operations;
        killed += 1;
    }
    assert!(begun > killed, "{begun} operations in {killed} processes");
    judges::judged("model", &format!("{killed} processes killed, after {begun} operations"));
}
