//! The model through real mounts: a few seconds of what `cargo xtask mount-model` does at length.

use std::{
    path::{Path, PathBuf},
    thread,
};

use uxfs_lab::mounted::life::{Plan, live, neighbour};
use uxfs_testkit::{
    judges::{Judge, PROGRAM_VARIABLE, are_required, judged},
    require,
    seeds::Seed,
};

/// A plan, where this machine has what it needs. `cargo test` of the whole workspace builds the binary.
fn plan(seed: &Seed, options: &str) -> Option<Plan> {
    let test = seed.test();
    let named = std::env::var_os(PROGRAM_VARIABLE).map(PathBuf::from);
    let program = named.or_else(|| neighbour("uxfs")).filter(|_| Path::new("/dev/fuse").exists());
    if program.is_none() {
        assert!(!are_required(), "{test}: /dev/fuse or the binary uxfs is missing, and UXFS_JUDGES=required");
        eprintln!("SKIPPED: {test}: /dev/fuse or the binary uxfs is missing");
    }
    let seed = seed.random().next_u64() >> 32;
    let options = options.to_owned();
    Some(Plan {
        program: program?,
        rounds: 3,
        actions: 400,
        threads: 3,
        kills: false,
        options,
        seed,
        keep: None,
    })
}

fn lives(plan: &Plan) {
    let tally = live(plan).unwrap_or_else(|error| panic!("{error:#}"));
    judged("kernel", &format!("the model through a mount: {tally}"));
}

#[test]
fn a_mount_is_what_the_model_says() {
    require!(Judge::XfsRepair, Judge::Kernel);
    plan(&Seed::from_environment("a_mount_is_what_the_model_says", 1), "").iter().for_each(lives);
}

#[test]
fn so_is_one_without_the_kernels_cache() {
    require!(Judge::XfsRepair, Judge::Kernel);
    plan(&Seed::from_environment("so_is_one_without_the_kernels_cache", 2), "no_writeback_cache")
        .iter()
        .for_each(lives);
}

#[test]
fn two_mounts_are_apart() {
    require!(Judge::XfsRepair, Judge::Kernel);
    let plans: Vec<_> = [3, 4]
        .iter()
        .filter_map(|seed| plan(&Seed::from_environment("two_mounts_are_apart", *seed), ""))
        .collect();
    thread::scope(|scope| {
        plans.iter().for_each(|plan| drop(scope.spawn(|| lives(plan))));
    });
}

#[test]
fn what_was_synced_survives_kills() {
    require!(Judge::XfsRepair, Judge::Kernel);
    let seed = Seed::from_environment("what_was_synced_survives_kills", 5);
    let plan = plan(&seed, "");
    plan.iter().for_each(|plan| lives(&Plan { rounds: 8, actions: 3000, kills: true, ..plan.clone() }));
}
