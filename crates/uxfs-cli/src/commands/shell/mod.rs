//! `uxfs shell`: many commands on one image, at a prompt or as a script.

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
use rustyline::{Config, Editor, error::ReadlineError, history::FileHistory};

use self::{
    complete::Completion,
    words::{Parsed, Word, parse},
};
use crate::{
    commands::{
        Context, cat, du,
        edit::{Edit, chmod, chown, cp, ln, mkdir, mknod, mv, put, rm, setfattr, touch, truncate},
        find, freespace, get, grep, ls, map, parents, stat, tree, xattr,
    },
    edit::{
        report::shown,
        session::{EditArguments, Session},
    },
    failure::{About, Exit, Failure, Outcome},
    output::Output,
};

mod complete;
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
    At the prompt each command is durable when it returns. A script becomes durable at its end and at `sync`; if it is \
    killed, the image has what the script had done up to some moment.\n\
    Examples: uxfs shell disk.img\n          \
    uxfs shell disk.img -c 'cd /etc; rm hostname; put hosts .'\n          \
    uxfs shell disk.img < script"
)]
pub struct Arguments {
    #[command(flatten)]
    image: EditArguments,
    /// Run these commands
    #[arg(short, long, value_name = "COMMANDS")]
    commands: Option<OsString>,
    /// Continue after an error; without it a script stops at the first one
    #[arg(short, long)]
    keep_going: bool,
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
    let mut session = arguments.image.open(context.json)?;
    session.is_expanded = true;
    let mut shell = Shell {
        session,
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
    let closed = shell.session.close().about_image(&arguments.image.image);
    done?;
    closed?;
    Ok(exit)
}

struct Shell {
    session: Session,
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
        self.session.is_input_taken = true;
        let mut text = Vec::new();
        while !self.is_over {
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
        let config = config.history_ignore_space(true).auto_add_history(true).build();
        let mut editor = Editor::<Completion, FileHistory>::with_config(config).map_err(failed)?;
        let directory = Rc::new(RefCell::new(self.session.directory().to_vec()));
        let line = Line::command();
        let names = line.get_subcommands().map(|command| command.get_name().to_owned());
        let names = names.chain(["help".to_owned()]).collect();
        let completion = Completion::new(self.session.shared(), Rc::clone(&directory), names);
        editor.set_helper(Some(completion));
        let history = history_file();
        if let Some(history) = &history {
            // There is none the first time.
            let _ = editor.load_history(history);
        }
        (self.is_interactive, self.keeps_going) = (true, true);
        while !self.is_over {
            let prompt = format!("uxfs:{}> ", shown(self.session.directory()));
            match editor.readline(&prompt) {
                Ok(line) => self.text(line.as_bytes())?,
                Err(ReadlineError::Interrupted) => {}
                Err(ReadlineError::Eof) => break,
                Err(error) => return Err(failed(error)),
            }
            self.session.directory().clone_into(&mut directory.borrow_mut());
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
            let told = self.session.report.finish();
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
            self.session.sync()?;
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
                    let paths = match self.session.paths_of_pattern(&pattern, &text) {
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
        let context = Context {
            json: self.json,
            directory: Some(self.session.directory().to_vec()),
            image: Some(self.session.image().to_owned()),
            is_expanded: true,
        };
        let filesystem = self.session.filesystem();
        match command {
            Command::Cd { path } => self.session.change_directory(path.as_bytes())?,
            Command::Pwd => self.print(self.session.directory())?,
            Command::Lcd { path } => self.local_directory(path.as_ref())?,
            Command::Sync => self.session.sync()?,
            Command::Exit => self.is_over = true,
            Command::Ls(arguments) => return ls::run(filesystem, arguments, &context),
            Command::Tree(arguments) => return tree::run(filesystem, arguments, &context),
            Command::Find(arguments) => return find::run(filesystem, arguments, &context),
            Command::Du(arguments) => return du::run(filesystem, arguments, &context),
            Command::Stat(arguments) => return stat::run(filesystem, arguments, &context),
            Command::Cat(arguments) => return cat::run(filesystem, arguments, &context),
            Command::Xattr(arguments) => return xattr::run(filesystem, arguments, &context),
            Command::Grep(arguments) => return grep::run_in_shell(filesystem, arguments, &context),
            Command::Map(arguments) => return map::run(filesystem, arguments, &context),
            Command::Parents(arguments) => return parents::run(filesystem, arguments, &context),
            Command::Freespace(arguments) => {
                // Groups keep some of their changes to themselves until then.
                self.session.sync()?;
                return freespace::run(filesystem, arguments, &context);
            }
            Command::Get(arguments) => return get::run(filesystem, arguments, &context),
            Command::Put(arguments) => self.edit(arguments)?,
            Command::Mkdir(arguments) => self.edit(arguments)?,
            Command::Rm(arguments) => self.edit(arguments)?,
            Command::Rmdir(arguments) => self.edit(arguments)?,
            Command::Mv(arguments) => self.edit(arguments)?,
            Command::Cp(arguments) => self.edit(arguments)?,
            Command::Ln(arguments) => self.edit(arguments)?,
            Command::Chmod(arguments) => self.edit(arguments)?,
            Command::Chown(arguments) => self.edit(arguments)?,
            Command::Touch(arguments) => self.edit(arguments)?,
            Command::Truncate(arguments) => self.edit(arguments)?,
            Command::Mknod(arguments) => self.edit(arguments)?,
            Command::Mkfifo(arguments) => self.edit(arguments)?,
            Command::Setfattr(arguments) => self.edit(arguments)?,
        }
        Ok(Exit::Success)
    }

    fn edit(&mut self, command: &impl Edit) -> Result<(), Failure> {
        // Files may have changed who has which number.
        self.session.forget_people();
        command.run(&mut self.session)
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
