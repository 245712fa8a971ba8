//! What is done to an object, as bytes to be written over it.

use anyhow::Result;
use uxfs_block::device::BlockDevice;
use uxfs_format::{
    describe::{describe, leaves::leaves},
    fault::Structure,
    field_table::FieldFormat,
    geometry::Geometry,
};
use uxfs_lab::field_fuzz::transform::{Transform, seal};
use uxfs_testkit::seeds::Random;

use super::objects::{Object, Objects};

/// Changes of whole stretches are found by sectors.
const SECTOR_BYTES: usize = 512;

/// Bytes that are written to the image.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Patch {
    /// Where.
    pub offset_bytes: u64,
    /// What.
    pub bytes: Vec<u8>,
}

/// One change of an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Change {
    /// All bits 0.
    Zero,
    /// All bits 1.
    Ones,
    /// Random bytes.
    Random,
    /// One bit flipped, so that the checksum is wrong.
    BitFlip,
    /// Two objects of the same type exchanged.
    Swap,
    /// What lay there before the second round of changes.
    Older,
    /// The contents of another object: a write that went to the wrong place.
    Misdirected,
    /// One field changed, in this way or in any, and the checksum right.
    Field(Option<Transform>),
}

impl Change {
    /// All of them, with any change of a field.
    pub const ALL: [Self; 8] = [
        Self::Zero,
        Self::Ones,
        Self::Random,
        Self::BitFlip,
        Self::Swap,
        Self::Older,
        Self::Misdirected,
        Self::Field(None),
    ];

    /// All of them, with each change of a field for itself.
    pub fn every() -> impl Iterator<Item = Self> {
        let fields = Transform::ALL.into_iter().map(|transform| Self::Field(Some(transform)));
        Self::ALL.into_iter().filter(|change| *change != Self::Field(None)).chain(fields)
    }

    /// As names of damages have it.
    pub fn name(self) -> String {
        let word = match self {
            Self::Zero => "zero",
            Self::Ones => "ones",
            Self::Random => "random",
            Self::BitFlip => "bit-flip",
            Self::Swap => "swap",
            Self::Older => "older",
            Self::Misdirected => "misdirected",
            Self::Field(None) => "field",
            Self::Field(Some(transform)) => return format!("field-{}", transform.name()),
        };
        word.to_owned()
    }
}

/// The image that is damaged.
pub struct Scene<'a> {
    /// Its bytes.
    pub device: &'a dyn BlockDevice,
    /// The image before the second round of changes, where there is one.
    pub older: Option<&'a dyn BlockDevice>,
    /// Its objects.
    pub objects: &'a Objects,
}

/// A damage in the making.
pub struct Damage<'a> {
    scene: &'a Scene<'a>,
    random: Random,
    /// To be written, in order.
    pub patches: Vec<Patch>,
    /// In words, one for each object.
    pub words: Vec<String>,
}

impl<'a> Damage<'a> {
    pub fn new(scene: &'a Scene<'a>, seed: u64) -> Self {
        Self { scene, random: Random::new(seed), patches: Vec::new(), words: Vec::new() }
    }

    /// `count` different elements of `from`, or all.
    pub fn choose<T: Copy>(&mut self, from: &[T], count: usize) -> Vec<T> {
        choose(&mut self.random, from, count)
    }

    /// Changes up to `count` objects of `from`, each by this change, or each by any where there is none.
    pub fn objects(&mut self, from: &[&Object], count: usize, change: Option<Change>) -> Result<()> {
        // Some have no older version, or no other to be swapped with: then others are taken.
        let mut done = 0;
        for object in self.choose(from, from.len()) {
            if done == count {
                break;
            }
            let is_done = match change {
                Some(change) => self.change(object, from, change)?,
                None => self.any_change(object, from)?,
            };
            done += usize::from(is_done);
        }
        Ok(())
    }

    fn any_change(&mut self, object: &Object, alike: &[&Object]) -> Result<bool> {
        for change in self.choose(&Change::ALL, Change::ALL.len()) {
            if self.change(object, alike, change)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Changes one object; says whether that could be done.
    pub fn change(&mut self, object: &Object, alike: &[&Object], change: Change) -> Result<bool> {
        let sound = object.read(self.scene.device)?;
        let mut bytes = sound.clone();
        let mut with = String::new();
        match change {
            Change::Zero => bytes.fill(0),
            Change::Ones => bytes.fill(0xff),
            Change::Random => self.random.fill(&mut bytes),
            Change::BitFlip => {
                let bit = self.random.index(bytes.len() * 8);
                bytes[bit / 8] ^= 0x80 >> (bit % 8);
                with = format!(" {bit}");
            }
            Change::Swap => {
                let is_other = |other: &&&Object| {
                    other.kind == object.kind && other.length() == bytes.len() && **other != object
                };
                let others: Vec<&Object> = alike.iter().filter(is_other).copied().collect();
                let Some(other) = self.choose(&others, 1).first().copied() else { return Ok(false) };
                bytes = other.read(self.scene.device)?;
                self.write(other, &sound);
                with = format!(" with {}", place(other));
            }
            Change::Older => {
                let Some(older) = self.scene.older else { return Ok(false) };
                bytes = object.read(older)?;
            }
            Change::Misdirected => {
                let Some((words, other)) = self.bytes_of_another(object)? else { return Ok(false) };
                (with, bytes) = (words, other);
            }
            Change::Field(transform) => {
                let Some(structure) = object.structure else { return Ok(false) };
                let geometry = &self.scene.objects.geometry;
                with = change_field((structure, transform), &mut bytes, geometry, &mut self.random);
            }
        }
        if bytes == sound {
            return Ok(false);
        }
        self.write(object, &bytes);
        self.words.push(format!("{} {}{with}", place(object), change.name()));
        Ok(true)
    }

    /// Overwrites a stretch of the device.
    pub fn area(&mut self, offset_bytes: u64, length: usize, change: Change) {
        let mut bytes = vec![0; length];
        match change {
            Change::Random => self.random.fill(&mut bytes),
            Change::Ones => bytes.fill(0xff),
            _ => {}
        }
        self.patches.push(Patch { offset_bytes, bytes });
        self.words.push(format!("{length} bytes at {offset_bytes:#x} {}", change.name()));
    }

    /// A number below this one.
    pub fn below(&mut self, limit: u64) -> u64 {
        self.random.below(limit)
    }

    /// Fills it.
    pub fn random_bytes(&mut self, bytes: &mut [u8]) {
        self.random.fill(bytes);
    }

    /// Writes the sectors in which these bytes differ from those of the sound image.
    pub fn replace(&mut self, offset_bytes: u64, bytes: &[u8]) -> Result<()> {
        let mut sound = vec![0; bytes.len()];
        self.scene.device.read(offset_bytes, &mut sound)?;
        let sectors = || (0..bytes.len()).step_by(SECTOR_BYTES);
        let of = |start: usize| start..(start + SECTOR_BYTES).min(bytes.len());
        let mut run: Option<std::ops::Range<usize>> = None;
        let mut runs = Vec::new();
        for sector in sectors().map(of).filter(|sector| bytes[sector.clone()] != sound[sector.clone()]) {
            match &mut run {
                Some(run) if run.end == sector.start => run.end = sector.end,
                _ => runs.extend(run.replace(sector)),
            }
        }
        self.patches.extend(
            runs.into_iter().chain(run).map(|run| Patch {
                offset_bytes: offset_bytes + run.start as u64,
                bytes: bytes[run].to_vec(),
            }),
        );
        Ok(())
    }

    fn bytes_of_another(&mut self, object: &Object) -> Result<Option<(String, Vec<u8>)>> {
        let all = &self.scene.objects.all;
        let is_other = |other: &&Object| other.length() == object.length() && other.kind != object.kind;
        // Each type as often as the others, however many objects it has.
        let kinds: std::collections::BTreeSet<_> =
            all.iter().filter(is_other).map(|other| other.kind).collect();
        let kinds: Vec<_> = kinds.into_iter().collect();
        let Some(kind) = self.choose(&kinds, 1).first().copied() else { return Ok(None) };
        let of_kind: Vec<&Object> = all.iter().filter(is_other).filter(|other| other.kind == kind).collect();
        let Some(other) = self.choose(&of_kind, 1).first().copied() else { return Ok(None) };
        Ok(Some((format!(" from {}", place(other)), other.read(self.scene.device)?)))
    }

    fn write(&mut self, object: &Object, bytes: &[u8]) {
        let mut rest = bytes;
        for (offset_bytes, length) in &object.pieces {
            let (piece, after) = rest.split_at((*length as usize).min(rest.len()));
            self.patches.push(Patch { offset_bytes: *offset_bytes, bytes: piece.to_vec() });
            rest = after;
        }
    }
}

/// Changes one field in this way, or in one of eight, and makes the checksum right. Gives the field's name.
fn change_field(
    (structure, transform): (Structure, Option<Transform>),
    bytes: &mut [u8],
    geometry: &Geometry,
    random: &mut Random,
) -> String {
    let all = leaves(&describe(structure, bytes, geometry));
    let is_checksum = |format| format == FieldFormat::Checksum.into();
    let checksum = all.iter().find(|leaf| is_checksum(leaf.place.format)).map(|leaf| leaf.place);
    let fields: Vec<_> = all.iter().filter(|leaf| !is_checksum(leaf.place.format)).collect();
    // A change may give what was there.
    for _ in 0..100 {
        let Some(field) = fields.get(random.index(fields.len())) else { break };
        let transform = transform.unwrap_or_else(|| Transform::ALL[random.index(Transform::ALL.len())]);
        let before = bytes.to_vec();
        transform.apply(bytes, &field.place, random);
        if before != bytes {
            if let Some(place) = checksum {
                seal(bytes, &place);
            }
            return format!(" {} {}", field.name, transform.name());
        }
    }
    String::new()
}

fn place(object: &Object) -> String {
    let offset = object.pieces.first().map_or(0, |(offset, _)| *offset);
    format!("{} of {:?} at {offset:#x}", object.kind, object.owner)
}

/// `count` different elements of `from` in random order, or all where there are fewer.
pub fn choose<T: Copy>(random: &mut Random, from: &[T], count: usize) -> Vec<T> {
    let mut left = from.to_vec();
    let mut chosen = Vec::new();
    while chosen.len() < count && !left.is_empty() {
        chosen.push(left.swap_remove(random.index(left.len())));
    }
    chosen
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_gives_one_choice_of_different_elements() {
        let all: Vec<u32> = (0..100).collect();
        let chosen = choose(&mut Random::new(5), &all, 20);
        assert_eq!(chosen, choose(&mut Random::new(5), &all, 20));
        assert_ne!(chosen, choose(&mut Random::new(6), &all, 20));
        let different: std::collections::BTreeSet<_> = chosen.iter().collect();
        assert_eq!(different.len(), 20);
        assert_eq!(choose(&mut Random::new(5), &all, 1000).len(), 100);
        assert!(choose::<u32>(&mut Random::new(5), &[], 3).is_empty());
    }
}
