//! Whether bytes are zeros, at the speed of memory in every build.

const LENGTH_BYTES: usize = 4096;
static ZEROS: [u8; LENGTH_BYTES] = [0; LENGTH_BYTES];

/// Whether all bytes are zero; so it is where there are none.
pub fn is_zero(bytes: &[u8]) -> bool {
    // The comparison is the C library's, which takes many bytes at once and ends at the first that differs.
    bytes.chunks(LENGTH_BYTES).all(|chunk| chunk == &ZEROS[..chunk.len()])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_byte_that_is_not_zero_is_found_wherever_it_is() {
        let mut bytes = vec![0; 2 * LENGTH_BYTES + 17];
        assert!(is_zero(&bytes) && is_zero(&[]));
        for at in [0, 1, LENGTH_BYTES - 1, LENGTH_BYTES, 2 * LENGTH_BYTES, 2 * LENGTH_BYTES + 16] {
            bytes[at] = 0x80;
            assert!(!is_zero(&bytes), "{at}");
            bytes[at] = 0;
        }
    }
}
