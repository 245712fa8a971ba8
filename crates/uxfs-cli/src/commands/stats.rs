//! `uxfs stats`: what a running mount counts.

use std::{
    ffi::OsString,
    fmt::Write as _,
    io::{self, IsTerminal, Write},
    path::{Path, PathBuf},
    thread,
    time::Duration,
};

use rustix::io::Errno;
use serde_json::{Map, Value, json};
use uxfs_fuse::{
    statistics::{
        histogram::end_of_bucket,
        query,
        snapshot::{NAMES, Operation, Snapshot},
    },
    transport::Way,
};

use crate::{
    commands::Context,
    failure::{About, Exit, Failure, Outcome},
    kind::Kind,
    output::{Output, must_be_open},
};

/// Clears the screen, and goes to its first line.
const CLEAR: &str = "\x1b[2J\x1b[H";

/// Arguments of `uxfs stats`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Counters since the file system was mounted: requests with how long they took, nodes and open files, cache, journal. Times \
    are rounded up to 1, 2, 4 … microseconds.\n\
    Examples:\n  uxfs stats /mnt\n  uxfs stats --watch /mnt\n  uxfs stats --watch 5 /mnt\n  uxfs stats --prometheus /mnt > /var/lib/node_exporter/uxfs.prom"
)]
pub struct Arguments {
    /// Any directory of the mount
    #[arg(value_name = "DIRECTORY", required_unless_present = "watch")]
    directory: Option<PathBuf>,
    /// Show what happens in each interval, until it is interrupted
    #[arg(long, value_name = "SECONDS", num_args = 0..=1, default_missing_value = "1", conflicts_with = "prometheus")]
    watch: Option<OsString>,
    /// In the text form of Prometheus
    #[arg(long)]
    prometheus: bool,
}

/// Runs the command.
pub fn run(arguments: &Arguments, context: &Context) -> Outcome {
    let (directory, seconds) = arguments.directory_and_seconds()?;
    arguments.run(directory, seconds, context.json).about_host(directory)
}

impl Arguments {
    /// A directory right behind `--watch` looks like its seconds.
    fn directory_and_seconds(&self) -> Result<(&Path, Option<f64>), Failure> {
        let wrong = || Failure::usage("--watch takes a number of seconds, 0.01 or more");
        let seconds = |text: &OsString| text.to_str().and_then(|text| text.parse().ok());
        match (&self.directory, &self.watch) {
            (Some(directory), None) => Ok((directory, None)),
            (Some(directory), Some(text)) => Ok((directory, Some(seconds(text).ok_or_else(wrong)?))),
            (None, Some(directory)) if seconds(directory).is_none() => Ok((Path::new(directory), Some(1.0))),
            (None, _) => Err(Failure::usage("name any directory of the mount")),
        }
    }

    fn run(&self, directory: &Path, seconds: Option<f64>, json: bool) -> Outcome {
        must_be_open()?;
        let mut snapshot = ask(directory)?;
        let Some(seconds) = seconds else {
            let text = match (self.prometheus, json) {
                (true, _) => prometheus(&snapshot),
                (false, true) => format!("{}\n", document(&snapshot)),
                (false, false) => table(&snapshot, "since it was mounted"),
            };
            return print(&text);
        };
        let interval = Duration::try_from_secs_f64(seconds)
            .ok()
            .filter(|interval| *interval >= Duration::from_millis(10));
        let interval =
            interval.ok_or_else(|| Failure::usage("--watch takes a number of seconds, 0.01 or more"))?;
        let is_terminal = io::stdout().is_terminal();
        loop {
            thread::sleep(interval);
            let now = ask(directory)?;
            let between = since(&now, &snapshot);
            let text = match json {
                true => format!("{}\n", document(&between)),
                false if is_terminal => format!("{CLEAR}{}", table(&between, "in this interval")),
                false => format!("{}\n", table(&between, "in this interval")),
            };
            print(&text)?;
            snapshot = now;
        }
    }
}

fn ask(directory: &Path) -> Result<Snapshot, Failure> {
    query::of_directory(directory).map_err(|error| match Errno::from_io_error(&error) {
        Some(Errno::NOTTY | Errno::INVAL) => {
            Failure::refused(Kind::NotMounted, "this is no directory that uxfs has mounted")
        }
        Some(Errno::PROTO) => {
            Failure::refused(Kind::UnsupportedFeature, "another version of uxfs has mounted this")
        }
        _ => Failure::caused_by(&error),
    })
}

fn print(text: &str) -> Outcome {
    let mut output = Output::new();
    output.write_all(text.as_bytes())?;
    output.finish()?;
    Ok(Exit::Success)
}

/// What was counted between two moments; numbers that go up and down are those of the later one.
fn since(now: &Snapshot, before: &Snapshot) -> Snapshot {
    let mut between = now.clone();
    between.counted.uptime = now.counted.uptime.saturating_sub(before.counted.uptime);
    for (requests, earlier) in between.counted.requests.iter_mut().zip(before.counted.requests) {
        *requests = requests.saturating_sub(earlier);
    }
    for operation in &mut between.counted.operations {
        let earlier = before.counted.operations.iter().find(|earlier| earlier.opcode == operation.opcode);
        if let Some(earlier) = earlier {
            operation.times = operation.times.since(&earlier.times);
            operation.errors = operation.errors.saturating_sub(earlier.errors);
        }
    }
    between.counted.operations.retain(|operation| operation.times.count > 0);
    for ((name, number), earlier) in NAMES.iter().zip(&mut between.numbers).zip(before.numbers) {
        if !is_gauge(name) {
            *number = number.saturating_sub(earlier);
        }
    }
    between
}

/// Whether it goes up and down.
fn is_gauge(name: &str) -> bool {
    matches!(name, "nodes" | "open_files" | "cache_budget_bytes" | "cache_resident_bytes")
}

/// A time, in the unit that suits it.
fn shown(time: Duration) -> String {
    match time.as_nanos() {
        0..10_000 => format!("{:.1} us", time.as_secs_f64() * 1e6),
        10_000..1_000_000 => format!("{:.0} us", time.as_secs_f64() * 1e6),
        1_000_000..1_000_000_000 => format!("{:.1} ms", time.as_secs_f64() * 1e3),
        _ => format!("{:.2} s", time.as_secs_f64()),
    }
}

/// `time` says what the counters belong to.
fn table(snapshot: &Snapshot, time: &str) -> String {
    let counted = &snapshot.counted;
    let seconds = counted.uptime.as_secs_f64().max(1e-9);
    let mut text = String::new();
    // Writing to memory cannot fail.
    let _ = write!(text, "{seconds:.1} seconds");
    for (way, requests) in Way::ALL.iter().zip(counted.requests) {
        let _ = write!(text, ", {requests} requests by {}", way.name());
    }
    let _ = writeln!(
        text,
        "\n\n{:<20}{:>12}{:>10}{:>9}{:>11}{:>11}{:>11}{:>11}",
        "operation", "count", "per s", "errors", "mean", "50 %", "99 %", "longest"
    );
    let mut operations: Vec<&Operation> = counted.operations.iter().collect();
    operations.sort_by_key(|operation| std::cmp::Reverse(operation.times.sum_nanoseconds));
    for operation in operations {
        let times = &operation.times;
        let _ = writeln!(
            text,
            "{:<20}{:>12}{:>10.0}{:>9}{:>11}{:>11}{:>11}{:>11}",
            operation.name(),
            times.count,
            times.count as f64 / seconds,
            operation.errors,
            shown(times.mean()),
            shown(times.within(500)),
            shown(times.within(990)),
            shown(Duration::from_nanos(times.most_nanoseconds)),
        );
    }
    for (heading, are_gauges) in [("now", true), (time, false)] {
        let _ = writeln!(text, "\n{heading}");
        for (name, number) in snapshot.named().filter(|(name, _)| is_gauge(name) == are_gauges) {
            let _ = writeln!(text, "  {:<30}{number:>16}", name.replace('_', " "));
        }
    }
    text
}

fn document(snapshot: &Snapshot) -> Value {
    let counted = &snapshot.counted;
    let operations = counted.operations.iter().map(|operation| {
        let times = &operation.times;
        let value = json!({
            "count": times.count,
            "errors": operation.errors,
            "sum_nanoseconds": times.sum_nanoseconds,
            "longest_nanoseconds": times.most_nanoseconds,
            "within_microseconds": times.buckets.iter().enumerate().filter(|(_, count)| **count > 0)
                .map(|(bucket, count)| json!([end_of_bucket(bucket).map(|end| end / 1000), count]))
                .collect::<Vec<_>>(),
        });
        (operation.name(), value)
    });
    let requests =
        Way::ALL.iter().zip(counted.requests).map(|(way, count)| (way.name().to_owned(), count.into()));
    let numbers = snapshot.named().map(|(name, number)| (name.to_owned(), number.into()));
    json!({
        "seconds": counted.uptime.as_secs_f64(),
        "requests": requests.collect::<Map<_, _>>(),
        "operations": operations.collect::<Map<_, _>>(),
        "numbers": numbers.collect::<Map<_, _>>(),
    })
}

fn prometheus(snapshot: &Snapshot) -> String {
    let counted = &snapshot.counted;
    let mut text = String::new();
    // Writing to memory cannot fail.
    let _ = writeln!(
        text,
        "# TYPE uxfs_uptime_seconds gauge\nuxfs_uptime_seconds {}",
        counted.uptime.as_secs_f64()
    );
    text.push_str("# TYPE uxfs_requests_total counter\n");
    for (way, requests) in Way::ALL.iter().zip(counted.requests) {
        let _ = writeln!(text, "uxfs_requests_total{{way=\"{}\"}} {requests}", way.name());
    }
    text.push_str("# TYPE uxfs_operation_errors_total counter\n");
    for operation in &counted.operations {
        let (name, errors) = (operation.name(), operation.errors);
        let _ = writeln!(text, "uxfs_operation_errors_total{{operation=\"{name}\"}} {errors}");
    }
    text.push_str("# TYPE uxfs_operation_seconds histogram\n");
    for operation in &counted.operations {
        let (name, times) = (operation.name(), &operation.times);
        let mut sum = 0;
        for (bucket, count) in times.buckets.iter().enumerate() {
            sum += count;
            let end = end_of_bucket(bucket).map_or("+Inf".to_owned(), |end| (end as f64 / 1e9).to_string());
            let _ =
                writeln!(text, "uxfs_operation_seconds_bucket{{operation=\"{name}\",le=\"{end}\"}} {sum}");
        }
        let seconds = times.sum_nanoseconds as f64 / 1e9;
        let _ = writeln!(
            text,
            "uxfs_operation_seconds_sum{{operation=\"{name}\"}} {seconds}\nuxfs_operation_seconds_count{{operation=\"{name}\"}} {}",
            times.count
        );
    }
    for (name, number) in snapshot.named() {
        let (kind, end) = if is_gauge(name) { ("gauge", "") } else { ("counter", "_total") };
        let _ = writeln!(text, "# TYPE uxfs_{name}{end} {kind}\nuxfs_{name}{end} {number}");
    }
    text
}
