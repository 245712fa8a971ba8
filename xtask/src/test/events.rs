//! What libtest prints with `--format json`, read while it is written.

use std::collections::BTreeMap;

use serde_json::Value;

/// The end of one test.
#[derive(Debug, Clone, PartialEq)]
pub struct Ended {
    pub test: String,
    pub passed: bool,
    pub seconds: f64,
    /// What the test printed, and its panic; only of a test that failed.
    pub printed: String,
}

/// The tests of one process.
#[derive(Debug, Default)]
pub struct Events {
    running: BTreeMap<String, ()>,
    pub ended: Vec<Ended>,
    /// Lines that are not events: of child processes, mostly.
    pub others: Vec<String>,
    rest: String,
}

impl Events {
    /// Takes the next bytes of the output.
    pub fn take(&mut self, bytes: &[u8]) {
        self.rest.push_str(&String::from_utf8_lossy(bytes));
        while let Some(end) = self.rest.find('\n') {
            let line: String = self.rest.drain(..=end).collect();
            self.line(line.trim_end());
        }
    }

    /// The test that runs, where the process has one thread for tests.
    pub fn running(&self) -> Option<&str> {
        self.running.keys().next().map(String::as_str)
    }

    fn line(&mut self, line: &str) {
        // A child process may have printed something without an end of line before it.
        let start = line.find(r#"{ "type": "#);
        let Some((before, event)) = start
            .and_then(|start| Some((&line[..start], serde_json::from_str::<Value>(&line[start..]).ok()?)))
        else {
            self.others.push(line.to_owned());
            return;
        };
        if !before.is_empty() {
            self.others.push(before.to_owned());
        }
        if event["type"] == "test" {
            self.test(&event);
        }
    }

    fn test(&mut self, event: &Value) {
        let text = |key: &str| event[key].as_str().unwrap_or_default().to_owned();
        let test = text("name");
        match event["event"].as_str().unwrap_or_default() {
            "started" => drop(self.running.insert(test, ())),
            // It goes on: the runner has a limit of its own.
            "timeout" => {}
            end => {
                self.running.remove(&test);
                let seconds = event["exec_time"].as_f64().unwrap_or_default();
                let printed = [text("stdout"), text("message")].concat();
                self.ended.push(Ended { test, passed: end == "ok", seconds, printed });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_read_between_other_lines() {
        let mut events = Events::default();
        events.take(
            b"{ \"type\": \"suite\", \"event\": \"started\", \"test_count\": 3 }\n{ \"type\": \"test\", ",
        );
        events.take(b"\"event\": \"started\", \"name\": \"a::b\" }\n");
        assert_eq!(events.running(), Some("a::b"));
        events.take(
            b"of a child{ \"type\": \"test\", \"name\": \"a::b\", \"event\": \"ok\", \"exec_time\": 1.5 }\n",
        );
        events.take(b"{ \"type\": \"test\", \"event\": \"started\", \"name\": \"c\" }\n{ no event }\n");
        events.take(
            b"{ \"type\": \"test\", \"name\": \"c\", \"event\": \"failed\", \"exec_time\": 0.5, \"stdout\": \"why\\n\" }\n",
        );
        assert_eq!(events.running(), None);
        let ended = |test: &str, passed, seconds, printed: &str| Ended {
            test: test.to_owned(),
            passed,
            seconds,
            printed: printed.to_owned(),
        };
        assert_eq!(events.ended, [ended("a::b", true, 1.5, ""), ended("c", false, 0.5, "why\n")]);
        assert_eq!(events.others, ["of a child", "{ no event }"]);
    }
}
