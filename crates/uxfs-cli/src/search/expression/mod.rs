//! The expressions of find: a tree of tests and actions, evaluated for each file of a walk.
//!
//! | module | holds |
//! |---|---|
//! | here | the tree: its evaluation, and what it says without the inode |
//! | [`parse`] | from words to the tree |
//! | [`primary`] | tests, actions and options by name |
//! | [`refused`] | the words of other finds that have no meaning here, and why |
//! | [`lookup`] | what words name: files, people, times |
//! | [`number`] | numbers with `+` and `-`, sizes and ages |
//! | [`mod@test`] | one test |
//! | [`action`] | one action, and where it prints |
//! | [`mod@format`] | the formats of `-printf` |
//!
//! The nesting of parentheses is limited when words are read ([`parse::NESTING_MAX`]), so the functions here may call themselves.

pub mod action;
pub mod format;
pub mod lookup;
pub mod number;
pub mod parse;
pub mod primary;
pub mod refused;
pub mod test;

use uxfs_volume::{error::Error, inode::FileType};

use self::{action::Action, test::Test};
use super::subject::Subject;
use crate::failure::Failure;

/// A part of an expression.
#[derive(Debug)]
pub enum Node {
    /// True where all are; ends at the first that is false.
    And(Vec<Self>),
    /// True where one is; ends at the first that is true.
    Or(Vec<Self>),
    /// All are evaluated; the last one's result counts.
    List(Vec<Self>),
    /// The opposite.
    Not(Box<Self>),
    /// A test.
    Test(Test),
    /// An action.
    Action(Action),
}

/// Why the evaluation for a file ended early.
#[derive(Debug)]
pub enum Halt {
    /// The file cannot be read. The walk goes on with the next.
    File(Error),
    /// The command cannot go on.
    Command(Failure),
    /// `-quit`.
    Quit,
}

impl From<Error> for Halt {
    fn from(error: Error) -> Self {
        Self::File(error)
    }
}

impl From<std::io::Error> for Halt {
    fn from(error: std::io::Error) -> Self {
        Self::Command(error.into())
    }
}

/// Does what an expression's actions ask for.
pub trait Actor {
    /// Performs an action for a file; `false` where that is the action's result.
    ///
    /// # Errors
    /// The file cannot be read; the output failed; the walk is over.
    fn perform(&mut self, action: &Action, subject: &Subject<'_>) -> Result<bool, Halt>;

    /// Whether an action of this kind needs the file's inode.
    fn needs_inode(&self, action: &Action) -> bool;
}

/// What is known of a file before its inode is read.
#[derive(Debug, Clone, Copy)]
pub struct Outline<'a> {
    /// Its path.
    pub path: &'a [u8],
    /// Its last name.
    pub name: &'a [u8],
    /// The type that the entry says.
    pub file_type: Option<FileType>,
}

impl Node {
    /// Evaluates the expression for a file.
    ///
    /// # Errors
    /// Why it ended early.
    pub fn evaluate(&self, subject: &Subject<'_>, actor: &mut impl Actor) -> Result<bool, Halt> {
        match self {
            Self::And(parts) => {
                for part in parts {
                    if !part.evaluate(subject, actor)? {
                        return Ok(false);
                    }
                }
                Ok(true)
            }
            Self::Or(parts) => {
                for part in parts {
                    if part.evaluate(subject, actor)? {
                        return Ok(true);
                    }
                }
                Ok(false)
            }
            Self::List(parts) => {
                let mut result = true;
                for part in parts {
                    result = part.evaluate(subject, actor)?;
                }
                Ok(result)
            }
            Self::Not(part) => Ok(!part.evaluate(subject, actor)?),
            Self::Test(test) => Ok(test.holds(subject)?),
            Self::Action(action) => actor.perform(action, subject),
        }
    }

    /// The result of the evaluation where it needs no inode; `None` where it does.
    pub fn outlook(&self, outline: &Outline<'_>, actor: &impl Actor) -> Option<bool> {
        match self {
            Self::And(parts) => {
                for part in parts {
                    if !part.outlook(outline, actor)? {
                        return Some(false);
                    }
                }
                Some(true)
            }
            Self::Or(parts) => {
                for part in parts {
                    if part.outlook(outline, actor)? {
                        return Some(true);
                    }
                }
                Some(false)
            }
            Self::List(parts) => {
                let mut result = true;
                for part in parts {
                    result = part.outlook(outline, actor)?;
                }
                Some(result)
            }
            Self::Not(part) => part.outlook(outline, actor).map(|result| !result),
            Self::Test(test) => test.outlook(outline),
            Self::Action(action) if actor.needs_inode(action) => None,
            Self::Action(action) => Some(!matches!(action, Action::False)),
        }
    }

    /// Whether any part may need an inode.
    pub fn may_need_inode(&self, actor: &impl Actor) -> bool {
        match self {
            Self::And(parts) | Self::Or(parts) | Self::List(parts) => {
                parts.iter().any(|part| part.may_need_inode(actor))
            }
            Self::Not(part) => part.may_need_inode(actor),
            Self::Test(test) => test.cost() > test::BY_ENTRY,
            Self::Action(action) => actor.needs_inode(action),
        }
    }

    /// The cost of the evaluation, or `None` where it does something: such parts keep their place.
    fn cost(&self) -> Option<u8> {
        match self {
            Self::And(parts) | Self::Or(parts) | Self::List(parts) => {
                parts.iter().try_fold(0, |most, part| Some(part.cost()?.max(most)))
            }
            Self::Not(part) => part.cost(),
            Self::Test(test) => Some(test.cost()),
            Self::Action(_) => None,
        }
    }

    /// Joins parts of which all must be true, cheap tests first. Tests change nothing, so their order among themselves is free; none is
    /// moved past an action.
    pub fn all(parts: Vec<Self>) -> Self {
        Self::joined(parts, Self::And)
    }

    /// Joins parts of which one must be true, as [`all`](Self::all) does.
    pub fn any(parts: Vec<Self>) -> Self {
        Self::joined(parts, Self::Or)
    }

    fn joined(mut parts: Vec<Self>, join: fn(Vec<Self>) -> Self) -> Self {
        if parts.len() == 1
            && let Some(part) = parts.pop()
        {
            return part;
        }
        for run in parts.chunk_by_mut(|one, other| one.cost().is_some() && other.cost().is_some()) {
            run.sort_by_key(Self::cost);
        }
        join(parts)
    }
}
