//! The names of a repair: entries, parent pointers and link counts, once all inodes and groups are sound.

use uxfs_format::{fault::Structure, units::AgNumber};
use uxfs_volume::{error::Result, volume::Volume};

use super::{
    Repair,
    action::{Action, InodeSource},
    progress::{Event, Phase},
    space::{self, Sources, survey::groups_of},
    stage::Stage,
    work::Work,
};
use crate::{
    names::{self, facts::Link, write::Changes},
    opening::{self, OpeningOptions},
};

impl Repair<'_> {
    /// The tree of names, once all inodes and groups are sound.
    pub(super) fn repair_names(&mut self, volume: &Volume, stage: &Stage, work: &Work) -> Result<()> {
        (self.progress)(Event::Begin(Phase::Names));
        let mut gathered = names::gather::gather(volume, work, self.options.scan);
        let partial = std::mem::take(&mut self.partial);
        match self.options.keeps_partial_names {
            true => self.actions.extend(partial.into_iter().map(|inode| Action::FilePartial { inode })),
            false => gathered.facts.partial = partial,
        }
        let made_up = self.actions.iter().filter_map(|action| match action {
            Action::InodeRebuilt { inode, source: InodeSource::Inferred(_), .. } => Some(*inode),
            _ => None,
        });
        gathered.facts.uncounted = made_up.collect();
        gathered.facts.unproved = self.unproved.clone();
        let leaves = self.actions.iter().filter_map(|action| match action {
            Action::BlockChecksum { inode, structure: Structure::AttributeLeaf, .. } => Some(*inode),
            _ => None,
        });
        gathered.facts.unproved_leaves = leaves.collect();
        let remade = self.actions.iter().filter_map(|action| match action {
            Action::InodeRebuilt { inode, .. }
            | Action::ExtentMap { inode, .. }
            | Action::ExtentMapOverruled { inode, .. } => Some(*inode),
            _ => None,
        });
        let remade = remade.chain(work.directories.iter().copied()).collect();
        let decision = names::strays::decide_with(volume, self.original, &remade, &mut gathered.facts);
        let changes = Changes::of(&gathered, &decision, work);
        if changes.is_empty(&decision, &gathered) {
            return Ok(());
        }
        // What the log has of these is older: they must not come back.
        self.given_up.extend(&decision.unlinked);
        let headers = Headers::of(stage)?;
        let emptied = changes.emptied(&gathered, &decision);
        let groups = groups_of(volume, self.options.scan, emptied)
            .unwrap_or_else(|| volume.geometry().groups().collect());
        if changes.write_inodes(volume, stage, &gathered, &decision)? {
            // The blocks of what was emptied are free now, and directories that were made again are in use.
            let options = OpeningOptions { ignore_log: true, ..self.opening_options() };
            let emptied = opening::open(&self.device, &options)?.volume;
            let work = Work { inodes: true, groups, ..Work::default() };
            let sources = Sources {
                may_lack_extents: true,
                ..self.sources(&emptied, (&self.given_up, &self.unproved))
            };
            space::repair(sources, stage, &work, &mut Vec::new())?;
        }
        changes.write_names(stage, &gathered, &decision, &mut self.actions)?;
        self.actions.extend(headers.changed(stage)?);
        let of_blocks = names::strays::taken(&gathered.facts, &decision);
        self.actions.extend(of_blocks.map(|Link { directory, name, inode }| Action::NameFromBlock {
            inode: *inode,
            directory: *directory,
            name: name.clone(),
        }));
        self.actions.extend(gathered.facts.partial.iter().map(|inode| Action::FilePartial { inode: *inode }));
        Ok(())
    }
}

/// The first superblock, and the headers of all groups: what follows from names that move is changed with them.
struct Headers {
    superblock: Vec<u8>,
    groups: Vec<(AgNumber, Vec<u8>)>,
}

/// AGF, AGI and AGFL.
const GROUP_HEADERS: std::ops::RangeInclusive<u32> = 1..=3;

impl Headers {
    /// As they are in the stage.
    fn of(stage: &Stage) -> Result<Self> {
        let superblock = header(stage, AgNumber::new(0), 0)?;
        let mut groups = Vec::new();
        for group in stage.geometry().groups() {
            let mut bytes = Vec::new();
            for index in GROUP_HEADERS {
                bytes.extend(header(stage, group, index)?);
            }
            groups.push((group, bytes));
        }
        Ok(Self { superblock, groups })
    }

    /// What has changed since.
    fn changed(&self, stage: &Stage) -> Result<Vec<Action>> {
        let now = Self::of(stage)?;
        let groups = self.groups.iter().zip(&now.groups).filter(|(before, now)| before != now);
        let mut changed: Vec<Action> =
            groups.map(|((group, _), _)| Action::Group { group: *group, chunks_without_index: 0 }).collect();
        changed.extend((self.superblock != now.superblock).then_some(Action::Counters));
        Ok(changed)
    }
}

fn header(stage: &Stage, group: AgNumber, index: u32) -> Result<Vec<u8>> {
    let mut bytes = vec![0; stage.geometry().sector_size_bytes as usize];
    if let Some(sector) = stage.geometry().sector_of_group_header(group, index) {
        stage.read_at(sector, &mut bytes)?;
    }
    Ok(bytes)
}
