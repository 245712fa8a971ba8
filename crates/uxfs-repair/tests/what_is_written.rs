//! A repair of one directory writes the groups in which it has blocks, and says so.

use std::{collections::BTreeSet, fs::File, os::unix::fs::FileExt, path::Path};

use uxfs_repair::repair::action::Action;
use uxfs_testkit::{
    golden::GoldenImage, image::memory_folder, judges::Judge, require, verdict::repair_is_silent,
    xfs_db::XfsDb,
};

use crate::common::repair_image_without_log;

/// The first superblock, and the AGF, AGI and AGFL of each group.
fn headers(image: &Path) -> Vec<Vec<u8>> {
    let printed = XfsDb::new(image).run(&["sb 0", "print agblocks agcount blocksize"]).unwrap();
    let sizes: Vec<u64> =
        printed.lines().map(|line| line.rsplit(' ').next().unwrap().parse().unwrap()).collect();
    let file = File::open(image).unwrap();
    let read = |offset_bytes: u64, length: usize| {
        let mut bytes = vec![0; length];
        file.read_exact_at(&mut bytes, offset_bytes).unwrap();
        bytes
    };
    let groups = (0..sizes[1]).map(|group| read(group * sizes[0] * sizes[2] + 512, 3 * 512));
    [read(0, 512)].into_iter().chain(groups).collect()
}

#[test]
fn groups_that_a_directory_has_no_part_in_stay_as_they_are() {
    require!(Judge::XfsDb, Judge::XfsRepair);
    let folder = tempfile::tempdir_in(memory_folder()).unwrap();
    let image = folder.path().join("image");
    GoldenImage::lean("default").unwrap().unpack_to(&image).unwrap();
    let printed = XfsDb::new(&image).run(&["path /directories/leaf", "dblock 0", "daddr"]).unwrap();
    let sector = printed.trim().rsplit(' ').next().unwrap().parse::<u64>().unwrap();
    let file = File::options().write(true).open(&image).unwrap();
    file.write_all_at(&[0; 4096], sector * 512).unwrap();
    let before = headers(&image);
    let staged = repair_image_without_log(&image);
    assert!(staged.remaining.is_empty(), "{:#?}", staged.remaining);
    repair_is_silent(&image).unwrap();
    let after = headers(&image);
    let changed: Vec<bool> = before.iter().zip(&after).map(|(before, after)| before != after).collect();
    let said: BTreeSet<usize> = staged
        .actions
        .iter()
        .filter_map(|action| match action {
            Action::Counters => Some(0),
            Action::Group { group, .. } => Some(group.get() as usize + 1),
            _ => None,
        })
        .collect();
    let written: BTreeSet<usize> = (0..changed.len()).filter(|index| changed[*index]).collect();
    assert!(written.is_subset(&said), "{written:?} written, {said:?} said");
    assert!(written.len() < changed.len() - 1, "{written:?}");
}
