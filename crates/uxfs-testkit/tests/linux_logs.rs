//! Logs of kernel mounts that were cut off: our recovery makes of them what the kernel's does. `cargo xtask linux-logs` tries
//! as many as wanted.

use uxfs_testkit::{
    judges::{self, Judge},
    linux_logs::{self, Tally},
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
    for _ in 0..4 {
        linux_logs::run(random.next_u64(), 3, None, &mut tally).unwrap();
    }
    judges::judged("kernel", &format!("recovery of its logs: {tally:?}"));
    assert!(tally.logs > 6, "{tally:?}");
}
