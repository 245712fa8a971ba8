//! `uxfs shell`: many commands on one image, at a prompt or as a script.
//!
//! | module | holds |
//! |---|---|
//! | `view` | the image: seen until something is to be changed, then open for changes |
//! | `complete` | completion at the prompt |
//! | `words` | words and quotes of a line |

use std::{
    cell::RefCell,
    ffi::OsString,
    fs,
    io::{self, BufRead, IsTerminal},
    os::unix::ffi::{OsStrExt, OsStringExt},
    path::PathBuf,
    rc::Rc,
};

use clap::{CommandFactory, Parser};
use rustyline::{CompletionType, Config, Editor, error::ReadlineError, history::FileHistory};

use self::{
    complete::Completion,
    view::View,
    words::{Parsed, Word, parse},
};
use crate::{
    commands::{
        Context, cat, du,
        edit::{Edit, chmod, chown, cp, ln, mkdir, mknod, mv, put, rm, setfattr, touch, truncate},
        find, freespace, get, grep, ls, map, parents, stat, tree, xattr,
    },
    edit::{labels::LabelArguments, report::Report, session::EditArguments},
    failure::{About, Exit, Failure, Outcome},
    output::{Output, set_image_of_shell},
    text::shown_path,
};

mod complete;
mod view;
mod words;

/// Lines of history that are kept.
const HISTORY_LINES: usize = 2000;
/// Longest command of a script.
const COMMAND_BYTES_MAX: usize = 16 << 20;

/// Commands whose words are files that are there. Words of put are files of the host, and others name what is to be made.
const EXPANDING: [&str; 16] = [
    "ls", "tree", "stat", "cat", "xattr", "map", "grep", "get", "rm", "rmdir", "mv", "cp", "chmod", "chown",
    "touch", "setfattr",
];

/// Arguments of `uxfs shell`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Without -c, commands are read at a prompt if standard input is a terminal, else from standard input as a \
    script. `help` lists them. Blanks separate words; `;` and line ends separate commands; quotes and backslashes quote; # \
    begins a comment. Patterns (*, ?, [a-z], **) that are not quoted stand for the files that fit.\n\
    The shell only looks until a command changes something: no byte is written before. While it waits for a command it keeps no other \
    program from changing the image, and sees what those have changed. From its first change on it has the image alone, until it ends.\n\
    At the prompt each command is durable when it returns. A script becomes durable at its end and at `sync`; if it is \
    killed, the image has what the script had done up to some moment.\n\
    Examples: uxfs shell disk.img\n          \
    uxfs shell disk.img -c 'cd /etc; rm hostname; put hosts .'\n          \
    uxfs shell disk.img < script"
)]
pub struct Arguments {
    #[command(flatten)]
    image: EditArguments,
    #[command(flatten)]
    labels: LabelArguments,
    /// Run these commands
    #[arg(short, long, value_name = "COMMANDS")]
    commands: Option<OsString>,
    /// Continue after an error; without it a script stops at the first one
    #[arg(short, long)]
    keep_going: bool,
    /// Refuse commands that change something
    #[arg(short, long)]
    read_only: bool,
    /// Look even while another program changes the image; the output may be inconsistent
    #[arg(long)]
    no_lock: bool,
}

/// One command.
#[derive(Debug, Parser)]
#[command(
    name = "",
    no_binary_name = true,
    disable_version_flag = true,
    max_term_width = 100,
    override_usage = "COMMAND [ARGUMENTS]...",
    subcommand_value_name = "COMMAND"
)]
struct Line {
    #[command(subcommand)]
    command: Command,
}

/// The commands of the shell.
#[derive(Debug, clap::Subcommand)]
enum Command {
    /// Change the current directory in the image; without PATH, to its root
    Cd {
        /// Directory
        #[arg(value_name = "PATH", default_value = "/")]
        path: OsString,
    },
    /// Print the current directory in the image
    Pwd,
    /// Change the current directory on the host, from which put and get start
    Lcd {
        /// Directory; without it the current one is printed
        #[arg(value_name = "PATH")]
        path: Option<PathBuf>,
    },
    /// List directories
    Ls(ls::Arguments),
    /// Draw a directory tree
    Tree(tree::Arguments),
    /// Find files by an expression, as find(1) does
    Find(find::Arguments),
    /// Show how much space trees take
    #[command(disable_help_flag = true)]
    Du(du::Arguments),
    /// Show all metadata of an inode
    Stat(stat::Arguments),
    /// Write the contents of files to standard output
    Cat(cat::Arguments),
    /// Show extended attributes and ACLs
    Xattr(xattr::Arguments),
    /// Search files for lines, like grep
    Grep(Box<grep::InShell>),
    /// Show the extent map of a file
    Map(map::Arguments),
    /// Show every path of an inode, from its parent pointers only
    Parents(parents::Arguments),
    /// Show a histogram of free extents
    Freespace(freespace::Arguments),
    /// Copy files out, like cp
    Get(get::Arguments),
    /// Copy files from the host into the image
    Put(put::Arguments),
    /// Make directories
    Mkdir(mkdir::Arguments),
    /// Remove files
    Rm(rm::Arguments),
    /// Remove empty directories
    Rmdir(rm::RmdirArguments),
    /// Rename files
    Mv(mv::Arguments),
    /// Copy files within the image
    Cp(cp::Arguments),
    /// Make hard and symbolic links
    Ln(ln::Arguments),
    /// Change permissions
    Chmod(chmod::Arguments),
    /// Change owners and groups
    Chown(chown::Arguments),
    /// Change times; make empty files
    Touch(touch::Arguments),
    /// Change sizes
    Truncate(truncate::Arguments),
    /// Make special files
    Mknod(mknod::Arguments),
    /// Make named pipes
    Mkfifo(mknod::FifoArguments),
    /// Change extended attributes
    Setfattr(setfattr::Arguments),
    /// Make all changes so far durable
    Sync,
    /// End the shell
    #[command(visible_alias = "quit")]
    Exit,
}

/// Runs the command.
pub fn run(arguments: &Arguments, context: &Context) -> Outcome {
    set_image_of_shell(&arguments.image.image);
    let mut view = View::new(&arguments.image, context.json);
    (view.is_read_only, view.no_lock) = (arguments.read_only, arguments.no_lock);
    view.labels = arguments.labels.rules()?;
    view.volume()?;
    let mut shell = Shell {
        view: Rc::new(RefCell::new(view)),
        report: Report::new(context.json),
        json: context.json,
        keeps_going: arguments.keep_going,
        is_interactive: false,
        is_over: false,
        exit: Exit::Success,
    };
    let done = match &arguments.commands {
        Some(commands) => shell.text(commands.as_bytes()),
        None if io::stdin().is_terminal() => shell.prompt(),
        None => shell.script(io::stdin().lock()),
    };
    let exit = shell.exit;
    let closed = shell.view.borrow_mut().close().about_image(&arguments.image.image);
    done?;
    closed?;
    Ok(exit)
}

struct Shell {
    view: Rc<RefCell<View>>,
    /// Complaints about patterns.
    report: Report,
    json: bool,
    keeps_going: bool,
    is_interactive: bool,
    is_over: bool,
    /// Of the last command that failed.
    exit: Exit,
}

impl Shell {
    /// Runs all commands of a text.
    fn text(&mut self, text: &[u8]) -> Result<(), Failure> {
        match parse(text) {
            Parsed::Commands(commands) => {
                self.commands(commands);
                Ok(())
            }
            Parsed::Unfinished => Err(Failure::usage("unterminated quote")),
        }
    }

    /// Runs a script, command by command as it comes.
    fn script(&mut self, mut input: impl BufRead) -> Result<(), Failure> {
        self.view.borrow_mut().is_input_taken = true;
        let mut text = Vec::new();
        while !self.is_over {
            // What comes next may take its time.
            self.view.borrow_mut().rest();
            let read = input.read_until(b'\n', &mut text);
            let read = read.map_err(|error| Failure::caused_by(&error).about("cannot read the script"))?;
            if read == 0 {
                return self.text(&text);
            }
            if let Parsed::Commands(commands) = parse(&text) {
                text.clear();
                self.commands(commands);
            } else if text.len() > COMMAND_BYTES_MAX {
                return Err(Failure::usage("unterminated quote: the command is too long"));
            }
        }
        Ok(())
    }

    /// Asks for commands until there are no more.
    fn prompt(&mut self) -> Result<(), Failure> {
        let failed = |error: ReadlineError| Failure::caused_by(&error).about("cannot read from the terminal");
        let config = Config::builder().max_history_size(HISTORY_LINES).map_err(failed)?;
        // The second of two Tabs lists what fits, as in other shells; it does not put one after the other in place.
        let config = config.completion_type(CompletionType::List);
        let config = config.history_ignore_space(true).auto_add_history(true).build();
        let mut editor = Editor::<Completion, FileHistory>::with_config(config).map_err(failed)?;
        let line = Line::command();
        let names = line.get_subcommands().map(|command| command.get_name().to_owned());
        let names = names.chain(["help".to_owned()]).collect();
        let completion = Completion::new(Rc::clone(&self.view), names);
        editor.set_helper(Some(completion));
        let history = history_file();
        if let Some(history) = &history {
            // There is none the first time.
            let _ = editor.load_history(history);
        }
        (self.is_interactive, self.keeps_going) = (true, true);
        while !self.is_over {
            self.view.borrow_mut().rest();
            let prompt = format!("uxfs:{}> ", shown_path(self.view.borrow().directory()));
            match editor.readline(&prompt) {
                Ok(line) => self.text(line.as_bytes())?,
                Err(ReadlineError::Interrupted) => {}
                Err(ReadlineError::Eof) => break,
                Err(error) => return Err(failed(error)),
            }
        }
        if let Some(history) = &history {
            // An unreadable history must not end the session.
            let _ = editor.save_history(history);
        }
        // What went wrong has been seen.
        self.exit = Exit::Success;
        Ok(())
    }

    fn commands(&mut self, commands: Vec<Vec<Word>>) {
        for words in commands {
            if self.is_over {
                return;
            }
            let done = self.command(words);
            let told = self.report.finish();
            let exit = match done.map(|exit| exit.max(told)) {
                Ok(exit) => exit,
                Err(failure) => failure.tell(self.json),
            };
            if exit != Exit::Success {
                self.exit = exit;
                self.is_over |= !self.keeps_going;
            }
        }
    }

    fn command(&mut self, words: Vec<Word>) -> Outcome {
        let line = match Line::try_parse_from(self.expand(words)?) {
            Ok(line) => line,
            Err(error) => {
                return Ok(crate::print_usage(&error, self.json));
            }
        };
        let outcome = self.dispatch(&line.command)?;
        if self.is_interactive {
            self.view.borrow_mut().sync()?;
        }
        Ok(outcome)
    }

    /// Puts the files in place of patterns that are not quoted, for commands on files that are there.
    fn expand(&mut self, words: Vec<Word>) -> Result<Vec<OsString>, Failure> {
        let last = words.len().saturating_sub(1);
        let mut expanded: Vec<OsString> = Vec::with_capacity(words.len());
        let mut is_expanding = false;
        for (index, word) in words.into_iter().enumerate() {
            let is_of_host = index == last && expanded.first().is_some_and(|command| command == "get");
            let pattern = word.pattern().map(<[u8]>::to_vec).map(OsString::from_vec);
            let text = word.into_text();
            match pattern.filter(|_| is_expanding && !is_of_host && !text.as_bytes().starts_with(b"-")) {
                Some(pattern) => {
                    let paths =
                        match self.view.borrow_mut().paths_of_pattern(&pattern, &text, &mut self.report) {
                            Ok(paths) => paths,
                            // It may be the pattern of lines, as for other shells.
                            Err(_) if expanded.first().is_some_and(|command| command == "grep") => {
                                expanded.push(text);
                                continue;
                            }
                            Err(failure) => return Err(failure),
                        };
                    // Words of digits stand for inodes.
                    let is_number = |path: &Vec<u8>| path.iter().all(u8::is_ascii_digit);
                    expanded.extend(paths.into_iter().map(|path| match is_number(&path) {
                        true => OsString::from_vec([b"./", &path[..]].concat()),
                        false => OsString::from_vec(path),
                    }));
                }
                None => expanded.push(text),
            }
            if index == 0 {
                is_expanding =
                    expanded.first().is_some_and(|command| EXPANDING.iter().any(|name| command == name));
            }
        }
        Ok(expanded)
    }

    fn dispatch(&mut self, command: &Command) -> Outcome {
        match command {
            Command::Cd { path } => self.view.borrow_mut().change_directory(path.as_bytes())?,
            Command::Pwd => self.print(self.view.borrow().directory())?,
            Command::Lcd { path } => self.local_directory(path.as_ref())?,
            Command::Sync => self.view.borrow_mut().sync()?,
            Command::Exit => self.is_over = true,
            Command::Put(arguments) => return self.edit(arguments),
            Command::Mkdir(arguments) => return self.edit(arguments),
            Command::Rm(arguments) => return self.edit(arguments),
            Command::Rmdir(arguments) => return self.edit(arguments),
            Command::Mv(arguments) => return self.edit(arguments),
            Command::Cp(arguments) => return self.edit(arguments),
            Command::Ln(arguments) => return self.edit(arguments),
            Command::Chmod(arguments) => return self.edit(arguments),
            Command::Chown(arguments) => return self.edit(arguments),
            Command::Touch(arguments) => return self.edit(arguments),
            Command::Truncate(arguments) => return self.edit(arguments),
            Command::Mknod(arguments) => return self.edit(arguments),
            Command::Mkfifo(arguments) => return self.edit(arguments),
            Command::Setfattr(arguments) => return self.edit(arguments),
            looking => return self.look(looking),
        }
        Ok(Exit::Success)
    }

    /// A command that only reads.
    fn look(&self, command: &Command) -> Outcome {
        let mut view = self.view.borrow_mut();
        if matches!(command, Command::Freespace(_)) {
            // Groups keep some of their changes to themselves until then.
            view.sync()?;
        }
        let context = Context {
            json: self.json,
            directory: Some(view.directory().to_vec()),
            image: Some(view.image().to_owned()),
            is_expanded: true,
        };
        let volume = view.volume()?;
        match command {
            Command::Ls(arguments) => ls::run(volume, arguments, &context),
            Command::Tree(arguments) => tree::run(volume, arguments, &context),
            Command::Find(arguments) => find::run(volume, arguments, &context),
            Command::Du(arguments) => du::run(volume, arguments, &context),
            Command::Stat(arguments) => stat::run(volume, arguments, &context),
            Command::Cat(arguments) => cat::run(volume, arguments, &context),
            Command::Xattr(arguments) => xattr::run(volume, arguments, &context),
            Command::Grep(arguments) => grep::run_in_shell(volume, arguments, &context),
            Command::Map(arguments) => map::run(volume, arguments, &context),
            Command::Parents(arguments) => parents::run(volume, arguments, &context),
            Command::Freespace(arguments) => freespace::run(volume, arguments, &context),
            Command::Get(arguments) => get::run(volume, arguments, &context),
            _ => Ok(Exit::Success),
        }
    }

    /// A command that changes something, or finds that there is nothing to change.
    fn edit(&self, command: &impl Edit) -> Outcome {
        let mut view = self.view.borrow_mut();
        let session = view.session()?;
        // Files may have changed who has which number.
        session.forget_people();
        let done = command.run(session);
        session.end_labels();
        let told = session.report.finish();
        let settled = view.settle();
        done?;
        settled?;
        Ok(told)
    }

    fn print(&self, path: &[u8]) -> Result<(), Failure> {
        let mut output = Output::new();
        if self.json {
            let name = crate::output::JsonName::new(path);
            output.json(&serde_json::json!({"path": name.text(), "path_hex": name.hex()}))?;
        } else {
            output.name(path)?;
            io::Write::write_all(&mut output, b"\n")?;
        }
        Ok(output.finish()?)
    }

    fn local_directory(&self, path: Option<&PathBuf>) -> Result<(), Failure> {
        let failed = |error: io::Error| Failure::caused_by(&error);
        match path {
            Some(path) => std::env::set_current_dir(path).map_err(failed).about_host(path),
            None => self.print(std::env::current_dir().map_err(failed)?.as_os_str().as_bytes()),
        }
    }
}

/// Where the history is kept: with the state of the user's programs.
fn history_file() -> Option<PathBuf> {
    let folder = match std::env::var_os("XDG_STATE_HOME").filter(|folder| !folder.is_empty()) {
        Some(folder) => PathBuf::from(folder),
        None => PathBuf::from(std::env::var_os("HOME")?).join(".local/state"),
    };
    let folder = folder.join("uxfs");
    fs::create_dir_all(&folder).ok()?;
    Some(folder.join("history"))
}
