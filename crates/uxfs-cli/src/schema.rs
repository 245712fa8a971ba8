//! The schema of all documents that `--json` prints, for programs and for `uxfs help json`.

/// A JSON Schema (draft 2020-12). Of each document an entry of `$defs` describes the fields, and `commands` names the commands that print
/// it; `*` are all of them. `docs/json.md` says the same in words; change both together.
pub const JSON_SCHEMA: &str = include_str!("../json.schema.json");
