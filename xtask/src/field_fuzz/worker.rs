//! A worker: runs its share of the cases and reports each on standard output.
//!
//! `B index` when a case begins, then `E index outcome` or `P index message` (it panicked). With `--check` also `N index kind
//! sentence`, a remark before the outcome, and `X index kind sentence`, an escape. Where a case kills the worker, its begin is the
//! last line.

use std::{
    io::{self, Write},
    panic::{self, AssertUnwindSafe},
    sync::Arc,
};

use anyhow::{Context, Result};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use uxfs_lab::field_fuzz::{
    checking::Judgement,
    editing::{self, Verdict},
    reading::{self, Extent},
    sparse_device::DamagedImage,
};

use super::{Arguments, Work};

/// Memory that reading may take beyond what the worker itself needs.
const MEMORY_BYTES: u64 = 256 << 20;

/// The outcome of a damage that changed nothing.
pub const UNCHANGED: &str = "unchanged";

pub fn run(arguments: &Arguments, index: usize, from: usize) -> Result<()> {
    let work = Work::of_worker(arguments)?;
    if work.judged.is_none() {
        // Judges are processes below this one, and have limits of their own.
        limit_memory()?;
    }
    panic::set_hook(Box::new(|_| {}));
    let jobs = super::supervisor::jobs(arguments);
    let mut output = io::stdout().lock();
    for case in (index..work.cases.len()).step_by(jobs).filter(|case| *case >= from) {
        writeln!(output, "B {case}")?;
        output.flush()?;
        match panic::catch_unwind(AssertUnwindSafe(|| run_case(&work, case, arguments.whole, &mut |_| ()))) {
            Ok(Ok(Outcome::Broken(why))) => writeln!(output, "P {case} breaks a promise: {why}")?,
            Ok(Ok(Outcome::Word(outcome))) => writeln!(output, "E {case} {outcome}")?,
            Ok(Ok(Outcome::Judged(judgement))) => write_judgement(&mut output, case, &judgement)?,
            Ok(Err(error)) => return Err(error),
            Err(payload) => writeln!(output, "P {case} {}", message(payload.as_ref()))?,
        }
    }
    output.flush()?;
    Ok(())
}

/// One case, with everything that it prints.
pub fn run_one(arguments: &Arguments, index: usize) -> Result<()> {
    let work = Work::of_worker(arguments)?;
    let case = work.cases.get(index).context("no such case")?;
    let damage = work.plan.damage(&DamagedImage::sound(Arc::clone(&work.base)), case)?;
    println!("{:?}\n{} {}", damage.instance, damage.field, case.transform.name());
    match run_case(&work, index, arguments.whole, &mut |words| println!("{words}"))? {
        Outcome::Word(word) => println!("{word}"),
        Outcome::Broken(why) => println!("BROKEN: {why}"),
        Outcome::Judged(judgement) => println!("{judgement:#?}\n{:?}", judgement.escape()),
    }
    Ok(())
}

/// How a case ended.
enum Outcome {
    Word(String),
    /// A promise was broken.
    Broken(String),
    /// Other judges have spoken.
    Judged(Box<Judgement>),
}

fn write_judgement(output: &mut impl Write, case: usize, judgement: &Judgement) -> Result<()> {
    if let Some((kind, sentence)) = judgement.escape() {
        writeln!(output, "X {case} {kind} {}", sentence.replace('\n', " "))?;
        return Ok(());
    }
    if let Some((kind, sentence)) = judgement.remark() {
        writeln!(output, "N {case} {kind} {}", sentence.replace('\n', " "))?;
    }
    writeln!(output, "E {case} {}", judgement.word())?;
    Ok(())
}

fn run_case(work: &Work, index: usize, whole: usize, tell: &mut dyn FnMut(&str)) -> Result<Outcome> {
    let case = &work.cases[index];
    let damage = work.plan.damage(&DamagedImage::sound(Arc::clone(&work.base)), case)?;
    if !damage.is_changed {
        return Ok(Outcome::Word(UNCHANGED.to_owned()));
    }
    if let Some(judged) = &work.judged {
        return Ok(Outcome::Judged(Box::new(judged.judge(&damage)?)));
    }
    let device = DamagedImage::new(Arc::clone(&work.base), &damage.instance.pieces, &damage.bytes);
    if let Some(sound) = &work.sound {
        return Ok(match editing::edit(device, &damage, sound, case.seed, tell) {
            Verdict::Broken(why) => Outcome::Broken(why.replace('\n', " ")),
            Verdict::Refused => Outcome::Word("refused".to_owned()),
            Verdict::Edited { shut_down: 0, refused: 0, .. } => Outcome::Word("edited".to_owned()),
            Verdict::Edited { shut_down: 0, .. } => Outcome::Word("partly".to_owned()),
            Verdict::Edited { .. } => Outcome::Word("shut-down".to_owned()),
        });
    }
    let extent = if index.is_multiple_of(whole.max(1)) { Extent::All } else { Extent::Owner };
    Ok(Outcome::Word(reading::read(Arc::new(device), &damage, extent).word().to_owned()))
}

fn message(payload: &(dyn std::any::Any + Send)) -> String {
    let text = payload.downcast_ref::<String>().map(String::as_str);
    let text = text.or_else(|| payload.downcast_ref::<&str>().copied()).unwrap_or("panic");
    text.replace('\n', " ")
}

/// Lets the process allocate so much more than it has: a failed allocation ends it, which the supervisor sees.
fn limit_memory() -> Result<()> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let data = status.lines().find_map(|line| line.strip_prefix("VmData:")).context("no VmData")?;
    let used: u64 = data.trim().trim_end_matches("kB").trim().parse()?;
    let maximum = getrlimit(Resource::Data).maximum;
    setrlimit(Resource::Data, Rlimit { current: Some(used * 1024 + MEMORY_BYTES), maximum })?;
    Ok(())
}
