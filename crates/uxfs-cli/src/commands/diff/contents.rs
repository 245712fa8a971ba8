//! Two files byte by byte: holes are zeros, and cost no time where both files have one.

use super::both::{Both, Side};
use crate::failure::Failure;

/// Bytes that are looked through for one that is not zero, before the next are.
const LOOK_BYTES: usize = 4096;

/// The next part of a file.
#[derive(Debug, Clone, Copy)]
pub(super) enum Piece<'a> {
    /// So many zeros.
    Zeros(u64),
    /// These bytes.
    Data(&'a [u8]),
}

/// A file from its beginning to its end.
pub(super) trait Pieces {
    /// The next piece, which is not empty; `None` at the end.
    fn next(&mut self) -> Result<Option<Piece<'_>>, Failure>;
}

impl<'a> Piece<'a> {
    fn length_bytes(self) -> u64 {
        match self {
            Self::Zeros(length) => length,
            Self::Data(bytes) => bytes.len() as u64,
        }
    }

    /// Both parts, of which the first has so many bytes, and no more than all.
    fn split(self, at: u64) -> (Self, Self) {
        match self {
            Self::Zeros(length) => (Self::Zeros(at), Self::Zeros(length.saturating_sub(at))),
            Self::Data(bytes) => {
                let at = usize::try_from(at).unwrap_or(usize::MAX).min(bytes.len());
                let (before, behind) = bytes.split_at(at);
                (Self::Data(before), Self::Data(behind))
            }
        }
    }

    /// Whether it has the same bytes as another one of its length.
    fn is_same(self, other: Self) -> bool {
        match (self, other) {
            (Self::Zeros(_), Self::Zeros(_)) => true,
            (Self::Data(one), Self::Data(two)) => one == two,
            (Self::Data(bytes), Self::Zeros(_)) | (Self::Zeros(_), Self::Data(bytes)) => {
                bytes.chunks(LOOK_BYTES).all(|chunk| chunk.iter().fold(0, |all, byte| all | byte) == 0)
            }
        }
    }
}

/// Whether two files have the same bytes. It ends with the first that differ.
///
/// # Errors
/// One of them cannot be read: this one.
pub(super) fn are_same(files: &mut Both<Box<dyn Pieces + '_>>) -> Result<bool, (Side, Failure)> {
    let Both { first, second } = files;
    let (of_first, of_second) = (|failure| (Side::First, failure), |failure| (Side::Second, failure));
    let (mut one, mut two) = (Piece::Zeros(0), Piece::Zeros(0));
    loop {
        if one.length_bytes() == 0 {
            one = match first.next().map_err(of_first)? {
                Some(piece) => piece,
                None => return Ok(two.length_bytes() == 0 && second.next().map_err(of_second)?.is_none()),
            };
        }
        if two.length_bytes() == 0 {
            two = match second.next().map_err(of_second)? {
                Some(piece) => piece,
                None => return Ok(false),
            };
        }
        let length = one.length_bytes().min(two.length_bytes());
        let ((here, rest), (there, other_rest)) = (one.split(length), two.split(length));
        if !here.is_same(there) {
            return Ok(false);
        }
        (one, two) = (rest, other_rest);
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    struct Parts<'p>(std::slice::Iter<'p, Piece<'p>>);

    impl Pieces for Parts<'_> {
        fn next(&mut self) -> Result<Option<Piece<'_>>, Failure> {
            Ok(self.0.next().copied())
        }
    }

    #[test]
    fn pieces_need_not_begin_at_the_same_places() {
        use Piece::{Data, Zeros};
        let all: [(&[Piece<'_>], u8); 7] = [
            (&[Zeros(3), Data(b"abc"), Zeros(9000)], 0),
            (&[Data(b"\0"), Data(b"\0\0ab"), Data(b"c"), Zeros(1), Data(&[0; 8999])], 0),
            (&[Zeros(1), Zeros(2), Data(b"abc"), Data(&[0; 9000])], 0),
            (&[Zeros(3), Data(b"abd"), Zeros(9000)], 1),
            (&[Zeros(3), Data(b"abc"), Zeros(8999)], 2),
            (&[Zeros(3), Data(b"abc"), Zeros(8999), Data(b"x")], 3),
            (&[], 4),
        ];
        for (one, kind) in &all {
            for (two, other_kind) in &all {
                let mut files: Both<Box<dyn Pieces>> =
                    Both { first: Box::new(Parts(one.iter())), second: Box::new(Parts(two.iter())) };
                assert_eq!(are_same(&mut files).unwrap(), kind == other_kind, "{one:?} {two:?}");
            }
        }
    }
}
