//! Running a repair on an image until the judge is silent, or until it gives up.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
    process::Command,
    time::{Duration, Instant},
};

use anyhow::Result;
use serde_json::Value;
use uxfs_testkit::{
    judges::Judge,
    limits::{Limits, Outcome, run_limited},
    verdict::findings_in,
};

/// How often `xfs_repair` is run at most. A first run that rebuilds a tree may leave work for a second.
const MOST_RUNS: u32 = 4;
const TIME_LIMIT: Duration = Duration::from_secs(300);

/// A program that repairs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Repairer {
    /// `xfs_repair`, as often as it needs.
    XfsRepair,
    /// `uxfs repair`.
    Uxfs {
        /// The program.
        program: PathBuf,
        /// Whether it may use copies of metadata in the log.
        uses_log_copies: bool,
    },
}

/// How a repair went.
#[derive(Debug, Clone, Default)]
pub struct Repaired {
    /// Runs of the repair.
    pub runs: u32,
    /// Of all of them, without those of the judge.
    pub seconds: f64,
    /// Why the image is not sound now; `None` where the judge is silent.
    pub fault: Option<String>,
    /// What the repair did against its promises: it said that the image is sound, but it is not; or it died.
    pub broken_promise: Option<String>,
    /// Witnesses that were missing, as the repair says, and how often.
    pub missing_witnesses: BTreeMap<String, usize>,
    /// Inodes of which the repair says that something is lost or a guess; of `xfs_repair`, all that it names.
    pub declared: BTreeSet<u64>,
}

impl Repairer {
    /// For the table.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::XfsRepair => "xfs_repair",
            Self::Uxfs { uses_log_copies: true, .. } => "uxfs repair",
            Self::Uxfs { uses_log_copies: false, .. } => "uxfs repair --no-log-copies",
        }
    }

    /// Whether the program can repair.
    pub fn is_there(&self) -> Result<bool> {
        match self {
            Self::XfsRepair => Ok(Judge::XfsRepair.is_present()),
            Self::Uxfs { program, .. } => {
                let mut command = Command::new(program);
                Ok(run_limited(command.args(["repair", "--help"]), &Limits::default())?.code == Some(0))
            }
        }
    }

    /// Repairs the image and asks the judge.
    pub fn repair(&self, image: &Path) -> Result<Repaired> {
        match self {
            Self::XfsRepair => by_xfs_repair(image),
            Self::Uxfs { program, uses_log_copies } => by_uxfs(program, *uses_log_copies, image),
        }
    }
}

fn limits() -> Limits {
    Limits { time: TIME_LIMIT, ..Limits::default() }
}

fn by_xfs_repair(image: &Path) -> Result<Repaired> {
    let mut repaired = Repaired::default();
    let mut last_failure = None;
    while repaired.runs < MOST_RUNS {
        let started = Instant::now();
        let mut outcome = xfs_repair(&[], image)?;
        if is_asking_for_log_zeroing(&outcome) {
            outcome = xfs_repair(&["-L"], image)?;
        }
        repaired.runs += 1;
        repaired.declared.extend(inodes_in(&outcome));
        repaired.seconds += started.elapsed().as_secs_f64();
        repaired.broken_promise = repaired.broken_promise.or(death(&outcome));
        repaired.fault = judge(image)?;
        if repaired.fault.is_none() {
            break;
        }
        if outcome.code == Some(0) {
            continue;
        }
        let failure = last_line(&outcome);
        repaired.fault = Some(failure.clone());
        // What failed twice in the same way would fail again.
        if outcome.timed_out || last_failure.replace(failure) == repaired.fault {
            break;
        }
    }
    Ok(repaired)
}

fn by_uxfs(program: &Path, uses_log_copies: bool, image: &Path) -> Result<Repaired> {
    let run = |command: &str| {
        let mut run = Command::new(program);
        run.args(["--json", command]);
        if command == "repair" && !uses_log_copies {
            run.arg("--no-log-copies");
        }
        run_limited(run.arg(image), &limits())
    };
    let started = Instant::now();
    let outcome = run("repair")?;
    let seconds = started.elapsed().as_secs_f64();
    let report = documents(&outcome);
    let mut repaired = Repaired { runs: 1, seconds, fault: judge(image)?, ..Repaired::default() };
    for missing in report.iter().filter_map(|document| document["missing_witness"].as_str()) {
        *repaired.missing_witnesses.entry(missing.to_owned()).or_default() += 1;
    }
    repaired.declared = report.iter().filter(|document| is_doubtful(document)).flat_map(inodes_of).collect();
    // Exit code 3 with lost files: the image is sound.
    let is_written = |document: &Value| document["type"] == "summary" && document["written"] == true;
    let said_sound = outcome.code == Some(0) || report.iter().any(is_written);
    repaired.broken_promise = match &repaired.fault {
        Some(fault) if said_sound => Some(format!("said that the image is sound: {fault}")),
        None if said_sound => unsettled(image, &run)?,
        _ => death(&outcome),
    };
    if let Some(fault) = repaired.fault.as_mut().filter(|_| !said_sound) {
        *fault = last_words(&report, &outcome);
    }
    Ok(repaired)
}

fn is_doubtful(document: &Value) -> bool {
    let is_unsure = matches!(document["certainty"].as_str(), Some("guess" | "loss"));
    is_unsure || !document["missing_witness"].is_null() || document["type"] == "left"
}

fn inodes_of(document: &Value) -> impl Iterator<Item = u64> + use<> {
    let object = document["object"].clone();
    ["inode", "other_inode"].into_iter().filter_map(move |name| object[name].as_u64())
}

/// Inode numbers in the words of `xfs_repair`.
fn inodes_in(outcome: &Outcome) -> BTreeSet<u64> {
    let printed = [outcome.stdout.as_slice(), &outcome.stderr].concat();
    let printed = String::from_utf8_lossy(&printed);
    let words = printed.split(|letter: char| !letter.is_ascii_alphanumeric());
    let words: Vec<&str> = words.filter(|word| !word.is_empty()).collect();
    let after = words.windows(2).filter(|pair| matches!(pair[0], "inode" | "ino"));
    after.filter_map(|pair| pair[1].parse().ok()).collect()
}

/// What `uxfs check` or a second repair finds in an image that a repair called sound.
fn unsettled(image: &Path, run: &impl Fn(&str) -> Result<Outcome>) -> Result<Option<String>> {
    let written = image.metadata()?.modified()?;
    let check = run("check")?;
    if check.code != Some(0) {
        return Ok(Some(format!(
            "a check of the repaired image: {}",
            last_words(&documents(&check), &check)
        )));
    }
    let again = run("repair")?;
    let report = documents(&again);
    let is_idle = report.last().is_some_and(|summary| {
        summary["findings"] == 0 && summary["actions"] == 0 && summary["written"] == false
    });
    let is_untouched = image.metadata()?.modified()? == written;
    if again.code == Some(0) && is_idle && is_untouched {
        return Ok(None);
    }
    Ok(Some(format!("a second repair: {}", last_words(&report, &again))))
}

/// What a program printed as JSON.
fn documents(outcome: &Outcome) -> Vec<Value> {
    serde_json::Deserializer::from_slice(&outcome.stdout).into_iter().map_while(Result::ok).collect()
}

/// The first finding that a repair leaves or a check has, or what it did first, or its last line.
fn last_words(report: &[Value], outcome: &Outcome) -> String {
    if let Some(death) = death(outcome) {
        return death;
    }
    let of = |kind: &str| report.iter().find(|document| document["type"] == kind);
    let first = of("left").or_else(|| of("finding")).or_else(|| of("action"));
    match first.and_then(|document| document["message"].as_str()) {
        Some(message) => format!("exit code {:?}: {message}", outcome.code),
        None => last_line(outcome),
    }
}

fn xfs_repair(options: &[&str], image: &Path) -> Result<Outcome> {
    run_limited(Judge::XfsRepair.command().args(options).arg("-f").arg(image), &limits())
}

/// The first finding of `xfs_repair -n`, or its failure.
fn judge(image: &Path) -> Result<Option<String>> {
    let outcome = xfs_repair(&["-n"], image)?;
    let findings = findings_in(&[outcome.stdout.as_slice(), &outcome.stderr].concat());
    let failure =
        || (outcome.code != Some(0)).then(|| format!("xfs_repair -n ended with {:?}", outcome.code));
    Ok(findings.into_iter().next().or_else(failure))
}

fn is_asking_for_log_zeroing(outcome: &Outcome) -> bool {
    outcome.code == Some(2)
}

fn death(outcome: &Outcome) -> Option<String> {
    outcome.escape(u64::MAX)
}

/// The last line that a failed repair printed.
fn last_line(outcome: &Outcome) -> String {
    if let Some(death) = death(outcome) {
        return death;
    }
    let printed = [outcome.stdout.as_slice(), &outcome.stderr].concat();
    let text = String::from_utf8_lossy(&printed);
    let line = text.lines().rev().map(str::trim).find(|line| !line.is_empty()).unwrap_or_default();
    // A search for superblocks prints dots without end.
    let line: String = line.trim_start_matches('.').chars().take(160).collect();
    format!("exit code {:?}: {line}", outcome.code)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcome(code: i32, stdout: &str, stderr: &str) -> Outcome {
        Outcome {
            code: Some(code),
            signal: None,
            timed_out: false,
            elapsed: Duration::ZERO,
            peak_memory_bytes: 0,
            starter_peak_bytes: 0,
            stdout: stdout.into(),
            stderr: stderr.into(),
        }
    }

    #[test]
    fn inodes_that_a_repair_speaks_of() {
        let printed = outcome(0, "bad data fork in inode 132\ninode 99, clearing; ino 7 x12", "inode x");
        assert_eq!(inodes_in(&printed), BTreeSet::from([7, 99, 132]));
        let action = serde_json::json!({
            "certainty": "guess", "missing_witness": null, "object": {"inode": 5, "other_inode": null}
        });
        let sure = serde_json::json!({"certainty": "computed", "missing_witness": null});
        assert!(is_doubtful(&action) && !is_doubtful(&sure));
        assert_eq!(inodes_of(&action).collect::<Vec<_>>(), [5]);
    }

    #[test]
    fn the_last_words_of_a_repair_are_told() {
        let searched = outcome(1, "Phase 1\n", "....................Sorry, no superblock\n\n");
        assert_eq!(last_line(&searched), "exit code Some(1): Sorry, no superblock");
        let hung = Outcome { timed_out: true, ..outcome(0, "", "") };
        assert!(last_line(&hung).contains("hangs"));
        assert_eq!(death(&searched), None);
    }
}
