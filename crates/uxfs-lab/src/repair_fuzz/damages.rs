//! The damages of one case: fields with the checksum made right, and whole structures overwritten, exchanged or misdirected.
//!
//! A case is a list of bytes, 12 for each damage: the structure (4, big endian), the field (4), how (1), numbers (3). Byte 8 chooses a
//! change of a field below 192, and else one of the whole structure.

use std::{collections::BTreeSet, path::Path, sync::Arc};

use anyhow::Result;
use uxfs_block::device::BlockDevice;
use uxfs_format::fault::Structure;
use uxfs_testkit::{seeds::Random, structures::Instance};

use crate::{
    crash::image::Image,
    field_fuzz::{
        plan::{Case, Damage, Plan},
        sparse_device::{DamagedImage, SparseImage},
        transform::Transform,
    },
};

/// Bytes of one damage in a case.
pub const DAMAGE_BYTES: usize = 12;
/// Damages of one case.
pub const MOST_DAMAGES: usize = 64;
/// Values of byte 8 that name a field.
const FIELD_CHANGES: u8 = 192;

/// Which damages of fields a case has.
type Wanted<'w> = dyn Fn(&Damage<'_>) -> bool + 'w;
/// Structures that tell of blocks whether files have them, and which.
const SPACE: [Structure; 4] = [
    Structure::FreeSpaceHeader,
    Structure::FreeSpaceByBlock,
    Structure::FreeSpaceByLength,
    Structure::ReverseMap,
];

/// A sound image, and what can be damaged in it.
#[derive(Debug)]
pub struct Fixture {
    base: Arc<SparseImage>,
    plan: Plan,
}

/// A damaged image.
#[derive(Debug)]
pub struct Damaged {
    /// The image.
    pub image: DamagedImage,
    /// Each damage in words.
    pub damages: Vec<String>,
}

impl Fixture {
    /// Of an image file.
    ///
    /// # Errors
    /// It cannot be read, or is not sound.
    pub fn load(path: &Path) -> Result<Self> {
        Self::of(SparseImage::load(path)?)
    }

    /// Of an image in memory.
    ///
    /// # Errors
    /// It is not sound.
    pub fn of(base: Arc<SparseImage>) -> Result<Self> {
        let plan = Plan::new(&DamagedImage::sound(Arc::clone(&base)))?;
        Ok(Self { base, plan })
    }

    /// The image without damage.
    pub fn sound(&self) -> DamagedImage {
        DamagedImage::sound(Arc::clone(&self.base))
    }

    /// Kinds of structures that the image has.
    pub fn structures(&self) -> Vec<Structure> {
        let mut kinds = Vec::new();
        for instance in &self.plan.instances {
            if !kinds.contains(&instance.structure) {
                kinds.push(instance.structure);
            }
        }
        kinds
    }

    /// All sectors of so many random structures.
    pub fn sectors(&self, structures: usize, random: &mut Random) -> BTreeSet<u64> {
        (0..structures).flat_map(|_| self.sectors_of_one(random)).collect()
    }

    /// One sector of each of so many random structures.
    pub fn single_sectors(&self, structures: usize, random: &mut Random) -> BTreeSet<u64> {
        let one = |_| {
            let all = self.sectors_of_one(random);
            all.get(random.index(all.len())).copied()
        };
        (0..structures).filter_map(one).collect()
    }

    fn sectors_of_one(&self, random: &mut Random) -> Vec<u64> {
        let instance = &self.plan.instances[random.index(self.plan.instances.len())];
        let of_piece =
            |(offset, length): &(u64, u32)| offset / 512..(offset + u64::from(*length)).div_ceil(512);
        instance.pieces.iter().flat_map(of_piece).collect()
    }

    /// The image with all structures of these kinds overwritten by zeros.
    ///
    /// # Errors
    /// The image cannot be read.
    pub fn without(&self, structures: &[Structure]) -> Result<Damaged> {
        let mut damaged = Damaged { image: self.sound(), damages: Vec::new() };
        for instance in &self.plan.instances {
            if structures.contains(&instance.structure) {
                let length: u32 = instance.pieces.iter().map(|(_, length)| *length).sum();
                damaged.put(&instance.pieces, &vec![0; length as usize]);
                damaged.damages.push(format!("{:?} {:?}: zeros", instance.structure, instance.owner));
            }
        }
        Ok(damaged)
    }

    /// A random case of so many damages.
    pub fn case(&self, damages: usize, random: &mut Random) -> Vec<u8> {
        let mut bytes = vec![0; damages.min(MOST_DAMAGES) * DAMAGE_BYTES];
        random.fill(&mut bytes);
        bytes
    }

    /// The image with the damages of a case. Each is made in what the ones before have left.
    ///
    /// # Errors
    /// The image cannot be read.
    pub fn damaged(&self, case: &[u8]) -> Result<Damaged> {
        self.damaged_where(case, &|_| true)
    }

    /// As [`damaged`](Self::damaged), of fields only those that something else tells as well.
    ///
    /// # Errors
    /// The image cannot be read.
    pub fn damaged_with_witnesses(&self, case: &[u8]) -> Result<Damaged> {
        // Space that is damaged by the same case tells nothing of extents.
        let is_of_space = |damage: &[u8]| SPACE.contains(&self.instance(damage).1.structure);
        let is_space_damaged = case.chunks_exact(DAMAGE_BYTES).any(is_of_space);
        let has_reverse_map = self.plan.geometry.features.has_reverse_map();
        self.damaged_where(case, &|damage| {
            // Where a file ends within its extents is stored once.
            let is_stored_once = match damage.field.rsplit('.').next().unwrap_or_default() {
                "size" => damage.field == "core.size",
                "startoff" | "extentflag" => is_space_damaged || !has_reverse_map,
                "startblock" => is_space_damaged,
                _ => false,
            };
            damage.missing_witness.is_none() && !is_stored_once
        })
    }

    /// The structure of a damage, and its number.
    fn instance(&self, damage: &[u8]) -> (u32, &Instance) {
        let number = damage.iter().take(4).fold(0_u32, |word, byte| word << 8 | u32::from(*byte));
        let number = number % self.plan.instances.len() as u32;
        (number, &self.plan.instances[number as usize])
    }

    fn damaged_where(&self, case: &[u8], is_wanted: &Wanted<'_>) -> Result<Damaged> {
        let mut damaged = Damaged { image: self.sound(), damages: Vec::new() };
        for damage in case.chunks_exact(DAMAGE_BYTES).take(MOST_DAMAGES) {
            let word = |from: usize, to: usize| {
                damage[from..to].iter().fold(0_u32, |word, byte| word << 8 | u32::from(*byte))
            };
            let (leaf, how, seed) = (word(4, 8), damage[8], word(9, 12));
            let (instance, _) = self.instance(damage);
            if how < FIELD_CHANGES {
                self.damage_field(&mut damaged, instance, leaf, (how, seed), is_wanted);
            } else {
                self.damage_whole(&mut damaged, (instance, leaf), how - FIELD_CHANGES, seed)?;
            }
        }
        Ok(damaged)
    }

    fn damage_field(
        &self,
        damaged: &mut Damaged,
        instance: u32,
        leaf: u32,
        (how, seed): (u8, u32),
        is_wanted: &Wanted<'_>,
    ) {
        let transform = Transform::ALL[usize::from(how) % Transform::ALL.len()];
        let case = Case { instance, leaf, transform, seed: seed.into() };
        // A structure that an earlier damage has left without fields has none to change.
        let Ok(damage) = self.plan.damage_any(&damaged.image, &case) else { return };
        if !is_wanted(&damage) {
            return;
        }
        damaged.damages.push(format!(
            "{:?} {:?}: {} {}",
            damage.instance.structure,
            damage.instance.owner,
            damage.field,
            transform.name()
        ));
        damaged.put(&damage.instance.pieces, &damage.bytes);
    }

    fn damage_whole(
        &self,
        damaged: &mut Damaged,
        (instance, other): (u32, u32),
        how: u8,
        seed: u32,
    ) -> Result<()> {
        let instance = &self.plan.instances[instance as usize];
        let other = &self.plan.instances[other as usize % self.plan.instances.len()];
        let mut bytes = instance.read(&damaged.image)?;
        let mut random = Random::new(seed.into());
        let name = match how % 6 {
            0 => {
                bytes.fill(0);
                "zeros"
            }
            1 => {
                bytes.fill(0xff);
                "ones"
            }
            2 => {
                random.fill(&mut bytes);
                "random"
            }
            3 => {
                let at = random.index(bytes.len());
                bytes[at] ^= 1 << random.index(8);
                "one bit"
            }
            4 => {
                let mut source = other.read(&damaged.image)?;
                source.resize(bytes.len(), 0);
                bytes = source;
                "misdirected write"
            }
            _ => {
                let mut source = other.read(&damaged.image)?;
                if source.len() == bytes.len() {
                    std::mem::swap(&mut source, &mut bytes);
                    damaged.put(&other.pieces, &source);
                }
                "exchanged"
            }
        };
        damaged.damages.push(format!("{:?} {:?}: {name}", instance.structure, instance.owner));
        damaged.put(&instance.pieces, &bytes);
        Ok(())
    }
}

impl Damaged {
    fn put(&mut self, pieces: &[(u64, u32)], bytes: &[u8]) {
        self.image = self.image.clone().with(pieces, bytes);
    }

    /// As an image, from the one that is sound.
    pub fn image_from(&self, sound: &Image) -> Image {
        let mut image = sound.clone();
        for (offset, bytes) in self.image.patches() {
            // Structures lie within the image.
            let _ = image.write(*offset, bytes);
        }
        image
    }

    /// As a device.
    pub fn device(self) -> Arc<dyn BlockDevice> {
        Arc::new(self.image)
    }
}
