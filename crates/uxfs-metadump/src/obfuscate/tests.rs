#![allow(clippy::unwrap_used)]
use std::collections::HashSet;

use super::*;

fn replaced(cipher: &NameCipher, name: &[u8]) -> Vec<u8> {
    let mut name = name.to_vec();
    cipher.replace_name(&mut name);
    name
}

#[test]
fn length_and_hash_stay_and_the_name_changes() {
    let cipher = NameCipher::new(NameRule::Exact);
    let names: Vec<Vec<u8>> = (0..500_u32)
        .map(|number| match number % 4 {
            0 => format!("f{number:04}").into_bytes(),
            1 => format!("a longer name of file number {number}").into_bytes(),
            2 => format!("Имя файла {number}").into_bytes(),
            _ => vec![0x80 | (number % 120) as u8; 5 + number as usize % 251],
        })
        .collect();
    for name in &names {
        let other = replaced(&cipher, name);
        assert_eq!(name_hash::hash(&other), name_hash::hash(name), "{}", name.escape_ascii());
        assert_eq!(other.len(), name.len());
        assert!(!other.contains(&0) && !other.contains(&b'/'));
        assert_ne!(&other, name);
        assert_eq!(other, replaced(&cipher, name), "the same name becomes the same other name");
    }
    let others: HashSet<_> = names.iter().map(|name| replaced(&cipher, name)).collect();
    assert_eq!(others.len(), names.iter().collect::<HashSet<_>>().len());
}

/// All names of six bytes with one hash, of the printable ones and of all others: none becomes the same as another.
#[test]
fn names_with_one_hash_stay_different() {
    for rule in [NameRule::Exact, NameRule::CaseFolded] {
        let cipher = NameCipher::new(rule);
        let samples =
            [(&cipher.names.printable, &b"sample"[..]), (&cipher.names.any, b"\xe9\xb0\xf1\xb1\xf2\xb2")];
        for (alphabet, sample) in samples {
            let hash = name_hash::hash(sample);
            let mut all = HashSet::new();
            let mut name = vec![0; 6];
            for (first, last) in (0..alphabet.radix())
                .flat_map(|first| (0..alphabet.tail_radix()).map(move |last| (first, last)))
            {
                write_name(&[first, last], hash, alphabet, &mut name);
                if cipher.names.may_replace(&name, alphabet) {
                    all.insert(name.clone());
                }
            }
            let others: HashSet<_> = all.iter().map(|name| replaced(&cipher, name)).collect();
            assert!(all.contains(sample) && all.len() > 20, "{}", all.len());
            assert!(others == all, "a permutation of {} names", all.len());
        }
    }
}

#[test]
fn what_must_stay_stays() {
    let cipher = NameCipher::new(NameRule::Exact);
    for name in [&b"lost+found"[..], b"", b".", b"..", b"abcd"] {
        assert_eq!(replaced(&cipher, name), name);
    }
    let mut path = b"/usr/../a-directory/a-file".to_vec();
    cipher.replace_path(&mut path);
    let expected = [
        b"/usr/../".to_vec(),
        replaced(&cipher, b"a-directory"),
        b"/".to_vec(),
        replaced(&cipher, b"a-file"),
    ];
    assert_eq!(path, expected.concat());
}

#[test]
fn folded_names_keep_their_folded_hash() {
    let cipher = NameCipher::new(NameRule::CaseFolded);
    for name in [&b"README.TXT"[..], b"Makefile", b"\xc4pfel und Birnen"] {
        let other = replaced(&cipher, name);
        assert_eq!(name_hash::hash_case_folded(&other), name_hash::hash_case_folded(name));
        let mut attribute = name.to_vec();
        cipher.replace_attribute_name(&mut attribute);
        assert_eq!(name_hash::hash(&attribute), name_hash::hash(name));
        assert_ne!(attribute, name);
    }
}
