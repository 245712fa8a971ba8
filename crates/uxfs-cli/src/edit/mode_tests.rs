//! Each line is the result of GNU chmod 9.7; the differential tests compare with chmod again.
use super::ModeChange;

fn change(text: &str, before: u16, is_directory: bool) -> u16 {
    ModeChange::parse(text).unwrap().apply(before, is_directory, 0o022)
}

#[test]
fn files() {
    for (text, before, after) in [
        ("755", 0o644, 0o755),
        ("0", 0o7777, 0),
        ("4755", 0, 0o4755),
        ("u+x", 0o644, 0o744),
        ("+x", 0o644, 0o755),
        ("+w", 0o444, 0o644),
        ("go=", 0o777, 0o700),
        ("a=rX", 0o700, 0o555),
        ("a=rX", 0o600, 0o444),
        ("u=rwx,g=u,o=g-w", 0, 0o775),
        ("u+s,g+s,+t", 0o755, 0o7755),
        ("a-s", 0o6755, 0o755),
        ("u=g", 0o640, 0o440),
        ("=", 0o777, 0),
    ] {
        assert_eq!(format!("{:o}", change(text, before, false)), format!("{after:o}"), "{text} {before:o}");
    }
}

#[test]
fn directories_keep_their_set_ids() {
    for (text, before, after) in [
        ("755", 0o2777, 0o2755),
        ("00755", 0o2777, 0o755),
        ("u=rwx,go=rx", 0o2777, 0o2755),
        ("g-s", 0o2777, 0o777),
        ("g=rxs", 0o777, 0o2757),
        ("a=X", 0o600, 0o111),
    ] {
        assert_eq!(format!("{:o}", change(text, before, true)), format!("{after:o}"), "{text} {before:o}");
    }
}

#[test]
fn what_is_no_mode() {
    for text in ["", "8", "77777", "u", "u+q", "z+x", "7x", "u+x,"] {
        assert!(ModeChange::parse(text).is_err(), "{text}");
    }
}
