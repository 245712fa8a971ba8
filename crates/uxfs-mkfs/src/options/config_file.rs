//! Configuration files: `[section]`, then `name = value` lines; `#` and `;` begin comments.

use super::{
    OptionError,
    grammar::{Group, Setting},
};
use crate::layout::{Layout, Sizes, inodes};

/// One line that sets something.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Line {
    /// The setting.
    pub setting: Setting,
    /// To what; empty for none.
    pub value: String,
}

/// Reads a whole file.
///
/// # Errors
/// The first line that is neither blank, a comment, a known section nor a known option with `=` or `:`.
pub fn parse(text: &str) -> Result<Vec<Line>, OptionError> {
    let mut group = None;
    let mut lines = Vec::new();
    for (index, raw) in text.strip_prefix('\u{feff}').unwrap_or(text).lines().enumerate() {
        let fail = |problem: String| OptionError::ConfigLine { line: index + 1, problem };
        let line = raw.trim();
        if line.is_empty() || line.starts_with(['#', ';']) {
            continue;
        }
        if let Some(rest) = line.strip_prefix('[') {
            let name =
                rest.split_once(']').map(|(name, _)| name).ok_or_else(|| fail("no closing `]`".into()))?;
            let found = Group::ALL.into_iter().find(|group| group.section() == Some(name));
            group = Some(found.ok_or_else(|| fail(format!("there is no section [{name}]")))?);
            continue;
        }
        let (name, value) = line
            .split_once(['=', ':'])
            .ok_or_else(|| fail(format!("`{line}` is not of the form name = value")))?;
        let group = group.ok_or_else(|| fail("an option before any [section]".into()))?;
        let name = name.trim_end();
        let setting = Setting::find(group, name).ok_or_else(|| {
            fail(format!("[{}] has no option `{name}`", group.section().unwrap_or_default()))
        })?;
        lines.push(Line { setting, value: value.trim_start().to_owned() });
    }
    Ok(lines)
}

/// Writes what gives the same features again, in the form of mkfs.xfs. Sizes and places are left out: they belong to the
/// device.
pub fn write(layout: &Layout) -> String {
    let (sizes, features) = (&layout.sizes, &layout.features);
    let mut file = Writer::default();
    file.section(Group::Block);
    file.unless_usual(Setting::BlockSize, sizes.block_bytes, Sizes::DEFAULT_BLOCK_BYTES);
    file.section(Group::Metadata);
    file.switch(Setting::MetadataChecksums, true);
    file.switch(Setting::MetadataFreeInodeBtree, features.free_inode_btree);
    file.switch(Setting::MetadataReverseMap, features.reverse_map);
    file.switch(Setting::MetadataReflink, features.reflink);
    file.switch(Setting::MetadataInodeBtreeCounts, features.inode_btree_counts);
    file.switch(Setting::MetadataBigTime, features.big_time);
    file.switch(Setting::MetadataDirectory, false);
    if let Some(value) = layout.autofsck {
        file.line(Setting::MetadataAutoFsck, value);
    }
    file.section(Group::Data);
    let inherited = &layout.inheritance;
    let hint = |blocks: Option<u32>| blocks.unwrap_or(0);
    file.unless_usual(Setting::DataRealtimeInherit, inherited.realtime.into(), 0);
    if let Some(project) = inherited.project_id {
        file.line(Setting::DataProjectInherit, project);
    }
    file.unless_usual(Setting::DataExtentSizeInherit, hint(inherited.extent_size_blocks), 0);
    file.unless_usual(Setting::DataCowExtentSize, hint(inherited.cow_extent_size_blocks), 0);
    file.unless_usual(Setting::DataDaxInherit, inherited.direct_access.into(), 0);
    file.section(Group::Inode);
    file.switch(Setting::InodeSparse, features.sparse_inodes);
    file.switch(Setting::InodeLargeExtentCounts, features.large_extent_counts);
    file.switch(Setting::InodeExchange, features.exchange_range);
    let usual = inodes::usual_max_percent(layout.data_bytes());
    file.unless_usual(Setting::InodeMaxPercent, layout.inode_max_percent.into(), usual.into());
    file.unless_usual(Setting::InodeSize, sizes.inode_bytes, Sizes::DEFAULT_INODE_BYTES);
    file.section(Group::Log);
    file.section(Group::Naming);
    let usual = Sizes::default_directory_block_bytes(sizes.block_bytes);
    file.switch(Setting::NamingParent, features.parent_pointers);
    file.switch(Setting::NamingFileType, true);
    file.line(Setting::NamingVersion, if features.case_insensitive { "ci" } else { "2" });
    file.unless_usual(Setting::NamingSize, sizes.directory_block_bytes, usual);
    file.section(Group::Realtime);
    let extent_bytes = layout.realtime_extent_blocks * sizes.block_bytes;
    file.unless_usual(Setting::RealtimeExtentSize, extent_bytes, sizes.block_bytes.max(4096));
    file.text
}

#[derive(Debug, Default)]
struct Writer {
    text: String,
}

impl Writer {
    fn section(&mut self, group: Group) {
        let gap = if self.text.is_empty() { "" } else { "\n" };
        self.text += &format!("{gap}[{}]\n", group.section().unwrap_or_default());
    }

    fn line(&mut self, setting: Setting, value: impl std::fmt::Display) {
        self.text += &format!("{}={value}\n", setting.rule().name);
    }

    fn switch(&mut self, setting: Setting, on: bool) {
        self.line(setting, u8::from(on));
    }

    fn unless_usual(&mut self, setting: Setting, value: u32, usual: u32) {
        if value != usual {
            self.line(setting, value);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_sections_comments_and_both_separators() {
        let text = "# a\n; b\n\n [block]\n  size = 1k\n[metadata]\nreflink:0\n[data]\nnoalign=\n";
        let lines = parse(text).unwrap();
        let pairs: Vec<_> = lines.iter().map(|line| (line.setting, line.value.as_str())).collect();
        let expected =
            [(Setting::BlockSize, "1k"), (Setting::MetadataReflink, "0"), (Setting::DataNoAlign, "")];
        assert_eq!(pairs, expected);
    }

    #[test]
    fn every_mistake_names_its_line() {
        for (text, at) in [
            ("size=1k", 1),
            ("[block]\nsize", 2),
            ("[block\nsize=1k", 1),
            ("[nowhere]\n", 1),
            ("[block]\n\nfoo=1", 3),
            ("[config]\noptions=x", 1),
        ] {
            match parse(text) {
                Err(OptionError::ConfigLine { line, .. }) => assert_eq!(line, at, "{text}"),
                other => panic!("{text}: {other:?}"),
            }
        }
    }
}
