//! Which bytes of a structure mean what.

use std::ops::Range;

use super::Transform;

/// Text that is shorter is no name that would be replaced.
const SHORTEST_TEXT: usize = crate::obfuscate::SHORTEST_BYTES;
/// What covers text.
const COVER: u8 = b'x';

/// Parts of a structure by their offsets in it.
#[derive(Debug, Clone, Default)]
pub(super) struct Plan {
    /// All bytes that mean something.
    pub used: Vec<Range<usize>>,
    /// Names of entries, and of parent pointers.
    pub names: Vec<Range<usize>>,
    /// Names of attributes.
    pub attribute_names: Vec<Range<usize>>,
    /// Paths, or pieces of them.
    pub paths: Vec<Range<usize>>,
    /// Values of attributes.
    pub values: Vec<Range<usize>>,
    /// What may hold names at places that are not known.
    pub texts: Vec<Range<usize>>,
    /// In a damaged structure: what holds no text, whatever it looks like.
    pub without_text: Vec<Range<usize>>,
}

impl Plan {
    /// Of a structure whose first bytes hold no text.
    pub(super) fn beginning_with_numbers(length: usize) -> Self {
        let mut plan = Self::default();
        plan.without_text.push(0..length);
        plan
    }

    /// Marks bytes that mean something.
    pub(super) fn use_bytes(&mut self, start: usize, length: usize) {
        self.used.push(start..start.saturating_add(length));
    }

    /// Changes a structure whose parts are sure. Unused bytes become zeros only where all of it is sound.
    pub(super) fn apply(&self, bytes: &mut [u8], transform: &Transform<'_>, is_sound: bool) {
        self.replace(bytes, transform);
        if transform.zero_unused && is_sound {
            self.zero_unused(bytes);
        }
    }

    /// Changes a damaged structure: names that can be found are replaced, and all other text is covered.
    pub(super) fn cover(&self, bytes: &mut [u8], transform: &Transform<'_>) {
        if transform.cipher.is_none() {
            return;
        }
        let all = [&self.names, &self.attribute_names, &self.paths, &self.values, &self.without_text];
        let mut kept: Vec<Range<usize>> = all.into_iter().flatten().cloned().collect();
        for gap in gaps(&mut kept, bytes.len()) {
            if let Some(part) = bytes.get_mut(gap) {
                cover_text(part);
            }
        }
        self.replace(bytes, transform);
    }

    fn replace(&self, bytes: &mut [u8], transform: &Transform<'_>) {
        let Some(cipher) = transform.cipher else { return };
        let mut each = |ranges: &[Range<usize>], change: &dyn Fn(&mut [u8])| {
            for range in ranges {
                if let Some(part) = bytes.get_mut(range.clone()) {
                    change(part);
                }
            }
        };
        each(&self.names, &|name| cipher.replace_name(name));
        each(&self.attribute_names, &|name| cipher.replace_attribute_name(name));
        each(&self.paths, &|path| cipher.replace_path(path));
        each(&self.values, &|value| value.fill(0));
        each(&self.texts, &cover_text);
    }

    pub(super) fn zero_unused(&self, bytes: &mut [u8]) {
        let mut used = self.used.clone();
        for gap in gaps(&mut used, bytes.len()) {
            if let Some(part) = bytes.get_mut(gap) {
                part.fill(0);
            }
        }
    }
}

/// What lies between ranges, up to `end`.
fn gaps(ranges: &mut [Range<usize>], end: usize) -> Vec<Range<usize>> {
    ranges.sort_by_key(|range| range.start);
    let (mut gaps, mut next) = (Vec::new(), 0);
    for range in ranges.iter() {
        if range.start > next {
            gaps.push(next..range.start.min(end));
        }
        next = next.max(range.end);
    }
    if next < end {
        gaps.push(next..end);
    }
    gaps
}

/// Covers runs of bytes that may be text, in ASCII or UTF-8.
pub(super) fn cover_text(bytes: &mut [u8]) {
    let is_text = |byte: &u8| matches!(byte, b' '..=b'~' | 0x80..=0xf4);
    for run in bytes.chunk_by_mut(|one, other| is_text(one) == is_text(other)) {
        if run.len() >= SHORTEST_TEXT && run.first().is_some_and(is_text) {
            run.fill(COVER);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gaps_are_what_no_range_has() {
        let mut ranges = vec![10..20, 0..4, 15..30, 40..50];
        assert_eq!(gaps(&mut ranges, 60), vec![4..10, 30..40, 50..60]);
        assert_eq!(gaps(&mut [], 3), std::slice::from_ref(&(0..3)));
        assert_eq!(gaps(&mut ranges, 45), vec![4..10, 30..40]);
    }

    #[test]
    fn text_is_covered_and_numbers_are_not() {
        let mut bytes = *b"\0\0\0\x05hello world\0\xff\xff\xff\xff\xff\xffabcd\x01";
        cover_text(&mut bytes);
        assert_eq!(&bytes, b"\0\0\0\x05xxxxxxxxxxx\0\xff\xff\xff\xff\xff\xffabcd\x01");
    }
}
