//! Changes of the source's metadata on the way into the image.

use uxfs_source::{
    entry::{Kind, Metadata},
    error::SourceError,
    labels::Labels,
    manifest::Overlay,
    owner_map::OwnerMap,
};

/// Changes of metadata on the way into the image, in this order: owners are mapped, then files get what a manifest says
/// of their paths, then their SELinux labels.
#[derive(Debug, Default)]
pub struct Adjustments {
    /// Owners.
    pub owners: OwnerMap,
    /// Owners, modes, times and attributes by path.
    pub overlay: Option<Overlay>,
    /// Labels by path.
    pub labels: Option<Labels>,
}

impl Adjustments {
    /// Changes the metadata of the file `name` in the directory `parents`; both are empty for the root.
    ///
    /// # Errors
    /// Expressions for labels that take too much memory; temporary files.
    pub fn apply(
        &mut self,
        parents: &[u8],
        name: &[u8],
        kind: &Kind,
        metadata: &mut Metadata,
    ) -> Result<(), SourceError> {
        if !self.owners.is_empty() {
            self.owners.apply(metadata);
        }
        if self.overlay.is_none() && self.labels.is_none() {
            return Ok(());
        }
        let separator: &[u8] = if parents.is_empty() || name.is_empty() { b"" } else { b"/" };
        let path = [parents, separator, name].concat();
        if let Some(overlay) = &mut self.overlay {
            overlay.apply(&path, kind, metadata)?;
        }
        match &self.labels {
            Some(labels) => labels.apply(&path, kind, metadata),
            None => Ok(()),
        }
    }
}
