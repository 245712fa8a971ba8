//! Extended attributes, and parent pointers, which lie among them.

pub(crate) mod access_list;
pub(crate) mod check;
pub(crate) mod leaf;
pub(crate) mod lists;
pub(crate) mod shortform;
pub(crate) mod stored_values;
mod twice;
