//! Random operations on a few thousand names, so that most names exist, change, move and go again and again.
//!
//! | module | holds |
//! |---|---|
//! | [`kernel`] | the side that asks the kernel, on a mount |
//! | [`editor`] | the side that asks the library |

pub mod editor;
pub mod kernel;

use anyhow::Result;
use uxfs_testkit::seeds::Random;

/// Directories below the root.
const DIRECTORIES: u64 = 48;
/// Names in each of them, before they get a second and third length.
const NAMES: u64 = 160;
/// Bytes of the longest attribute value; most are short.
const MOST_VALUE_BYTES: u64 = 9000;

/// Carries operations out. An error refuses the operation: names may be there, or not, or there may be no space.
pub trait Side {
    fn directory(&mut self, path: &str) -> Result<()>;
    fn write(&mut self, path: &str, contents: &[u8]) -> Result<()>;
    fn write_at(&mut self, path: &str, offset_bytes: u64, contents: &[u8]) -> Result<()>;
    fn truncate(&mut self, path: &str, size_bytes: u64) -> Result<()>;
    fn rename(&mut self, from: &str, to: &str) -> Result<()>;
    fn link(&mut self, from: &str, to: &str) -> Result<()>;
    fn symlink(&mut self, target: &str, path: &str) -> Result<()>;
    fn remove(&mut self, path: &str) -> Result<()>;
    fn remove_directory(&mut self, path: &str) -> Result<()>;
    fn set_attribute(&mut self, path: &str, name: &str, value: &[u8]) -> Result<()>;
    fn remove_attribute(&mut self, path: &str, name: &str) -> Result<()>;
}

/// Counts of operations.
#[derive(Debug, Clone, Copy, Default)]
pub struct Tally {
    pub done: u64,
    pub refused: u64,
}

impl Tally {
    pub fn add(&mut self, other: &Self) {
        self.done += other.done;
        self.refused += other.refused;
    }
}

/// Runs so many operations.
pub fn age(side: &mut impl Side, random: &mut Random, operations: u64) -> Result<Tally> {
    let mut contents = vec![0; 1 << 20];
    random.fill(&mut contents);
    let mut tally = Tally::default();
    for directory in 0..DIRECTORIES {
        // They may be there from before.
        let _ = side.directory(&format!("d{directory}"));
    }
    for _ in 0..operations {
        match step(side, random, &contents) {
            Ok(()) => tally.done += 1,
            Err(_) => tally.refused += 1,
        }
    }
    Ok(tally)
}

/// Names of three lengths; the long ones make directories of several blocks.
fn path(random: &mut Random) -> String {
    let (directory, name) = (random.below(DIRECTORIES), random.below(NAMES));
    match random.below(8) {
        0 => format!("d{directory}/{name:0>200}"),
        1..=3 => format!("d{directory}/a-name-of-some-length-{name}"),
        _ => format!("d{directory}/n{name}"),
    }
}

fn size(random: &mut Random) -> usize {
    let most = match random.below(20) {
        0 => 1 << 19,
        1..=4 => 1 << 15,
        5..=8 => 1,
        _ => 1 << 12,
    };
    random.below(most) as usize
}

fn step(side: &mut impl Side, random: &mut Random, contents: &[u8]) -> Result<()> {
    let at = path(random);
    let bytes = &contents[..size(random)];
    match random.below(100) {
        0..=31 => side.write(&at, bytes),
        32..=41 => side.write_at(&at, random.below(1 << 22), bytes),
        42..=46 => side.truncate(&at, random.below(1 << 18)),
        47..=59 => side.rename(&at, &path(random)),
        60..=67 => side.link(&at, &path(random)),
        68..=71 => side.symlink(&"t".repeat(1 + random.below(1000) as usize), &at),
        72..=84 => side.remove(&at),
        85..=86 => side.directory(&at),
        87 => side.remove_directory(&at),
        88..=96 => {
            let most = if random.below(10) == 0 { MOST_VALUE_BYTES } else { 200 };
            let value = &contents[..random.below(most) as usize];
            side.set_attribute(&at, &format!("user.{}", random.below(40)), value)
        }
        _ => side.remove_attribute(&at, &format!("user.{}", random.below(40))),
    }
}
