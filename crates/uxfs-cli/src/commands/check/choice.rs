//! Which findings are wanted, and which passes can give them.

use std::ffi::OsString;

use uxfs_format::{
    geometry::Geometry,
    units::{AgNumber, InodeNumber},
};
use uxfs_repair::{Finding, finding::severity::Severity, pass::Pass};
use uxfs_volume::volume::Volume;

use crate::{
    failure::{About, Failure},
    target::Target,
};

/// The options that choose. Passes are left out only where no finding of theirs is wanted, because a fault of one object shows in others.
#[derive(Debug, clap::Args)]
pub struct ChoiceArguments {
    /// Only findings with these numbers or at least this severity (leftover, inconsistent, damaged); several with commas
    #[arg(long, value_name = "NUMBER|SEVERITY", value_delimiter = ',', value_parser = parse_kind)]
    only: Vec<Kind>,
    /// Only findings about this allocation group
    #[arg(long, value_name = "GROUP")]
    ag: Option<u32>,
    /// Only findings about this inode, given as a number
    #[arg(long, value_name = "INODE", conflicts_with = "path")]
    inode: Option<u64>,
    /// Only findings about the file or directory at this path
    #[arg(long, value_name = "PATH")]
    path: Option<OsString>,
}

/// One word of `--only`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Number(u16),
    AtLeast(Severity),
}

fn parse_kind(text: &str) -> Result<Kind, String> {
    if let Ok(number) = text.parse() {
        return Ok(Kind::Number(number));
    }
    [Severity::Leftover, Severity::Inconsistent, Severity::Damaged]
        .into_iter()
        .find(|severity| severity.name() == text)
        .map(Kind::AtLeast)
        .ok_or_else(|| "give the number of a finding, or leftover, inconsistent or damaged".to_owned())
}

/// Chooses findings.
#[derive(Debug)]
pub struct Choice {
    geometry: Geometry,
    kinds: Vec<Kind>,
    group: Option<AgNumber>,
    inode: Option<InodeNumber>,
}

impl ChoiceArguments {
    /// The choice, on this file system.
    pub fn choice(&self, volume: &Volume) -> Result<Choice, Failure> {
        let count = volume.geometry().ag_count;
        if let Some(group) = self.ag.filter(|group| *group >= count) {
            return Err(Failure::usage(format!("no allocation group {group}: the image has {count}")));
        }
        let inode = match &self.path {
            Some(path) => {
                let target = Target::Path(path.as_encoded_bytes().to_vec());
                Some(target.find(volume, false).about(&target)?.number)
            }
            None => self.inode.map(InodeNumber::new),
        };
        let geometry = volume.geometry().clone();
        Ok(Choice { geometry, kinds: self.only.clone(), group: self.ag.map(AgNumber::new), inode })
    }
}

impl Choice {
    /// The last pass that can give a finding that is wanted.
    pub fn last_pass(&self) -> Pass {
        let passes = self.kinds.iter().map(|kind| match kind {
            Kind::Number(number) => Pass::of_number(*number),
            Kind::AtLeast(_) => Pass::default(),
        });
        passes.max().unwrap_or_default()
    }

    /// The only group that is wanted.
    pub fn group(&self) -> Option<AgNumber> {
        self.group
    }

    /// Whether a finding is wanted.
    pub fn takes(&self, finding: &Finding) -> bool {
        let is_kind = self.kinds.is_empty()
            || self.kinds.iter().any(|kind| match kind {
                Kind::Number(number) => finding.number() == *number,
                Kind::AtLeast(severity) => finding.severity() >= *severity,
            });
        if self.group.is_none() && self.inode.is_none() {
            return is_kind;
        }
        let object = finding.object(&self.geometry);
        is_kind
            && (self.group.is_none() || object.group == self.group)
            && (self.inode.is_none() || object.inode == self.inode || object.other_inode == self.inode)
    }
}
