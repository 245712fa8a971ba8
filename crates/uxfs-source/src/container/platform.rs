//! Operating system and processor, in the words of images.

use std::{fmt, str::FromStr};

use serde::Deserialize;

/// A platform: `linux/arm64/v8`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Platform {
    /// `linux`.
    pub os: String,
    /// As Go calls it: `amd64`.
    pub architecture: String,
    /// Of the processor: `v7`.
    #[serde(default)]
    pub variant: Option<String>,
}

impl Platform {
    /// Linux on the processor that this program runs on.
    pub fn of_host() -> Self {
        let (architecture, variant) = normal(std::env::consts::ARCH, None);
        let architecture = match architecture.as_str() {
            "powerpc64" if cfg!(target_endian = "little") => "ppc64le".to_owned(),
            "loongarch64" => "loong64".to_owned(),
            _ => architecture,
        };
        Self { os: "linux".to_owned(), architecture, variant }
    }

    /// How well an image for `other` suits: smaller is better, `None` not at all. An image that names no variant suits
    /// every processor of its architecture, and one for an older processor of ARM a newer one.
    pub(super) fn distance(&self, other: &Self) -> Option<u32> {
        let (architecture, variant) = normal(&other.architecture, other.variant.as_deref());
        if self.os != other.os || self.architecture != architecture {
            return None;
        }
        match (self.variant.as_deref(), variant.as_deref()) {
            (wanted, found) if wanted == found => Some(0),
            (_, None) => Some(100),
            (Some(wanted), Some(found)) if self.architecture == "arm" => {
                version(wanted)?.checked_sub(version(found)?)
            }
            // The usual one of its architecture, newest first.
            (None, Some(found)) => match (self.architecture.as_str(), found) {
                ("amd64", "v1") | ("arm64", "v8") => Some(1),
                ("arm", found) => 50_u32.checked_sub(version(found)?),
                _ => None,
            },
            (Some(_), Some(_)) => None,
        }
    }

    /// Whether it names no platform, as the descriptors of signatures and attestations do.
    pub(super) fn is_unknown(&self) -> bool {
        self.os == "unknown" || self.architecture == "unknown"
    }
}

fn version(variant: &str) -> Option<u32> {
    variant.strip_prefix('v')?.parse().ok().filter(|version| *version < 50)
}

/// Other names that people and kernels have.
fn normal(architecture: &str, variant: Option<&str>) -> (String, Option<String>) {
    let (architecture, implied) = match architecture {
        "x86_64" | "x86-64" => ("amd64", None),
        "x86" | "i386" | "i686" => ("386", None),
        "aarch64" => ("arm64", None),
        "armhf" => ("arm", Some("v7")),
        "armel" => ("arm", Some("v6")),
        other => (other, None),
    };
    // Every 64-bit ARM is the eighth at least, and every amd64 the first.
    let variant = variant.or(implied).filter(|variant| {
        !variant.is_empty() && !matches!((architecture, *variant), ("arm64", "v8") | ("amd64", "v1"))
    });
    (architecture.to_owned(), variant.map(str::to_owned))
}

impl FromStr for Platform {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut parts = text.split('/');
        let wrong = || format!("`{text}` is not a platform such as linux/amd64 or linux/arm/v7");
        let (os, architecture) = (parts.next().unwrap_or_default(), parts.next().ok_or_else(wrong)?);
        let variant = parts.next();
        let is_empty = os.is_empty() || architecture.is_empty() || variant.is_some_and(str::is_empty);
        if is_empty || parts.next().is_some() {
            return Err(wrong());
        }
        let (architecture, variant) = normal(architecture, variant);
        Ok(Self { os: os.to_owned(), architecture, variant })
    }
}

impl fmt::Display for Platform {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.os, self.architecture)?;
        self.variant.as_ref().map_or(Ok(()), |variant| write!(f, "/{variant}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn platform(text: &str) -> Platform {
        text.parse().unwrap()
    }

    #[test]
    fn platforms_in_words() {
        for (text, expected) in [
            ("linux/amd64", "linux/amd64"),
            ("linux/x86_64", "linux/amd64"),
            ("linux/aarch64", "linux/arm64"),
            ("linux/arm64/v8", "linux/arm64"),
            ("linux/armhf", "linux/arm/v7"),
            ("linux/arm/v6", "linux/arm/v6"),
            ("windows/amd64", "windows/amd64"),
        ] {
            assert_eq!(platform(text).to_string(), expected);
        }
        for text in ["", "linux", "linux/", "/amd64", "linux/arm/", "linux/arm/v7/x"] {
            assert!(text.parse::<Platform>().is_err(), "{text}");
        }
        assert_eq!(Platform::of_host().os, "linux");
    }

    #[test]
    fn the_nearest_is_found() {
        let of = |os: &str, architecture: &str, variant: Option<&str>| Platform {
            os: os.to_owned(),
            architecture: architecture.to_owned(),
            variant: variant.map(str::to_owned),
        };
        let suits = |wanted: &str, found: &Platform| platform(wanted).distance(found);
        assert_eq!(suits("linux/amd64", &of("linux", "amd64", None)), Some(0));
        assert_eq!(suits("linux/amd64", &of("linux", "amd64", Some("v1"))), Some(0));
        assert_eq!(suits("linux/amd64", &of("linux", "amd64", Some("v3"))), None);
        assert_eq!(suits("linux/amd64", &of("windows", "amd64", None)), None);
        assert_eq!(suits("linux/arm64", &of("linux", "arm64", Some("v8"))), Some(0));
        let (v5, v6, v7) =
            (of("linux", "arm", Some("v5")), of("linux", "arm", Some("v6")), of("linux", "arm", Some("v7")));
        assert!(suits("linux/arm", &v7) < suits("linux/arm", &v6));
        assert!(suits("linux/arm/v7", &v6) < suits("linux/arm/v7", &v5));
        assert_eq!(suits("linux/arm/v6", &v7), None);
        assert!(of("unknown", "unknown", None).is_unknown());
    }
}
