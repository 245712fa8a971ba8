//! What is compared.

use super::field::Fields;
use crate::glob::pattern::Pattern;

/// What is compared.
#[derive(Debug)]
pub(super) struct Choice {
    pub fields: Fields,
    /// What directories hold that only one side has is told file by file.
    pub goes_into_single: bool,
    /// Names that are passed over.
    pub names: Vec<Pattern>,
    /// Paths that are passed over.
    pub paths: Vec<Pattern>,
}

impl Choice {
    /// Whether a file is passed over, with all that it holds.
    pub fn excludes(&self, directory: &[u8], name: &[u8]) -> bool {
        if self.names.iter().any(|pattern| pattern.fits(name)) {
            return true;
        }
        if self.paths.is_empty() {
            return false;
        }
        let path = super::walk::path_of(directory, name);
        self.paths.iter().any(|pattern| pattern.fits(&path))
    }
}
