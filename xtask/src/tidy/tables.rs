//! The table at the top of a file that says what each of its modules holds: every module is in it, and it names no others.

use std::collections::BTreeSet;

/// Adds what the table of modules in the file `name` lacks or invents. A file without a table needs none.
pub fn check(name: &str, text: &str, complaints: &mut Vec<String>) {
    let Some(named) = named_modules(text) else { return };
    let declared = declared_modules(text);
    for module in declared.difference(&named) {
        complaints.push(format!("{name}: its table of modules does not name `{module}`"));
    }
    for module in named.difference(&declared) {
        complaints.push(format!("{name}: its table names `{module}`, which is no module of it"));
    }
}

/// The names between backticks in the first column of the table; `None` where there is no table.
fn named_modules(text: &str) -> Option<BTreeSet<&str>> {
    let mut rows = text.lines().skip_while(|line| !line.starts_with("//! | module |")).peekable();
    rows.peek()?;
    let rows = rows.map_while(|line| line.strip_prefix("//! |"));
    let cells = rows.filter_map(|row| row.split('|').next());
    Some(cells.flat_map(|cell| cell.split('`').skip(1).step_by(2)).map(module_of).collect())
}

/// `mod@name` is a link to a module that has a namesake.
fn module_of(name: &str) -> &str {
    name.strip_prefix("mod@").unwrap_or(name)
}

/// Modules of the file itself, tests apart.
fn declared_modules(text: &str) -> BTreeSet<&str> {
    let lines: Vec<&str> = text.lines().collect();
    let declared = lines.iter().enumerate().filter_map(|(index, line)| {
        let module = declared_module(line)?;
        let mut above =
            lines[..index].iter().rev().take_while(|line| line.starts_with("#[") || line.starts_with("//"));
        (!above.any(|line| line.starts_with("#[cfg(test)]"))).then_some(module)
    });
    declared.collect()
}

fn declared_module(line: &str) -> Option<&str> {
    let visibilities = ["pub(crate) ", "pub(super) ", "pub "];
    let line = visibilities.iter().find_map(|word| line.strip_prefix(word)).unwrap_or(line);
    line.strip_prefix("mod ")?.strip_suffix(';')
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "//! What it is.\n//!\n//! | module | holds |\n//! |---|---|\n//! | here | the order |\n\
        //! | [`one`], `two` | both |\n//! | [`mod@three`] | a third |\n\npub mod one;\nmod two;\npub(crate) mod three;\n\
        #[cfg(test)]\nmod tests;\n";

    fn complaints(text: &str) -> Vec<String> {
        let mut all = Vec::new();
        check("a/src/lib.rs", text, &mut all);
        all
    }

    #[test]
    fn tables_and_modules_agree() {
        assert!(complaints(TEXT).is_empty());
        assert!(complaints("//! No table.\nmod one;\n").is_empty());
        assert_eq!(
            complaints(&TEXT.replace("mod two;", "mod other;")),
            [
                "a/src/lib.rs: its table of modules does not name `other`",
                "a/src/lib.rs: its table names `two`, which is no module of it"
            ]
        );
    }

    #[test]
    fn tests_need_no_row() {
        let text = TEXT.replace("#[cfg(test)]\nmod tests;", "#[cfg(test)]\n#[path = \"x.rs\"]\nmod tests;");
        assert!(complaints(&text).is_empty());
        assert_eq!(complaints(&TEXT.replace("#[cfg(test)]", "")).len(), 1);
    }
}
