//! Riddles in comments, messages and documents: sentences whose subject is a pronoun for something that has a name.
//!
//! "Transactions that find no log space wait" can be looked up; the same sentence with a pronoun in front cannot.

/// Words that are riddles wherever they stand, in two pieces, so that this file may be checked too.
const RIDDLES: [(&str, &str); 5] =
    [("Wh", "oever"), ("wh", "oever"), ("No", "body"), ("no", "body"), ("Wh", "o")];
/// Words before a pronoun that begins a clause or takes the place of a noun.
const CLAUSE_STARTS: [&str; 9] = [";", ":", ", and", " for", " by", " to", " of", " from", " than"];

/// A line that holds a riddle.
#[derive(Debug, PartialEq, Eq)]
struct Riddle {
    line: usize,
    word: String,
}

/// Complains of each riddle in a source file or a document.
pub fn check(name: &str, text: &str, complaints: &mut Vec<String>) {
    if !name.ends_with(".rs") && !name.ends_with(".md") {
        return;
    }
    let remedy = "say what does it, by its name";
    let complaint = |riddle: Riddle| format!("{name}:{}: `{}`: {remedy}", riddle.line, riddle.word);
    complaints.extend(riddles(text).into_iter().map(complaint));
}

/// The riddles of a text. Questions are none.
fn riddles(text: &str) -> Vec<Riddle> {
    let mut found = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let of_line = RIDDLES.iter().filter(|(start, end)| holds_word(line, &format!("{start}{end}")));
        let word = of_line.map(|(start, end)| format!("{start}{end}")).next().or_else(|| clause(line));
        if let Some(word) = word {
            found.push(Riddle { line: index + 1, word });
        }
    }
    found
}

/// A clause in the middle of a line that begins with the pronoun.
fn clause(line: &str) -> Option<String> {
    let starts = CLAUSE_STARTS.iter().map(|start| format!("{start} wh{} ", "o"));
    starts.into_iter().find(|start| line.contains(start) && !line.contains('?'))
}

/// Whether `word` stands in the line as a word of its own and not as part of a name or as the subject of a question.
fn holds_word(line: &str, word: &str) -> bool {
    let is_part = |byte: Option<&u8>| byte.is_some_and(|byte| byte.is_ascii_alphanumeric() || *byte == b'_');
    let bytes = line.as_bytes();
    line.match_indices(word).any(|(at, _)| {
        let is_whole = !is_part(at.checked_sub(1).and_then(|before| bytes.get(before)))
            && !is_part(bytes.get(at + word.len()));
        // Part of a user's name, as in `nobody:x:65534`.
        let is_user = matches!(bytes.get(at + word.len()), Some(b':' | b'-'))
            || at.checked_sub(1).and_then(|before| bytes.get(before)) == Some(&b'-');
        is_whole && !is_user && !line[at..].contains('?')
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<String> {
        riddles(text).into_iter().map(|riddle| riddle.word).collect()
    }

    #[test]
    fn pronouns_as_subjects_are_riddles() {
        assert_eq!(words(&format!("/// Wh{} finds no room waits.", "o")), [format!("Wh{}", "o")]);
        assert_eq!(words(&format!("// The buffer stays; wh{} changes it copies it.", "o")).len(), 1);
        assert_eq!(words(&format!("a file that no{} has open", "body")).len(), 1);
        assert_eq!(words(&format!("who{} changes it copies it", "ever")).len(), 1);
        assert_eq!(words(&format!("/// The newest record, for wh{} does not write.", "o")).len(), 1);
    }

    #[test]
    fn relative_clauses_names_and_questions_are_none() {
        assert!(words("/// A reader who lists a directory.").is_empty());
        assert!(words("fn whole() {}\nlet who_waits = 1;\nThe Whole").is_empty());
        assert!(words(&format!("Wh{} owns a block?", "o")).is_empty());
        assert!(words(&format!("no{}:x:65534:65534", "body")).is_empty());
    }
}
