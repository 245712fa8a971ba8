//! Every field of `uxfs inspect` against `xfs_db`, for every structure of every golden image.

use uxfs_block::engine::sync::SyncDevice;
use uxfs_testkit::{
    golden::GoldenImage,
    inspect_diff::{self, Choice},
    judges::{self, Judge},
};

/// In images with very many inodes each this-many-th is compared beyond the first few hundred; `UXFS_INSPECT_STEP=1`
/// compares all.
const STEP: usize = 5;

#[test]
fn every_structure_of_the_golden_images_reads_as_xfs_db_reads_it() {
    if !judges::all_present(&[Judge::XfsDb], "inspect against xfs_db") {
        return;
    }
    let step = std::env::var("UXFS_INSPECT_STEP").map_or(STEP, |step| step.parse().expect("a number"));
    let mut failures = Vec::new();
    for image in GoldenImage::all_mostly_lean().unwrap() {
        let path = image.unpacked().unwrap();
        let device = SyncDevice::open_read_only(&path, 0).unwrap();
        // The same tree in another geometry has been compared.
        let choice = match image.is_lean() && step > 1 {
            true => Choice { first: 48, step: 8 * step },
            false => Choice { first: 256, step },
        };
        let report = inspect_diff::compare(&device, &path, choice).unwrap();
        let (values, structures) = (report.values(), report.structures());
        println!("{}: {values} values of {structures} structures", image.name());
        judges::judged(
            "xfs_db",
            &format!("inspect of {}: {values} values of {structures} structures", image.name()),
        );
        if report.difference_count > 0 {
            let name = image.name();
            failures.push(format!(
                "{name}: {} differ\n{}",
                report.difference_count,
                report.differences.join("\n")
            ));
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}
