//! Damaged images: `xfs_db` changes one field of a golden image and makes the checksum right. The check must find something wherever
//! `xfs_repair -n` does, and name what was changed.
#![allow(clippy::unwrap_used)]

mod common;

use std::collections::BTreeSet;

use uxfs_repair::Finding;
use uxfs_testkit::{
    golden::GoldenImage, image::memory_folder, judges::Judge, require, verdict::repair_findings,
};

use common::{damages::CONTRADICTIONS, findings_of, plant};

#[test]
fn damaged_fields_are_found_where_xfs_repair_finds_them() {
    require!(Judge::XfsDb, Judge::XfsRepair);
    let folder = tempfile::tempdir_in(memory_folder()).unwrap();
    let image = folder.path().join("image");
    let mut wrong = Vec::new();
    for damage in CONTRADICTIONS {
        GoldenImage::named(damage.image).unwrap().unpack_to(&image).unwrap();
        let printed = plant(&image, damage.commands);
        let judged = repair_findings(&image).unwrap();
        let findings = findings_of(&image);
        let numbers: BTreeSet<u16> = findings.iter().map(Finding::number).collect();
        for finding in &findings {
            assert!(!finding.fields().is_empty(), "{}: nothing for programs: {finding}", damage.name);
        }
        let expected: BTreeSet<u16> = damage.expected.iter().copied().collect();
        if numbers != expected || judged.is_empty() {
            let shown: Vec<String> = findings.iter().take(8).map(ToString::to_string).collect();
            let judged: Vec<&String> = judged.iter().take(6).collect();
            wrong.push(format!(
                "{}: {numbers:?} {shown:#?}\nxfs_db: {printed}xfs_repair: {judged:#?}",
                damage.name
            ));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
