//! Operations on names: as Linux does them, errors and times included; from many threads at once; and when there is no
//! space.

mod as_linux;
mod damaged_links;
mod equal_hashes;
mod free_mask;
mod full;
mod images;
mod in_place;
mod kernel_side;
mod neighbours;
mod own_side;
mod script;
mod threads;
mod unlinked;
