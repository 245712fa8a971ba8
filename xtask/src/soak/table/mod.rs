//! The laboratories, and a slice of the work of each.
//!
//! | module | holds |
//! |---|---|
//! | `images` | those that work on images |
//! | `mounts` | those that work on mounts through FUSE |

mod images;
mod mounts;

use uxfs_testkit::{judges::Judge, seeds::Random};

use super::{needs::Need, schedule::Cost};

/// A form of a laboratory.
pub struct Laboratory {
    /// The subcommand, and after a slash its form.
    pub name: &'static str,
    pub about: &'static str,
    pub needs: &'static [Need],
    /// On two cores.
    pub cost: Cost,
    /// The arguments of a round, with spaces between.
    pub arguments: fn(&Slice) -> String,
}

impl Laboratory {
    /// The subcommand.
    pub fn family(&self) -> &'static str {
        self.name.split('/').next().unwrap_or(self.name)
    }
}

/// What a round is made of.
#[derive(Debug, Clone, Copy)]
pub struct Slice {
    pub seed: u64,
    /// The part of the usual work.
    pub scale: f64,
}

impl Slice {
    /// A folder in memory for its images. They stay there where they show a finding.
    pub fn folder(&self) -> String {
        format!("{WORK}/{}", self.seed)
    }

    /// So many where the scale is 1.
    fn of(&self, usual: u64) -> u64 {
        ((usual as f64 * self.scale).round() as u64).max(1)
    }

    /// One of them, which the seed chooses.
    fn one<'n>(&self, names: impl IntoIterator<Item = &'n str>) -> &'n str {
        self.some(1, names).pop().unwrap_or_default()
    }

    /// Some of them, which the seed chooses.
    fn some<'n>(&self, count: u64, names: impl IntoIterator<Item = &'n str>) -> Vec<&'n str> {
        let mut random = Random::new(self.seed);
        let mut left: Vec<&str> = names.into_iter().collect();
        let take = |_| (!left.is_empty()).then(|| left.swap_remove(random.index(left.len())));
        (0..count).map_while(take).collect()
    }
}

/// All laboratories, in the order of a turn.
pub fn all() -> impl Iterator<Item = &'static Laboratory> {
    images::ALL.iter().chain(mounts::ALL)
}

/// The product that rounds run, with optimisation and all checks.
pub const UXFS: &str = "target/soak/programs/uxfs";
/// For images that show a finding.
pub const KEPT: &str = "target/soak/kept";
/// For images while rounds run, in memory.
pub const WORK: &str = "/dev/shm/uxfs-soak";

const MKFS: Need = Need::Judge(Judge::Mkfs);
const XFS_REPAIR: Need = Need::Judge(Judge::XfsRepair);
const KERNEL: Need = Need::Judge(Judge::Kernel);

const fn laboratory(
    name: &'static str,
    about: &'static str,
    needs: &'static [Need],
    (preparation, work): (f64, f64),
    arguments: fn(&Slice) -> String,
) -> Laboratory {
    Laboratory { name, about, needs, cost: Cost { preparation, work }, arguments }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use clap::{CommandFactory, Parser};

    use super::*;
    use crate::mount_load::LOADS;

    /// Commands that are no laboratories.
    const OTHERS: [&str; 9] =
        ["test", "tidy", "judges", "golden-images", "diff-walk", "bench", "soak", "manual", "dist"];

    #[test]
    fn every_command_is_a_laboratory_or_known_to_be_none() {
        let families: BTreeSet<&str> = all().map(Laboratory::family).collect();
        let command = crate::Arguments::command();
        let commands: BTreeSet<&str> = command
            .get_subcommands()
            .map(clap::Command::get_name)
            .filter(|name| !OTHERS.contains(name))
            .collect();
        assert_eq!(families, commands);
    }

    #[test]
    fn every_load_has_a_line() {
        for load in LOADS {
            let name = format!("mount-load/{}", load.name);
            assert!(all().any(|laboratory| laboratory.name == name), "{name}");
        }
    }

    #[test]
    fn names_differ() {
        let names: BTreeSet<&str> = all().map(|laboratory| laboratory.name).collect();
        assert_eq!(names.len(), all().count());
    }

    #[test]
    fn the_commands_take_the_arguments() {
        for laboratory in all() {
            for (seed, scale) in (0..100).zip([0.1, 1.0].into_iter().cycle()) {
                let words = (laboratory.arguments)(&Slice { seed, scale });
                assert!(words.starts_with(laboratory.family()), "{words}");
                let parsed =
                    crate::Arguments::try_parse_from(["xtask"].into_iter().chain(words.split_whitespace()));
                assert!(parsed.is_ok(), "{words}: {parsed:?}");
            }
        }
    }

    #[test]
    fn a_seed_decides_the_slice() {
        for laboratory in all() {
            let words = |seed, scale| (laboratory.arguments)(&Slice { seed, scale });
            assert_eq!(words(5, 1.0), words(5, 1.0));
            let differ: BTreeSet<String> = (0..50).map(|seed| words(seed, 1.0)).collect();
            assert!(differ.len() > 1, "{}", laboratory.name);
        }
    }
}
