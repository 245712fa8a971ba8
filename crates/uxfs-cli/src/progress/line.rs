//! How the line looks.

use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
};

use indicatif::{BinaryBytes, HumanCount, ProgressState, ProgressStyle};

use super::Measure;

/// From here on there is room for numbers.
const WIDE_COLUMNS: u16 = 72;

/// The style of a measure: what is done, a bar where the end is known, numbers, rate, and the time that is left or has passed.
pub(super) fn style(measure: Measure, beside: &Arc<AtomicU64>) -> ProgressStyle {
    let done = match measure {
        Measure::Things(name, Some(_)) => format!("{{human_pos}}/{{human_len}} {name}{{beside}} {{rate}}"),
        Measure::Things(name, None) => format!("{{human_pos}} {name}{{beside}} {{rate}}"),
        Measure::Bytes(_, Some(_)) => {
            "{binary_bytes}/{binary_total_bytes}{beside} {binary_bytes_per_sec}".to_owned()
        }
        Measure::Bytes(_, None) => "{binary_bytes}{beside} {binary_bytes_per_sec}".to_owned(),
    };
    let template = match measure {
        Measure::Things(_, Some(_)) | Measure::Bytes(_, Some(_)) if is_narrow() => {
            "{wide_bar} {percent}%".to_owned()
        }
        Measure::Things(_, None) if is_narrow() => "{spinner} {human_pos}".to_owned(),
        Measure::Bytes(_, None) if is_narrow() => "{spinner} {binary_bytes}".to_owned(),
        Measure::Things(_, Some(_)) | Measure::Bytes(_, Some(_)) => {
            format!("{{msg}} {{wide_bar}} {done} {{eta}}")
        }
        Measure::Things(_, None) | Measure::Bytes(_, None) => {
            format!("{{spinner}} {{msg}} {done} [{{elapsed}}]")
        }
    };
    let beside = Arc::clone(beside);
    let style = ProgressStyle::with_template(&template).unwrap_or_else(|_| ProgressStyle::default_spinner());
    let style = style.with_key("rate", |state: &ProgressState, out: &mut dyn fmt::Write| {
        let _ = write!(out, "{}/s", HumanCount(state.per_sec() as u64));
    });
    style.with_key("beside", move |_: &ProgressState, out: &mut dyn fmt::Write| {
        // Writing to the terminal may fail; the line is of no importance.
        let _ = write_beside(measure, beside.load(Relaxed), out);
    })
}

/// Whether the terminal has no room for numbers beside a bar: a line that is broken in two cannot be drawn over.
fn is_narrow() -> bool {
    let size = rustix::termios::tcgetwinsize(rustix::stdio::stderr()).ok();
    size.is_some_and(|size| size.ws_col > 0 && size.ws_col < WIDE_COLUMNS)
}

fn write_beside(measure: Measure, count: u64, out: &mut dyn fmt::Write) -> fmt::Result {
    match measure {
        _ if count == 0 => Ok(()),
        Measure::Things(..) => write!(out, ", {}", BinaryBytes(count)),
        Measure::Bytes("", _) => Ok(()),
        Measure::Bytes(name, _) => write!(out, ", {} {name}", HumanCount(count)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(measure: Measure, count: u64) -> String {
        let mut text = String::new();
        write_beside(measure, count, &mut text).unwrap();
        text
    }

    #[test]
    fn what_is_told_beside_the_measure() {
        assert_eq!(written(Measure::Things("files", None), 0), "");
        assert_eq!(written(Measure::Things("files", None), 3 << 20), ", 3.00 MiB");
        assert_eq!(written(Measure::Bytes("files", Some(1)), 12_345), ", 12,345 files");
        assert_eq!(written(Measure::Bytes("", Some(1)), 12_345), "");
    }
}
