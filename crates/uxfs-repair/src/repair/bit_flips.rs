//! Structures with a few changed bits, which the checksum locates.
//!
//! The repair first restores the known fields: magic number, place, owner and uuid. Where the
//! checksum is right then, or is right with one or two other bits or the bits of one other byte flipped back, and the structure is sound,
//! these were the damage, and all the rest is as it was written. This comes before all other witnesses, since nothing is inferred.
//!
//! | changed beside what is known | another damage looks the same by chance |
//! |---|---|
//! | nothing | once in four thousand million times |
//! | one bit | once in 100,000 times in a block of 4 KiB |
//! | bits of one byte | once in 4,000 times in such a block, once in 30,000 in an inode |
//! | two bits | once in 500 times in an inode of 512 bytes; in larger structures see [`MOST_SURE_BITS`] |
//!
//! All of them must pass the verifier as well.

use std::{
    collections::{BTreeMap, BTreeSet, HashSet},
    hash::{DefaultHasher, Hash, Hasher},
};

use uxfs_format::{
    attribute::{MAX_VALUE_BYTES, remote::block_count},
    checksum::{
        self,
        changed_bits::{ChangedBits, flip},
    },
    fault::Structure,
    field_table::OnDisk,
    geometry::Geometry,
    inode::verify_inode,
    seal::checksum_offset_of,
    superblock::{Copy, Superblock},
    units::{InodeNumber, Sector},
    verify::{VerifyContext, verify},
};
use uxfs_volume::{error::Result, volume::Volume};

use super::{
    action::Action,
    block_fields::{Pieces, length_of},
    identity::{Field, kinds_of, of_file_block, of_group_structure, of_inode, of_superblock},
    log_copies::{DamagedBlock, is_in_one_piece},
    lsn,
    stage::Stage,
};
use crate::inode::gather::{put_inode, read_inode};

/// Two changed bits of a structure of so many bits are sure: one other damage in 128 looks the same. In a larger one they are sure where
/// the structure fails its verifier without them, which seldom heals by chance.
const MOST_SURE_BITS: usize = 8192;
/// In larger structures two or more pairs match any difference by chance. Unless the verifier excludes all but one, none is used.
const MOST_PAIRED_BITS: usize = 1 << 17;
/// Lookups of one repair: some ten seconds.
const MOST_LOOKUPS: u64 = 1 << 30;

/// Damage in which bits may have changed.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Suspects {
    /// Blocks and headers, and whose they are.
    pub blocks: Vec<(Sector, Structure, Option<InodeNumber>)>,
    pub inodes: BTreeSet<InodeNumber>,
}

impl Suspects {
    /// Takes a damaged structure in.
    pub fn add(&mut self, structure: Structure, sector: Option<Sector>, inode: Option<InodeNumber>) {
        match (structure, sector, inode) {
            (Structure::Inode, _, Some(inode)) => _ = self.inodes.insert(inode),
            (structure, Some(sector), inode) => self.blocks.push((sector, structure, inode)),
            _ => {}
        }
    }
}

/// How much the checksum must tell.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Asked {
    /// What is found was the damage.
    Proof,
    /// Another damage may look the same, and no other witness is left.
    Likelihood,
}

/// Bytes with all that is known put in.
struct Known {
    bytes: Vec<u8>,
    checksum_offset_bytes: u32,
    /// Fields that had other values, and all of them.
    wrong: usize,
    fields: usize,
}

impl Known {
    /// `None` where the checksum is right as it is: then it is another structure, or was made so.
    fn of(found: &[u8], structure: Structure, fields: &[Field]) -> Option<Self> {
        let checksum_offset_bytes = checksum_offset_of(structure)?;
        checksum::check(found, checksum_offset_bytes).err()?;
        let mut bytes = found.to_vec();
        let wrong = fields.iter().filter(|field| field.put(&mut bytes)).count();
        Some(Self { bytes, checksum_offset_bytes, wrong, fields: fields.len() })
    }

    /// Whether enough of what is known was there: only then it is worth while to look for changed bits.
    fn is_itself(&self) -> bool {
        self.wrong.saturating_mul(2) <= self.fields
    }

    fn with(&self, bits: &[usize]) -> Vec<u8> {
        let mut bytes = self.bytes.clone();
        bits.iter().for_each(|bit| flip(&mut bytes, *bit));
        bytes
    }

    fn sealed(&self) -> Vec<u8> {
        let mut bytes = self.bytes.clone();
        checksum::seal(&mut bytes, self.checksum_offset_bytes);
        bytes
    }
}

/// A structure as it was.
pub(super) struct Before {
    bytes: Vec<u8>,
    /// Fields that had wrong values.
    fields: usize,
    /// Other bits that had changed.
    bits: Vec<usize>,
    is_guess: bool,
}

impl Before {
    pub fn action(self, structure: Structure, inode: Option<InodeNumber>, sector: Option<Sector>) -> Action {
        let Self { fields, bits, is_guess, .. } = self;
        match (fields, bits.as_slice()) {
            (0, [bit]) => Action::BitFlippedBack { structure, inode, sector, bit: *bit },
            _ => Action::ProvedByChecksum { structure, inode, sector, fields, bits, is_guess },
        }
    }
}

/// Looks for changed bits; knows what it has looked at.
#[derive(Debug)]
pub(super) struct BitFlips {
    /// By the length of a structure and the place of its checksum.
    tables: BTreeMap<(usize, u32), Option<ChangedBits>>,
    /// Sums of what was looked at in vain.
    tried: HashSet<u64>,
    lookups_left: u64,
}

impl Default for BitFlips {
    fn default() -> Self {
        Self { tables: BTreeMap::new(), tried: HashSet::new(), lookups_left: MOST_LOOKUPS }
    }
}

impl BitFlips {
    /// Restores structures. Returns whether there were any.
    ///
    /// # Errors
    /// The device; temporary files.
    pub fn correct(
        &mut self,
        volume: &Volume,
        stage: &Stage,
        suspects: &Suspects,
        asked: Asked,
        actions: &mut Vec<Action>,
    ) -> Result<bool> {
        let before = actions.len();
        let geometry = stage.geometry();
        let mut pieces = Pieces::new(volume);
        for (first, structure, inode) in &suspects.blocks {
            // Blocks of a value are read together: any of them may be the damaged one.
            let blocks = match structure {
                Structure::AttributeRemoteValue => u64::from(block_count(geometry, MAX_VALUE_BYTES)),
                _ => 1,
            };
            for block in 0..blocks {
                let sectors = block.saturating_mul(geometry.sectors_per_block().into());
                let Some(sector) = first.checked_add(sectors) else { break };
                let suspect = (sector, *structure, *inode);
                if let Some((structure, found)) =
                    self.correct_block(volume, stage, &mut pieces, suspect, asked)?
                {
                    actions.push(found.action(structure, *inode, Some(sector)));
                }
            }
        }
        for inode in &suspects.inodes {
            if let Some(found) = self.correct_inode(stage, *inode, asked)? {
                actions.push(found.action(Structure::Inode, Some(*inode), None));
            }
        }
        Ok(actions.len() > before)
    }

    fn correct_block(
        &mut self,
        volume: &Volume,
        stage: &Stage,
        pieces: &mut Pieces<'_>,
        (sector, structure, inode): (Sector, Structure, Option<InodeNumber>),
        asked: Asked,
    ) -> Result<Option<(Structure, Before)>> {
        let geometry = stage.geometry();
        let block = inode.map(|inode| DamagedBlock { inode, sector, structure });
        let Some(length_bytes) = bytes_of(volume, geometry, structure, block.as_ref()) else {
            return Ok(None);
        };
        let mut bytes = vec![0; length_bytes];
        if stage.read_at(sector, &mut bytes).is_err() || !self.is_new(&bytes, sector.get(), asked) {
            return Ok(None);
        }
        let context = VerifyContext::new(geometry, sector);
        for (structure, fields) in all_that_is_known(geometry, pieces, sector, structure, block.as_ref()) {
            let Some(known) = Known::of(&bytes, structure, &fields) else { continue };
            let is_sound = |right: &[u8]| {
                verify(structure, right, &context).is_ok()
                    && lsn::is_possible(right, &bytes, volume.newest_lsn().get(), geometry)
            };
            if let Some(before) = self.search(&known, asked, &is_sound) {
                stage.write_at(sector, &before.bytes)?;
                return Ok(Some((structure, before)));
            }
        }
        Ok(None)
    }

    /// Puts an inode back; gives how.
    ///
    /// # Errors
    /// The device; temporary files.
    pub fn correct_inode(
        &mut self,
        stage: &Stage,
        number: InodeNumber,
        asked: Asked,
    ) -> Result<Option<Before>> {
        let (bytes, geometry) = (read_inode(stage, number)?, stage.geometry());
        let fields = of_inode(number, geometry);
        let Some(known) = Known::of(&bytes, Structure::Inode, &fields) else { return Ok(None) };
        if !self.is_new(&bytes, number.get(), asked) {
            return Ok(None);
        }
        let is_sound = |right: &[u8]| {
            verify_inode(right, number, geometry).is_ok() && lsn::is_possible(right, &bytes, None, geometry)
        };
        let found = self.search(&known, asked, &is_sound);
        if let Some(before) = &found {
            put_inode(stage, number, &before.bytes)?;
        }
        Ok(found)
    }

    /// Puts the first superblock back, of which only little is repeated by its copies: counters, and what Linux has changed in it alone.
    /// `geometry` is that of a sound copy. Returns whether that was possible.
    ///
    /// # Errors
    /// The device; temporary files.
    pub fn correct_superblock(&mut self, stage: &Stage, actions: &mut Vec<Action>) -> Result<bool> {
        let geometry = stage.geometry();
        let (sector, mut bytes) = (Sector::new(0), vec![0; geometry.sector_size_bytes as usize]);
        if stage.read_at(sector, &mut bytes).is_err() {
            return Ok(false);
        }
        let fields = of_superblock(geometry);
        let Some(known) = Known::of(&bytes, Structure::Superblock, &fields) else { return Ok(false) };
        let is_sound = |bytes: &[u8]| {
            Superblock::prefix_of(bytes).is_some_and(|superblock| {
                superblock.verify(bytes, Copy::Primary).is_ok()
                    && Geometry::new(superblock).has_fixed_fields_of(geometry)
            })
        };
        let is_new = self.is_new(&bytes, 0, Asked::Proof);
        let found = is_new.then(|| self.search(&known, Asked::Proof, &is_sound)).flatten();
        if let Some(before) = found {
            stage.write_at(sector, &before.bytes)?;
            actions.push(before.action(Structure::Superblock, None, Some(sector)));
            return Ok(true);
        }
        Ok(false)
    }

    /// Whether these bytes were not looked at yet, with the same in mind.
    fn is_new(&mut self, bytes: &[u8], place: u64, asked: Asked) -> bool {
        let mut hasher = DefaultHasher::new();
        (bytes, place, asked).hash(&mut hasher);
        self.tried.insert(hasher.finish())
    }

    /// The bytes with the right checksum. Of several pairs of bits none is taken.
    fn search(&mut self, known: &Known, asked: Asked, is_sound: &dyn Fn(&[u8]) -> bool) -> Option<Before> {
        let key = (known.bytes.len(), known.checksum_offset_bytes);
        let table = self.tables.entry(key).or_insert_with(|| ChangedBits::new(key.0, key.1)).as_ref()?;
        let difference = table.difference(&known.bytes)?;
        let with = |bits: Vec<usize>, is_guess: bool| {
            let bytes = known.with(&bits);
            is_sound(&bytes).then_some(Before { bytes, fields: known.wrong, bits, is_guess })
        };
        if difference == 0 {
            return with(Vec::new(), false);
        }
        if !known.is_itself() {
            return None;
        }
        if let Some(bit) = table.one(difference) {
            return with(vec![bit], false);
        }
        self.lookups_left = self.lookups_left.checked_sub((table.bit_count() as u64).saturating_mul(4))?;
        let of_one_byte = table.in_one_byte(difference).and_then(|bits| with(bits, false));
        if of_one_byte.is_some() {
            return of_one_byte;
        }
        let is_sure = table.bit_count() <= MOST_SURE_BITS || !is_sound(&known.sealed());
        if !is_sure && (asked == Asked::Proof || table.bit_count() > MOST_PAIRED_BITS) {
            return None;
        }
        let mut pairs = table.pairs(difference).into_iter().filter_map(|pair| with(pair.to_vec(), !is_sure));
        let first = pairs.next()?;
        pairs.next().is_none().then_some(first)
    }
}

/// Bytes of the structure that has one checksum; `None` where it has none, or does not lie in one piece.
fn bytes_of(
    volume: &Volume,
    geometry: &Geometry,
    structure: Structure,
    block: Option<&DamagedBlock>,
) -> Option<usize> {
    use Structure as S;
    if let Some(block) = block.filter(|_| !kinds_of(structure).is_empty()) {
        let length_bytes = length_of(volume, geometry, block);
        let is_whole = length_bytes <= geometry.block_size() || is_in_one_piece(volume, block, length_bytes);
        return is_whole.then_some(length_bytes);
    }
    match structure {
        S::FreeSpaceHeader | S::InodeHeader | S::FreeList => Some(geometry.sector_size_bytes as usize),
        structure => structure.is_group_btree().then(|| geometry.block_size()),
    }
}

/// What a structure may be, with what is known of each.
fn all_that_is_known(
    geometry: &Geometry,
    pieces: &mut Pieces<'_>,
    sector: Sector,
    structure: Structure,
    block: Option<&DamagedBlock>,
) -> Vec<(Structure, Vec<Field>)> {
    let Some(block) = block else {
        let fields = of_group_structure(structure, sector, geometry);
        return fields.map(|fields| (structure, fields)).into_iter().collect();
    };
    let mut all = Vec::new();
    for kind in kinds_of(structure) {
        let Some(fields) = of_file_block(*kind, (block.inode, sector), geometry) else { continue };
        // Which part of a target or a value it is others tell, which may be damaged themselves.
        if let Some(piece) = pieces.of(block, *kind).filter(|piece| piece.iter().any(Option::is_some)) {
            all.push((*kind, fields.into_iter().chain(piece.into_iter().flatten()).collect()));
        }
        all.push((*kind, fields.to_vec()));
    }
    all
}
