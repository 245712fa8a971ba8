//! A slice of `cargo xtask field-fuzz --edit`: damaged fields of every kind of structure, and edits of the image. No edit locks
//! the image, or changes what it did not name.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
    time::{Duration, Instant},
};

use uxfs_format::{
    describe::{describe, leaves::leaves},
    fault::Structure,
};
use uxfs_lab::field_fuzz::{
    editing::{self, Sound, Verdict},
    plan::{Case, Plan},
    sparse_device::{DamagedImage, SparseImage},
    transform::Transform,
};
use uxfs_testkit::{golden::GoldenImage, seeds::Seed};

const CASES: usize = 30;
/// Generous, for busy machines.
const CASE_LIMIT: Duration = Duration::from_secs(60);

#[test]
fn edits_of_damaged_images_take_nothing_along() {
    let image = GoldenImage::named("default").unwrap().unpacked().unwrap();
    let base = SparseImage::load(&image).unwrap();
    let sound_image = || DamagedImage::sound(Arc::clone(&base));
    let plan = Plan::new(&sound_image()).unwrap();
    let sound = Sound::of(sound_image()).unwrap();
    let mut random = Seed::from_environment("field_fuzz_edits", 11).random();
    let mut edited = 0;
    for case in plan.cases(CASES, random.next_u64()) {
        let damage = plan.damage(&sound_image(), &case).unwrap();
        let device = DamagedImage::new(Arc::clone(&base), &damage.instance.pieces, &damage.bytes);
        let what = format!("{:?}, {} {}", damage.instance, damage.field, case.transform.name());
        let started = Instant::now();
        let edit = || editing::edit(device, &damage, &sound, case.seed, &mut |_| ());
        match catch_unwind(AssertUnwindSafe(edit)) {
            Ok(Verdict::Broken(why)) => panic!("{what}: {why}"),
            Ok(Verdict::Edited { made, .. }) => edited += usize::from(made > 0),
            Ok(Verdict::Refused) => {}
            Err(_) => panic!("panics: {what}"),
        }
        assert!(started.elapsed() < CASE_LIMIT, "hangs: {what}");
    }
    assert!(edited > CASES / 2, "only {edited} of {CASES} images could be edited at all");
}

/// The edits themselves work on a sound image.
#[test]
fn a_sound_image_takes_all_edits() {
    let image = GoldenImage::named("default").unwrap().unpacked().unwrap();
    let base = SparseImage::load(&image).unwrap();
    let sound_image = || DamagedImage::sound(Arc::clone(&base));
    let plan = Plan::new(&sound_image()).unwrap();
    let sound = Sound::of(sound_image()).unwrap();
    for case in plan.cases(3, 1) {
        let mut damage = plan.damage(&sound_image(), &case).unwrap();
        damage.bytes = damage.instance.read(&sound_image()).unwrap();
        let mut told = Vec::new();
        let verdict = editing::edit(sound_image(), &damage, &sound, case.seed, &mut |words| {
            told.push(words.to_owned())
        });
        let is_right = matches!(verdict, Verdict::Edited { shut_down: 0, made, .. } if made > 30);
        assert!(is_right, "{verdict:?}: {told:#?}");
    }
}

/// Lies that once locked an image (what an edit moved into another structure could not be replayed), shut a file system down, or
/// let an edit change another file.
#[test]
fn lies_that_escaped() {
    let image = GoldenImage::named("default").unwrap().unpacked().unwrap();
    let base = SparseImage::load(&image).unwrap();
    let sound_image = || DamagedImage::sound(Arc::clone(&base));
    let plan = Plan::new(&sound_image()).unwrap();
    let sound = Sound::of(sound_image()).unwrap();
    for (structure, field, transform) in [
        // Two namespaces, which only the leaf's verifier refused.
        (Structure::Inode, "a.sfattr.list[0].secure", Transform::FlipMiddle),
        // The unlinked inode could not be freed, by recovery neither.
        (Structure::ExtentMap, "leftsib", Transform::Add),
        // Nor this one, which the reverse map contradicts.
        (Structure::ExtentMap, "recs[28].extentflag", Transform::FlipHigh),
        // An extent one block beside its place, over another file: the reverse map knows it.
        (Structure::Inode, "u3.bmx[0].startblock", Transform::FlipLow),
        // The child of an attribute node where only directories have children.
        (Structure::AttributeNode, "btree[0].before", Transform::SetAll),
        // An entry at a byte where none can be.
        (Structure::Inode, "u3.sfdir3.list[1].offset", Transform::FlipLow),
    ] {
        let places = (0_u32..).zip(&plan.instances).filter_map(|(index, instance)| {
            let bytes = (instance.structure == structure).then(|| instance.read(&sound_image()).unwrap())?;
            let all = leaves(&describe(structure, &bytes, &plan.geometry));
            Some((index, all.iter().position(|leaf| leaf.name == field)? as u32))
        });
        let mut count = 0;
        for (instance, leaf) in places.take(4) {
            let case = Case { instance, leaf, transform, seed: 5 };
            let damage = plan.damage(&sound_image(), &case).unwrap();
            let device = DamagedImage::new(Arc::clone(&base), &damage.instance.pieces, &damage.bytes);
            let verdict = editing::edit(device, &damage, &sound, case.seed, &mut |_| ());
            assert!(!matches!(verdict, Verdict::Broken(_)), "{field}: {verdict:?}");
            count += 1;
        }
        assert!(count > 0, "no {field}");
    }
}
