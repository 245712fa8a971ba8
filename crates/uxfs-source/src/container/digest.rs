//! Digests, which name blobs.

use std::{
    fmt,
    io::{self, Read},
};

use sha2::{Digest as _, Sha256, Sha512};

use crate::error::{ContainerFault, Shown};

/// Read at once.
const BUFFER_BYTES: usize = 256 << 10;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Algorithm {
    Sha256,
    Sha512,
}

/// `sha256:` and so on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Digest {
    algorithm: Algorithm,
    /// Lower case, of the algorithm's length.
    digits: Box<str>,
}

impl Digest {
    /// # Errors
    /// Anything but an algorithm and its number of digits, of which paths are made.
    pub(super) fn parse(text: &str) -> Result<Self, ContainerFault> {
        let parse = || {
            let (algorithm, digits) = text.split_once(':')?;
            let (algorithm, length) = match algorithm {
                "sha256" => (Algorithm::Sha256, 64),
                "sha512" => (Algorithm::Sha512, 128),
                _ => return None,
            };
            let is_digit = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
            (digits.len() == length && digits.bytes().all(is_digit))
                .then(|| Self { algorithm, digits: digits.into() })
        };
        parse().ok_or_else(|| ContainerFault::Digest(Shown::from(text.as_bytes())))
    }

    /// Where the blob lies in a layout.
    pub(super) fn path(&self) -> String {
        format!("blobs/{}/{}", self.algorithm.name(), self.digits)
    }

    /// Compares all that `stream` gives, unless `goes_on` says that it is no longer wanted.
    pub(super) fn check(
        &self,
        mut stream: impl Read,
        goes_on: &mut dyn FnMut() -> io::Result<()>,
    ) -> io::Result<Result<(), Mismatch>> {
        let mut hasher = self.algorithm.hasher();
        let mut buffer = vec![0; BUFFER_BYTES];
        loop {
            goes_on()?;
            match stream.read(&mut buffer) {
                Ok(0) => break,
                Ok(read) => hasher.update(buffer.get(..read).unwrap_or_default()),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        let found = Self { algorithm: self.algorithm, digits: hasher.digits().into() };
        Ok(if found == *self { Ok(()) } else { Err(Mismatch { found }) })
    }

    /// As [`check`](Self::check), of bytes in memory.
    pub(super) fn check_bytes(&self, bytes: &[u8]) -> Result<(), Mismatch> {
        // Memory can always be read.
        self.check(bytes, &mut || Ok(())).unwrap_or(Ok(()))
    }
}

/// The digest of bytes that should have another.
#[derive(Debug)]
pub(super) struct Mismatch {
    found: Digest,
}

impl Mismatch {
    pub(super) fn fault(&self, file: Shown, expected: &Digest) -> ContainerFault {
        ContainerFault::Damaged { file, found: self.found.to_string(), expected: expected.to_string() }
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.algorithm.name(), self.digits)
    }
}

impl Algorithm {
    fn name(self) -> &'static str {
        match self {
            Self::Sha256 => "sha256",
            Self::Sha512 => "sha512",
        }
    }

    fn hasher(self) -> Hasher {
        match self {
            Self::Sha256 => Hasher::Sha256(Sha256::new()),
            Self::Sha512 => Hasher::Sha512(Sha512::new()),
        }
    }
}

#[allow(clippy::large_enum_variant)] // One at a time.
enum Hasher {
    Sha256(Sha256),
    Sha512(Sha512),
}

impl Hasher {
    fn update(&mut self, bytes: &[u8]) {
        match self {
            Self::Sha256(hasher) => hasher.update(bytes),
            Self::Sha512(hasher) => hasher.update(bytes),
        }
    }

    fn digits(self) -> String {
        match self {
            Self::Sha256(hasher) => hexadecimal(&hasher.finalize()),
            Self::Sha512(hasher) => hexadecimal(&hasher.finalize()),
        }
    }
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const EMPTY: &str = "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

    #[test]
    fn digests_are_digits_and_nothing_else() {
        let empty = Digest::parse(EMPTY).unwrap();
        assert_eq!(empty.to_string(), EMPTY);
        assert_eq!(empty.path(), EMPTY.replace("sha256:", "blobs/sha256/"));
        assert!(empty.check_bytes(b"").is_ok() && empty.check_bytes(b"x").is_err());
        let long = format!("sha512:{}", "0".repeat(128));
        assert!(Digest::parse(&long).unwrap().check_bytes(b"").is_err());
        let upper = EMPTY.to_uppercase().replace("SHA256", "sha256");
        let dots = format!("sha256:{}", "../".repeat(22).get(..64).unwrap());
        for text in
            ["", "sha256", "sha256:", "sha256:../../etc/passwd", "md5:00", &upper, &dots, &EMPTY[..70]]
        {
            assert!(Digest::parse(text).is_err(), "{text}");
        }
    }
}
