//! The names of a repair: entries, parent pointers and link counts, once all inodes and groups are sound.

use uxfs_format::fault::Structure;
use uxfs_volume::{error::Result, volume::Volume};

use super::{
    Repair,
    action::{Action, InodeSource},
    progress::{Event, Phase},
    space::{self, Sources},
    stage::Stage,
    work::Work,
};
use crate::{
    names::{self, decide::Decision, facts::Link, write::Changes},
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
        names::strays::add(volume, self.original, &remade, &mut gathered.facts);
        let decision = Decision::of(&gathered.facts);
        let changes = Changes::of(&gathered, &decision, work);
        if changes.is_empty(&decision, &gathered) {
            return Ok(());
        }
        // What the log has of these is older: they must not come back.
        self.given_up.extend(&decision.unlinked);
        if changes.write_inodes(volume, stage, &gathered, &decision)? {
            // The blocks of what was emptied are free now, and directories that were made again are in use.
            let options = OpeningOptions { ignore_log: true, ..self.opening_options() };
            let emptied = opening::open(&self.device, &options)?.volume;
            let groups = emptied.geometry().groups().collect();
            let work = Work { inodes: true, groups, ..Work::default() };
            let sources = Sources {
                may_lack_extents: true,
                ..self.sources(&emptied, (&self.given_up, &self.unproved))
            };
            space::repair(sources, stage, &work, &mut Vec::new())?;
        }
        changes.write_names(stage, &gathered, &decision, &mut self.actions)?;
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
