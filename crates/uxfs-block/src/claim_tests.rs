use super::*;

fn claim(path: &Path, access: OFlags, lock: Lock) -> Result<Claimed, ClaimError> {
    Claimed::open(path, access, lock)
}

/// Invariants 1 and 2: of two that try, none loses what it has.
#[test]
fn a_claim_beside_another_one_stays_shared() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let shared = || claim(file.path(), OFlags::RDWR, Lock::Shared);
    let (one, other) = (shared().unwrap(), shared().unwrap());
    for claimed in [&one, &other] {
        assert!(matches!(claimed.exclude_others(), Err(ClaimError::Reading)));
        let writer = claim(file.path(), OFlags::RDWR, Lock::Exclusive);
        assert!(matches!(writer, Err(ClaimError::Reading)), "both keep it away");
    }
    drop(other);
    one.exclude_others().unwrap();
    assert!(matches!(shared(), Err(ClaimError::Changing)));
    one.share().unwrap();
    shared().unwrap();
    one.exclude_others().unwrap();
}

/// Invariant 3: a writer may have come and gone.
#[test]
fn a_lock_that_was_lost_is_never_exclusive_again() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let claimed = claim(file.path(), OFlags::RDWR, Lock::Shared).unwrap();
    let stranger = File::open(file.path()).unwrap();
    system::flock(&stranger, FlockOperation::LockShared).unwrap();
    assert!(matches!(claimed.exclude_others(), Err(ClaimError::Changing)));
    drop(stranger);
    assert!(matches!(claimed.exclude_others(), Err(ClaimError::Changing)));
    let writer = claim(file.path(), OFlags::RDWR, Lock::Exclusive);
    assert!(matches!(writer, Err(ClaimError::Reading)), "it keeps writers away as before");
}

/// Invariant 4.
#[test]
fn a_stamp_changes_with_what_is_written_by_programs_without_locks() {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), "some bytes").unwrap();
    let claimed = claim(file.path(), OFlags::RDWR, Lock::Unused).unwrap();
    let stamp = crate::stamp::Stamp::of(&claimed);
    // Times of files are not finer everywhere.
    thread::sleep(PAUSE);
    let mut other = File::options().write(true).open(file.path()).unwrap();
    io::Write::write_all(&mut other, b"same").unwrap();
    let written = crate::stamp::Stamp::of(&claimed);
    assert!(written != stamp && !written.has_same_contents(&stamp));
    thread::sleep(PAUSE);
    other.set_permissions(std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
    let permitted = crate::stamp::Stamp::of(&claimed);
    assert!(permitted != written && permitted.has_same_contents(&written));
}
