//! Preloaded libraries that report other owners, permissions and devices than the disk has:
//! fakeroot and pseudo, under which Debian, Buildroot and Yocto make images without root.
//!
//! They take the place of functions of the C library. So all of uxfs reaches the host through these functions (`rustix` with
//! `use-libc`), and goes no way past them where such a library is there. A statically linked program cannot be
//! reached, and must not believe the disk then.

use std::{fs, sync::OnceLock};

use thiserror::Error;

/// Library that was preloaded into the process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Preload {
    /// No such library.
    None,
    /// One that is loaded.
    Loaded,
    /// One that should be, and is not.
    Unheard(&'static str),
}

/// The library that should decide about owners and devices cannot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error(
    "{0} has no effect on this program (it is statically linked, or the library does not suit it): owners and devices would be \
     wrong; have tar read or write the files: tar c DIRECTORY | uxfs mkfs --from - IMAGE, uxfs extract IMAGE --tar - | tar x"
)]
pub struct Unheard(pub &'static str);

const LIBRARIES: [(&str, &str); 2] = [("fakeroot", "libfakeroot"), ("pseudo", "libpseudo")];

/// The library that was preloaded into this process; looked up once.
pub fn find() -> Preload {
    static FOUND: OnceLock<Preload> = OnceLock::new();
    *FOUND.get_or_init(|| {
        let text = |variable| std::env::var_os(variable).unwrap_or_default().to_string_lossy().into_owned();
        let [preloaded, key, prefix] = ["LD_PRELOAD", "FAKEROOTKEY", "PSEUDO_PREFIX"].map(text);
        if preloaded.is_empty() && key.is_empty() && prefix.is_empty() {
            return Preload::None;
        }
        let maps = fs::read_to_string("/proc/self/maps").unwrap_or_default();
        judge(&preloaded, !key.is_empty(), &maps)
    })
}

/// Whether a library stands between that goes by what the C library is asked.
pub fn is_loaded() -> bool {
    find() == Preload::Loaded
}

/// Refuses to go on where owners and devices would be wrong.
///
/// # Errors
/// Such a library should be loaded, and is not.
pub fn check() -> Result<(), Unheard> {
    match find() {
        Preload::Unheard(name) => Err(Unheard(name)),
        Preload::None | Preload::Loaded => Ok(()),
    }
}

/// By what the environment wants and what is mapped. pseudo sets fakeroot's key, too, so that any of them will do.
fn judge(preloaded: &str, has_fakeroot_key: bool, maps: &str) -> Preload {
    if LIBRARIES.iter().any(|(_, library)| maps.contains(library)) {
        return Preload::Loaded;
    }
    let wanted = LIBRARIES
        .iter()
        .find(|(name, library)| preloaded.contains(library) || (has_fakeroot_key && *name == "fakeroot"));
    wanted.map_or(Preload::None, |(name, _)| Preload::Unheard(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_should_be_loaded_must_be() {
        let none = "7f00 r-xp /usr/lib/libc.so.6\n";
        let loaded = "7f00 r-xp /usr/lib/libfakeroot/libfakeroot-0.so\n";
        assert_eq!(judge("", false, none), Preload::None);
        assert_eq!(judge("libjemalloc.so", false, none), Preload::None);
        assert_eq!(judge("libfakeroot-sysv.so", true, loaded), Preload::Loaded);
        assert_eq!(judge("/opt/libpseudo.so", false, loaded), Preload::Loaded);
        assert_eq!(judge("libfakeroot-sysv.so", true, none), Preload::Unheard("fakeroot"));
        assert_eq!(judge("", true, none), Preload::Unheard("fakeroot"));
        assert_eq!(judge("libpseudo.so", false, none), Preload::Unheard("pseudo"));
    }
}
