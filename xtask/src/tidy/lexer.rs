//! Splits Rust source into code and comments, line by line, with the contents of strings removed from the code: so
//! that a word in a text or a comment is not taken for the construct.

/// One line of a source file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Line {
    /// The code; of string and character literals only the quotes are left.
    pub code: String,
    /// The text of comments, with their slashes.
    pub comment: String,
    /// True when a string goes on at the end of the line.
    pub is_in_string: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Code,
    LineComment,
    /// Block comments nest; this is the depth.
    BlockComment(u32),
    String,
    /// With the number of hashes that close it.
    RawString(usize),
}

/// Splits a whole file.
#[must_use]
pub fn split(source: &str) -> Vec<Line> {
    let mut state = State::Code;
    let mut lines = Vec::new();
    for text in source.lines() {
        let mut line = Line::default();
        let chars: Vec<char> = text.chars().collect();
        let mut i = 0;
        while i < chars.len() {
            let (next, used) = step(state, &chars, i, &mut line);
            state = next;
            i += used;
        }
        if state == State::LineComment {
            state = State::Code;
        }
        line.is_in_string = matches!(state, State::String | State::RawString(_));
        lines.push(line);
    }
    lines
}

/// Handles what begins at `i`; gives the state after it and its length.
fn step(state: State, chars: &[char], i: usize, line: &mut Line) -> (State, usize) {
    let rest = &chars[i..];
    match state {
        State::Code => step_code(chars, i, line),
        State::LineComment => {
            line.comment.extend(rest);
            (state, rest.len())
        }
        State::BlockComment(depth) => {
            let (next, used) = match rest {
                ['*', '/', ..] if depth == 1 => (State::Code, 2),
                ['*', '/', ..] => (State::BlockComment(depth - 1), 2),
                ['/', '*', ..] => (State::BlockComment(depth + 1), 2),
                _ => (state, 1),
            };
            line.comment.extend(&rest[..used]);
            (next, used)
        }
        State::String => match rest {
            ['\\', _, ..] => (state, 2),
            ['"', ..] => {
                line.code.push('"');
                (State::Code, 1)
            }
            _ => (state, 1),
        },
        State::RawString(hashes) => {
            let closes =
                rest[0] == '"' && rest[1..].iter().take_while(|c| **c == '#').count() >= hashes;
            if closes {
                line.code.push('"');
                (State::Code, 1 + hashes)
            } else {
                (state, 1)
            }
        }
    }
}

fn step_code(chars: &[char], i: usize, line: &mut Line) -> (State, usize) {
    let rest = &chars[i..];
    match rest {
        ['/', '/', ..] => return (State::LineComment, 0),
        ['/', '*', ..] => {
            line.comment.push_str("/*");
            return (State::BlockComment(1), 2);
        }
        ['"', ..] => {
            line.code.push('"');
            return (State::String, 1);
        }
        ['\'', ..] => {
            let used = character_length(rest);
            line.code.push_str(if used > 1 { "''" } else { "'" });
            return (State::Code, used);
        }
        _ => {}
    }
    let begins_word = i == 0 || !is_word(chars[i - 1]) || matches!(chars[i - 1], 'b' | 'c');
    if rest[0] == 'r' && begins_word {
        let hashes = rest[1..].iter().take_while(|c| **c == '#').count();
        if rest.get(1 + hashes) == Some(&'"') {
            line.code.push_str("r\"");
            return (State::RawString(hashes), 2 + hashes);
        }
    }
    line.code.push(rest[0]);
    (State::Code, 1)
}

/// Length of a character literal; 1 when the quote begins a lifetime.
fn character_length(rest: &[char]) -> usize {
    match rest {
        ['\'', '\\', _, tail @ ..] => {
            tail.iter().position(|c| *c == '\'').map_or(1, |closing| closing + 4)
        }
        ['\'', _, '\'', ..] => 3,
        _ => 1,
    }
}

/// True for a character of an identifier.
#[must_use]
pub fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(source: &str, code: &str, comment: &str) {
        let lines = split(source);
        let join = |part: fn(&Line) -> &str| lines.iter().map(part).collect::<Vec<_>>().join("\n");
        assert_eq!(join(|line| &line.code), code);
        assert_eq!(join(|line| &line.comment), comment);
    }

    #[test]
    fn comments_and_strings_are_told_from_code() {
        check("a(); // b", "a(); ", "// b");
        check("a /* b /* c */ d */ e", "a  e", "/* b /* c */ d */");
        check("/* a\nb */ c", "\n c", "/* a\nb */");
        check(r#"f("a // b", 'x', '"', '\'', b"\"z")"#, r#"f("", '', '', '', b"")"#, "");
        check("r#\"a \" b\"# + br\"c\" + r#type", "r\"\" + br\"\" + r#type", "");
        check("fn f<'a>(x: &'a str) // '", "fn f<'a>(x: &'a str) ", "// '");
        check("\"a\nb\" c", "\"\n\" c", "\n");
        check("'\\u{41}' + 1", "'' + 1", "");
        let open: Vec<bool> = split("a \"b\nc\"").iter().map(|line| line.is_in_string).collect();
        assert_eq!(open, [true, false]);
    }
}
