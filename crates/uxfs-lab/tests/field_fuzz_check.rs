//! A slice of `cargo xtask field-fuzz --check`: fields of inode cores are damaged, the checksum is right. The check finds something
//! wherever `xfs_repair -n` does, and `xfs_repair -n` is silent after a repair that leaves nothing.

use std::{path::Path, sync::Arc};

use uxfs_lab::field_fuzz::{
    checking::{JudgedImage, LOSSES},
    plan::Plan,
    small,
    sparse_device::{DamagedImage, SparseImage},
};
use uxfs_testkit::{golden::GoldenImage, judges::Judge, require, seeds::Seed};

const CASES: usize = 12;

#[test]
fn fields_of_inodes_are_found_and_repaired_as_xfs_repair_asks() {
    require!(Judge::XfsRepair);
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("small-images");
    let path = small::make(&GoldenImage::named("default").unwrap(), &folder).unwrap();
    let base = SparseImage::load(&path).unwrap();
    let sound = DamagedImage::sound(Arc::clone(&base));
    let mut plan = Plan::by_file_type(&sound).unwrap();
    plan.keep("inode.");
    let image = JudgedImage::new(base).unwrap();
    let seed = Seed::from_environment("field_fuzz_check", 1);
    let (mut found, mut escapes) = (0, Vec::new());
    for case in plan.cases(CASES, seed.random().next_u64()) {
        let damage = plan.damage(&sound, &case).unwrap();
        let judgement = image.judge(&damage).unwrap();
        found += usize::from(!judgement.findings.is_empty());
        // What is lost is measured, not promised.
        if let Some(escape) = judgement.escape().filter(|(kind, _)| !LOSSES.contains(kind)) {
            escapes.push(format!(
                "{:?} {} {}: {escape:?}",
                damage.instance,
                damage.field,
                case.transform.name()
            ));
        }
    }
    assert!(escapes.is_empty(), "{}", escapes.join("\n"));
    assert!(found > CASES / 4, "{found} of {CASES} were found: nothing is damaged?");
}
