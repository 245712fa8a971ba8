//! Which fields of which structures are damaged how: a list of cases that depends on image, number and seed alone.

use std::collections::BTreeMap;

use anyhow::{Context, Result};
use uxfs_block::device::BlockDevice;
use uxfs_format::{
    describe::{
        Place, describe,
        leaves::{Leaf, leaves},
        value::read_bits,
    },
    fault::Structure,
    field_table::{FieldFormat, OnDisk},
    geometry::Geometry,
    inode::{FileType, InodeCore},
};

use super::{transform::Transform, witness};
use uxfs_testkit::{
    seeds::Random,
    structures::{self, Instance},
};

/// One damaged field.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Case {
    /// Index of the structure in [`Plan::instances`].
    pub instance: u32,
    /// Index of the field among the structure's leaves.
    pub leaf: u32,
    /// How.
    pub transform: Transform,
    /// Of its random numbers.
    pub seed: u64,
}

/// Every structure of the image with its fields.
#[derive(Debug)]
pub struct Plan {
    /// Sizes of the image.
    pub geometry: Geometry,
    /// The structures.
    pub instances: Vec<Instance>,
    /// Fields in total.
    pub field_count: u64,
    /// Every field by kind of structure and name without indices.
    kinds: BTreeMap<(&'static str, String), Vec<(u32, u32)>>,
    /// How fields are damaged.
    transforms: Vec<Transform>,
}

impl Plan {
    /// Looks at every structure of a sound image.
    ///
    /// # Errors
    /// The image cannot be walked.
    pub fn new(device: &dyn BlockDevice) -> Result<Self> {
        Self::by_kind(device, Transform::ALL.to_vec(), |_, _| "")
    }

    /// As [`new`](Self::new), with fields of inodes of each file type as kinds of their own, and with flags one by one.
    ///
    /// # Errors
    /// As there.
    pub fn by_file_type(device: &dyn BlockDevice) -> Result<Self> {
        Self::by_kind(device, Transform::with_flags().collect(), file_type_of)
    }

    fn by_kind(
        device: &dyn BlockDevice,
        transforms: Vec<Transform>,
        prefix: impl Fn(&Instance, &[u8]) -> &'static str,
    ) -> Result<Self> {
        let (geometry, instances) = structures::list(device)?;
        let mut kinds: BTreeMap<_, Vec<_>> = BTreeMap::new();
        let mut field_count = 0;
        for (instance_index, instance) in (0u32..).zip(&instances) {
            let bytes = instance.read(device)?;
            for (leaf_index, leaf) in (0u32..).zip(fields(instance.structure, &bytes, &geometry)) {
                let name = format!("{}{}", prefix(instance, &bytes), without_indices(&leaf.name));
                let kind = (instance.structure.name(), name);
                kinds.entry(kind).or_default().push((instance_index, leaf_index));
                field_count += 1;
            }
        }
        Ok(Self { geometry, instances, field_count, kinds, transforms })
    }

    /// Leaves out fields whose structure and name do not hold `word`.
    pub fn keep(&mut self, word: &str) {
        self.kinds.retain(|(structure, field), _| format!("{structure}.{field}").contains(word));
    }

    /// Different fields of different kinds of structure.
    pub fn kind_count(&self) -> usize {
        self.kinds.len()
    }

    /// `count` cases. Round by round, each kind of field is damaged in every way, each time in another structure, so
    /// that rare kinds are not drowned by the many inodes and records.
    pub fn cases(&self, count: usize, seed: u64) -> Vec<Case> {
        let mut random = Random::new(seed);
        let mut cases = Vec::with_capacity(count);
        while cases.len() < count && !self.kinds.is_empty() {
            for places in self.kinds.values() {
                for &transform in &self.transforms {
                    let (instance, leaf) = places[random.below(places.len() as u64) as usize];
                    cases.push(Case { instance, leaf, transform, seed: random.next_u64() });
                }
            }
        }
        // So that a short run is not all of one kind of structure.
        for index in (1..cases.len()).rev() {
            cases.swap(index, random.below(index as u64 + 1) as usize);
        }
        cases.truncate(count);
        cases
    }

    /// Like [`damage`](Self::damage) for a case from anywhere: any field number names some field.
    ///
    /// # Errors
    /// The device fails, or there is no such structure.
    pub fn damage_any(&self, device: &dyn BlockDevice, case: &Case) -> Result<Damage<'_>> {
        let instance = self.instances.get(case.instance as usize).context("no such structure")?;
        let count = fields(instance.structure, &instance.read(device)?, &self.geometry).len() as u32;
        let leaf = case.leaf.checked_rem(count).context("a structure without fields")?;
        self.damage(device, &Case { leaf, ..*case })
    }

    /// The damaged structure of a case: its bytes, sealed again, and the field.
    ///
    /// # Errors
    /// The device fails.
    pub fn damage(&self, device: &dyn BlockDevice, case: &Case) -> Result<Damage<'_>> {
        let instance = &self.instances[case.instance as usize];
        let mut bytes = instance.read(device)?;
        let sound = bytes.clone();
        let mut all = fields(instance.structure, &bytes, &self.geometry);
        let is_checksum = |leaf: &Leaf| leaf.place.format == FieldFormat::Checksum.into();
        let checksum = all.iter().find(|leaf| is_checksum(leaf)).map(|leaf| leaf.place);
        let field = all.swap_remove(case.leaf as usize);
        case.transform.apply(&mut bytes, &field.place, &mut Random::new(case.seed));
        if let Some(place) = checksum.filter(|_| !is_checksum(&field)) {
            super::transform::seal(&mut bytes, &place);
        }
        let is_changed = bytes != sound;
        let kind = format!("{}{}", file_type_of(instance, &sound), without_indices(&field.name));
        let Place { bit_offset, bit_length, .. } = field.place;
        let change = [&sound, &bytes].map(|bytes| read_bits(bytes, bit_offset, bit_length).unwrap_or(0));
        let missing_witness = witness::missing_of_change(instance.structure, &kind, &self.geometry, change);
        Ok(Damage { instance, field: field.name, bytes, is_changed, missing_witness })
    }
}

/// A damaged structure.
#[derive(Debug)]
pub struct Damage<'a> {
    /// Which.
    pub instance: &'a Instance,
    /// Name of the field.
    pub field: String,
    /// Its bytes.
    pub bytes: Vec<u8>,
    /// Whether the damage changed anything.
    pub is_changed: bool,
    /// Why the value of the field is lost with it, if it is.
    pub missing_witness: Option<&'static str>,
}

fn fields(structure: Structure, bytes: &[u8], geometry: &Geometry) -> Vec<Leaf> {
    leaves(&describe(structure, bytes, geometry))
}

/// Of inodes.
fn file_type_of(instance: &Instance, bytes: &[u8]) -> &'static str {
    let core = InodeCore::prefix_of(bytes).filter(|_| instance.structure == Structure::Inode);
    match core.map(|core| (core.is_free(), core.file_type())) {
        None => "",
        Some((true, _)) => "free ",
        Some((false, Some(FileType::Regular))) => "regular ",
        Some((false, Some(FileType::Directory))) => "directory ",
        Some((false, Some(FileType::SymbolicLink))) => "symlink ",
        Some((false, _)) => "special ",
    }
}

/// `recs[3].startblock` as `recs[].startblock`.
pub fn without_indices(name: &str) -> String {
    let mut kept = String::with_capacity(name.len());
    let mut is_inside = false;
    for letter in name.chars() {
        is_inside = if letter == ']' { false } else { is_inside };
        if !is_inside {
            kept.push(letter);
        }
        is_inside |= letter == '[';
    }
    kept
}
