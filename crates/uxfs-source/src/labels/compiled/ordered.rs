//! Files of version 5, whose rules lie in the order of the text.
//!
//! | part | holds |
//! |---|---|
//! | stems | their count; of each a length, text and a zero byte |
//! | rules | their count; of each the context and the expression, each a length with a zero byte, and text; the file type as in a mode, 0 for any; stem; whether it is more than a path; length of the part without special characters; the compiled expression, a length and data |
//!
//! Stems say nothing that is not in the text of the expressions.

use std::io::Read;

use super::{Add, Compiled, MAX_TEXT_BYTES, expression};
use crate::{
    error::SourceError,
    labels::{Matches, Rule, kind_of_mode, label_of},
};

/// Stems are first components of paths.
const MAX_STEMS: u32 = 1 << 20;

/// What follows the head.
pub(super) fn read<R: Read>(file: &mut Compiled<R>, add: Add<'_>) -> Result<(), SourceError> {
    let stems = file.number_up_to(MAX_STEMS, "stems", "the number")?;
    for _ in 0..stems {
        let length = file.number_up_to(MAX_TEXT_BYTES, "a stem", "the length")?;
        file.skip(u64::from(length) + 1, "a stem")?;
    }
    let count = file.number("the number of its rules")?;
    for number in 1..=count {
        file.number = number;
        let [label, pattern] = [text(file)?, text(file)?];
        let mode = file.number("a rule")?;
        file.skip(3 * 4, "a rule")?;
        file.pass_expression()?;
        let rule = || {
            let matches = Matches::of(expression(&pattern)?);
            Ok(Rule { matches, kind: kind_of_mode(mode)?, label: label_of(&label)?, is_last: false })
        };
        rule().and_then(&mut *add).map_err(|fault| file.rule_fault(fault))?;
    }
    Ok(())
}

fn text<R: Read>(file: &mut Compiled<R>) -> Result<Vec<u8>, SourceError> {
    let text = file.text("a rule")?;
    file.terminated(text)
}
