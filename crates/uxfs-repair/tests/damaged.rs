//! Damaged images: `xfs_db` changes one field of a golden image and makes the checksum right. The check must find something wherever
//! `xfs_repair -n` does, and name what was changed.

use std::{collections::BTreeSet, path::Path};

use uxfs_repair::{CheckOptions, Finding, memory::Memory, pass::Pass};
use uxfs_testkit::{golden::GoldenImage, judges::Judge, require, verdict::repair_findings};

use crate::common::{
    damages::{CONTRADICTIONS, Damage},
    findings_of, findings_with, plant, try_all,
};

#[test]
fn damaged_fields_are_found_where_xfs_repair_finds_them() {
    require!(Judge::XfsDb, Judge::XfsRepair);
    let wrong = try_all(CONTRADICTIONS, wrong_with);
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

fn wrong_with(damage: &Damage, image: &Path) -> Vec<String> {
    GoldenImage::lean(damage.image).unwrap().unpack_to(image).unwrap();
    let printed = plant(image, damage.commands);
    let judged = repair_findings(image).unwrap();
    let findings = findings_of(image);
    let numbers: BTreeSet<u16> = findings.iter().map(Finding::number).collect();
    for finding in &findings {
        assert!(!finding.fields().is_empty(), "{}: nothing for programs: {finding}", damage.name);
    }
    for number in &numbers {
        must_be_found_by_its_pass(image, *number, &findings);
    }
    let expected: BTreeSet<u16> = damage.expected.iter().copied().collect();
    if numbers == expected && !judged.is_empty() {
        return Vec::new();
    }
    let shown: Vec<String> = findings.iter().take(8).map(ToString::to_string).collect();
    let judged: Vec<&String> = judged.iter().take(6).collect();
    vec![format!("{}: {numbers:?} {shown:#?}\nxfs_db: {printed}xfs_repair: {judged:#?}", damage.name)]
}

/// A check without the passes that cannot give a finding, and with the least memory, gives it as the whole check does.
fn must_be_found_by_its_pass(image: &Path, number: u16, findings: &[Finding]) {
    let sentences = |findings: &[Finding]| -> Vec<String> {
        findings.iter().filter(|finding| finding.number() == number).map(ToString::to_string).collect()
    };
    let options = CheckOptions {
        last_pass: Pass::of_number(number),
        memory: Memory::of_bytes(0),
        ..CheckOptions::default()
    };
    assert_eq!(sentences(&findings_with(image, &options)), sentences(findings), "{number}");
}
