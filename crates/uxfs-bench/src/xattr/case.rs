//! A case by its published name.
//!
//! `n1000000-20-40-60-80-100-d25` are a million attributes with values of 20, 40, … 100 bytes in turn, of which 25 % are deleted
//! then. `o25` overwrites 25 % with the sizes in turn the other way round, `i400000` inserts so many more, `a25` deletes every
//! fourth; several of these follow one another.
//!
//! `n1000000--s-50-255--N-400000` is a partial fill: a million attributes with values of 255 bytes, of which every second (50 %) is
//! deleted; then the first 400,000 of these names are inserted again. `D-400000` deletes the first 400,000 of those that are
//! left instead. Without the third part the partial fill is all.

use std::str::FromStr;

/// A step of a case.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// So many new ones.
    Insert(u64),
    /// So many per cent get other values.
    Overwrite(u8),
    /// So many per cent go, chosen at random.
    Delete(u8),
    /// Of so many neighbours the first goes, in all of them.
    DeleteEvery(u64),
    /// The first so many of those that are gone come back.
    Refill(u64),
    /// The first so many go.
    DeleteFirst(u64),
}

impl Action {
    /// In a word.
    pub fn name(self) -> &'static str {
        match self {
            Self::Insert(_) | Self::Refill(_) => "insert",
            Self::Overwrite(_) => "overwrite",
            Self::Delete(_) | Self::DeleteEvery(_) | Self::DeleteFirst(_) => "delete",
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
    /// The actions, in order.
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
        let parser = Parser { text };
        let case = if text.contains("--") { parser.partial_fill() } else { parser.plain() }?;
        case.check().then_some(case).ok_or_else(|| parser.wrong(text))
    }
}

impl Case {
    fn check(&self) -> bool {
        let inserted = self.actions.iter().fold(self.count, |sum, action| match action {
            Action::Insert(count) => sum.saturating_add(*count),
            _ => sum,
        });
        self.count > 0
            && inserted <= MAX_COUNT
            && !self.sizes.is_empty()
            && self.sizes.iter().all(|size| *size <= MAX_VALUE_BYTES)
    }
}

/// Takes a name apart.
struct Parser<'t> {
    text: &'t str,
}

impl Parser<'_> {
    fn wrong(&self, part: &str) -> String {
        let text = self.text;
        format!("{part:?} in the case {text:?}: n1000000-20-40-d25 is one, and n1000000--s-50-255--N-400000")
    }

    fn number(&self, part: &str, digits: &str) -> Result<u64, String> {
        digits.parse::<u64>().map_err(|_| self.wrong(part))
    }

    fn count(&self, part: &str) -> Result<u64, String> {
        self.number(part, part.strip_prefix('n').ok_or_else(|| self.wrong(part))?)
    }

    /// Every how manieth attribute goes where so many per cent are deleted evenly: at most half can be.
    fn interval(&self, part: &str, digits: &str) -> Result<u64, String> {
        match self.number(part, digits)? {
            percent @ 1..=50 => Ok(100 / percent),
            _ => Err(self.wrong(part)),
        }
    }

    /// `n10-20-40-d25`.
    fn plain(&self) -> Result<Case, String> {
        let mut parts = self.text.split('-');
        let count = self.count(parts.next().unwrap_or_default())?;
        let mut case = Case { count, sizes: Vec::new(), actions: Vec::new() };
        for part in parts {
            let percent = |digits: &str| -> Result<u8, String> {
                let percent = self.number(part, digits)?;
                u8::try_from(percent).ok().filter(|percent| *percent <= 100).ok_or_else(|| self.wrong(part))
            };
            let action = match (part.get(..1), part.get(1..)) {
                (Some("d"), Some(digits)) => Action::Delete(percent(digits)?),
                (Some("o"), Some(digits)) => Action::Overwrite(percent(digits)?),
                (Some("i"), Some(digits)) => Action::Insert(self.number(part, digits)?),
                (Some("a"), Some(digits)) => Action::DeleteEvery(self.interval(part, digits)?),
                _ if case.actions.is_empty() => {
                    case.sizes.push(self.number(part, part)? as usize);
                    continue;
                }
                _ => return Err(self.wrong(part)),
            };
            case.actions.push(action);
        }
        Ok(case)
    }

    /// `n10--s-50-20-40--N-4`.
    fn partial_fill(&self) -> Result<Case, String> {
        let mut parts = self.text.split("--");
        let count = self.count(parts.next().unwrap_or_default())?;
        let filled = parts.next().unwrap_or_default();
        let mut numbers = filled.strip_prefix("s-").ok_or_else(|| self.wrong(filled))?.split('-');
        let interval = self.interval(filled, numbers.next().unwrap_or_default())?;
        let sizes = numbers.map(|size| Ok(self.number(filled, size)? as usize));
        let sizes = sizes.collect::<Result<_, String>>()?;
        let mut actions = vec![Action::DeleteEvery(interval)];
        if let Some(part) = parts.next() {
            actions.push(match part.split_once('-') {
                Some(("N", digits)) => Action::Refill(self.number(part, digits)?),
                Some(("D", digits)) => Action::DeleteFirst(self.number(part, digits)?),
                _ => return Err(self.wrong(part)),
            });
        }
        if let Some(more) = parts.next() {
            return Err(self.wrong(more));
        }
        Ok(Case { count, sizes, actions })
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
        let case: Case = "n1000000--s-50-20-255--N-400000".parse().unwrap();
        assert_eq!((case.count, case.sizes.as_slice()), (1_000_000, [20, 255].as_slice()));
        assert_eq!(case.actions, [Action::DeleteEvery(2), Action::Refill(400_000)]);
        let case: Case = "n100--s-25-40--D-30".parse().unwrap();
        assert_eq!(case.actions, [Action::DeleteEvery(4), Action::DeleteFirst(30)]);
        assert_eq!("n10-20-a50".parse::<Case>().unwrap().actions, [Action::DeleteEvery(2)]);
        assert_eq!("n10--s-50-20".parse::<Case>().unwrap().actions, [Action::DeleteEvery(2)]);
        for wrong in [
            "n10--s-50",
            "n10--s-51-20",
            "n10--s-0-20",
            "n10--x-50-20",
            "n10--s-50-20--M-4",
            "n10--s-50-20--N-4--N-4",
            "n10-20-a0",
        ] {
            assert!(wrong.parse::<Case>().is_err(), "{wrong}");
        }
        for wrong in
            ["", "10-20", "n10", "n0-20", "n10-20-d101", "n10-d20", "n10-20-x4", "n10-70000", "n10-20-d5-30"]
        {
            assert!(wrong.parse::<Case>().is_err(), "{wrong}");
        }
    }
}
