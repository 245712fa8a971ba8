use uxfs_testkit::seeds::Random;

use super::*;
use crate::names::facts::InodeFact;

const ROOT: u64 = 128;

fn number(inode: u64) -> InodeNumber {
    InodeNumber::new(inode)
}

fn named(text: &str) -> Name {
    text.as_bytes().into()
}

/// Facts that are made link by link.
struct Case {
    facts: Facts,
}

impl Case {
    fn new() -> Self {
        let mut case =
            Self { facts: Facts { root: number(ROOT), has_parent_pointers: true, ..Facts::default() } };
        case.directory(ROOT, ROOT);
        case
    }

    fn inode(&mut self, inode: u64, file_type: FileType, dot_dot: Option<u64>) {
        let fact = InodeFact {
            file_type,
            generation: inode as u32,
            link_count: 1,
            dot_dot: dot_dot.map(number),
            has_unread_entries: false,
            has_hashed_entries: false,
            has_hashed_pointers: false,
            is_internal: false,
        };
        self.facts.inodes.insert(number(inode), fact);
    }

    fn directory(&mut self, inode: u64, parent: u64) {
        self.inode(inode, FileType::Directory, Some(parent));
    }

    fn file(&mut self, inode: u64) {
        self.inode(inode, FileType::Regular, None);
    }

    fn witnesses(&mut self, directory: u64, name: &str, inode: u64) -> &mut Witnesses {
        let link = Link { directory: number(directory), name: named(name), inode: number(inode) };
        self.facts.links.add_missing([link.clone()].into_iter());
        self.facts.links.get_mut(&link).unwrap()
    }

    fn entry(&mut self, directory: u64, name: &str, inode: u64, file_type: FileType) {
        let witnesses = self.witnesses(directory, name, inode);
        (witnesses.has_entry, witnesses.entry_type) = (true, Some(file_type));
    }

    /// A parent pointer with the generation that directories have in these tests.
    fn pointer(&mut self, directory: u64, name: &str, inode: u64) {
        self.witnesses(directory, name, inode).pointer_generation = Some(directory as u32);
    }

    fn both(&mut self, directory: u64, name: &str, inode: u64) {
        let file_type =
            self.facts.inodes.get(&number(inode)).map_or(FileType::Regular, |fact| fact.file_type);
        self.entry(directory, name, inode, file_type);
        self.pointer(directory, name, inode);
    }

    fn links(&self) -> Vec<(u64, String, u64)> {
        self.links_of(&Decision::of(&self.facts))
    }

    fn links_of(&self, decision: &Decision) -> Vec<(u64, String, u64)> {
        let text = |name: &Name| String::from_utf8(name.to_vec()).unwrap();
        let in_facts = self.facts.links.keys().map(|link| link.directory);
        let directories: BTreeSet<InodeNumber> =
            in_facts.chain(decision.links.keys().map(|(directory, _)| *directory)).collect();
        let links = directories.iter().flat_map(|directory| {
            let names = decision.names_in(&self.facts, *directory).into_iter();
            names.map(|(name, inode)| (directory.get(), text(name), inode.get()))
        });
        links.collect()
    }

    fn lost(&self) -> Vec<(u64, String)> {
        let lost = Decision::of(&self.facts).lost.into_iter();
        lost.map(|(inode, name)| (inode.get(), String::from_utf8(name.into_vec()).unwrap())).collect()
    }
}

fn link(directory: u64, name: &str, inode: u64) -> (u64, String, u64) {
    (directory, name.to_owned(), inode)
}

#[test]
fn what_one_side_says_is_kept() {
    let mut case = Case::new();
    case.file(200);
    case.file(201);
    case.entry(ROOT, "entry only", 200, FileType::Regular);
    case.pointer(ROOT, "pointer only", 201);
    assert_eq!(case.links(), [link(ROOT, "entry only", 200), link(ROOT, "pointer only", 201)]);
    assert_eq!(case.lost(), []);
}

#[test]
fn a_lost_directory_comes_back_with_all_that_points_to_it() {
    let mut case = Case::new();
    case.facts.places.insert(number(300));
    case.entry(ROOT, "gone", 300, FileType::Directory);
    for inode in 200..210 {
        case.file(inode);
        case.pointer(300, &format!("file {inode}"), inode);
    }
    let decision = Decision::of(&case.facts);
    assert_eq!(
        decision.directories.get(&number(300)),
        Some(&NewDirectory { generation: Some(300), is_metadata: false })
    );
    assert_eq!((case.links().len(), decision.links.len(), decision.lost.len()), (11, 1, 0));
}

#[test]
fn a_lost_root_comes_back() {
    let mut case = Case::new();
    case.facts.inodes.remove(&number(ROOT));
    case.facts.places.insert(number(ROOT));
    case.directory(300, ROOT);
    case.pointer(ROOT, "directory", 300);
    case.file(200);
    case.both(300, "file", 200);
    assert_eq!(case.links(), [link(ROOT, "directory", 300), link(300, "file", 200)]);
    assert_eq!(case.lost(), []);
}

#[test]
fn a_place_that_something_else_has_is_not_taken() {
    let mut case = Case::new();
    case.file(300);
    case.both(ROOT, "a file now", 300);
    case.file(200);
    case.pointer(300, "lost name", 200);
    assert_eq!(case.links(), [link(ROOT, "a file now", 300)]);
    assert_eq!(case.lost(), [(200, "lost name".to_owned())]);
}

#[test]
fn of_two_claims_the_one_that_needs_the_name_wins() {
    // The entry's inode number was changed: 201 has another name, and 200 has none.
    let mut case = Case::new();
    case.file(200);
    case.file(201);
    case.both(ROOT, "other", 201);
    case.entry(ROOT, "name", 201, FileType::Regular);
    case.pointer(ROOT, "name", 200);
    assert_eq!(case.links(), [link(ROOT, "name", 200), link(ROOT, "other", 201)]);
    // The parent pointer was changed: 201 is named by an entry elsewhere.
    let mut case = Case::new();
    case.file(200);
    case.file(201);
    case.both(ROOT, "name", 200);
    case.entry(ROOT, "other", 201, FileType::Regular);
    case.pointer(ROOT, "name", 201);
    assert_eq!(case.links(), [link(ROOT, "name", 200), link(ROOT, "other", 201)]);
}

#[test]
fn two_halves_of_a_name_are_one() {
    let mut case = Case::new();
    case.directory(300, ROOT);
    case.both(ROOT, "directory", 300);
    case.file(200);
    case.entry(300, "name", 200, FileType::Regular);
    case.pointer(ROOT, "name", 200);
    assert_eq!(case.links(), [link(ROOT, "directory", 300), link(300, "name", 200)]);
    // A name that was changed in a directory whose index says so.
    let mut case = Case::new();
    case.file(200);
    case.entry(ROOT, "nbme", 200, FileType::Regular);
    case.pointer(ROOT, "name", 200);
    case.facts.damaged_directories.insert(number(ROOT));
    assert_eq!(case.links(), [link(ROOT, "name", 200)]);
    // A name in a directory without hashes, and a pointer that has one.
    let mut case = Case::new();
    case.file(200);
    case.facts.inodes.get_mut(&number(200)).unwrap().has_hashed_pointers = true;
    case.entry(ROOT, "nbme", 200, FileType::Regular);
    case.pointer(ROOT, "name", 200);
    assert_eq!(case.links(), [link(ROOT, "name", 200)]);
    // Both have hashes, or neither.
    case.facts.inodes.get_mut(&number(ROOT)).unwrap().has_hashed_entries = true;
    assert_eq!(case.links(), [link(ROOT, "nbme", 200)]);
    // Two links, two names.
    let mut case = Case::new();
    case.file(200);
    case.facts.inodes.get_mut(&number(200)).unwrap().link_count = 2;
    case.entry(ROOT, "one", 200, FileType::Regular);
    case.pointer(ROOT, "two", 200);
    assert_eq!(case.links(), [link(ROOT, "one", 200), link(ROOT, "two", 200)]);
}

#[test]
fn a_directory_has_one_name() {
    let mut case = Case::new();
    case.directory(300, ROOT);
    case.directory(301, ROOT);
    case.both(ROOT, "one", 300);
    case.both(ROOT, "two", 301);
    case.entry(300, "again", 301, FileType::Directory);
    assert_eq!(case.links(), [link(ROOT, "one", 300), link(ROOT, "two", 301)]);
}

#[test]
fn of_two_names_the_one_that_is_no_text_goes() {
    let mut case = Case::new();
    case.file(200);
    case.entry(ROOT, "\u{1}\u{80}", 200, FileType::Regular);
    case.pointer(ROOT, "name", 200);
    case.directory(300, ROOT);
    case.entry(ROOT, "directory", 300, FileType::Directory);
    case.pointer(ROOT, "\u{1}irectory", 300);
    assert_eq!(case.links(), [link(ROOT, "directory", 300), link(ROOT, "name", 200)]);
    assert!(is_text("Grüße".as_bytes()) && !is_text(b"\xad"));
}

#[test]
fn an_entry_of_another_type_finds_the_inode_that_lost_it() {
    let case_of = |has_parent_pointers: bool| {
        let mut case = Case::new();
        case.facts.has_parent_pointers = has_parent_pointers;
        case.file(200);
        case.inode(201, FileType::Fifo, None);
        case.entry(ROOT, "file", 201, FileType::Regular);
        case.entry(ROOT, "pipe", 201, FileType::Fifo);
        case
    };
    assert_eq!(case_of(false).links(), [link(ROOT, "file", 200), link(ROOT, "pipe", 201)]);
    assert_eq!(case_of(true).links(), [link(ROOT, "file", 201), link(ROOT, "pipe", 201)]);
    // Two candidates.
    let mut case = case_of(false);
    case.file(202);
    assert_eq!(case.links(), [link(ROOT, "file", 201), link(ROOT, "pipe", 201)]);
    // The type alone is wrong: the inode has no other name.
    let mut case = Case::new();
    case.facts.has_parent_pointers = false;
    case.file(200);
    case.inode(201, FileType::Fifo, None);
    case.entry(ROOT, "pipe", 201, FileType::Regular);
    assert_eq!(case.links(), [link(ROOT, "pipe", 201)]);
    // Exchanged.
    let mut case = Case::new();
    case.facts.has_parent_pointers = false;
    case.directory(300, ROOT);
    case.file(200);
    case.entry(ROOT, "directory", 200, FileType::Directory);
    case.entry(ROOT, "file", 300, FileType::Regular);
    assert_eq!(case.links(), [link(ROOT, "directory", 300), link(ROOT, "file", 200)]);
}

#[test]
fn circles_are_broken_at_their_weakest_name() {
    let mut case = Case::new();
    case.directory(300, 301);
    case.directory(301, 300);
    case.both(301, "below", 300);
    case.entry(300, "above", 301, FileType::Directory);
    assert_eq!(case.links(), [link(301, "below", 300)]);
    assert_eq!(case.lost(), [(301, "above".to_owned())]);
}

#[test]
fn internal_inodes_and_names_that_cannot_be_are_left_out() {
    let mut case = Case::new();
    case.file(129);
    case.facts.inodes.get_mut(&number(129)).unwrap().is_internal = true;
    case.file(200);
    case.entry(ROOT, "a/b", 200, FileType::Regular);
    assert_eq!((case.links(), case.lost()), (Vec::new(), vec![(200, "200".to_owned())]));
}

#[test]
fn lost_inodes_have_names_of_their_own() {
    let mut case = Case::new();
    for inode in [200, 201] {
        case.file(inode);
        case.pointer(999, "same", inode);
    }
    assert_eq!(case.lost(), [(200, "same".to_owned()), (201, "201".to_owned())]);
}

/// Every name that a witness says is in the tree, or is rejected with the reason.
#[test]
fn what_is_not_kept_says_why() {
    let mut case = Case::new();
    case.file(200);
    case.file(201);
    case.both(ROOT, "other", 201);
    case.entry(ROOT, "name", 201, FileType::Regular);
    case.pointer(ROOT, "name", 200);
    case.entry(ROOT, "of nothing", 999, FileType::Regular);
    case.entry(ROOT, "a/b", 201, FileType::Regular);
    case.pointer(998, "nowhere", 200);
    case.directory(300, ROOT);
    case.both(ROOT, "directory", 300);
    case.entry(300, "again", 300, FileType::Directory);
    case.directory(301, ROOT);
    case.both(ROOT, "one", 301);
    case.entry(300, "two", 301, FileType::Directory);
    let decision = Decision::of(&case.facts);
    let why = |directory: u64, name: &str, inode: u64| {
        let link = Link { directory: number(directory), name: named(name), inode: number(inode) };
        decision.rejected.get(&link).cloned()
    };
    let (kept_by, rejected_by) = (Strength::Pointer, Strength::Entry);
    assert_eq!(
        why(ROOT, "name", 201),
        Some(Rejection::OtherInode { kept: number(200), kept_by, rejected_by })
    );
    assert_eq!(why(ROOT, "of nothing", 999), Some(Rejection::NoInode));
    assert_eq!(why(ROOT, "a/b", 201), Some(Rejection::ImpossibleName));
    assert_eq!(why(998, "nowhere", 200), Some(Rejection::NoDirectory));
    assert_eq!(why(300, "again", 300), Some(Rejection::OfItself));
    let (directory, name, kept_by) = (number(ROOT), named("one"), Strength::Both);
    assert_eq!(
        why(300, "two", 301),
        Some(Rejection::OtherName { directory, name, kept_by, rejected_by, is_directory: true })
    );
    let told = case.links().len() + decision.rejected.len();
    assert_eq!(told, case.facts.links.len(), "a name is neither kept nor rejected");
}

/// An inode that was made again has one link because nothing says more: all names count that nothing contradicts.
#[test]
fn an_inode_that_was_made_up_has_as_many_names_as_are_known() {
    let mut case = Case::new();
    case.file(200);
    case.directory(300, ROOT);
    case.both(ROOT, "directory", 300);
    case.entry(ROOT, "entry", 200, FileType::Regular);
    case.pointer(300, "entry", 200);
    for (name, lsn) in [("one", 1), ("two", 2)] {
        let of_block = Link { directory: number(300), name: named(name), inode: number(200) };
        case.facts.links.add_missing([of_block.clone()].into_iter());
        let stray = Stray { file_type: Some(FileType::Regular), lsn: uxfs_format::units::Lsn::new(lsn) };
        case.facts.strays.insert(of_block, stray);
    }
    assert_eq!(case.links(), [link(ROOT, "directory", 300), link(ROOT, "entry", 200)]);
    case.facts.uncounted.insert(number(200));
    assert_eq!(
        case.links(),
        [
            link(ROOT, "directory", 300),
            link(ROOT, "entry", 200),
            link(300, "entry", 200),
            link(300, "one", 200),
            link(300, "two", 200)
        ]
    );
}

/// Of a directory in an inode with a wrong checksum, the names that parent pointers say are believed; of such a file, those of entries.
#[test]
fn what_an_inode_with_a_wrong_checksum_says_is_believed_last() {
    let mut case = Case::new();
    case.file(200);
    case.directory(300, ROOT);
    case.both(ROOT, "directory", 300);
    case.entry(300, "wrong", 200, FileType::Regular);
    case.pointer(300, "right", 200);
    assert_eq!(case.links()[1..], [link(300, "wrong", 200)], "the entry, where nothing else tells");
    case.facts.unproved.insert(number(300));
    assert_eq!(case.links()[1..], [link(300, "right", 200)]);
    // The other half lies in it: its link count is no witness either.
    case.facts.unproved = BTreeSet::from([number(200)]);
    case.facts.inodes.get_mut(&number(200)).unwrap().link_count = 7;
    assert_eq!(case.links()[1..], [link(300, "wrong", 200)]);
    // Halves that have nothing in common.
    let mut case = Case::new();
    case.file(200);
    case.directory(300, ROOT);
    case.both(ROOT, "directory", 300);
    case.both(ROOT, "file", 200);
    case.entry(300, "wrong", 200, FileType::Regular);
    assert_eq!(case.links().len(), 3, "a name that nothing contradicts stays");
    case.facts.unproved.insert(number(300));
    assert_eq!(case.links(), [link(ROOT, "directory", 300), link(ROOT, "file", 200)]);
}

/// Few names, directories and files, so that they meet: entries, parent pointers of any generation, wrong types and link counts.
fn random_case(random: &mut Random) -> Case {
    let mut case = Case::new();
    case.facts.has_parent_pointers = random.below(3) > 0;
    for directory in 300..303 {
        match random.below(4) {
            0 => _ = case.facts.places.insert(number(directory)),
            _ => case.directory(directory, ROOT),
        }
    }
    for file in 200..208 {
        case.file(file);
        let fact = case.facts.inodes.get_mut(&number(file)).unwrap();
        fact.link_count = random.below(4) as u32;
        fact.is_internal = random.below(10) == 0;
        let sets = [&mut case.facts.unproved, &mut case.facts.uncounted, &mut case.facts.partial];
        sets.into_iter().filter(|_| random.below(10) == 0).for_each(|set| _ = set.insert(number(file)));
    }
    for _ in 0..random.below(16) {
        let directory = [ROOT, 300, 301, 302, 200][random.below(5) as usize];
        let inode = [200, 201, 202, 203, 204, 205, 206, 300, 301, 302, 999][random.below(11) as usize];
        let name = ["a", "b", "c", "d", "."][random.below(5) as usize];
        match random.below(4) {
            0 => case.entry(directory, name, inode, FileType::Regular),
            1 => case.pointer(directory, name, inode),
            2 => case.witnesses(directory, name, inode).pointer_generation = Some(7),
            _ => case.both(directory, name, inode),
        }
    }
    case
}

#[test]
fn what_is_undisputed_changes_no_decision() {
    let mut undisputed = 0;
    for seed in 0..6000 {
        let case = random_case(&mut Random::new(seed));
        let decision = Decision::of(&case.facts);
        let mut decider = Decider { facts: &case.facts, decision: Decision::default() };
        decider.find_lost_directories();
        let all_disputed = decider.decide();
        assert_eq!(case.links_of(&decision), case.links_of(&all_disputed), "seed {seed}");
        assert_eq!(decision.directories, all_disputed.directories, "seed {seed}");
        assert_eq!(decision.rejected, all_disputed.rejected, "seed {seed}");
        assert_eq!((&decision.lost, &decision.unlinked), (&all_disputed.lost, &all_disputed.unlinked));
        undisputed += all_disputed.links.len() - decision.links.len();
    }
    assert!(undisputed > 1000, "{undisputed} links were undisputed");
}
