//! The catalogue of damages: object type × change × how many, and damages of whole areas, groups and trees.
//!
//! The whole catalogue is that product. The short one, which is run where nothing else is said, has each change of one object,
//! and several objects of which each is changed in a way of its own.

use std::collections::BTreeSet;

use anyhow::{Context, Result};
use uxfs_testkit::structures::Owner;

use super::{
    damage::{Change, Damage, Scene},
    objects::{Object, TYPES},
    regions::{self, Region},
    survival::Tree,
};

const MEBIBYTE: u64 = 1 << 20;
/// Damages of several objects of a type; each is changed in a way of its own.
const COUNTS: [usize; 3] = [2, 20, 200];
/// Damages of all objects of these types at once.
const WHOLE_TYPES: [(&str, &[&str]); 10] = [
    ("superblock", &["superblock", "superblock-copy"]),
    ("superblock-copy", &["superblock-copy"]),
    ("agf", &["agf"]),
    ("agi", &["agi"]),
    ("agfl", &["agfl"]),
    ("bnobt-and-cntbt", &["bnobt-root", "bnobt", "cntbt-root", "cntbt"]),
    ("inobt", &["inobt-root", "inobt"]),
    ("inobt-and-finobt", &["inobt-root", "inobt", "finobt-root", "finobt"]),
    ("rmapbt", &["rmapbt-root", "rmapbt"]),
    ("refcountbt", &["refcountbt-root", "refcountbt"]),
];
const HEADERS: [&str; 5] = ["superblock", "superblock-copy", "agf", "agi", "agfl"];
const AREAS: [Area; 3] = [Area::First, Area::Last, Area::Group];
/// What destroys whatever it is done to.
const DESTROYING: [Change; 3] = [Change::Zero, Change::Random, Change::Ones];

/// A MiB of the device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Area {
    First,
    Last,
    /// The first of a group that is not group 0.
    Group,
}

impl Area {
    const fn name(self) -> &'static str {
        match self {
            Self::First => "first-mib",
            Self::Last => "last-mib",
            Self::Group => "group-first-mib",
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum What {
    /// So many objects of a type, each changed like this, or each in another way.
    Objects(&'static str, Option<Change>, usize),
    /// All objects of these types.
    Whole(&'static [&'static str], Change),
    /// All objects of this type.
    EveryOf(&'static str, Change),
    Area(Area, Change),
    /// All headers of a group that is not group 0.
    GroupHeaders,
    /// All headers and btrees of a group.
    GroupIndexes(Change),
    /// All metadata that lies in a group.
    GroupMetadata(Change),
    /// Every byte of a group that is not group 0.
    WholeGroup(Change),
    /// All headers of all groups, but for this many copies of the superblock.
    AllHeaders {
        spared: usize,
    },
    RootDirectory(Change),
    /// The directory below the root with the most directories below it.
    LargeDirectory(Change),
    /// The root and a third of all directories.
    ThirdOfDirectories(Change),
    /// So many blocks of any type.
    AnyBlocks(usize),
    /// Stretches of the device, whatever lies there.
    Region(Region),
}

/// One kind of damage.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Kind {
    /// Its name, as `--only` takes it.
    pub name: String,
    what: What,
}

/// The short catalogue.
pub fn short() -> Vec<Kind> {
    let mut all = Vec::new();
    let mut add = |name: String, what| all.push(Kind { name, what });
    for kind in TYPES {
        for change in Change::ALL {
            // The inodes of a cluster are structures, it is none.
            if (kind, change) != ("inode-cluster", Change::Field(None)) {
                add(format!("{kind}/{}/1", change.name()), What::Objects(kind, Some(change), 1));
            }
        }
        for count in COUNTS {
            add(format!("{kind}/mixed/{count}"), What::Objects(kind, None, count));
        }
    }
    for change in [Change::Zero, Change::Random] {
        add_large(change, &mut add);
    }
    add("headers/zero/one-group".into(), What::GroupHeaders);
    add("headers/zero/all-but-one-superblock".into(), What::AllHeaders { spared: 1 });
    add("headers/zero/all".into(), What::AllHeaders { spared: 0 });
    for count in [1].into_iter().chain(COUNTS) {
        add(format!("any-block/mixed/{count}"), What::AnyBlocks(count));
    }
    add_regions(&mut add);
    all
}

fn add_regions(add: &mut impl FnMut(String, What)) {
    regions::all().into_iter().for_each(|region| add(region.name(), What::Region(region)));
}

/// Damages of whole types, areas, groups and trees.
fn add_large(change: Change, add: &mut impl FnMut(String, What)) {
    let word = change.name();
    for (name, kinds) in WHOLE_TYPES {
        add(format!("{name}/{word}/all"), What::Whole(kinds, change));
    }
    for area in AREAS {
        add(format!("{}/{word}", area.name()), What::Area(area, change));
    }
    add(format!("root-directory-lost/{word}"), What::RootDirectory(change));
    add(format!("large-directory-lost/{word}"), What::LargeDirectory(change));
    add(format!("third-of-directories-lost/{word}"), What::ThirdOfDirectories(change));
    add(format!("headers-and-btrees/{word}/one-group"), What::GroupIndexes(change));
    add(format!("group-metadata/{word}/one-group"), What::GroupMetadata(change));
    add(format!("whole-group/{word}"), What::WholeGroup(change));
}

/// The whole product: all changes, each way to change a field for itself, with every number.
pub fn full() -> Vec<Kind> {
    let mut all = short();
    let mut names: BTreeSet<String> = all.iter().map(|kind| kind.name.clone()).collect();
    let mut add = |name: String, what| {
        if names.insert(name.clone()) {
            all.push(Kind { name, what });
        }
    };
    for kind in TYPES {
        for change in Change::every() {
            let is_field_of_cluster = kind == "inode-cluster" && matches!(change, Change::Field(_));
            for count in [1].into_iter().chain(COUNTS).filter(|_| !is_field_of_cluster) {
                add(format!("{kind}/{}/{count}", change.name()), What::Objects(kind, Some(change), count));
            }
        }
        for change in DESTROYING {
            add(format!("{kind}/{}/all", change.name()), What::EveryOf(kind, change));
        }
    }
    DESTROYING.into_iter().for_each(|change| add_large(change, &mut add));
    add_regions(&mut add);
    all
}

/// The few kinds of `--quick`.
pub fn quick() -> Vec<Kind> {
    const NAMES: [&str; 6] = [
        "superblock/zero/1",
        "inobt-root/zero/1",
        "root-inode/zero/1",
        "directory-inode/random/1",
        "directory-block/bit-flip/1",
        "any-block/mixed/20",
    ];
    short().into_iter().filter(|kind| NAMES.contains(&kind.name.as_str())).collect()
}

impl Kind {
    /// The seed of one case, which depends on nothing else.
    pub fn seed(&self, seed: u64, case: usize) -> u64 {
        let start = 0xcbf2_9ce4_8422_2325_u64 ^ seed;
        let hash = self.name.bytes().fold(start, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3).rotate_left(5)
        });
        hash.wrapping_add(case as u64)
    }

    /// Damages the scene. Gives a reason where this image has nothing to be damaged like this.
    pub fn damage(&self, damage: &mut Damage<'_>, scene: &Scene<'_>, truth: &Tree) -> Result<Option<String>> {
        let objects = scene.objects;
        match self.what {
            What::Objects(kind, change, count) => {
                let from = objects.of(kind);
                if let Some(reason) = too_few(kind, from.len(), count) {
                    return Ok(Some(reason));
                }
                if change == Some(Change::Older) && scene.older.is_none() {
                    return Ok(Some("there is no older version of this image".into()));
                }
                damage.objects(&from, count, change)?;
            }
            What::Whole(kinds, change) => {
                let from: Vec<_> = kinds.iter().flat_map(|kind| objects.of(kind)).collect();
                damage.objects(&from, from.len(), Some(change))?;
            }
            What::EveryOf(kind, change) => {
                let from = objects.of(kind);
                if from.is_empty() {
                    return Ok(too_few(kind, 0, 1));
                }
                damage.objects(&from, from.len(), Some(change))?;
            }
            What::Area(area, change) => area_damage(damage, scene, area, change),
            What::GroupHeaders | What::GroupIndexes(_) | What::GroupMetadata(_) | What::WholeGroup(_) => {
                self.damage_group(damage, scene)?;
            }
            What::AllHeaders { spared } => {
                let copies = objects.of("superblock-copy");
                let spared = damage.choose(&copies, spared);
                let from: Vec<_> = HEADERS
                    .iter()
                    .flat_map(|kind| objects.of(kind))
                    .filter(|object| !spared.contains(object))
                    .collect();
                damage.objects(&from, from.len(), Some(Change::Zero))?;
            }
            What::Region(region) => return region.damage(damage, scene),
            What::RootDirectory(change) => {
                let from = objects.of("root-inode");
                damage.objects(&from, 1, Some(change))?;
            }
            What::LargeDirectory(change) => {
                let inode = truth.largest_directory().context("no directory below the root")?;
                let object = objects.inode(inode).context("the largest directory has no inode")?;
                damage.objects(&[object], 1, Some(change))?;
            }
            What::ThirdOfDirectories(change) => {
                third_of_directories(damage, scene, change)?;
            }
            What::AnyBlocks(count) => {
                let from = objects.blocks();
                if let Some(reason) = too_few("block", from.len(), count) {
                    return Ok(Some(reason));
                }
                damage.objects(&from, count, None)?;
            }
        }
        Ok(damage.patches.is_empty().then(|| "no object can be changed like this".into()))
    }

    fn damage_group(&self, damage: &mut Damage<'_>, scene: &Scene<'_>) -> Result<()> {
        let objects = scene.objects;
        let (group, first) = (other_group(damage, scene), group_start_bytes(scene, 1));
        let is_of_group = |object: &&Object| object.owner == Owner::Group(group);
        match self.what {
            What::GroupIndexes(change) => {
                let from: Vec<_> = objects.all.iter().filter(is_of_group).collect();
                damage.objects(&from, from.len(), Some(change))
            }
            What::GroupMetadata(change) => {
                let (start, end) = (group_start_bytes(scene, group), group_start_bytes(scene, group + 1));
                let lies_there =
                    |object: &&Object| object.pieces.iter().all(|(offset, _)| (start..end).contains(offset));
                let from: Vec<_> = objects.blocks().into_iter().filter(lies_there).collect();
                damage.objects(&from, from.len(), Some(change))
            }
            What::WholeGroup(change) => {
                let start = group_start_bytes(scene, group);
                let length = first.min(scene.objects.geometry.data_size_bytes().saturating_sub(start));
                damage.area(start, length as usize, change);
                Ok(())
            }
            _ => {
                let headers = HEADERS.iter().flat_map(|kind| objects.of(kind));
                let from: Vec<_> = headers.filter(is_of_group).collect();
                damage.objects(&from, from.len(), Some(Change::Zero))
            }
        }
    }
}

/// Changes the inode of the root directory and those of a third of the other directories.
pub fn third_of_directories(damage: &mut Damage<'_>, scene: &Scene<'_>, change: Change) -> Result<usize> {
    let directories = scene.objects.of("directory-inode");
    let mut lost: Vec<&Object> = damage.choose(&directories, directories.len() / 3);
    lost.extend(scene.objects.of("root-inode"));
    damage.objects(&lost, lost.len(), Some(change))?;
    Ok(lost.len())
}

/// A count is only worth a case where there are more objects than the next smaller count takes.
fn too_few(kind: &str, there_are: usize, count: usize) -> Option<String> {
    let smaller = [0, 1].into_iter().chain(COUNTS).filter(|smaller| *smaller < count).max().unwrap_or(0);
    match there_are {
        0 => Some(format!("this image has no {kind}")),
        there_are if there_are <= smaller => Some(format!("this image has only {there_are} {kind}")),
        _ => None,
    }
}

fn other_group(damage: &mut Damage<'_>, scene: &Scene<'_>) -> u32 {
    let groups: Vec<u32> = (1..scene.objects.geometry.ag_count).collect();
    damage.choose(&groups, 1).first().copied().unwrap_or(0)
}

fn group_start_bytes(scene: &Scene<'_>, group: u32) -> u64 {
    let geometry = &scene.objects.geometry;
    u64::from(group) * u64::from(geometry.ag_blocks) * u64::from(geometry.block_size_bytes)
}

fn area_damage(damage: &mut Damage<'_>, scene: &Scene<'_>, area: Area, change: Change) {
    let geometry = &scene.objects.geometry;
    let size = geometry.data_size_bytes();
    let offset = match area {
        Area::First => 0,
        Area::Last => size.saturating_sub(MEBIBYTE),
        Area::Group => {
            let group = other_group(damage, scene);
            group_start_bytes(scene, group)
        }
    };
    damage.area(offset, MEBIBYTE.min(size - offset) as usize, change);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_different_and_seeds_too() {
        let all = full();
        let names: BTreeSet<_> = all.iter().map(|kind| &kind.name).collect();
        assert_eq!(names.len(), all.len());
        let seeds: BTreeSet<_> = all.iter().flat_map(|kind| (0..3).map(|case| kind.seed(1, case))).collect();
        assert_eq!(seeds.len(), all.len() * 3);
        assert_eq!(quick().len(), 6);
        assert!(short().iter().all(|kind| names.contains(&kind.name)));
    }

    #[test]
    fn the_whole_catalogue_has_every_change_with_every_number() {
        let names: BTreeSet<String> = full().into_iter().map(|kind| kind.name).collect();
        for kind in TYPES.iter().filter(|kind| **kind != "inode-cluster") {
            for change in
                ["zero", "ones", "random", "bit-flip", "swap", "older", "misdirected", "field-clear"]
            {
                for count in ["1", "2", "20", "200"] {
                    let name = format!("{kind}/{change}/{count}");
                    assert!(names.contains(&name), "{name}");
                }
            }
        }
        let ways = names.iter().filter(|name| name.starts_with("agf/field-") && name.ends_with("/1"));
        assert_eq!(ways.count(), 8);
    }

    #[test]
    fn counts_that_add_nothing_are_left_out() {
        assert!(too_few("x", 0, 1).is_some_and(|reason| reason.contains("no x")));
        assert!(too_few("x", 1, 1).is_none());
        assert!(too_few("x", 1, 2).is_some());
        assert!(too_few("x", 20, 200).is_some());
        assert!(too_few("x", 21, 200).is_none());
    }
}
