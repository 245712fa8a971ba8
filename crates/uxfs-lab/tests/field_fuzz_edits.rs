//! A slice of `cargo xtask field-fuzz --edit`: damaged fields of every kind of structure, and edits of the image. No edit locks
//! the image, or changes what it did not name.

use std::time::Duration;

use uxfs_format::{
    describe::{describe, leaves::leaves},
    fault::Structure,
};
use uxfs_lab::field_fuzz::{
    editing::{self, Sound, Verdict},
    plan::Case,
    slice::Slice,
    transform::Transform,
};
use uxfs_testkit::seeds::Seed;

const CASES: usize = 15;
/// Generous, for busy machines.
const CASE_LIMIT: Duration = Duration::from_secs(60);

#[test]
fn edits_of_damaged_images_take_nothing_along() {
    let slice = Slice::new("default").unwrap();
    let sound = Sound::of(slice.sound()).unwrap();
    let mut random = Seed::from_environment("field_fuzz_edits", 11).random();
    let mut edited = 0;
    for case in slice.cases(CASES, random.next_u64()) {
        let case = case.unwrap();
        let edit = |image| editing::edit(image, &case.damage, &sound, case.case.seed, &mut |_| ());
        match case.run(CASE_LIMIT, edit).unwrap() {
            Verdict::Broken(why) => panic!("{}: {why}", case.what),
            Verdict::Edited { made, .. } => edited += usize::from(made > 0),
            Verdict::Refused => {}
        }
    }
    assert!(edited > CASES / 2, "only {edited} of {CASES} images could be edited at all");
}

/// The edits themselves work on a sound image.
#[test]
fn a_sound_image_takes_all_edits() {
    let slice = Slice::new("default").unwrap();
    let sound = Sound::of(slice.sound()).unwrap();
    for case in slice.cases(3, 1) {
        let mut case = case.unwrap();
        case.damage.bytes = case.damage.instance.read(&slice.sound()).unwrap();
        let mut told = Vec::new();
        let mut tell = |words: &str| told.push(words.to_owned());
        let verdict = editing::edit(slice.sound(), &case.damage, &sound, case.case.seed, &mut tell);
        let is_right = matches!(verdict, Verdict::Edited { shut_down: 0, made, .. } if made > 30);
        assert!(is_right, "{verdict:?}: {told:#?}");
    }
}

/// Lies that once locked an image (what an edit moved into another structure could not be replayed), shut a file system down, or
/// let an edit change another file.
#[test]
fn lies_that_escaped() {
    let slice = Slice::new("default").unwrap();
    let sound = Sound::of(slice.sound()).unwrap();
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
        let places = (0_u32..).zip(&slice.plan.instances).filter_map(|(index, instance)| {
            let bytes = (instance.structure == structure).then(|| instance.read(&slice.sound()).unwrap())?;
            let all = leaves(&describe(structure, &bytes, &slice.plan.geometry));
            Some((index, all.iter().position(|leaf| leaf.name == field)? as u32))
        });
        let mut count = 0;
        for (instance, leaf) in places.take(4) {
            let case = slice.case(Case { instance, leaf, transform, seed: 5 }).unwrap();
            let verdict = editing::edit(case.image(), &case.damage, &sound, case.case.seed, &mut |_| ());
            assert!(!matches!(verdict, Verdict::Broken(_)), "{field}: {verdict:?}");
            count += 1;
        }
        assert!(count > 0, "no {field}");
    }
}
