//! Superblock.

use super::{Content, Node, fields_of};
use crate::{
    features::{FeatureWords, Incompatible},
    field_table::OnDisk,
    superblock::Superblock,
};

/// Fields that exist only with a metadata directory tree, and those that exist only in zoned file systems.
const METADATA_DIRECTORY: [&str; 4] = ["metadirino", "rgcount", "rgextents", "rgblklog"];
const ZONED: [&str; 2] = ["rtstart", "rtreserved"];

pub(super) fn nodes(bytes: &[u8]) -> Vec<Node> {
    let words = Superblock::prefix_of(bytes).map(Superblock::feature_words);
    let has = |bit: Incompatible| words.is_some_and(|words: FeatureWords| words.incompatible.contains(bit));
    let mut nodes = fields_of::<Superblock>(bytes, 0);
    // Without their feature these bytes are filler: not printed, but there.
    for node in &mut nodes {
        let name: &str = &node.name;
        let absent = METADATA_DIRECTORY.contains(&name) && !has(Incompatible::METADATA_DIRECTORY)
            || ZONED.contains(&name) && !has(Incompatible::ZONED);
        if let (true, Content::Field(place)) = (absent, &mut node.content) {
            place.format = crate::field_table::FieldFormat::Padding.into();
        }
    }
    nodes
}
