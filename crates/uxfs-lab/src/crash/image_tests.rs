#![allow(clippy::unwrap_used)]

use super::*;
use uxfs_testkit::seeds::Random;

#[test]
fn copies_are_apart_and_equal_contents_have_equal_digests() {
    let mut random = Random::new(7);
    let mut image = Image::filled(3 << 20, 0xc5);
    let mut plain = vec![0xc5; 3 << 20];
    let empty = image.clone();
    let mut snapshots = Vec::new();
    for _ in 0..200 {
        let offset = random.below((3 << 20) - 9000);
        let mut bytes = vec![0; 1 + random.below(9000) as usize];
        random.fill(&mut bytes);
        image.write(offset, &bytes).unwrap();
        plain[offset as usize..offset as usize + bytes.len()].copy_from_slice(&bytes);
        if random.below(20) == 0 {
            snapshots.push((image.clone(), plain.clone()));
        }
    }
    snapshots.push((image.clone(), plain.clone()));
    for (image, plain) in &snapshots {
        let mut found = vec![0; plain.len()];
        image.read(0, &mut found).unwrap();
        assert!(found == *plain);
        // The same contents, written in another way.
        let mut again = empty.clone();
        again.write(0, plain).unwrap();
        assert_eq!(again.digest(), image.digest());
    }
    image.fill(0, 3 << 20, 0xc5).unwrap();
    assert_eq!(image.digest(), empty.digest());
    image.write(8192, &[1]).unwrap();
    assert_ne!(image.digest(), empty.digest());
    assert_eq!(image.digest_without(8192..12288), empty.digest());
    assert!(image.write((3 << 20) - 1, &[0, 0]).is_err());
}

#[test]
fn images_go_to_files_and_back() {
    let folder = tempfile::tempdir().unwrap();
    let mut image = Image::filled(1 << 20, 0);
    image.write(5000, b"some bytes").unwrap();
    image.save(&folder.path().join("image")).unwrap();
    assert_eq!(Image::load(&folder.path().join("image")).unwrap().digest(), image.digest());
}
