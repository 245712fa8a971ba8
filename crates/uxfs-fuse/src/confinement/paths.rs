//! Landlock: no path can be opened, made or removed, no connection made, no signal sent to other processes.

use landlock::{
    ABI, Access, AccessFs, AccessNet, CompatLevel, Compatible, Ruleset, RulesetAttr, RulesetError,
    RulesetStatus, Scope,
};

/// Rules that the library knows; kernels that know fewer take those.
const NEWEST: ABI = ABI::V6;

/// What the kernel took away.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Paths {
    /// All that was asked.
    All,
    /// What this kernel knows of it.
    Some,
    /// It has no Landlock, or it is turned off.
    None,
}

/// Takes all paths away from this thread, and from those that it starts.
///
/// # Errors
/// Landlock is there and fails.
pub fn take_away() -> Result<Paths, String> {
    let restrict = || -> Result<_, RulesetError> {
        Ruleset::default()
            .set_compatibility(CompatLevel::BestEffort)
            .handle_access(AccessFs::from_all(NEWEST))?
            .handle_access(AccessNet::from_all(NEWEST))?
            .scope(Scope::from_all(NEWEST))?
            .create()?
            .restrict_self()
    };
    let status = restrict().map_err(|error| error.to_string())?;
    Ok(match status.ruleset {
        RulesetStatus::FullyEnforced => Paths::All,
        RulesetStatus::PartiallyEnforced => Paths::Some,
        RulesetStatus::NotEnforced => Paths::None,
    })
}
