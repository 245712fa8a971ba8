//! The user's options, before anything is known about the device.
//!
//! | module | holds |
//! |---|---|
//! | [`grammar`] | the table of sub-options: names, values, exclusions |
//! | [`number`] | numbers and sizes as mkfs.xfs reads them |
//! | [`config_file`] | configuration files |
//! | [`error`] | why a set of options is refused |
//!
//! Sizes stay text until [`Layout::resolve`](crate::layout::Layout::resolve), because their units `b` and `s` depend on
//! other options.

use std::collections::BTreeMap;

use uxfs_format::units::Uuid;

pub mod config_file;
mod error;
pub mod grammar;
pub mod number;

pub use error::OptionError;
use grammar::{Group, Kind, Setting};
use number::Units;

/// Where an option was set.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Source {
    /// A file of defaults (`-c defaults=`): silently overridden by what the others say.
    Defaults,
    /// The command line or an options file (`-c options=`); nothing may be said twice there.
    Given,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Given {
    source: Source,
    /// None where the option stands without a value.
    text: Option<String>,
}

/// All options of one run.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Options {
    settings: BTreeMap<Setting, Given>,
    /// The label, at most 12 bytes.
    pub label: Vec<u8>,
    /// Allow unsupported sizes: below 300 MiB, one allocation group, a log below 64 MiB.
    pub allow_unsupported: bool,
    /// Size in bytes that groups are made for: the file system will be grown to it.
    pub grow_to_bytes: Option<u64>,
    /// Size of the file system in bytes, in place of `-d size=`.
    pub size_bytes: Option<u64>,
}

impl Options {
    /// Takes one argument of a group's letter: `size=1g,agcount=4`.
    ///
    /// # Errors
    /// The first sub-option that is not to be had.
    pub fn add(&mut self, group: Group, argument: &str) -> Result<(), OptionError> {
        let mut items = argument.split(',').peekable();
        while let Some(item) = items.next() {
            // A comma at the very end closes the list.
            if item.is_empty() && items.peek().is_none() && !argument.is_empty() && argument != "," {
                break;
            }
            let (name, value) = match item.split_once('=') {
                Some((name, value)) => (name, Some(value)),
                None => (item, None),
            };
            match Setting::find(group, name) {
                Some(setting) => self.set(setting, value, Source::Given)?,
                // `-p PATH` names the prototype without saying `file=`.
                None if group == Group::Proto => self.set(Setting::ProtoFile, Some(item), Source::Given)?,
                None => {
                    return Err(OptionError::Unknown { letter: group.letter(), name: name.to_owned() });
                }
            }
        }
        Ok(())
    }

    /// Takes all lines of a configuration file.
    ///
    /// # Errors
    /// A line that is wrong, or an option that cannot be had.
    pub fn add_config(&mut self, text: &str, source: Source) -> Result<(), OptionError> {
        config_file::parse(text)?.into_iter().try_for_each(|line| {
            let value = (!line.value.is_empty()).then_some(line.value.as_str());
            self.set(line.setting, value, source)
        })
    }

    /// Sets one sub-option.
    ///
    /// # Errors
    /// Its value is wrong, or it is set already, or excluded by one that is.
    pub fn set(&mut self, setting: Setting, value: Option<&str>, source: Source) -> Result<(), OptionError> {
        let value = value.filter(|value| !value.is_empty());
        check(setting, value).map_err(|error| match error {
            // These name the option themselves.
            OptionError::Unsupported { .. } | OptionError::NoValue { .. } => error,
            error => error.about(name_of(setting)),
        })?;
        if let Some(earlier) = self.settings.get(&setting) {
            match (earlier.source, source) {
                (Source::Given, Source::Defaults) => return Ok(()),
                (Source::Defaults, Source::Given) => {}
                _ => return Err(OptionError::Respecified { option: name_of(setting) }),
            }
        }
        for other in setting.rule().excludes {
            match self.settings.get(other).map(|given| (given.source, source)) {
                None => {}
                Some((Source::Given, Source::Defaults)) => return Ok(()),
                Some((Source::Defaults, Source::Given)) => {
                    self.settings.remove(other);
                }
                Some(_) => {
                    let (first, second) = (name_of(*other), name_of(setting));
                    return Err(OptionError::Conflict { first, second });
                }
            }
        }
        if !matches!(setting.rule().kind, Kind::Refused { .. }) {
            self.settings.insert(setting, Given { source, text: value.map(str::to_owned) });
        }
        Ok(())
    }

    /// Sets the label.
    ///
    /// # Errors
    /// Too long.
    pub fn set_label(&mut self, label: &[u8]) -> Result<(), OptionError> {
        if label.len() > 12 {
            return Err(OptionError::Label { label: String::from_utf8_lossy(label).into_owned() });
        }
        self.label = label.to_vec();
        Ok(())
    }

    /// Takes a sub-option back.
    pub fn unset(&mut self, setting: Setting) {
        self.settings.remove(&setting);
    }

    /// Whether a sub-option is set at all.
    pub fn has(&self, setting: Setting) -> bool {
        self.settings.contains_key(&setting)
    }

    /// Whether it was set by other means than a file of defaults.
    pub fn is_explicit(&self, setting: Setting) -> bool {
        self.settings.get(&setting).is_some_and(|given| given.source == Source::Given)
    }

    /// Its text, where it has one.
    pub fn text(&self, setting: Setting) -> Option<&str> {
        self.settings.get(&setting)?.text.as_deref()
    }

    /// A plain number; none where it is not set, or set to a word.
    pub fn number(&self, setting: Setting) -> Option<u64> {
        let given = self.settings.get(&setting)?;
        match (&given.text, setting.rule().kind) {
            (None, Kind::Number { bare, .. } | Kind::NumberOrWord { bare, .. }) => bare,
            // Checked when it was set.
            (Some(text), _) => number::plain(text).ok().and_then(|number| u64::try_from(number).ok()),
            (None, _) => None,
        }
    }

    /// A switch, with what holds where it is not set.
    pub fn switch(&self, setting: Setting, default: bool) -> bool {
        self.number(setting).map_or(default, |number| number != 0)
    }

    /// A size in bytes; none where it is not set.
    ///
    /// # Errors
    /// Not a size, out of range, or not a power of two where it must be one.
    pub fn size(&self, setting: Setting, units: Units) -> Result<Option<u64>, OptionError> {
        let Some(text) = self.text(setting) else { return Ok(None) };
        evaluate_size(setting, text, units).map(Some).map_err(|error| error.about(name_of(setting)))
    }

    /// The uuid, where one was given.
    ///
    /// # Errors
    /// Not a uuid, or nil.
    pub fn uuid(&self) -> Result<Option<Uuid>, OptionError> {
        self.text(Setting::MetadataUuid).map(parse_uuid).transpose()
    }
}

/// An option as the user writes it.
pub fn name_of(setting: Setting) -> String {
    let rule = setting.rule();
    format!("-{} {}", rule.group.letter(), rule.name)
}

/// Checks what can be checked without knowing other options.
fn check(setting: Setting, value: Option<&str>) -> Result<(), OptionError> {
    let no_value = || OptionError::NoValue { option: name_of(setting) };
    match (setting.rule().kind, value) {
        (Kind::Refused { harmless: Some(off), .. }, Some(value)) if value == off => Ok(()),
        (Kind::Refused { feature, .. }, _) => {
            Err(OptionError::Unsupported { option: name_of(setting), feature })
        }
        (Kind::NumberOrWord { words, .. }, Some(value)) if words.contains(&value) => Ok(()),
        (Kind::Number { min, max, .. } | Kind::NumberOrWord { min, max, .. }, Some(value)) => {
            let number = number::plain(value)?;
            in_range(value, number, min, max).map(|_| ())
        }
        (Kind::Number { bare: Some(_), .. } | Kind::NumberOrWord { bare: Some(_), .. }, None) => Ok(()),
        (_, None) => Err(no_value()),
        (Kind::Text, Some(value)) if setting == Setting::MetadataUuid => parse_uuid(value).map(|_| ()),
        (Kind::Text | Kind::Size { .. }, Some(_)) => Ok(()),
    }
}

fn in_range(text: &str, number: i128, min: u64, max: u64) -> Result<u64, OptionError> {
    match u64::try_from(number) {
        Ok(number) if (min..=max).contains(&number) => Ok(number),
        _ => Err(OptionError::OutOfRange { value: text.to_owned(), min, max }),
    }
}

fn evaluate_size(setting: Setting, text: &str, units: Units) -> Result<u64, OptionError> {
    let Kind::Size { min, max, power_of_two } = setting.rule().kind else {
        return Err(OptionError::NotASize { value: text.to_owned() });
    };
    let bytes = in_range(text, number::size(text, units)?, min, max)?;
    if power_of_two && !bytes.is_power_of_two() {
        return Err(OptionError::NotAPowerOfTwo { value: text.to_owned() });
    }
    Ok(bytes)
}

/// Reads a uuid; the nil uuid is refused.
///
/// # Errors
/// It is not a uuid, or the nil uuid.
pub fn parse_uuid(text: &str) -> Result<Uuid, OptionError> {
    let bad = || OptionError::Uuid { value: text.to_owned() };
    let groups: Vec<&str> = text.split('-').collect();
    if groups.iter().map(|group| group.len()).ne([8, 4, 4, 4, 12]) {
        return Err(bad());
    }
    let digits = groups.concat();
    let mut bytes = [0; 16];
    for (index, byte) in bytes.iter_mut().enumerate() {
        let pair = digits.get(index * 2..index * 2 + 2).ok_or_else(bad)?;
        if !pair.bytes().all(|digit| digit.is_ascii_hexdigit()) {
            return Err(bad());
        }
        *byte = u8::from_str_radix(pair, 16).map_err(|_| bad())?;
    }
    let uuid = Uuid(bytes);
    if uuid == Uuid::NIL { Err(OptionError::NilUuid) } else { Ok(uuid) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(arguments: &[(Group, &str)]) -> Result<Options, OptionError> {
        let mut options = Options::default();
        arguments.iter().try_for_each(|(group, text)| options.add(*group, text))?;
        Ok(options)
    }

    #[test]
    fn lists_may_be_split_and_end_with_a_comma() {
        let joined = options(&[(Group::Data, "size=1g,agcount=4,")]).unwrap();
        let split = options(&[(Group::Data, "size=1g"), (Group::Data, "agcount=4")]).unwrap();
        assert_eq!(joined, split);
        assert!(matches!(options(&[(Group::Data, ",size=1g")]), Err(OptionError::Unknown { .. })));
        assert!(matches!(options(&[(Group::Data, "")]), Err(OptionError::Unknown { .. })));
    }

    #[test]
    fn nothing_is_said_twice_or_against_itself() {
        let twice = options(&[(Group::Data, "agcount=4"), (Group::Data, "agcount=4")]);
        assert!(matches!(twice, Err(OptionError::Respecified { .. })));
        let both = options(&[(Group::Data, "agcount=4,agsize=1g")]);
        assert!(matches!(both, Err(OptionError::Conflict { .. })));
        let sectors = options(&[(Group::Sector, "size=4k"), (Group::Data, "sectsize=512")]);
        assert!(matches!(sectors, Err(OptionError::Conflict { .. })));
    }

    #[test]
    fn defaults_yield_in_either_order() {
        let mut options = Options::default();
        options.add(Group::Data, "agsize=100m").unwrap();
        options.add_config("[data]\nagcount=3\n[block]\nsize=1k", Source::Defaults).unwrap();
        options.add(Group::Block, "size=2k").unwrap();
        assert!(!options.has(Setting::DataAgCount));
        assert_eq!(options.text(Setting::BlockSize), Some("2k"));
    }

    #[test]
    fn what_is_not_supported_is_named() {
        for (group, text) in
            [(Group::Realtime, "rtdev=x"), (Group::Metadata, "metadir=1"), (Group::Metadata, "uquota")]
        {
            assert!(options(&[(group, text)]).unwrap_err().is_unsupported(), "{text}");
        }
        assert!(options(&[(Group::Metadata, "metadir=0")]).is_ok());
    }

    #[test]
    fn a_prototype_needs_no_name() {
        let options = options(&[(Group::Proto, "some/where,atime=1")]).unwrap();
        assert_eq!(options.text(Setting::ProtoFile), Some("some/where"));
        assert!(options.switch(Setting::ProtoAccessTime, false));
    }

    #[test]
    fn uuids_are_exact() {
        let uuid = |text: &str| options(&[(Group::Metadata, text)]).and_then(|options| options.uuid());
        assert!(uuid("uuid=01234567-89ab-cdef-0123-456789abcdef").unwrap().is_some());
        assert!(uuid("uuid=0123456789abcdef0123456789abcdef").is_err());
        assert!(uuid("uuid=00000000-0000-0000-0000-000000000000").is_err());
    }
}
