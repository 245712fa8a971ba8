//! Configuration files: `[section]`, then `name = value` lines; `#` and `;` begin comments.

use super::{
    OptionError,
    grammar::{Group, Setting},
};

/// One line that sets something.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Line {
    /// What it sets.
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
