//! What people see: `uxfs` in a terminal of a fixed size. tmux is the terminal; GNU ls on the kernel's mount of the same image is the judge
//! of columns and colours.

use std::{
    fs,
    os::unix::fs::{PermissionsExt, symlink},
    path::{Path, PathBuf},
    process::Command,
    thread,
    time::{Duration, Instant},
};

use tempfile::TempDir;
use uxfs_testkit::{
    judges::{Judge, judged},
    mount::{Access, LoopMount},
    require,
};

use crate::common::{host, program, succeeds, text};

const COLORS: &str = "rs=0:di=01;34:ln=01;36:ex=01;32:*.gz=01;31";
/// A machine may be busy.
const PATIENCE: Duration = Duration::from_secs(60);
const PROMPT: &str = "READY";

/// A shell in a terminal.
struct Terminal {
    folder: TempDir,
}

impl Terminal {
    fn new(columns: u32, lines: u32) -> Self {
        let terminal = Self { folder: tempfile::tempdir().unwrap() };
        let settings = terminal.folder.path().join("settings");
        fs::write(
            &settings,
            "set -g status off\nset -g escape-time 0\nset -g default-terminal screen-256color\n",
        )
        .unwrap();
        let home = format!("HOME={}", text(terminal.folder.path()));
        let path = format!("PATH={}", std::env::var("PATH").unwrap());
        let (columns, lines) = (columns.to_string(), lines.to_string());
        let colors = format!("LS_COLORS={COLORS}");
        let prompt = format!("PS1={PROMPT} ");
        let mut arguments =
            vec!["-u", "-f", text(&settings), "new-session", "-d", "-x", &columns, "-y", &lines];
        arguments.extend([
            "env",
            "-i",
            &home,
            &path,
            &colors,
            &prompt,
            "LANG=C.UTF-8",
            "TERM=screen-256color",
            "TZ=UTC",
            "sh",
        ]);
        terminal.tmux(&arguments);
        terminal.wait("a prompt", |screen| screen.trim_end() == PROMPT);
        terminal
    }

    fn tmux(&self, arguments: &[&str]) -> String {
        let mut tmux = Judge::Tmux.command();
        tmux.arg("-S")
            .arg(self.folder.path().join("socket"))
            .args(arguments)
            .env("LANG", "C.UTF-8")
            .env_remove("TMUX");
        let output = tmux.output().unwrap();
        assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }

    fn screen(&self) -> String {
        self.tmux(&["capture-pane", "-p"]).trim_end().to_owned()
    }

    /// With colours.
    fn painted(&self) -> String {
        self.tmux(&["capture-pane", "-p", "-e"]).trim_end().to_owned()
    }

    fn keys(&self, keys: &[&str]) {
        self.tmux(&[&["send-keys"], keys].concat());
    }

    fn types(&self, words: &str) {
        self.tmux(&["send-keys", "-l", words]);
    }

    fn wait(&self, what: &str, is_there: impl Fn(&str) -> bool) -> String {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let screen = self.screen();
            if is_there(&screen) {
                return screen;
            }
            assert!(Instant::now() < deadline, "{what} has not come:\n{screen}");
            thread::sleep(Duration::from_millis(30));
        }
    }

    /// What a command prints on an empty screen, without the line of the command and the prompt behind it.
    fn prints(&self, command: &str) -> (String, String) {
        self.types("clear");
        // The screen may be empty as it is.
        self.wait("what was typed", |screen| screen.ends_with("clear"));
        self.keys(&["Enter"]);
        self.wait("an empty screen", |screen| screen == PROMPT);
        // On a narrow screen the command itself would take several lines.
        fs::write(self.folder.path().join("command"), command).unwrap();
        self.types(". ~/command");
        self.keys(&["Enter"]);
        self.wait(command, |screen| screen.lines().count() > 1 && screen.lines().last() == Some(PROMPT));
        let inner = |screen: String| {
            let lines: Vec<&str> = screen.lines().collect();
            lines[1..lines.len() - 1].join("\n")
        };
        (inner(self.screen()), inner(self.painted()))
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let socket = self.folder.path().join("socket");
        let _ = Judge::Tmux.command().arg("-S").arg(socket).arg("kill-server").status();
    }
}

fn image_of(folder: &TempDir, fill: impl FnOnce(&Path)) -> PathBuf {
    let (source, image) = (folder.path().join("source"), folder.path().join("image"));
    fs::create_dir(&source).unwrap();
    fill(&source);
    succeeds(&["mkfs", "-q", "--from", text(&source), "--size", "300M", text(&image)]);
    image
}

#[test]
fn columns_and_colours_are_those_of_gnu_ls() {
    require!(Judge::Tmux, Judge::Kernel, Judge::Mkfs);
    let folder = tempfile::tempdir().unwrap();
    let image = image_of(&folder, |source| {
        let folders = ["plain", "wide"].map(|name| source.join(name));
        folders.iter().for_each(|folder| fs::create_dir(folder).unwrap());
        for number in 0..40_usize {
            fs::write(folders[0].join(format!("file-{}", "n".repeat(number % 13) + &number.to_string())), "")
                .unwrap();
        }
        fs::create_dir(folders[0].join("directory")).unwrap();
        fs::write(folders[0].join("packed.gz"), "").unwrap();
        fs::write(folders[0].join("run"), "").unwrap();
        fs::set_permissions(folders[0].join("run"), fs::Permissions::from_mode(0o755)).unwrap();
        symlink("run", folders[0].join("link")).unwrap();
        for name in
            ["日本語", "漢字かな交じり文", "한국어", "e\u{301}tude", "ñandú", "ascii", "ＦＵＬＬ", "🦀", "x"]
        {
            fs::write(folders[1].join(name), "").unwrap();
        }
    });
    let mount = LoopMount::new(&image, Access::ReadOnly).unwrap();
    let mut count = 0;
    for columns in [20, 33, 80, 200] {
        let terminal = Terminal::new(columns, 100);
        for below in ["plain", "wide"] {
            for options in
                ["--color=auto", "--color=never", "-x --color=auto", "-F --color=auto", "-s --color=never"]
            {
                let theirs = format!("ls -N {options} {}", text(&mount.join(below)));
                let ours = format!("{} ls {options} {} /{below}", program(), text(&image));
                let (theirs, ours) = (terminal.prints(&theirs), terminal.prints(&ours));
                assert_eq!(ours.0, theirs.0, "{columns} columns, {below} {options}");
                assert_eq!(ours.1, theirs.1, "{columns} columns, {below} {options}: colours");
                count += 1;
            }
        }
    }
    judged("ls", &format!("{count} listings on terminals of 20 to 200 columns"));
    mount.unmount().unwrap();
}

#[test]
fn names_with_control_characters_do_nothing_to_the_terminal() {
    require!(Judge::Tmux);
    let folder = tempfile::tempdir().unwrap();
    let image = image_of(&folder, |source| {
        for name in [
            "\u{1b}[2Jcleared",
            "\u{1b}]0;title\u{7}",
            "two\nlines",
            "\u{8}\u{8}back",
            "tab\there",
            "\u{9b}31mred",
        ] {
            fs::write(source.join(name), "x\n").unwrap();
        }
    });
    for columns in [20, 80] {
        let terminal = Terminal::new(columns, 60);
        let image = text(&image);
        for command in ["ls", "ls -l", "ls -1", "tree", "du -a", "find", "ls -R"] {
            let (name, rest) = command.split_once(' ').unwrap_or((command, ""));
            let (plain, painted) =
                terminal.prints(&format!("echo before; {} {name} {rest} {image}; echo behind", program()));
            let lines: Vec<&str> = plain.lines().collect();
            assert_eq!(
                (lines.first(), lines.last()),
                (Some(&"before"), Some(&"behind")),
                "{command}: {plain}"
            );
            assert!(plain.replace('\n', "").contains("cleared"), "{command}: {plain}");
            assert!(!painted.contains("[31m") && !lines.contains(&"lines"), "{command}: {painted}");
        }
        assert!(!terminal.tmux(&["display-message", "-p", "#{pane_title}"]).contains("title"));
        let (plain, _) = terminal.prints(&format!("{} rm {image} '/\u{1b}[2Jnothing'", program()));
        assert!(plain.replace('\n', "").contains("nothing"), "{plain}");
    }
}

#[test]
fn the_shell_completes_remembers_and_is_interrupted() {
    require!(Judge::Tmux);
    let folder = tempfile::tempdir().unwrap();
    let image = image_of(&folder, |source| {
        fs::create_dir_all(source.join("folder/inner")).unwrap();
        fs::write(source.join("folder/inner/file-one"), "contents of one\n").unwrap();
        fs::write(source.join("folder/inner/file-two"), "contents of two\n").unwrap();
        fs::write(source.join("folder/日本語"), "").unwrap();
    });
    for columns in [80, 20] {
        let terminal = Terminal::new(columns, 50);
        let ends_with = |what: &str| {
            let what = what.to_owned();
            // A narrow screen breaks lines.
            move |screen: &str| screen.replace('\n', "").ends_with(&what)
        };
        fs::write(terminal.folder.path().join("go"), format!("exec {} shell {}", program(), text(&image)))
            .unwrap();
        terminal.types("sh ~/go");
        terminal.keys(&["Enter"]);
        terminal.wait("the prompt", ends_with("uxfs:/>"));
        terminal.types("cat /fo");
        terminal.keys(&["Tab"]);
        terminal.wait("completion", ends_with("cat /folder/"));
        terminal.types("in");
        terminal.keys(&["Tab"]);
        terminal.wait("completion", ends_with("cat /folder/inner/"));
        terminal.keys(&["Tab"]);
        terminal.wait("what two names share", ends_with("cat /folder/inner/file-"));
        terminal.types("t");
        terminal.keys(&["Tab", "Enter"]);
        terminal.wait("the contents", |screen| screen.contains("contents of two"));
        terminal.wait("the prompt", ends_with("uxfs:/>"));
        // Behind a wide name the cursor is where the line ends.
        terminal.types("ls folder/日");
        terminal.keys(&["Tab"]);
        terminal.wait("a wide name", |screen| screen.replace('\n', "").contains("日本語"));
        terminal.keys(&["C-c"]);
        terminal.wait("a new line", ends_with("uxfs:/>"));
        terminal.types("mkdir /never");
        // Otherwise the wait below finds the current prompt, and the shell loses the next key.
        terminal.wait("what is typed", ends_with("mkdir /never"));
        terminal.keys(&["C-c"]);
        terminal.wait("a new line", ends_with("uxfs:/>"));
        terminal.keys(&["Up"]);
        terminal.wait("the last command that ran", ends_with("cat /folder/inner/file-two"));
        terminal.keys(&["C-u"]);
        terminal.types("cd folder");
        terminal.keys(&["Enter"]);
        terminal.wait("the directory in the prompt", ends_with("uxfs:/folder>"));
        terminal.types("cat in");
        terminal.keys(&["Tab"]);
        terminal.wait("completion below the directory", ends_with("cat inner/"));
        terminal.keys(&["C-u", "C-d"]);
        terminal.wait("the end", ends_with(PROMPT));
        assert!(!succeeds(&["ls", text(&image)]).contains("never"));
        // The history is that of the last time.
        terminal.types("sh ~/go");
        terminal.keys(&["Enter"]);
        terminal.wait("the prompt", ends_with("uxfs:/>"));
        terminal.keys(&["Up", "Up"]);
        terminal.wait("history of the last time", ends_with("file-two"));
        terminal.keys(&["C-u", "C-d"]);
        terminal.wait("the end", ends_with(PROMPT));
    }
}

/// A bar stays in one line, and goes when the work is done.
#[test]
fn bars_of_progress_fit_the_terminal_and_go() {
    require!(Judge::Tmux);
    let folder = tempfile::tempdir().unwrap();
    let source = folder.path().join("source");
    fs::create_dir(&source).unwrap();
    for number in 0..50 {
        fs::write(source.join(format!("file-{number}")), vec![7; 100_000]).unwrap();
    }
    let archive = folder.path().join("archive.tar");
    host("tar", &["-C", text(&source), "-cf", text(&archive), "."]);
    let image = folder.path().join("image");
    for columns in [80, 20] {
        let terminal = Terminal::new(columns, 30);
        let (archive, image) = (text(&archive), text(&image));
        let command = format!(
            "(head -c 2000000 {archive}; sleep 4; tail -c +2000001 {archive}) | {} mkfs -f --size 300M --from - {image} > /dev/null",
            program()
        );
        fs::write(terminal.folder.path().join("go"), command).unwrap();
        terminal.types("sh ~/go");
        terminal.keys(&["Enter"]);
        let screen = terminal.wait("a bar", |screen| screen.lines().count() > 1);
        let line = screen.lines().nth(1).unwrap().to_owned();
        assert!(screen.lines().count() == 2 && !line.starts_with(PROMPT), "{columns}: {screen}");
        assert!(columns == 20 || line.contains("files"), "{columns}: {screen}");
        let screen = terminal.wait("the end", |screen| screen.ends_with(PROMPT));
        assert_eq!(screen.lines().count(), 2, "{columns}: {screen}");
    }
    let listed = Command::new(program()).args(["ls", text(&image)]).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&listed.stdout).lines().count(), 50);
}
