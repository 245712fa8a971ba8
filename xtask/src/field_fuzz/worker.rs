//! A worker: runs its share of the cases and tells of each on standard output.
//!
//! `B index` when a case begins, then `E index outcome` or `P index message` (it panicked). Where a case kills the
//! worker, its begin is the last line.

use std::{
    io::{self, Write},
    panic::{self, AssertUnwindSafe},
    sync::Arc,
};

use anyhow::{Context, Result};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use uxfs_lab::field_fuzz::{
    reading::{self, Extent},
    sparse_device::DamagedImage,
};

use super::{Arguments, Work};

/// Memory that reading may take beyond what the worker itself needs.
const MEMORY_BYTES: u64 = 256 << 20;

/// The outcome of a damage that changed nothing.
pub const UNCHANGED: &str = "unchanged";

pub fn run(arguments: &Arguments, index: usize, from: usize) -> Result<()> {
    let work = Work::new(arguments)?;
    limit_memory()?;
    panic::set_hook(Box::new(|_| {}));
    let jobs = super::supervisor::jobs(arguments);
    let mut output = io::stdout().lock();
    for case in (index..work.cases.len()).step_by(jobs).filter(|case| *case >= from) {
        writeln!(output, "B {case}")?;
        output.flush()?;
        match panic::catch_unwind(AssertUnwindSafe(|| run_case(&work, case, arguments.whole))) {
            Ok(outcome) => writeln!(output, "E {case} {}", outcome?)?,
            Err(payload) => writeln!(output, "P {case} {}", message(payload.as_ref()))?,
        }
    }
    output.flush()?;
    Ok(())
}

/// One case, with everything that it prints.
pub fn run_one(arguments: &Arguments, index: usize) -> Result<()> {
    let work = Work::new(arguments)?;
    let case = work.cases.get(index).context("no such case")?;
    let damage = work.plan.damage(&DamagedImage::sound(Arc::clone(&work.base)), case)?;
    println!("{:?}\n{} {}", damage.instance, damage.field, case.transform.name());
    println!("{}", run_case(&work, index, arguments.whole)?);
    Ok(())
}

fn run_case(work: &Work, index: usize, whole: usize) -> Result<String> {
    let case = &work.cases[index];
    let damage = work.plan.damage(&DamagedImage::sound(Arc::clone(&work.base)), case)?;
    if !damage.is_changed {
        return Ok(UNCHANGED.to_owned());
    }
    let device = DamagedImage::new(Arc::clone(&work.base), &damage.instance.pieces, &damage.bytes);
    let extent = if index.is_multiple_of(whole.max(1)) { Extent::All } else { Extent::Owner };
    Ok(reading::read(Arc::new(device), &damage, extent).word().to_owned())
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
