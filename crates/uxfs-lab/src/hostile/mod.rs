//! Hostile images: structures that lie, each with the right checksum. No lie may cost more than an error.
//!
//! | module | holds |
//! |---|---|
//! | here | an image in memory whose fields are set by name, and sealed again |
//! | [`lies`] | which lies are told |
//! | `long_map` | an extent map that is one lie from beginning to end |
//! | [`budget`] | what looking at such an image may cost |

pub mod budget;
pub mod lies;
mod long_map;

use anyhow::{Context, Result};
use uxfs_block::device::BlockDevice;
use uxfs_format::{
    describe::{
        describe,
        leaves::{Leaf, leaves},
        value::{read_bits, write_bits},
    },
    fault::Structure,
    geometry::Geometry,
    seal::seal,
};
use uxfs_testkit::structures::{self, Instance, Owner};

use crate::crash::image::{Image, ImageDevice};

/// An image that is made to lie.
#[derive(Debug)]
pub struct Liar {
    image: Image,
    /// Of the sound image.
    pub geometry: Geometry,
    instances: Vec<Instance>,
}

impl Liar {
    /// Looks at every structure of a sound image.
    ///
    /// # Errors
    /// The image cannot be walked.
    pub fn new(image: Image) -> Result<Self> {
        let (geometry, instances) = structures::list(&ImageDevice::read_only(image.clone()))?;
        Ok(Self { image, geometry, instances })
    }

    /// The same image before any lie.
    #[must_use]
    pub fn again(&self, image: &Image) -> Self {
        Self { image: image.clone(), geometry: self.geometry.clone(), instances: self.instances.clone() }
    }

    /// The image as it is now.
    pub fn image(&self) -> &Image {
        &self.image
    }

    /// All structures of a kind.
    pub fn all(&self, structure: Structure) -> Vec<Instance> {
        self.instances.iter().filter(|instance| instance.structure == structure).cloned().collect()
    }

    /// The first structure of a kind of which `is_wanted` holds.
    ///
    /// # Errors
    /// There is none.
    pub fn find(
        &self,
        structure: Structure,
        is_wanted: impl Fn(&Self, &Instance) -> bool,
    ) -> Result<Instance> {
        let found = self.all(structure).into_iter().find(|instance| is_wanted(self, instance));
        found.with_context(|| format!("no {} fits", structure.name()))
    }

    /// An inode.
    ///
    /// # Errors
    /// There is none of this number.
    pub fn inode(&self, number: u64) -> Result<Instance> {
        self.find(Structure::Inode, |_, instance| instance.owner == Owner::Inode(number))
    }

    /// Bytes of a structure.
    ///
    /// # Errors
    /// Outside the image.
    pub fn read(&self, instance: &Instance) -> Result<Vec<u8>> {
        instance.read(&ImageDevice::read_only(self.image.clone()))
    }

    /// Puts a structure in its place, sealed.
    ///
    /// # Errors
    /// Outside the image.
    pub fn put(&mut self, instance: &Instance, bytes: &mut [u8]) -> Result<()> {
        seal(bytes, None, &self.geometry).context("nothing that has a checksum")?;
        let mut rest = &*bytes;
        for (offset, length) in &instance.pieces {
            let (piece, after) = rest.split_at(*length as usize);
            self.image.write(*offset, piece)?;
            rest = after;
        }
        Ok(())
    }

    /// Puts a block anywhere, sealed.
    ///
    /// # Errors
    /// Outside the image.
    pub fn put_at(&mut self, offset_bytes: u64, bytes: &mut [u8]) -> Result<()> {
        seal(bytes, None, &self.geometry).context("nothing that has a checksum")?;
        Ok(self.image.write(offset_bytes, bytes)?)
    }

    fn fields(&self, instance: &Instance, bytes: &[u8]) -> Vec<Leaf> {
        leaves(&describe(instance.structure, bytes, &self.geometry))
    }

    /// A field; `None` where there is none of this name.
    pub fn get(&self, instance: &Instance, field: &str) -> Option<u64> {
        let bytes = self.read(instance).ok()?;
        let found = self.fields(instance, &bytes).into_iter().find(|leaf| leaf.name == field)?;
        read_bits(&bytes, found.place.bit_offset, found.place.bit_length)
    }

    /// Sets fields, and seals the structure again.
    ///
    /// # Errors
    /// A field is not there.
    pub fn set(&mut self, instance: &Instance, fields: &[(&str, u64)]) -> Result<()> {
        let mut bytes = self.read(instance)?;
        for (name, value) in fields {
            // An earlier field may decide where the next one lies, or whether it is there at all.
            let mut all = self.fields(instance, &bytes).into_iter();
            let found = all.find(|leaf| leaf.name == *name);
            let place = found.with_context(|| format!("{} has no {name}", instance.structure.name()))?.place;
            let is_set = write_bits(&mut bytes, place.bit_offset, place.bit_length, *value);
            anyhow::ensure!(is_set, "{name} cannot be set");
        }
        self.put(instance, &mut bytes)
    }

    /// Sets the same fields of all structures of a kind.
    ///
    /// # Errors
    /// As [`set`](Self::set).
    pub fn set_all(&mut self, structure: Structure, fields: &[(&str, u64)]) -> Result<()> {
        self.all(structure).iter().try_for_each(|instance| self.set(instance, fields))
    }

    /// Bytes of the device.
    pub fn size_bytes(&self) -> u64 {
        ImageDevice::read_only(self.image.clone()).size_bytes()
    }
}
