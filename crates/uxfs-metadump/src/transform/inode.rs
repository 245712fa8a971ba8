//! Inodes, with what lies in them: directories, targets of links, attributes, extents, roots of btrees.

use std::ops::Range;

use uxfs_format::{
    attribute::shortform::Shortform as Attributes,
    btree::extent_map::{ExtentMapKey, ExtentMapRoot, RootHeader},
    checksum,
    directory::shortform::Shortform as Entries,
    field_table::OnDisk,
    geometry::{Geometry, INODE_CORE_SIZE_BYTES},
    inode::{
        FileType, Fork, ForkFormat, InodeCore, core::CHECKSUM_OFFSET_BYTES, fork::fork_bytes, verify_inode,
    },
    units::InodeNumber,
};

use super::{Transform, attribute::add_parts, plan::Plan, range_in};

const CORE_BYTES: usize = INODE_CORE_SIZE_BYTES as usize;
const EXTENT_BYTES: usize = 16;

impl Transform<'_> {
    /// One inode.
    pub(super) fn inode(&self, bytes: &mut [u8], number: InodeNumber) {
        let has_checksum = checksum::check(bytes, CHECKSUM_OFFSET_BYTES).is_ok();
        let is_sound = verify_inode(bytes, number, self.geometry).is_ok();
        let plan = match is_sound {
            true => Some(plan(bytes, self)),
            false => self.plan_of_unsealed(bytes, number),
        };
        match plan {
            Some((plan, is_complete)) => plan.apply(bytes, self, is_sound && is_complete),
            None => self.cover_text(bytes, CORE_BYTES),
        }
        if has_checksum {
            checksum::seal(bytes, CHECKSUM_OFFSET_BYTES);
        }
    }

    /// The plan of an inode that has nothing wrong but its checksum.
    fn plan_of_unsealed(&self, bytes: &[u8], number: InodeNumber) -> Option<(Plan, bool)> {
        let mut copy = bytes.to_vec();
        checksum::seal(&mut copy, CHECKSUM_OFFSET_BYTES);
        verify_inode(&copy, number, self.geometry).ok()?;
        Some(plan(&copy, self))
    }
}

/// The parts of an inode that passes its verifier, and whether all of its forks are sound.
fn plan(bytes: &[u8], transform: &Transform<'_>) -> (Plan, bool) {
    let mut plan = Plan::beginning_with_numbers(CORE_BYTES);
    plan.use_bytes(0, CORE_BYTES);
    let Some(core) = InodeCore::prefix_of(bytes) else { return (plan, false) };
    if core.is_free() {
        return (plan, true);
    }
    let mut is_complete = true;
    for fork in [Fork::Data, Fork::Attribute] {
        let (Some(format), Some(contents)) = (core.fork_format(fork), fork_bytes(bytes, fork)) else {
            continue;
        };
        let start = range_in(bytes, contents).start;
        let found = match (format, fork) {
            (ForkFormat::Device, _) => Some(used(4)),
            (ForkFormat::Extents, _) => usize::try_from(core.extent_count(fork))
                .ok()
                .map(|count| used(count.saturating_mul(EXTENT_BYTES))),
            (ForkFormat::Btree, _) => root(contents),
            (ForkFormat::MetadataBtree, _) => Some(used(contents.len())),
            (ForkFormat::Local, Fork::Attribute) => attributes(contents, core, transform),
            (ForkFormat::Local, Fork::Data) => local_data(contents, core, transform),
        };
        match found {
            Some(part) => plan.add(start, part),
            // Its parts cannot be told apart.
            None => {
                is_complete = false;
                plan.texts.push(start..start + contents.len());
            }
        }
    }
    (plan, is_complete)
}

fn used(length: usize) -> Plan {
    let mut plan = Plan::default();
    plan.use_bytes(0, length);
    plan
}

/// The root of an extent map.
fn root(contents: &[u8]) -> Option<Plan> {
    let root = ExtentMapRoot::parse(contents).ok()?;
    let pointers =
        RootHeader::SIZE_BYTES + ExtentMapRoot::capacity(contents.len()) as usize * ExtentMapKey::SIZE_BYTES;
    let mut plan = Plan::default();
    plan.use_bytes(0, RootHeader::SIZE_BYTES + size_of_val(root.keys()));
    plan.use_bytes(pointers, size_of_val(root.pointers()));
    Some(plan)
}

/// A directory or the target of a link.
fn local_data(contents: &[u8], core: &InodeCore, transform: &Transform<'_>) -> Option<Plan> {
    let contents = contents.get(..usize::try_from(core.size_bytes.get()).ok()?)?;
    let mut plan = used(contents.len());
    if core.file_type() != Some(FileType::Directory) {
        plan.paths.push(0..contents.len());
        return Some(plan);
    }
    let replaces_names = transform.has_names_of_users(core.number.get());
    names_of_entries(contents, transform.geometry, replaces_names, &mut plan).then_some(plan)
}

/// Gives whether all entries could be read.
fn names_of_entries(contents: &[u8], geometry: &Geometry, replaces_names: bool, plan: &mut Plan) -> bool {
    let Ok(directory) = Entries::parse(contents, geometry) else { return false };
    for entry in directory.entries() {
        let Ok(entry) = entry else { return false };
        if replaces_names {
            plan.names.push(range_in(contents, entry.name));
        }
    }
    true
}

fn attributes(contents: &[u8], core: &InodeCore, transform: &Transform<'_>) -> Option<Plan> {
    let parsed = Attributes::parse(contents).ok()?;
    let replaces_names = transform.has_names_of_users(core.number.get());
    let mut plan = used(parsed.header.total_size_bytes.get().into());
    for attribute in parsed.attributes() {
        let attribute = attribute.ok()?;
        let (name, value) = (range_in(contents, attribute.name), range_in(contents, attribute.value));
        add_parts(&mut plan, attribute.flags, name, value, replaces_names);
    }
    Some(plan)
}

impl Plan {
    /// Adds the plan of a part that begins at `start`.
    fn add(&mut self, start: usize, part: Self) {
        let moved = |ranges: Vec<Range<usize>>| {
            ranges.into_iter().map(move |range| start + range.start..start + range.end).collect::<Vec<_>>()
        };
        self.used.extend(moved(part.used));
        self.names.extend(moved(part.names));
        self.attribute_names.extend(moved(part.attribute_names));
        self.paths.extend(moved(part.paths));
        self.values.extend(moved(part.values));
        self.texts.extend(moved(part.texts));
        self.without_text.extend(moved(part.without_text));
    }
}
