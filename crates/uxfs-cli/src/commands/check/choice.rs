//! Which findings are wanted, and which passes can give them.

use std::ffi::OsString;

use uxfs_format::{
    geometry::Geometry,
    units::{AgNumber, InodeNumber},
};
use uxfs_repair::{Finding, finding::severity::Severity, pass::Pass};
use uxfs_volume::{
    error::{Error, OperationError},
    volume::Volume,
};

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
        return match Finding::NUMBERS.contains(&number) {
            true => Ok(Kind::Number(number)),
            false => Err(format!("no finding has this number; there are {}", known_numbers())),
        };
    }
    [Severity::Leftover, Severity::Inconsistent, Severity::Damaged]
        .into_iter()
        .find(|severity| severity.name() == text)
        .map(Kind::AtLeast)
        .ok_or_else(|| "give the number of a finding, or leftover, inconsistent or damaged".to_owned())
}

/// The numbers of all findings, as "1-12, 20-37".
fn known_numbers() -> String {
    let runs = Finding::NUMBERS.chunk_by(|one, next| one + 1 == *next);
    let words = runs.filter_map(|run| match run {
        [] => None,
        [only] => Some(only.to_string()),
        [first, .., last] => Some(format!("{first}-{last}")),
    });
    words.collect::<Vec<_>>().join(", ")
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
                Some(target.find(volume, false).about_target(&target)?.number)
            }
            None => self.inode.map(InodeNumber::new),
        };
        let geometry = volume.geometry().clone();
        if let Some(number) =
            self.inode.filter(|number| geometry.inode_place(InodeNumber::new(*number)).is_none())
        {
            return Err(Failure::usage(format!(
                "--inode {number}: the file system has no place for such an inode"
            ))
            .with_remedy("uxfs inodes IMAGE lists all that are in use"));
        }
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

    /// That nothing was found of an inode means something only where it is in use and could be looked at.
    pub fn require_inode(&self, volume: &Volume) -> Result<(), Failure> {
        let Some(number) = self.inode else { return Ok(()) };
        match volume.inode_from_outside(number) {
            Ok(_) => Ok(()),
            Err(Error::Operation(OperationError::NoSuchInode)) => {
                let words = format!("inode {number} is not in use, and nothing was found about it");
                let failure = Failure::refused(crate::kind::Kind::NoSuchInode, words).with_inode(number);
                Err(failure.with_remedy("uxfs inodes lists all that are in use"))
            }
            Err(error) => Err(Failure::from(error).about(format_args!("inode {number} was not checked"))),
        }
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
