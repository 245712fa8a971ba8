//! Extended attributes, and parent pointers, which lie among them.

pub(crate) mod check;
