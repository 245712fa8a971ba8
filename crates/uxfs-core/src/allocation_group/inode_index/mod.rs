//! Inode chunks of a group: reading them here, changing them in [`edit`].

pub(crate) mod current;
pub(crate) mod edit;
