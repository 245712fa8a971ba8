//! All integration tests of `uxfs-extract` in one program, so that they share what one of them unpacked or made.

mod damage;
mod hostile;
mod restore;
