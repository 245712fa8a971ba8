//! Starts workers, watches the clock, and starts them again behind a case that killed or stopped one.

use std::{
    env,
    io::{BufRead, BufReader},
    process::{Child, ChildStdout, Command, Stdio},
    sync::{Mutex, MutexGuard, PoisonError},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, ensure};

use super::{Arguments, Work, binary, report::Report};

/// A case that takes longer hangs.
const CASE_LIMIT: Duration = Duration::from_secs(10);
/// With judges, which have limits of their own.
const JUDGED_LIMIT: Duration = Duration::from_secs(120);
const CLOCK_TICK: Duration = Duration::from_millis(100);

pub fn jobs(arguments: &Arguments) -> usize {
    arguments.jobs.unwrap_or_else(|| thread::available_parallelism().map_or(1, usize::from)).max(1)
}

pub fn run(arguments: &Arguments) -> Result<()> {
    let started = Instant::now();
    let work = Work::new(arguments)?;
    println!(
        "{}: {} structures, {} fields, {} kinds of field; {} cases with seed {}",
        arguments.image,
        work.plan.instances.len(),
        work.plan.field_count,
        work.plan.kind_count(),
        work.cases.len(),
        arguments.seed
    );
    let report = Mutex::new(Report::new(&work, arguments));
    let shared = &report;
    thread::scope(|scope| -> Result<()> {
        let workers: Vec<_> =
            (0..jobs(arguments)).map(|index| scope.spawn(move || supervise(index, shared))).collect();
        workers.into_iter().try_for_each(|worker| worker.join().expect("a supervisor never panics"))
    })?;
    let mut report = report.into_inner().unwrap_or_else(PoisonError::into_inner);
    if !arguments.edit && !arguments.check {
        binary::run(&work, arguments, &mut report)?;
    }
    report.print();
    report.print_remarks()?;
    report.write_reproducers()?;
    report.print_sums(started.elapsed());
    let escapes = report.escapes();
    ensure!(escapes == 0, "{escapes} cases escaped");
    Ok(())
}

/// Runs one worker's share to its end.
fn supervise(index: usize, report: &Mutex<Report<'_>>) -> Result<()> {
    let mut from = 0;
    let limit = if lock(report).is_judged() { JUDGED_LIMIT } else { CASE_LIMIT };
    loop {
        let mut child = Command::new(env::current_exe()?)
            .args(env::args_os().skip(1))
            .arg("--worker")
            .arg(format!("{index}:{from}"))
            .stdout(Stdio::piped())
            .spawn()
            .context("cannot start a worker")?;
        let lines = child.stdout.take().context("no output of the worker")?;
        let at_hand = Mutex::new(None);
        let timed_out = watch(&mut child, lines, (&at_hand, limit), report)?;
        let status = child.wait()?;
        let Some((case, _)) = *lock(&at_hand) else {
            ensure!(status.success(), "a worker failed outside any case: {status}");
            return Ok(());
        };
        let why = if timed_out { "hangs".to_owned() } else { format!("ends the process: {status}") };
        lock(report).escape(case, why);
        from = case + 1;
    }
}

/// Reads what a worker tells until it ends. `true` where it was killed for taking too long.
fn watch(
    child: &mut Child,
    lines: ChildStdout,
    (at_hand, limit): (&Mutex<Option<(usize, Instant)>>, Duration),
    report: &Mutex<Report<'_>>,
) -> Result<bool> {
    thread::scope(|scope| {
        let reader = scope.spawn(|| {
            for line in BufReader::new(lines).lines().map_while(Result::ok) {
                let mut words = line.splitn(3, ' ');
                let (kind, case) = (words.next(), words.next().and_then(|word| word.parse().ok()));
                let (Some(kind), Some(case)) = (kind, case) else { continue };
                let rest = words.next().unwrap_or_default();
                match kind {
                    "B" => *lock(at_hand) = Some((case, Instant::now())),
                    "N" | "X" => {
                        let (remark, sentence) = rest.split_once(' ').unwrap_or((rest, ""));
                        lock(report).remark(case, remark, sentence);
                        if kind == "X" {
                            lock(report).judged_escape(case, rest.to_owned());
                            *lock(at_hand) = None;
                        }
                    }
                    "P" => {
                        lock(report).escape(case, format!("panics: {rest}"));
                        *lock(at_hand) = None;
                    }
                    _ => {
                        lock(report).outcome(case, rest);
                        *lock(at_hand) = None;
                    }
                }
            }
        });
        let mut timed_out = false;
        while !reader.is_finished() {
            thread::sleep(CLOCK_TICK);
            let is_late = lock(at_hand).is_some_and(|(_, begun)| begun.elapsed() > limit);
            if is_late && !timed_out {
                timed_out = true;
                child.kill()?;
            }
        }
        Ok(timed_out)
    })
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
