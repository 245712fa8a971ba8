//! `uxfs ls`: the entries of directories, with the options of ls(1).
//!
//! | module | holds |
//! |---|---|
//! | [`arguments`] | the options, and what they come to |
//! | `lister` | going through paths and directories |
//! | [`row`] | entries with what is shown of them |
//! | [`order`] | sorting |
//! | [`table`] | rows as text |
//! | [`paint`] | colours |
//! | [`time`] | how times are written |
//! | `json` | entries as documents |

pub mod arguments;
mod json;
mod lister;
pub mod order;
pub mod paint;
pub mod row;
pub mod table;
pub mod time;

use uxfs_volume::volume::Volume;

pub use self::arguments::Arguments;
use self::lister::Lister;
use crate::{commands::Context, failure::Outcome};

/// Runs the command.
pub fn run(filesystem: &Volume, arguments: &Arguments, context: &Context) -> Outcome {
    let is_terminal = !context.json && std::io::IsTerminal::is_terminal(&std::io::stdout());
    let settings = arguments.settings(is_terminal)?;
    let mut lister = Lister::new(filesystem, &settings, context);
    lister.list(arguments, context)?;
    lister.finish()
}
