//! The formats of `-printf`.

use std::{
    cell::RefCell,
    io::{self, Write},
};

use uxfs_volume::inode::FileType;

use super::{Halt, action::sectors_of, lookup::Lookup, lookup::Names, test::Time};
use crate::{calendar, output::Output, search::subject::Subject, text};

/// Widest field.
const WIDTH_MAX: usize = 4096;

/// A format.
#[derive(Debug)]
pub struct Format {
    pieces: Vec<Piece>,
    /// The bytes of one field, kept for the next.
    scratch: RefCell<Vec<u8>>,
}

#[derive(Debug)]
enum Piece {
    Text(Vec<u8>),
    Field {
        field: Field,
        shape: Shape,
    },
    /// `\c`: nothing that follows is printed, and what was printed goes out.
    Stop,
}

/// What a field shows.
#[derive(Debug)]
enum Field {
    Path,
    BelowStart,
    Name,
    Above,
    Start,
    Depth,
    FileSystem,
    Type,
    InodeNumber,
    Size,
    Sectors,
    Kibibytes,
    Permissions,
    Mode,
    User(Names),
    UserNumber,
    Group(Names),
    GroupNumber,
    Links,
    Target,
    FullTime(Time),
    Time(Time, u8),
}

/// How a field is padded and shortened.
#[derive(Debug, Clone, Copy, Default)]
struct Shape {
    is_left: bool,
    has_zeros: bool,
    has_sign: bool,
    has_blank: bool,
    is_alternate: bool,
    width: usize,
    precision: Option<usize>,
}

impl Format {
    /// Reads a format.
    ///
    /// # Errors
    /// A message that names the directive or the escape that is unknown.
    pub fn parse(text: &[u8], lookup: &Lookup<'_>) -> Result<Self, String> {
        let (mut pieces, mut literal, mut rest) = (Vec::new(), Vec::new(), text);
        while let Some((byte, after)) = rest.split_first() {
            rest = after;
            match byte {
                b'\\' => match escape(rest)? {
                    (Some(byte), after) => {
                        literal.push(byte);
                        rest = after;
                    }
                    (None, _) => {
                        pieces.push(Piece::Text(std::mem::take(&mut literal)));
                        pieces.push(Piece::Stop);
                        break;
                    }
                },
                b'%' if rest.first() == Some(&b'%') => {
                    literal.push(b'%');
                    rest = rest.get(1..).unwrap_or_default();
                }
                b'%' => {
                    pieces.push(Piece::Text(std::mem::take(&mut literal)));
                    let (shape, after) = shape(rest)?;
                    let (field, after) = field(after, lookup)?;
                    pieces.push(Piece::Field { field, shape });
                    rest = after;
                }
                byte => literal.push(*byte),
            }
        }
        pieces.push(Piece::Text(literal));
        Ok(Self { pieces, scratch: RefCell::default() })
    }

    /// Whether any field is of the inode.
    pub fn needs_inode(&self) -> bool {
        self.pieces.iter().any(|piece| match piece {
            Piece::Field { field, .. } => !matches!(
                field,
                Field::Path
                    | Field::BelowStart
                    | Field::Name
                    | Field::Above
                    | Field::Start
                    | Field::Depth
                    | Field::FileSystem
                    | Field::Type
                    | Field::InodeNumber
            ),
            _ => false,
        })
    }

    /// Prints it for a file.
    ///
    /// # Errors
    /// Damage; the device; the output failed.
    pub fn print(&self, subject: &Subject<'_>, output: &mut Output) -> Result<(), Halt> {
        if self.needs_inode() {
            // A file that cannot be read leaves nothing half printed.
            subject.inode()?;
        }
        let mut bytes = self.scratch.borrow_mut();
        for piece in &self.pieces {
            match piece {
                Piece::Text(text) => output.write_all(text)?,
                Piece::Stop => {
                    output.flush()?;
                    return Ok(());
                }
                Piece::Field { field, shape } => {
                    bytes.clear();
                    field.write(subject, shape, &mut bytes)?;
                    if output.is_terminal() && field.is_from_image() {
                        let shown = text::escaped(&bytes);
                        shape.pad(shown.as_bytes(), false, output)?;
                    } else {
                        shape.pad(&bytes, field.is_number(), output)?;
                    }
                }
            }
        }
        Ok(())
    }
}

impl Shape {
    fn pad(&self, bytes: &[u8], is_number: bool, output: &mut Output) -> io::Result<()> {
        let bytes = match self.precision {
            Some(most) if !is_number => bytes.get(..most).unwrap_or(bytes),
            _ => bytes,
        };
        let missing = self.width.saturating_sub(bytes.len());
        let has_zeros = is_number && self.has_zeros && !self.is_left && self.precision.is_none();
        if self.is_left {
            output.write_all(bytes)?;
        }
        let filler = if has_zeros { b"0" } else { b" " };
        for _ in 0..missing {
            output.write_all(filler)?;
        }
        if !self.is_left {
            output.write_all(bytes)?;
        }
        Ok(())
    }
}

impl Field {
    /// Zeros and signs are for these alone.
    fn is_number(&self) -> bool {
        matches!(self, Self::Depth | Self::Permissions)
    }

    /// Its bytes could steer a terminal.
    fn is_from_image(&self) -> bool {
        matches!(
            self,
            Self::Path
                | Self::BelowStart
                | Self::Name
                | Self::Above
                | Self::Start
                | Self::Target
                | Self::User(_)
                | Self::Group(_)
        )
    }

    fn write(&self, subject: &Subject<'_>, shape: &Shape, bytes: &mut Vec<u8>) -> Result<(), Halt> {
        match self {
            Self::Path => bytes.extend_from_slice(subject.path),
            Self::BelowStart => bytes.extend_from_slice(subject.below_start()),
            Self::Name => bytes.extend_from_slice(subject.name_with_slash()),
            Self::Above => bytes.extend_from_slice(subject.above()),
            Self::Start => bytes.extend_from_slice(subject.start()),
            Self::Depth => {
                let sign = match (shape.has_sign, shape.has_blank) {
                    (true, _) => "+",
                    (false, true) => " ",
                    (false, false) => "",
                };
                write!(bytes, "{sign}{}", subject.depth)?;
            }
            Self::FileSystem => bytes.extend_from_slice(b"xfs"),
            Self::Type => bytes.push(subject.file_type()?.map_or(b'U', type_letter)),
            Self::InodeNumber => write!(bytes, "{}", subject.number)?,
            _ => self.write_of_inode(subject, shape, bytes)?,
        }
        Ok(())
    }

    fn write_of_inode(&self, subject: &Subject<'_>, shape: &Shape, bytes: &mut Vec<u8>) -> Result<(), Halt> {
        let inode = subject.inode()?;
        let named = |bytes: &mut Vec<u8>, name: Option<&[u8]>, number: u32| match name {
            Some(name) => {
                bytes.extend_from_slice(name);
                Ok(())
            }
            None => write!(bytes, "{number}"),
        };
        match self {
            Self::Size => write!(bytes, "{}", inode.size_bytes())?,
            Self::Sectors => write!(bytes, "{}", sectors_of(subject, inode))?,
            Self::Kibibytes => write!(bytes, "{}", sectors_of(subject, inode).div_ceil(2))?,
            Self::Permissions => {
                let zero = if shape.is_alternate && inode.permissions() != 0 { "0" } else { "" };
                write!(bytes, "{zero}{:o}", inode.permissions())?;
            }
            Self::Mode => bytes.extend_from_slice(&text::mode_string(inode.mode())),
            Self::User(names) => named(bytes, names.user(inode.uid()).map(str::as_bytes), inode.uid())?,
            Self::UserNumber => write!(bytes, "{}", inode.uid())?,
            Self::Group(names) => named(bytes, names.group(inode.gid()).map(str::as_bytes), inode.gid())?,
            Self::GroupNumber => write!(bytes, "{}", inode.gid())?,
            Self::Links => write!(bytes, "{}", inode.link_count())?,
            Self::Target => bytes.extend_from_slice(&subject.target()?.unwrap_or_default()),
            Self::FullTime(time) => calendar::write_full(bytes, time.of(inode))?,
            Self::Time(time, letter) => calendar::write_find(bytes, *letter, time.of(inode))?,
            _ => {}
        }
        Ok(())
    }
}

/// The letter of a type in `-type` and `%y`.
fn type_letter(file_type: FileType) -> u8 {
    match file_type {
        FileType::Regular => b'f',
        other => other.letter(),
    }
}

/// What follows a backslash; `None` in place of a byte for `\c`.
fn escape(text: &[u8]) -> Result<(Option<u8>, &[u8]), String> {
    let (letter, rest) = text.split_first().ok_or("it ends with a backslash: write \\\\")?;
    let byte = match letter {
        b'a' => 0x07,
        b'b' => 0x08,
        b'c' => return Ok((None, rest)),
        b'f' => 0x0c,
        b'n' => b'\n',
        b'r' => b'\r',
        b't' => b'\t',
        b'v' => 0x0b,
        b'\\' => b'\\',
        b'0'..=b'7' => {
            let is_octal = |byte: &&u8| (b'0'..=b'7').contains(byte);
            let digits = text.iter().take(3).take_while(is_octal).count();
            let value =
                text.iter().take(digits).fold(0_u32, |value, digit| value * 8 + u32::from(digit - b'0'));
            // As in C, only eight bits are kept.
            return Ok((Some(value as u8), text.get(digits..).unwrap_or_default()));
        }
        letter => return Err(format!("`\\{}` is no escape", text::escaped(&[*letter]))),
    };
    Ok((Some(byte), rest))
}

fn shape(mut rest: &[u8]) -> Result<(Shape, &[u8]), String> {
    let mut shape = Shape::default();
    while let Some((flag, after)) = rest.split_first() {
        match flag {
            b'-' => shape.is_left = true,
            b'0' => shape.has_zeros = true,
            b'+' => shape.has_sign = true,
            b' ' => shape.has_blank = true,
            b'#' => shape.is_alternate = true,
            _ => break,
        }
        rest = after;
    }
    let number = |rest: &mut &[u8]| {
        let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
        let (number, after) = rest.split_at_checked(digits).unwrap_or_default();
        *rest = after;
        let number = std::str::from_utf8(number).unwrap_or_default();
        let number = if number.is_empty() { Ok(0) } else { number.parse() };
        number.ok().filter(|number| *number <= WIDTH_MAX).ok_or(format!("a field is wider than {WIDTH_MAX}"))
    };
    shape.width = number(&mut rest)?;
    if let Some(after) = rest.strip_prefix(b".") {
        rest = after;
        shape.precision = Some(number(&mut rest)?);
    }
    Ok((shape, rest))
}

fn field<'t>(text: &'t [u8], lookup: &Lookup<'_>) -> Result<(Field, &'t [u8]), String> {
    let (letter, rest) = text.split_first().ok_or("it ends with %: write %%")?;
    let field = match letter {
        b'p' => Field::Path,
        b'P' => Field::BelowStart,
        b'f' => Field::Name,
        b'h' => Field::Above,
        b'H' => Field::Start,
        b'd' => Field::Depth,
        b'F' => Field::FileSystem,
        b'y' => Field::Type,
        b'i' => Field::InodeNumber,
        b's' => Field::Size,
        b'b' => Field::Sectors,
        b'k' => Field::Kibibytes,
        b'm' => Field::Permissions,
        b'M' => Field::Mode,
        b'u' => Field::User(lookup.names()),
        b'U' => Field::UserNumber,
        b'g' => Field::Group(lookup.names()),
        b'G' => Field::GroupNumber,
        b'n' => Field::Links,
        b'l' => Field::Target,
        b'a' => Field::FullTime(Time::Access),
        b'c' => Field::FullTime(Time::Change),
        b't' => Field::FullTime(Time::Modification),
        b'A' | b'B' | b'C' | b'T' => {
            let time = match letter {
                b'A' => Time::Access,
                b'B' => Time::Birth,
                b'C' => Time::Change,
                _ => Time::Modification,
            };
            let (form, rest) = rest.split_first().unwrap_or((&b' ', &[]));
            if !calendar::LETTERS.contains(form) {
                let (letter, form) = (char::from(*letter), text::escaped(&[*form]));
                return Err(format!("`%{letter}{form}` is no form of a time"));
            }
            return Ok((Field::Time(time, *form), rest));
        }
        b'D' => return Err("`%D`: an image has no device number".to_owned()),
        b'Y' => return Err("`%Y`: symbolic links are not followed; %y is the type of the link".to_owned()),
        b'S' => return Err("`%S` is not supported: compare %b and %s".to_owned()),
        b'Z' => return Err("`%Z` is not supported: use `uxfs xattr -n security.selinux`".to_owned()),
        letter => return Err(format!("`%{}` is no directive", text::escaped(&[*letter]))),
    };
    Ok((field, rest))
}
