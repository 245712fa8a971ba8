//! Counts, the table, reproducers.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    sync::Arc,
    time::Duration,
};

use anyhow::Result;
use uxfs_lab::field_fuzz::{
    checking::{LOSSLESS, UNJUDGED},
    sparse_device::DamagedImage,
};

use super::{Arguments, Work, remarks::Remarks, target_directory, worker::UNCHANGED};

/// Of what is said about a case that escaped.
const MOST_CHARACTERS: usize = 300;

/// Result of a case.
pub struct Report<'a> {
    work: &'a Work,
    arguments: &'a Arguments,
    /// Cases by structure and outcome.
    counts: BTreeMap<&'static str, BTreeMap<String, u64>>,
    escapes: Vec<(usize, String)>,
    commands: u64,
    remarks: Remarks,
}

impl<'a> Report<'a> {
    pub fn new(work: &'a Work, arguments: &'a Arguments) -> Self {
        Self {
            work,
            arguments,
            counts: BTreeMap::new(),
            escapes: Vec::new(),
            commands: 0,
            remarks: Remarks::default(),
        }
    }

    fn structure_of(&self, case: usize) -> &'static str {
        self.work.plan.instances[self.work.cases[case].instance as usize].structure.name()
    }

    /// A case ended as it may.
    pub fn outcome(&mut self, case: usize, outcome: &str) {
        let counts = self.counts.entry(self.structure_of(case)).or_default();
        *counts.entry(outcome.to_owned()).or_default() += 1;
    }

    /// A case escaped: it panicked, hung, or took too much.
    pub fn escape(&mut self, case: usize, why: String) {
        eprintln!("ESCAPED: case {case}: {why}");
        self.outcome(case, "ESCAPED");
        self.escapes.push((case, why));
    }

    /// Something was said about a case.
    pub fn remark(&mut self, case: usize, kind: &str, sentence: &str) {
        self.remarks.add(case, kind, sentence);
    }

    /// A case escaped, and a remark says how.
    pub fn judged_escape(&mut self, case: usize, why: String) {
        self.outcome(case, "ESCAPED");
        self.escapes.push((case, why));
    }

    /// Whether the cases are shown to other judges.
    pub fn is_judged(&self) -> bool {
        self.arguments.check
    }

    /// What was said, by field.
    pub fn print_remarks(&self) -> Result<()> {
        self.remarks.print(self.work)
    }

    /// So many commands were run through the binary.
    pub fn add_commands(&mut self, count: u64) {
        self.commands += count;
    }

    pub fn escapes(&self) -> usize {
        self.escapes.len()
    }

    /// The table: a line for each kind of structure, a column for each kind of outcome.
    pub fn print(&self) {
        let mut outcomes: BTreeSet<&str> =
            self.counts.values().flatten().map(|(key, _)| key.as_str()).collect();
        let rest: Vec<&str> = ["accepted", "operation", "unsupported", "io", UNCHANGED, "ESCAPED"]
            .into_iter()
            .filter(|word| outcomes.remove(word))
            .collect();
        let mut total = BTreeMap::new();
        let lossless = if self.is_judged() { " lossless" } else { "" };
        println!("\n{:<44} {:>7}{lossless}  outcomes", "structure", "cases");
        for (structure, counts) in &self.counts {
            let parts = outcomes.iter().chain(&rest).filter_map(|word| {
                let count = counts.get(*word)?;
                *total.entry(*word).or_insert(0) += count;
                Some(format!("{word} {count}"))
            });
            let parts: Vec<String> = parts.collect();
            let lossless = self.lossless(counts.iter().map(|(word, count)| (word.as_str(), *count)));
            println!("{structure:<44} {:>7}{lossless}  {}", counts.values().sum::<u64>(), parts.join(", "));
        }
        let parts: Vec<String> = total.iter().map(|(word, count)| format!("{word} {count}")).collect();
        let cases: u64 = total.values().sum();
        let lossless = self.lossless(total.iter().map(|(word, count)| (*word, *count)));
        println!("{:<44} {cases:>7}{lossless}  {}\n", "all", parts.join(", "));
    }

    /// The last line: what was done, and how many cases escaped.
    pub fn print_sums(&self, elapsed: Duration) {
        let cases: u64 = self.counts.values().flat_map(BTreeMap::values).sum();
        println!(
            "{}: {cases} cases, {} commands through uxfs; {} escapes; {:.1} s",
            self.arguments.image,
            self.commands,
            self.escapes.len(),
            elapsed.as_secs_f64()
        );
    }

    /// The share of damages after which the whole tree is there, for the table.
    fn lossless<'w>(&self, counts: impl Iterator<Item = (&'w str, u64)>) -> String {
        if !self.is_judged() {
            return String::new();
        }
        let judged = counts.filter(|(word, _)| ![UNCHANGED, UNJUDGED].contains(word));
        let (mut lossless, mut all) = (0, 0);
        for (word, count) in judged {
            all += count;
            lossless += if LOSSLESS.contains(&word) { count } else { 0 };
        }
        format!(" {:>6.1} %", lossless as f64 * 100.0 / f64::max(all as f64, 1.0))
    }

    /// Writes how to run each escaped case again.
    pub fn write_reproducers(&self) -> Result<()> {
        let folder = target_directory().join("field-fuzz");
        for (case, why) in &self.escapes {
            fs::create_dir_all(&folder)?;
            let device = DamagedImage::sound(Arc::clone(&self.work.base));
            let damage = self.work.plan.damage(&device, &self.work.cases[*case])?;
            let Arguments { image, cases, seed, whole, .. } = self.arguments;
            let edit = if self.arguments.edit { " --edit" } else { "" };
            let edit = if self.arguments.check { " --check" } else { edit };
            let field =
                self.arguments.field.as_ref().map_or(String::new(), |word| format!(" --field '{word}'"));
            let again = format!(
                "cargo xtask field-fuzz --image {image} --cases {cases} --seed {seed} --whole {whole}{edit}{field} --only {case}"
            );
            let text = format!(
                "{why}\n{} of {:?}, field {}, {}\npieces {:?}\n\n{again}\n",
                damage.instance.structure.name(),
                damage.instance.owner,
                damage.field,
                self.work.cases[*case].transform.name(),
                damage.instance.pieces,
            );
            let path = folder.join(format!("{image}-{seed}-{case}.txt", image = image.replace('/', "_")));
            fs::write(&path, &text)?;
            if self.is_judged() {
                let why: String = why.chars().take(MOST_CHARACTERS).collect();
                println!("\nESCAPED: case {case}: {why}\nagain: {again}\n{}", path.display());
            } else {
                println!("\n{}:\n{text}", path.display());
            }
        }
        Ok(())
    }
}
