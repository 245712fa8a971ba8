//! Loads that are programs as people use them.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, ensure};
use uxfs_testkit::judges::workspace_directory;

use super::{Stage, limit, need, place::Place, program, tree::Tree};

const MINUTE: Duration = Duration::from_secs(60);

/// Runs a program of a load.
fn run(words: &[&str], directory: &Path, limit: Duration) -> Result<String> {
    let (name, arguments) = words.split_first().unwrap_or((&"true", &[]));
    program::run(Command::new(name).args(arguments).current_dir(directory), limit)
}

/// Jobs of fio that run beside each other, each on a file of its own.
const JOBS: [&str; 6] = [
    "[small]\nioengine=psync\nrw=randrw\nbsrange=512-16k\nbs_unaligned=1\nsize=24m\nfsync=64\n",
    "[direct]\nioengine=psync\ndirect=1\nrw=randwrite\nbs=4k\nsize=32m\n",
    "[mapped]\nioengine=mmap\nrw=randrw\nbs=4k\nsize=32m\n",
    "[ring]\nioengine=io_uring\ndirect=1\niodepth=16\nrw=randrw\nbsrange=4k-128k\nsize=64m\n",
    "[ring-cached]\nioengine=io_uring\niodepth=8\nrw=randwrite\nbsrange=4k-64k\nsize=64m\nend_fsync=1\n",
    "[long]\nioengine=psync\nrw=write\nbs=1m\nsize=128m\nfallocate=native\nfdatasync=16\n",
];

/// Rounds of all jobs, until the time is over. fio compares every block with what it wrote.
pub fn fio(stage: &Stage) -> Result<String> {
    need("fio", "fio")?;
    let place = Place::mounted(stage, "4G", limit(stage, 5 * MINUTE))?;
    let (begun, mut rounds) = (Instant::now(), 0);
    while rounds == 0 || begun.elapsed() < stage.time {
        let mut text = format!(
            "[global]\ndirectory={}\nverify=crc32c\ndo_verify=1\nverify_fatal=1\nverify_state_save=0\nthread=1\nrandseed={}\ngroup_reporting=1\n",
            place.path().display(),
            stage.seed.wrapping_add(rounds)
        );
        JOBS.iter().for_each(|job| text.push_str(job));
        let jobs = place.beside("jobs.fio");
        fs::write(&jobs, text)?;
        let said = program::run(Command::new("fio").arg(&jobs), stage.time + 4 * MINUTE)?;
        ensure!(!said.contains("verify:") && !said.contains("bad magic"), "fio: {}", program::tail(&said));
        rounds += 1;
    }
    let paths = place.finish()?;
    Ok(format!("{rounds} rounds of {} jobs, {paths} paths", JOBS.len()))
}

/// Clients that do what a file server does.
pub fn dbench(stage: &Stage) -> Result<String> {
    need("dbench", "dbench")?;
    let mut said = Vec::new();
    let place = Place::mounted(stage, "4G", limit(stage, 10 * MINUTE))?;
    let ways: [(&str, &[&str]); 3] = [("", &[]), ("-S ", &["-S"]), ("-S -s ", &["-S", "-s"])];
    let seconds = (stage.time.as_secs() / 9).max(5);
    for (name, flags) in ways {
        for clients in [1, 4, 12] {
            let mut command = Command::new("dbench");
            command.arg("-D").arg(place.path()).args(["-t", &seconds.to_string()]).args(flags);
            let words = program::run(command.arg(clients.to_string()), stage.time + 3 * MINUTE)?;
            let rate = words.lines().find_map(|line| line.strip_prefix("Throughput "));
            let rate = rate.and_then(|line| line.split(' ').next());
            ensure!(rate.is_some(), "dbench: {}", program::tail(&words));
            said.push(format!("{name}{clients}: {}", rate.unwrap_or_default()));
        }
    }
    place.finish()?;
    Ok(format!("MB/s of clients: {}", said.join(", ")))
}

/// Files are made with each of fs_mark's ways to sync them, then many in many directories; again until the time is over.
pub fn fsmark(stage: &Stage) -> Result<String> {
    const MANY_DIRECTORIES: &str = "-t 4 -D 1000 -N 100 -n 25000 -s 0 -S 0";
    const SYNCED: &str = "-t 4 -D 64 -N 32 -n 2000 -s 5000 -S";
    let place = Place::mounted(stage, "6G", limit(stage, 10 * MINUTE))?;
    let begun = Instant::now();
    let mut rounds = 0;
    loop {
        for method in 0..8 {
            let keeps = if rounds == 0 { "-k" } else { "" };
            let directory = place.join(format!("method-{method}-{rounds}"));
            run_fsmark(stage, &directory, &format!("{SYNCED} {method} {keeps}"))?;
        }
        run_fsmark(stage, &place.join(format!("many-{rounds}")), MANY_DIRECTORIES)?;
        rounds += 1;
        if begun.elapsed() >= stage.time {
            break;
        }
    }
    let paths = place.finish()?;
    Ok(format!("{rounds} rounds of 8 ways to sync 8,000 files and 100,000 made and removed; {paths} paths"))
}

fn run_fsmark(stage: &Stage, directory: &Path, options: &str) -> Result<()> {
    fs::create_dir(directory)?;
    let mut command = Command::new(&stage.uxfs);
    command.args(["bench", "fsmark"]).args(options.split_whitespace()).arg("-d").arg(directory);
    program::run(&mut command, 5 * MINUTE).map(drop)
}

/// Unpacks an archive of this repository into a new directory; gives the directory.
fn unpacked(directory: &Path) -> Result<PathBuf> {
    fs::create_dir(directory)?;
    // The directory itself gets a time, as all in it.
    let script = "git -C \"$0\" archive HEAD | tar -xf - && touch -d @1000000000 .";
    let workspace = workspace_directory();
    run(&["sh", "-c", script, &workspace.display().to_string()], directory, 2 * MINUTE)?;
    Ok(directory.to_owned())
}

/// What people do with a source tree: unpack, build, test, build again, remove.
pub fn source(stage: &Stage) -> Result<String> {
    let place = Place::mounted(stage, "6G", limit(stage, 20 * MINUTE))?;
    let tree = unpacked(&place.join("source"))?;
    let reference = unpacked(&place.beside("reference"))?;
    let expected = Tree::of(&reference)?.portable();
    expected.must_equal(&Tree::of(&tree)?.portable()).context("the archive as unpacked in memory")?;
    let names = expected.len();
    let target = place.join("target");
    let build = |words: &[&str]| {
        let mut command = Command::new("cargo");
        command.args(words).args(["--offline", "-p", "uxfs-format"]).current_dir(&tree);
        program::run(command.env("CARGO_TARGET_DIR", &target).env("CARGO_INCREMENTAL", "1"), 10 * MINUTE)
    };
    build(&["build"])?;
    build(&["test", "--lib"])?;
    let again = build(&["build", "-v"])?;
    ensure!(again.contains("Fresh uxfs-format"), "a second build is one: {}", program::tail(&again));
    run(&["cp", "-a", "source", "copy"], place.path(), 2 * MINUTE)?;
    run(&["diff", "-r", "source", "copy"], place.path(), 2 * MINUTE)?;
    run(&["rm", "-r", "source"], place.path(), 2 * MINUTE)?;
    run(&["rm", "-r", "target/debug/incremental"], place.path(), 2 * MINUTE)?;
    let paths = place.finish()?;
    Ok(format!("{names} names unpacked, a crate built and tested, {paths} paths left"))
}

/// A repository with its history.
pub fn git(stage: &Stage) -> Result<String> {
    need("git", "git")?;
    let place = Place::mounted(stage, "6G", limit(stage, 20 * MINUTE))?;
    let workspace = workspace_directory().display().to_string();
    let clone = place.join("clone");
    run(&["git", "clone", "-q", "--no-hardlinks", &workspace, "clone"], place.path(), 5 * MINUTE)?;
    let count = run(&["git", "rev-list", "--count", "HEAD"], &clone, MINUTE)?;
    for back in ["HEAD~40", "HEAD~200", "-"] {
        run(&["git", "checkout", "-q", back], &clone, 2 * MINUTE)?;
        let status = run(&["git", "status", "--porcelain"], &clone, MINUTE)?;
        ensure!(status.is_empty(), "git status after checkout of {back}: {}", program::tail(&status));
    }
    run(&["git", "gc", "-q", "--prune=now"], &clone, 8 * MINUTE)?;
    run(&["git", "fsck", "--full", "--strict"], &clone, 8 * MINUTE)?;
    run(&["git", "clone", "-q", "clone", "second"], place.path(), 5 * MINUTE)?;
    run(&["git", "worktree", "add", "-q", "../third", "HEAD~10"], &clone, 2 * MINUTE)?;
    run(&["git", "commit", "-q", "--allow-empty", "-m", "empty"], &place.join("second"), MINUTE).or_else(
        |_| {
            let name = ["-c", "user.name=load", "-c", "user.email=load@localhost"];
            let commit = ["commit", "-q", "--allow-empty", "-m", "empty"];
            run(&[&["git"], &name[..], &commit[..]].concat(), &place.join("second"), MINUTE)
        },
    )?;
    run(&["git", "fsck", "--full"], &place.join("second"), 8 * MINUTE)?;
    let paths = place.finish()?;
    Ok(format!("{} commits, {paths} paths", count.trim()))
}

/// A tree with attributes, lists and hard links is copied, copied again, and compared.
pub fn rsync(stage: &Stage) -> Result<String> {
    need("rsync", "rsync")?;
    let place = Place::mounted(stage, "4G", limit(stage, 10 * MINUTE))?;
    let from = place.beside("from");
    fs::create_dir(&from)?;
    let script = "cp -a /usr/share/perl /usr/lib/python3* /etc . 2>/dev/null; mkdir many; cd many
        for i in $(seq 500); do echo $i > f$i; ln f$i g$i; setfattr -n user.number -v $i f$i; setfacl -m u:$i:r f$i; done
        mkdir d; setfacl -d -m u:7:rwx d; truncate -s 9M sparse; echo end >> sparse; mkfifo pipe; ln -s nowhere link";
    run(&["sh", "-c", script], &from, 5 * MINUTE)?;
    let source = format!("{}/", from.display());
    // XFS shows lists under a second name as well, also in the kernel: rsync would remove that, and the list with it.
    let copy = |flags: &[&str]| {
        run(
            &[&["rsync", "-a", "-i", "-f", "-x trusted.SGI_ACL_*"], flags, &[source.as_str(), "copy"]]
                .concat(),
            place.path(),
            5 * MINUTE,
        )
    };
    let first = copy(&["-X", "-A", "-H", "-S"])?.lines().count();
    for flags in [&["-X", "-A", "-H", "-S"][..], &["-X", "-A", "-H", "--checksum", "--delete"]] {
        let again = copy(flags)?;
        ensure!(again.is_empty(), "rsync {flags:?} finds work to do again: {}", program::tail(&again));
    }
    place.unmount()?;
    place.mount()?;
    let again = copy(&["-X", "-A", "-H", "--checksum", "--delete"])?;
    ensure!(again.is_empty(), "rsync finds work to do after a remount: {}", program::tail(&again));
    run(
        &["sh", "-c", "cd copy/many && for i in $(seq 250); do echo changed > f$i; rm -f g$i; done"],
        place.path(),
        MINUTE,
    )?;
    let mended = copy(&["-X", "-A", "-H", "--checksum", "--delete"])?.lines().count();
    let paths = place.finish()?;
    Ok(format!("{first} items, none again, {mended} after changes; {paths} paths"))
}
