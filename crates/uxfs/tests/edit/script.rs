//! Random commands that coreutils have, too.

use uxfs_testkit::seeds::Random;

/// Names are few, so that commands meet what others left.
const FILES: [&str; 6] = ["f0", "f1", "f2", "f3", "l0", "l1"];
const DIRECTORIES: [&str; 3] = ["d0", "d1", "d2"];
/// Nothing writes to these: that would be writing to a device.
const SPECIAL: [&str; 2] = ["p0", "c0"];

/// A command and its arguments.
pub type Line = (&'static str, String);

struct Writer {
    random: Random,
    /// Directories that hand their group down, or copies that keep everything: GNU cp sets no mode where it sets a list, so
    /// that a copy in such a directory gets a set-group bit that the original does not have, or keeps a sticky one. uxfs keeps what there was.
    hands_groups_down: bool,
}

impl Writer {
    fn chance(&mut self, percent: u64) -> bool {
        self.random.below(100) < percent
    }

    fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.random.below(from.len() as u64) as usize]
    }

    fn option(&mut self, option: &'static str, percent: u64) -> &'static str {
        if self.chance(percent) { option } else { "" }
    }

    fn directory(&mut self) -> String {
        let names: Vec<&str> = (0..=self.random.below(3)).map(|_| self.pick(&DIRECTORIES)).collect();
        names.join("/")
    }

    fn within(&mut self, name: &str) -> String {
        if self.chance(60) { format!("{}/{name}", self.directory()) } else { name.to_owned() }
    }

    fn file(&mut self) -> String {
        let name = self.pick(&FILES);
        self.within(name)
    }

    fn any(&mut self) -> String {
        if self.chance(66) { self.file() } else { self.directory() }
    }

    fn any_with_special(&mut self) -> String {
        if self.chance(80) {
            return self.any();
        }
        let name = self.pick(&SPECIAL);
        self.within(name)
    }

    fn line(&mut self) -> Line {
        match self.random.below(100) {
            0..14 => {
                let options = [self.option("-p", 60), self.pick(&["", "", "-m 750", "-m 1777"])];
                ("mkdir", format!("{} {}", options.join(" "), self.directory()))
            }
            14..24 => {
                let which = [
                    self.option("-a", 20),
                    self.option("-m", 20),
                    self.option("-c", 10),
                    self.option("-h", 20),
                ];
                let times = ["", "-d 2001-02-03T04:05:06.5Z", "-d @1234567890", "-d 1965-01-01T00:00:00Z"];
                ("touch", format!("{} {} {}", which.join(" "), self.pick(&times), self.any()))
            }
            24..38 => ("put", format!("{} {}", self.pick(&["small", "large", "sparse"]), self.any())),
            38..44 => {
                let options = [self.option("-f", 30), self.option("-T", 20)];
                ("ln", format!("{} {} {}", options.join(" "), self.file(), self.any()))
            }
            44..51 => {
                let options = [self.option("-f", 40), self.option("-n", 30)];
                let target = self.pick(&["f0", "d0", "./f1", "d1/f2", "nowhere"]);
                let name = self.pick(&["l0", "l1"]);
                let link = if self.chance(50) { self.any() } else { self.within(name) };
                ("ln", format!("-s {} {target} {link}", options.join(" ")))
            }
            51..61 => {
                let options = [self.option("-n", 20), self.option("-T", 30)];
                ("mv", format!("{} {} {}", options.join(" "), self.any(), self.any()))
            }
            61..74 => {
                let all = ["-a", "-aT", "-p", "-rp", "", "-r", "-d", "-n", "-L -r", "-T"];
                let how = if self.hands_groups_down { &all[4..] } else { &all[..] };
                let options = [self.pick(how), self.pick(&["", "--reflink=never", "--reflink=auto"])];
                ("cp", format!("{} {} {}", options.join(" "), self.any(), self.any()))
            }
            74..79 => {
                let options = [self.option("-r", 30), self.option("-f", 50)];
                ("rm", format!("{} {}", options.join(" "), self.any_with_special()))
            }
            79..82 => ("rmdir", format!("{} {}", self.option("-p", 30), self.directory())),
            82..88 => {
                let all =
                    ["755", "4755", "u+x,go-w", "a=rX", "o=g", "00700", "u-s,+X", "=", "+t", "2770", "g+s"];
                let modes = if self.hands_groups_down { &all[..] } else { &all[..8] };
                (
                    "chmod",
                    format!("{} {} {}", self.option("-R", 30), self.pick(modes), self.any_with_special()),
                )
            }
            88..91 => {
                let options = [self.option("-R", 30), self.option("-h", 30)];
                let owner = self.pick(&["1:1", "7", "daemon", ":3", "daemon:", "0:0"]);
                ("chown", format!("{} {owner} {}", options.join(" "), self.any_with_special()))
            }
            91..95 => {
                let sizes = ["0", "100", "+5000", "-3000", "1M", "'<2K'", "'>9K'", "/4096", "%4096"];
                ("truncate", format!("-s {} {}", self.pick(&sizes), self.file()))
            }
            95..97 => {
                let name = self.pick(&["a", "b"]);
                let value = self.pick(&[
                    "text",
                    "0x0011",
                    "0sYWJj",
                    "vvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvv",
                ]);
                let change = if self.chance(70) {
                    format!("-n user.{name} -v {value}")
                } else {
                    format!("-x user.{name}")
                };
                ("setfattr", format!("{change} {}", self.any()))
            }
            97 => {
                // Owner, user 7, group, mask, others.
                let kind = self.pick(&["default", "access"]);
                let value = "0x0200000001000700ffffffff02000500070000000400050\
                             0ffffffff10000700ffffffff20000500ffffffff";
                ("setfattr", format!("-n system.posix_acl_{kind} -v {value} {}", self.directory()))
            }
            98 => ("mkfifo", self.within("p0")),
            _ => ("mknod", format!("{} c 1 3", self.within("c0"))),
        }
    }
}

/// So many commands.
pub fn random(random: Random, lines: usize) -> Vec<Line> {
    let mut writer = Writer { random, hands_groups_down: false };
    writer.hands_groups_down = writer.chance(50);
    (0..lines).map(|_| writer.line()).filter(|line| !copies_into_itself(line)).collect()
}

/// There cp copies a part before it refuses, and uxfs refuses at once.
fn copies_into_itself((command, rest): &Line) -> bool {
    let mut words = rest.split_whitespace().rev();
    let (target, source) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    *command == "cp" && format!("{target}/").starts_with(&format!("{source}/"))
}
