//! All cases of one sample, several at a time.

use std::{
    path::Path,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
};

use anyhow::Result;
use uxfs_lab::field_fuzz::sparse_device::{DamagedImage, SparseImage};
use uxfs_testkit::seeds::Random;

use super::{
    Arguments,
    case::{Bench, Case},
    catalogue::Kind,
    contents::Contents,
    damage::{Scene, choose},
    objects::{self, Objects},
    repairers::Repairer,
    sample::Sample,
};

/// Runs them.
pub fn run(
    arguments: &Arguments,
    (kinds, seed): (&[Kind], u64),
    repairers: &[Repairer],
    (sample, work): (&Sample, &Path),
) -> Result<Vec<Case>> {
    let device = DamagedImage::sound(SparseImage::load(&sample.image)?);
    let older = sample.older.as_deref().map(SparseImage::load).transpose()?.map(DamagedImage::sound);
    let objects = Objects::locate(&device)?;
    println!("{}: {} paths, {}", sample.name, sample.truth.len(), counts(&objects));
    let older = older.as_ref().map(|older| older as &dyn uxfs_block::device::BlockDevice);
    let contents = Contents::locate(&sample.image)?;
    let scene = Scene { device: &device, older, objects: &objects };
    let bench = Bench {
        sample,
        scene: &scene,
        contents: &contents,
        repairers,
        work,
        seed,
        keep: arguments.keep.as_deref(),
        work_every: arguments.work_every,
        judge: arguments.judge.as_deref(),
    };
    let chosen = match arguments.kinds {
        Some(count) => some_of(kinds, count, seed, &sample.name),
        None => kinds.iter().collect(),
    };
    run_cases(arguments, &bench, &chosen)
}

/// `count` of the kinds, in their order. The sample's name has a part in the choice.
fn some_of<'k>(kinds: &'k [Kind], count: usize, seed: u64, name: &str) -> Vec<&'k Kind> {
    let seed = name.bytes().fold(seed, |seed, byte| seed.wrapping_mul(31).wrapping_add(byte.into()));
    let indexes: Vec<usize> = (0..kinds.len()).collect();
    let mut chosen = choose(&mut Random::new(seed), &indexes, count);
    chosen.sort_unstable();
    chosen.into_iter().filter_map(|index| kinds.get(index)).collect()
}

/// How many objects of each type there are.
fn counts(objects: &Objects) -> String {
    let counts = objects::TYPES.iter().map(|kind| format!("{} {kind}", objects.of(kind).len()));
    counts.collect::<Vec<_>>().join(", ")
}

fn run_cases(arguments: &Arguments, bench: &Bench<'_>, kinds: &[&Kind]) -> Result<Vec<Case>> {
    let processors = thread::available_parallelism().map_or(1, usize::from);
    let jobs = arguments.jobs.unwrap_or(processors).max(1);
    let all: Vec<(&Kind, usize)> =
        kinds.iter().flat_map(|kind| (0..arguments.cases).map(move |number| (*kind, number))).collect();
    let next = AtomicUsize::new(0);
    let done: Mutex<Vec<(usize, Result<Case>)>> = Mutex::new(Vec::new());
    thread::scope(|scope| {
        for _ in 0..jobs {
            scope.spawn(|| {
                loop {
                    let index = next.fetch_add(1, Ordering::Relaxed);
                    let Some((kind, number)) = all.get(index) else { break };
                    let case = bench.run(kind, *number);
                    if let (Ok(case), true) = (&case, arguments.verbose) {
                        tell(case);
                    }
                    let mut done = done.lock().unwrap_or_else(PoisonError::into_inner);
                    done.push((index, case));
                    if done.len().is_multiple_of(50) {
                        eprintln!("revive: {}: {} of {} cases", bench.sample.name, done.len(), all.len());
                    }
                }
            });
        }
    });
    let mut done = done.into_inner().unwrap_or_else(PoisonError::into_inner);
    done.sort_by_key(|(index, _)| *index);
    done.into_iter().map(|(_, case)| case).collect()
}

fn tell(case: &Case) {
    let mut lines = vec![format!("{} {} case {}", case.shape, case.kind, case.number)];
    lines.extend(case.damage.iter().take(20).map(|words| format!("  {words}")));
    for ending in &case.endings {
        let survival = ending.survival.as_ref();
        let intact = survival.map_or(0, |survival| survival.intact);
        let complaints = [&ending.fault, &ending.broken_promise].into_iter().flatten();
        let complaints: Vec<&str> = complaints.map(String::as_str).collect();
        lines.push(format!(
            "  {}: {intact} intact after {} runs, {:.2} s{} {}",
            ending.repairer,
            ending.runs,
            ending.seconds,
            if ending.is_worked_on { ", worked on" } else { "" },
            complaints.join("; ")
        ));
        lines.extend(
            ending.missing_witnesses.iter().map(|(missing, count)| format!("    {count} × {missing}")),
        );
        let examples = survival.map(|survival| survival.examples.as_slice()).unwrap_or_default();
        lines.extend(examples.iter().map(|example| format!("    {example}")));
    }
    println!("{}", lines.join("\n"));
}

#[cfg(test)]
mod tests {
    use super::super::catalogue;
    use super::*;

    #[test]
    fn a_seed_chooses_other_kinds_for_another_shape() {
        let all = catalogue::short();
        let names = |shape| -> Vec<String> {
            some_of(&all, 20, 7, shape).into_iter().map(|kind| kind.name.clone()).collect()
        };
        assert_eq!(names("default"), names("default"));
        assert_ne!(names("default"), names("block-1k"));
        assert_eq!(names("default").len(), 20);
    }
}
