//! A case by its published name: `n1000000-20-40-60-80-100-d25` are a million attributes with values of 20, 40, … 100 bytes
//! in turn, of which 25 % are deleted then. `o25` overwrites 25 % with the sizes in turn the other way round, `i400000`
//! inserts so many more; several of these follow one another.

use std::str::FromStr;

/// A step of a case.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// So many new ones.
    Insert(u64),
    /// So many per cent get other values.
    Overwrite(u8),
    /// So many per cent go.
    Delete(u8),
}

impl Action {
    /// In a word.
    pub fn name(self) -> &'static str {
        match self {
            Self::Insert(_) => "insert",
            Self::Overwrite(_) => "overwrite",
            Self::Delete(_) => "delete",
        }
    }
}

/// Attributes, and what becomes of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Case {
    /// At first.
    pub count: u64,
    /// Bytes of values, in turn.
    pub sizes: Vec<usize>,
    /// What follows.
    pub actions: Vec<Action>,
}

/// Most attributes of a case.
const MAX_COUNT: u64 = 1 << 32;
/// Most bytes of a value.
const MAX_VALUE_BYTES: usize = 65536;

impl Case {
    /// Bytes of the value of an attribute: overwriting takes the sizes from the other end.
    pub fn size_of(&self, number: u64, is_new: bool) -> usize {
        let turn = (number % self.sizes.len().max(1) as u64) as usize;
        let turn = if is_new { turn } else { self.sizes.len().saturating_sub(turn + 1) };
        self.sizes.get(turn).copied().unwrap_or(0)
    }
}

impl FromStr for Case {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = |part: &str| format!("{part:?} in the case {text:?}: n1000000-20-40-d25 is one");
        let number = |part: &str, digits: &str| digits.parse::<u64>().map_err(|_| wrong(part));
        let mut parts = text.split('-');
        let first = parts.next().unwrap_or_default();
        let count = number(first, first.strip_prefix('n').ok_or_else(|| wrong(first))?)?;
        let mut case = Self { count, sizes: Vec::new(), actions: Vec::new() };
        for part in parts {
            let percent = |digits: &str| -> Result<u8, String> {
                let percent = number(part, digits)?;
                u8::try_from(percent).ok().filter(|percent| *percent <= 100).ok_or_else(|| wrong(part))
            };
            match (part.get(..1), part.get(1..)) {
                (Some("d"), Some(digits)) => case.actions.push(Action::Delete(percent(digits)?)),
                (Some("o"), Some(digits)) => case.actions.push(Action::Overwrite(percent(digits)?)),
                (Some("i"), Some(digits)) => case.actions.push(Action::Insert(number(part, digits)?)),
                _ if case.actions.is_empty() => case.sizes.push(number(part, part)? as usize),
                _ => return Err(wrong(part)),
            }
        }
        let inserted: u64 = case
            .actions
            .iter()
            .map(|action| if let Action::Insert(count) = action { *count } else { 0 })
            .fold(count, u64::saturating_add);
        let is_possible = case.count > 0
            && inserted <= MAX_COUNT
            && !case.sizes.is_empty()
            && case.sizes.iter().all(|size| *size <= MAX_VALUE_BYTES);
        if is_possible { Ok(case) } else { Err(wrong(text)) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn published_names_are_understood() {
        let case: Case = "n1000000-20-40-60-80-100-d25".parse().unwrap();
        assert_eq!((case.count, case.sizes.as_slice()), (1_000_000, [20, 40, 60, 80, 100].as_slice()));
        assert_eq!(case.actions, [Action::Delete(25)]);
        assert_eq!([0, 1, 4, 5].map(|number| case.size_of(number, true)), [20, 40, 100, 20]);
        assert_eq!([0, 1, 4, 5].map(|number| case.size_of(number, false)), [100, 80, 20, 100]);
        let case: Case = "n10-255-d50-i4-o100".parse().unwrap();
        assert_eq!(case.actions, [Action::Delete(50), Action::Insert(4), Action::Overwrite(100)]);
        for wrong in
            ["", "10-20", "n10", "n0-20", "n10-20-d101", "n10-d20", "n10-20-x4", "n10-70000", "n10-20-d5-30"]
        {
            assert!(wrong.parse::<Case>().is_err(), "{wrong}");
        }
    }
}
