//! A slice of `cargo xtask rescue-fuzz`.

use uxfs_lab::{
    field_fuzz::sparse_device::SparseImage,
    repair_fuzz::Fixture,
    rescue_fuzz::{Case, Kind, Truth},
};
use uxfs_testkit::{
    golden::GoldenImage,
    judges::judged,
    seeds::{Random, Seed},
};

/// A case of each kind: nothing that is called whole is anything but what the kernel saw.
#[test]
fn nothing_is_called_whole_that_is_not() {
    let seed = Seed::from_environment("nothing_is_called_whole", 1).random().next_u64();
    for (name, kinds) in [("block-2k", &Kind::ALL[..]), ("no-parent", &Kind::ALL[..3])] {
        let golden = GoldenImage::named(name).unwrap();
        let image = SparseImage::load(&golden.unpacked().unwrap()).unwrap();
        let truth = Truth::of(&golden, &image).unwrap();
        let fixture = Fixture::of(image).unwrap();
        for (number, kind) in kinds.iter().enumerate() {
            let mut random = Random::new(seed.wrapping_add(number as u64));
            let case = Case::new(&fixture, *kind, &mut random).unwrap();
            let counts = truth.judge(case.device, &case.known).unwrap();
            let what = format!("{name}, {}, {:?}", kind.name(), case.words);
            assert_eq!(counts.wrong, Vec::<String>::new(), "{what}");
            assert_eq!(counts.untold_in_whole, Vec::<String>::new(), "{what}");
            if !kind.may_change_metadata() {
                assert_eq!(counts.wrong_metadata, Vec::<String>::new(), "{what}");
            }
            judged(
                "rescues",
                &format!("{name}, {}: {} of {} whole", kind.name(), counts.whole, counts.names),
            );
        }
    }
}

/// Cases that `cargo xtask rescue-fuzz` has found. A lost inode's number was that of `lost+found` afterwards, so that its name was not
/// told; and names were lost with a directory block and the parent pointers of a file with hundreds of links.
const FOUND: &[(&str, Kind, u64)] =
    &[("default", Kind::Structures, 20_261_213), ("no-rmapbt", Kind::Unread, 20_261_213)];

#[test]
fn no_directory_is_called_whole_that_lacks_names() {
    for (name, kind, seed) in FOUND {
        let golden = GoldenImage::named(name).unwrap();
        let image = SparseImage::load(&golden.unpacked().unwrap()).unwrap();
        let truth = Truth::of(&golden, &image).unwrap();
        let case = Case::new(&Fixture::of(image).unwrap(), *kind, &mut Random::new(*seed)).unwrap();
        let counts = truth.judge(case.device, &case.known).unwrap();
        assert!(counts.untold > 0, "{name}: the case is no longer one");
        assert_eq!(counts.untold_in_whole, Vec::<String>::new(), "{name}");
        assert_eq!(counts.wrong, Vec::<String>::new(), "{name}");
    }
}
