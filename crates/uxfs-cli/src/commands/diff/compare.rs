//! Two files of one name.

use uxfs_block::spill::map::Key;
use uxfs_volume::inode::FileType;

use super::{
    attributes::{self, Change},
    both::{Both, Side},
    contents,
    facts::Facts,
    field::{Field, Fields},
    links::LinkUse,
    tree::{File, Trees},
    walk::{Batch, Item, Pair, path_of},
};
use crate::failure::Failure;

/// How a name differs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// Only one side has it.
    Single(Side),
    /// It leads to files of different types.
    Type,
    /// Something differs in two files of one type, or nothing.
    Fields(Fields),
}

/// A name, and how it differs.
#[derive(Debug)]
pub(super) struct Difference {
    pub path: Vec<u8>,
    pub kind: Kind,
    pub facts: Both<Option<Facts>>,
    /// The files themselves, from which their text is read.
    pub files: Both<Option<File>>,
    pub targets: Both<Option<Vec<u8>>>,
    /// Attributes that differ: the first, and how many more.
    pub attributes: (Vec<(Vec<u8>, Change)>, u64),
    pub link: LinkUse,
}

/// What is told of a batch, in order.
#[derive(Debug)]
pub(super) enum Told {
    Difference(Box<Difference>),
    /// A further name of files that were compared under this key.
    Again(Key, Box<Difference>),
    Problem(Failure),
}

/// Compares all of a batch.
pub(super) fn compare(trees: Trees<'_>, wanted: Fields, batch: Batch) -> Vec<Told> {
    let mut told = Vec::new();
    for item in batch.items {
        match item {
            Item::Problem(failure) => told.push(Told::Problem(failure)),
            Item::Pair(pair) => compare_pair(trees, wanted, &batch.directory, *pair, &mut told),
        }
    }
    told
}

fn compare_pair(trees: Trees<'_>, wanted: Fields, directory: &[u8], pair: Pair, told: &mut Vec<Told>) {
    let Pair { name, files, link } = pair;
    let facts = Both::of(|side| files.at(side).as_ref().map(File::facts));
    let path = || path_of(directory, &name);
    let mut difference = Difference {
        path: Vec::new(),
        kind: Kind::Type,
        facts,
        files: Both::default(),
        targets: Both::default(),
        attributes: Default::default(),
        link,
    };
    let (both, facts) = match (&files, facts.first, facts.second) {
        (Both { first: Some(first), second: Some(second) }, Some(one), Some(two)) => {
            (Both { first, second }, Both { first: one, second: two })
        }
        (_, first, _) => {
            let side = if first.is_some() { Side::First } else { Side::Second };
            difference.kind = Kind::Single(side);
            difference.path = path();
            difference.files = files;
            return told.push(Told::Difference(Box::new(difference)));
        }
    };
    if facts.first.file_type != facts.second.file_type {
        difference.path = path();
        difference.files = files;
        return told.push(Told::Difference(Box::new(difference)));
    }
    if let LinkUse::Again(key) = link {
        difference.path = path();
        difference.files = files;
        return told.push(Told::Again(key, Box::new(difference)));
    }
    let mut work = Work { trees, wanted, files: both, facts, difference, problems: Vec::new() };
    let fields = work.fields();
    let Work { mut difference, problems, .. } = work;
    for (side, failure) in problems {
        told.push(Told::Problem(trees.at(side).failure(&path(), failure)));
    }
    if !fields.is_empty() {
        difference.kind = Kind::Fields(fields);
        difference.path = path();
        difference.files = files;
        told.push(Told::Difference(Box::new(difference)));
    }
}

/// Two files of one type.
struct Work<'w> {
    trees: Trees<'w>,
    wanted: Fields,
    files: Both<&'w File>,
    facts: Both<Facts>,
    difference: Difference,
    problems: Vec<(Side, Failure)>,
}

impl Work<'_> {
    /// The fields in which they differ.
    fn fields(&mut self) -> Fields {
        let unwanted = Fields::from_iter(Field::ALL).without(self.wanted);
        let mut fields = self.facts.differing().without(unwanted);
        if self.difference.link == LinkUse::Broken && self.wanted.has(Field::Links) {
            fields.add(Field::Links);
        }
        match self.facts.first.file_type {
            Some(FileType::SymbolicLink) => self.targets(&mut fields),
            Some(FileType::Regular) => self.contents(&mut fields),
            _ => {}
        }
        if self.wanted.has(Field::Xattr) || self.wanted.has(Field::Acl) {
            self.attributes(&mut fields);
        }
        fields
    }

    fn targets(&mut self, fields: &mut Fields) {
        if !self.wanted.has(Field::Target) {
            return;
        }
        let targets = Both::of(|side| match self.trees.at(side).target(self.files.at(side)) {
            Ok(target) => Some(target),
            Err(failure) => {
                self.problems.push((side, failure));
                None
            }
        });
        if targets.first.is_some() && targets.second.is_some() && targets.first != targets.second {
            fields.add(Field::Target);
            self.difference.targets = targets;
        }
    }

    fn contents(&mut self, fields: &mut Fields) {
        let (one, two) = (&self.facts.first, &self.facts.second);
        if !self.wanted.has(Field::Contents) || one.size_bytes != two.size_bytes || one.size_bytes == 0 {
            return;
        }
        let mut failed_side = Side::First;
        let opened = Both::try_of(|side| {
            failed_side = side;
            self.trees.at(side).contents(self.files.at(side))
        });
        let same = opened.map_err(|failure| (failed_side, failure));
        match same.and_then(|mut opened| contents::are_same(&mut opened)) {
            Ok(true) => {}
            Ok(false) => fields.add(Field::Contents),
            Err(problem) => self.problems.push(problem),
        }
    }

    fn attributes(&mut self, fields: &mut Fields) {
        match attributes::differing(self.trees, &self.files, self.wanted) {
            Ok(differing) => {
                *fields = fields.with(differing.fields);
                self.difference.attributes = (differing.told, differing.others);
            }
            Err(problem) => self.problems.push(problem),
        }
    }
}
