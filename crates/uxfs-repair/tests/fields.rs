//! Single fields that no verifier looks at: `xfs_db` changes one in a golden image. The check gives exactly these findings,
//! `xfs_repair -n` objects too, or does not, as the list says, and it is silent after the repair, which keeps the whole tree.

use std::path::Path;

use uxfs_repair::Finding;
use uxfs_testkit::{golden::GoldenImage, judges::Judge, require, seeds::Part, verdict::repair_findings};

use crate::common::{
    damages::{Damage, FIELDS, UNSEEN},
    findings_of, plant, repair_image, try_all,
};

#[test]
fn fields_are_found_and_repaired_in_place() {
    require!(Judge::XfsDb, Judge::XfsRepair);
    // To look at some of them: a part of their names.
    let only = std::env::var("UXFS_FIELDS").unwrap_or_default();
    let chosen: Vec<&Damage> =
        FIELDS.iter().chain(UNSEEN).filter(|damage| damage.name.contains(&only)).collect();
    // What xfs_repair says before a repair does not change with ours.
    let part = Part::of_run(3);
    let cases: Vec<(&Damage, bool)> =
        chosen.into_iter().enumerate().map(|(number, damage)| (damage, part.has(number))).collect();
    let wrong =
        try_all(&cases, |(damage, is_judged_before), image| wrong_with(damage, *is_judged_before, image));
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

fn wrong_with(damage: &Damage, is_judged_before: bool, image: &Path) -> Vec<String> {
    let Damage { name, image: golden, commands, expected, action } = damage;
    let mut wrong = Vec::new();
    GoldenImage::lean(golden).unwrap().unpack_to(image).unwrap();
    plant(image, commands);
    let objections = is_judged_before.then(|| repair_findings(image).unwrap());
    let is_unseen = UNSEEN.iter().any(|unseen| unseen.name == *name);
    let findings = findings_of(image);
    let mut numbers: Vec<u16> = findings.iter().map(Finding::number).collect();
    numbers.sort_unstable();
    numbers.dedup();
    let shown: Vec<String> = findings.iter().take(8).map(ToString::to_string).collect();
    if numbers != *expected || objections.as_ref().is_some_and(|lines| lines.is_empty() != is_unseen) {
        wrong.push(format!("{name}: {numbers:?} {shown:#?}, xfs_repair: {objections:#?}"));
    }
    let staged = repair_image(image);
    let done: Vec<String> = staged.actions.iter().map(ToString::to_string).collect();
    let left: Vec<String> = staged.remaining.iter().map(ToString::to_string).collect();
    let judged = repair_findings(image).unwrap();
    let is_said = done.iter().any(|sentence| sentence.contains(action));
    if !is_said || !left.is_empty() || !judged.is_empty() {
        let left: Vec<_> = left.iter().take(4).collect();
        wrong.push(format!(
            "{name}: {done:#?}, left {left:#?}, xfs_repair: {:#?}",
            judged.iter().take(4).collect::<Vec<_>>()
        ));
    }
    if done.iter().any(|sentence| sentence.contains("attributes were removed")) {
        wrong.push(format!("{name}: attributes are lost: {done:#?}"));
    }
    assert!(
        !done.iter().any(|sentence| sentence.contains(" up:")),
        "{name}: an inode is given up: {done:#?}"
    );
    wrong
}
