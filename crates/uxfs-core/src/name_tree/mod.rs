//! Changing the trees of name hashes that directories and attributes have: [`edit`]. Reading them is
//! [`uxfs_volume::name_tree`].

pub(crate) mod edit;
