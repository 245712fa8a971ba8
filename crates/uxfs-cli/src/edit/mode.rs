//! Permissions as chmod takes them: `755`, `u+x,go-w`, `a=rX`.

/// Set-user-id and set-group-id.
const SET_IDS: u16 = 0o6000;
/// Execute permission of all classes.
const RUN: u16 = 0o111;

/// A change of permissions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModeChange {
    steps: Vec<Step>,
}

/// The classes, the operator and the bits of one clause.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Step {
    /// Permission bits of the classes that it changes; `None` is all classes, less the umask.
    who: Option<u16>,
    sign: Sign,
    what: What,
    /// Set-id bits that were asked for by name: directories keep the others.
    named: u16,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Sign {
    Add,
    Remove,
    Assign,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum What {
    /// These bits, and execute permission for all if any class has it or the file is a directory.
    Bits { bits: u16, runs_if_any: bool },
    /// What this class has: the shift of its three bits.
    Like(u32),
}

impl ModeChange {
    /// Reads an octal or symbolic mode.
    ///
    /// # Errors
    /// It is neither.
    pub fn parse(text: &str) -> Result<Self, String> {
        let wrong = || format!("`{text}` is not a mode such as 644 or u+rwX,go-w");
        if text.starts_with(|first: char| first.is_ascii_digit()) {
            let is_octal = text.len() <= 6 && text.bytes().all(|digit| (b'0'..=b'7').contains(&digit));
            let bits = is_octal.then(|| u32::from_str_radix(text, 8).ok()).flatten();
            let bits = bits.and_then(|bits| u16::try_from(bits).ok()).filter(|bits| *bits <= 0o7777);
            let bits = bits.ok_or_else(wrong)?;
            // Five digits say all of it, fewer leave a directory's set-id bits unless they set them.
            let named = if text.len() > 4 { SET_IDS } else { bits & SET_IDS };
            let what = What::Bits { bits, runs_if_any: false };
            return Ok(Self { steps: vec![Step { who: Some(0o7777), sign: Sign::Assign, what, named }] });
        }
        let mut steps = Vec::new();
        for clause in text.split(',') {
            let signs = clause.find(['+', '-', '=']).ok_or_else(wrong)?;
            let (who, mut rest) = clause.split_at(signs);
            let who = who_bits(who).ok_or_else(wrong)?;
            while !rest.is_empty() {
                let end = rest[1..].find(['+', '-', '=']).map_or(rest.len(), |end| end + 1);
                steps.push(step(who, &rest[..end]).ok_or_else(wrong)?);
                rest = &rest[end..];
            }
        }
        Ok(Self { steps })
    }

    /// The permissions that a file with these gets.
    #[must_use]
    pub fn apply(&self, permissions: u16, is_directory: bool, umask: u16) -> u16 {
        self.steps.iter().fold(permissions & 0o7777, |mode, step| step.apply(mode, is_directory, umask))
    }
}

impl Step {
    fn apply(&self, mode: u16, is_directory: bool, umask: u16) -> u16 {
        let wanted = match self.what {
            What::Bits { bits, runs_if_any: true } if is_directory || mode & RUN != 0 => bits | RUN,
            What::Bits { bits, .. } => bits,
            What::Like(shift) => (mode >> shift & 7) * RUN,
        };
        // Of directories set-id bits change only where they were asked for.
        let untouched = if is_directory { SET_IDS & !self.named } else { 0 };
        let reach = self.who.unwrap_or(!umask & 0o7777);
        let bits = wanted & reach & !untouched;
        match self.sign {
            Sign::Add => mode | bits,
            Sign::Remove => mode & !bits,
            Sign::Assign => {
                let kept = self.who.map_or(0, |who| !who) | untouched;
                mode & kept & 0o7777 | bits
            }
        }
    }
}

fn who_bits(who: &str) -> Option<Option<u16>> {
    let mut bits = None;
    for letter in who.chars() {
        let more = match letter {
            'u' => 0o4700,
            'g' => 0o2070,
            'o' => 0o1007,
            'a' => 0o7777,
            _ => return None,
        };
        bits = Some(bits.unwrap_or(0) | more);
    }
    Some(bits)
}

/// A sign and what follows.
fn step(who: Option<u16>, text: &str) -> Option<Step> {
    let sign = match text.chars().next()? {
        '+' => Sign::Add,
        '-' => Sign::Remove,
        '=' => Sign::Assign,
        _ => return None,
    };
    let letters = &text[1..];
    let like = match letters {
        "u" => Some(6),
        "g" => Some(3),
        "o" => Some(0),
        _ => None,
    };
    if let Some(shift) = like {
        return Some(Step { who, sign, what: What::Like(shift), named: 0 });
    }
    let (mut bits, mut runs_if_any) = (0, false);
    for letter in letters.chars() {
        match letter {
            'r' => bits |= 0o444,
            'w' => bits |= 0o222,
            'x' => bits |= 0o111,
            's' => bits |= SET_IDS,
            't' => bits |= 0o1000,
            'X' => runs_if_any = true,
            _ => return None,
        }
    }
    let named = bits & who.unwrap_or(0o7777) & SET_IDS;
    Some(Step { who, sign, what: What::Bits { bits, runs_if_any }, named })
}

#[cfg(test)]
#[path = "mode_tests.rs"]
mod tests;
