//! Where the blocks of a fork lie.

pub(crate) mod check;
pub(crate) mod contradicted;
pub(crate) mod count_width;
pub(crate) mod lengths;
pub(crate) mod marks;
pub(crate) mod mend;
pub(crate) mod rebuild;
pub(crate) mod spare;
pub(crate) mod subtract;
