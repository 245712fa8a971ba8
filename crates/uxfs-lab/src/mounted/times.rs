//! When contents were changed last: exactly where a caller set the time, and within the system call where one changed them.

use std::{
    collections::{HashMap, HashSet},
    time::{SystemTime, UNIX_EPOCH},
};

use rustix::time::{ClockId, clock_gettime};
use uxfs_volume::inode::FileType;

use super::{
    action::{Call, Way},
    walk::Times,
};
use crate::crash::{
    model::Model,
    workload::{NodeId, RenameHow},
};

/// Seconds and nanoseconds.
type Time = (i64, i64);

/// What the time of the last change of contents may be.
#[derive(Debug, Default)]
pub struct Modified {
    bounds: HashMap<NodeId, (Time, Time)>,
    /// Without the kernel's cache the time is that when a page of a mapping is written back: nothing is known of these.
    mapped: HashSet<NodeId>,
    has_cache: bool,
}

/// The kernel's clock for times of files. It stands still between two ticks, which may be long on a busy host: what is changed from now on gets
/// this time at the earliest.
pub fn now_of_files() -> Time {
    let time = clock_gettime(ClockId::RealtimeCoarse);
    (time.tv_sec, time.tv_nsec)
}

fn now() -> Time {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    (since.as_secs() as i64, since.subsec_nanos().into())
}

impl Modified {
    /// `has_cache`: the kernel has the times of files.
    pub fn new(has_cache: bool) -> Self {
        Self { has_cache, ..Self::default() }
    }

    /// A call was made, begun at this [time](now_of_files); the model is that before it.
    pub fn note(&mut self, call: &Call, model: &Model, begun: Time) {
        let during = (begun, now());
        let new = model.made() as NodeId;
        if let Call::Write { node, way: Way::Mapped, .. } = call
            && !self.has_cache
        {
            self.mapped.insert(*node);
        }
        let mut set = |node: NodeId| {
            self.bounds.insert(node, during);
        };
        match call {
            Call::Create { parent, .. } => [*parent, new].into_iter().for_each(&mut set),
            Call::Temporary { .. } => set(new),
            Call::Link { parent, .. } | Call::Remove { parent, .. } => set(*parent),
            Call::Rename { parent, name, new_parent, new_name, how } => {
                [*parent, *new_parent].into_iter().for_each(&mut set);
                if *how == RenameHow::Whiteout {
                    set(new);
                }
                if *how == RenameHow::Exchange && parent != new_parent {
                    // Their `..` is another one: XFS tells of that here, and not where one directory moves.
                    let children = [(parent, name), (new_parent, new_name)];
                    children.into_iter().filter_map(|at| directory_at(model, at)).for_each(&mut set);
                }
            }
            // A page that is dirty already changes no time.
            Call::Write { node, way: Way::Mapped, .. } => {
                self.bounds.entry(*node).and_modify(|(low, high)| {
                    (*low, *high) = ((*low).min(during.0), (*high).max(during.1));
                });
            }
            Call::Write { node, .. } | Call::Truncate { node, .. } | Call::Reshape { node, .. } => set(*node),
            Call::Copy { target, .. } => set(*target),
            Call::SetTimes { node, modification: (seconds, nanoseconds), .. } => {
                let time = (*seconds, i64::from(*nanoseconds));
                self.bounds.insert(*node, (time, time));
            }
            _ => {}
        }
    }

    /// Nothing is known any more.
    pub fn forget(&mut self) {
        self.bounds.clear();
        self.mapped.clear();
    }

    /// Whether a time that was found is one that can be.
    pub fn complaint(&self, node: NodeId, found: &Times) -> Option<String> {
        let (low, high) = self.bounds.get(&node).filter(|_| !self.mapped.contains(&node))?;
        let time = found[1];
        let is_right = (*low..=*high).contains(&time);
        (!is_right).then(|| format!("file {node} was modified at {time:?}, not from {low:?} to {high:?}"))
    }
}

fn directory_at(model: &Model, (parent, name): (&NodeId, &Vec<u8>)) -> Option<NodeId> {
    let child = *model.node(*parent)?.children.get(name)?;
    (model.node(child)?.kind() == FileType::Directory).then_some(child)
}
