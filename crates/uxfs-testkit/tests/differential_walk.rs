//! Everything that a path leads to, on every golden image, as the library says it and as a judge said it: path, type, mode,
//! owner, size, links, times, device numbers, contents, extents, attributes, ACLs, flags, and the order and cookies of
//! directory entries.

use uxfs_testkit::{
    golden::{DIRTY_LOG, GoldenImage, INDEPENDENT},
    judges,
    manifest::{self, Header, Manifest},
    walk,
};

/// The images that must be there, so that a renamed or lost one is missed.
const LEAST_IMAGES: usize = 25;

fn compare(image: &GoldenImage) -> Result<(), String> {
    let expected = image.manifest().map_err(|error| format!("{error:#}"))?;
    let path = image.unpacked().map_err(|error| format!("{error:#}"))?;
    let header = Header { judge: "uxfs".into(), ..expected.header.clone() };
    let found = walk::from_image(&path, header).map_err(|error| format!("{error:#}"))?;
    match manifest::report(&manifest::differences(&expected, &found), 20) {
        None => {
            let what = format!("walk of {}: {} paths", image.name(), expected.entries.len());
            judges::judged(&expected.header.judge, &what);
            Ok(())
        }
        Some(report) => Err(report),
    }
}

#[test]
fn every_golden_image_reads_as_its_judge_says() {
    let images = GoldenImage::all().unwrap();
    let failures: Vec<String> = images
        .iter()
        .filter_map(|image| compare(image).err().map(|error| format!("== {}\n{error}", image.name())))
        .collect();
    assert!(failures.is_empty(), "{}", failures.join("\n"));
    assert!(images.len() >= LEAST_IMAGES, "only {} golden images", images.len());
}

/// The image was cut off with changes in its log: it reads as what the kernel's recovery made of it.
#[test]
fn an_image_with_a_dirty_log_reads_as_it_will_be() {
    compare(&GoldenImage::dirty_log()).unwrap();
}

/// A manifest says at most what the walk compares: if one said nothing, the test above would prove nothing.
#[test]
fn manifests_say_what_is_compared() {
    for image in GoldenImage::all().unwrap() {
        let manifest = image.manifest().unwrap();
        let said = |present: fn(&manifest::Details) -> bool| {
            let details = manifest.entries.iter().filter_map(|entry| entry.details.as_deref());
            details.filter(|details| present(details)).count()
        };
        assert!(said(|details| details.sha256.is_some()) > 100, "{}: contents", image.name());
        assert!(said(|details| details.attributes.is_some()) > 100, "{}: attributes", image.name());
        if is_of_the_kernel(&manifest) {
            assert!(said(|details| details.extents.is_some()) > 100, "{}: extents", image.name());
            assert!(said(|details| details.entries.is_some()) > 50, "{}: entries", image.name());
            assert!(said(|details| details.birth_time.is_some()) > 100, "{}: times", image.name());
        }
    }
    assert!(GoldenImage::named(INDEPENDENT).is_ok() && GoldenImage::named(DIRTY_LOG).is_ok());
}

fn is_of_the_kernel(manifest: &Manifest) -> bool {
    manifest.header.judge.starts_with("Linux")
}
