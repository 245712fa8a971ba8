//! Changes of the source's metadata on the way into the image.

use uxfs_source::{
    entry::{Kind, Metadata, Times, Timestamp},
    error::SourceError,
    labels::Labels,
    manifest::Overlay,
    owner_map::OwnerMap,
};

/// Times other than those of the source.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum TimeRule {
    /// Those of the source.
    #[default]
    Keep,
    /// Later ones become this one.
    Clamp(Timestamp),
    /// All become this one.
    All(Timestamp),
}

impl TimeRule {
    fn apply(self, times: &mut Times) {
        match self {
            Self::Keep => {}
            Self::Clamp(latest) => {
                let Times { access, modification, change, creation } = times;
                for time in [access, modification, change].into_iter().chain(creation) {
                    *time = (*time).min(latest);
                }
            }
            Self::All(time) => *times = Times::all(time),
        }
    }
}

/// Changes of metadata on the way into the image, in this order: owners are mapped, then files get what a manifest says
/// of their paths, then their times, then their SELinux labels.
#[derive(Debug, Default)]
pub struct Adjustments {
    /// Owners.
    pub owners: OwnerMap,
    /// Owners, modes, times and attributes by path.
    pub overlay: Option<Overlay>,
    /// Times.
    pub times: TimeRule,
    /// Labels by path.
    pub labels: Option<Labels>,
}

impl Adjustments {
    /// The metadata of a root directory of which the source says nothing, before it is changed as that of any file; `None` where
    /// it is to stay as mkfs makes it, at the time `now`.
    pub(crate) fn unnamed_root(&self, now: Timestamp) -> Option<Metadata> {
        let changes =
            matches!(self.times, TimeRule::All(_)) || self.overlay.is_some() || self.labels.is_some();
        changes.then(|| Metadata { mode: 0o755, times: Times::all(now), ..Metadata::default() })
    }

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
            self.times.apply(&mut metadata.times);
            return Ok(());
        }
        let separator: &[u8] = if parents.is_empty() || name.is_empty() { b"" } else { b"/" };
        let path = [parents, separator, name].concat();
        if let Some(overlay) = &mut self.overlay {
            overlay.apply(&path, kind, metadata)?;
        }
        self.times.apply(&mut metadata.times);
        match &self.labels {
            Some(labels) => labels.apply(&path, kind, metadata),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_by_rule() {
        let at = |seconds, nanoseconds| Timestamp { seconds, nanoseconds };
        let times =
            Times { access: at(5, 1), modification: at(9, 0), change: at(7, 1), creation: Some(at(-3, 0)) };
        let with = |rule: TimeRule| {
            let mut changed = times;
            rule.apply(&mut changed);
            changed
        };
        assert_eq!(with(TimeRule::Keep), times);
        let clamped =
            Times { access: at(5, 1), modification: at(7, 0), change: at(7, 0), creation: Some(at(-3, 0)) };
        assert_eq!(with(TimeRule::Clamp(at(7, 0))), clamped);
        assert_eq!(with(TimeRule::All(at(7, 0))), Times::all(at(7, 0)));
    }
}
