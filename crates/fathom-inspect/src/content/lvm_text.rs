//! LVM's text format: sections with names, values that are numbers, strings or lists of these, comments after `#`.

/// Sections inside sections; metadata have four.
const DEPTH_MAX: usize = 8;

/// The right side of an assignment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Value {
    /// A whole number; fractions are cut off.
    Number(i64),
    /// A string.
    Text(String),
    /// A list.
    List(Vec<Value>),
}

/// A section: values and sections by name, in their order.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Section {
    values: Vec<(String, Value)>,
    sections: Vec<(String, Section)>,
}

impl Section {
    /// A number that is not negative.
    pub fn number(&self, name: &str) -> Option<u64> {
        match self.value(name)? {
            Value::Number(number) => u64::try_from(*number).ok(),
            _ => None,
        }
    }

    /// A string.
    pub fn text(&self, name: &str) -> Option<&str> {
        match self.value(name)? {
            Value::Text(text) => Some(text),
            _ => None,
        }
    }

    /// The strings of a list.
    pub fn texts(&self, name: &str) -> Vec<&str> {
        let Some(Value::List(all)) = self.value(name) else { return Vec::new() };
        let texts = all.iter().filter_map(|value| match value {
            Value::Text(text) => Some(text.as_str()),
            _ => None,
        });
        texts.collect()
    }

    /// The section of this name.
    pub fn section(&self, name: &str) -> Option<&Section> {
        self.sections.iter().find(|(n, _)| n == name).map(|(_, section)| section)
    }

    /// All sections.
    pub fn sections(&self) -> impl Iterator<Item = (&str, &Section)> {
        self.sections.iter().map(|(name, section)| (name.as_str(), section))
    }

    fn value(&self, name: &str) -> Option<&Value> {
        self.values.iter().find(|(n, _)| n == name).map(|(_, value)| value)
    }
}

/// The whole text; none when it does not follow the format.
pub fn parse(text: &str) -> Option<Section> {
    let mut parser = Parser { rest: text };
    let section = parser.section(0)?;
    parser.rest.is_empty().then_some(section)
}

struct Parser<'a> {
    rest: &'a str,
}

impl<'a> Parser<'a> {
    /// Assignments and sections up to `}` or the end.
    fn section(&mut self, depth: usize) -> Option<Section> {
        let mut section = Section::default();
        loop {
            self.skip_blank();
            if self.rest.is_empty() || (depth > 0 && self.rest.starts_with('}')) {
                return Some(section);
            }
            let name = self.name()?.to_owned();
            self.skip_blank();
            if self.take('=') {
                section.values.push((name, self.value(depth)?));
            } else if self.take('{') && depth < DEPTH_MAX {
                let inner = self.section(depth + 1)?;
                self.take('}').then_some(())?;
                section.sections.push((name, inner));
            } else {
                return None;
            }
        }
    }

    fn value(&mut self, depth: usize) -> Option<Value> {
        self.skip_blank();
        match self.rest.chars().next()? {
            '"' => self.string().map(Value::Text),
            '[' if depth < DEPTH_MAX => self.list(depth).map(Value::List),
            _ => self.number().map(Value::Number),
        }
    }

    fn list(&mut self, depth: usize) -> Option<Vec<Value>> {
        let mut values = Vec::new();
        self.take('[');
        loop {
            self.skip_blank();
            if self.take(']') {
                return Some(values);
            }
            values.push(self.value(depth + 1)?);
            self.skip_blank();
            if !self.take(',') && !self.rest.starts_with(']') {
                return None;
            }
        }
    }

    /// Between quotes; a backslash takes the next character as it is.
    fn string(&mut self) -> Option<String> {
        self.take('"');
        let mut out = String::new();
        let mut chars = self.rest.char_indices();
        while let Some((at, c)) = chars.next() {
            match c {
                '"' => {
                    self.rest = &self.rest[at + 1..];
                    return Some(out);
                }
                '\\' => out.push(chars.next()?.1),
                c => out.push(c),
            }
        }
        None
    }

    fn number(&mut self) -> Option<i64> {
        let is_part = |c: char| c.is_ascii_digit() || "+-.".contains(c);
        let end = self.rest.find(|c| !is_part(c)).unwrap_or(self.rest.len());
        let (number, rest) = self.rest.split_at(end);
        self.rest = rest;
        number.split('.').next()?.parse().ok()
    }

    fn name(&mut self) -> Option<&'a str> {
        let is_part = |c: char| c.is_ascii_alphanumeric() || "_-.+/@#!:&".contains(c);
        let end = self.rest.find(|c| !is_part(c)).unwrap_or(self.rest.len());
        let (name, rest) = self.rest.split_at(end);
        self.rest = rest;
        (!name.is_empty()).then_some(name)
    }

    fn take(&mut self, c: char) -> bool {
        let rest = self.rest.strip_prefix(c);
        self.rest = rest.unwrap_or(self.rest);
        rest.is_some()
    }

    /// White space and comments.
    fn skip_blank(&mut self) {
        loop {
            self.rest = self.rest.trim_start();
            if !self.rest.starts_with('#') {
                return;
            }
            self.rest = self.rest.split_once('\n').map_or("", |(_, rest)| rest);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn sections_values_lists_and_comments() {
        let text = "vg-0.1 {\n# one\nid = \"a\\\"b\"\nsize=-3 # two\nl = [ \"x\", 7, [] ]\nin { n = 2.5 }\n}\nversion = 1";
        let top = parse(text).expect("valid");
        let vg = top.section("vg-0.1").expect("the group");
        assert_eq!((vg.text("id"), vg.number("size"), vg.number("id")), (Some("a\"b"), None, None));
        assert_eq!(vg.section("in").and_then(|s| s.number("n")), Some(2));
        let list = vec![Value::Text("x".into()), Value::Number(7), Value::List(Vec::new())];
        assert_eq!(vg.value("l"), Some(&Value::List(list)));
        assert_eq!(top.number("version"), Some(1));
        assert_eq!(vg.sections().map(|(name, _)| name).collect::<Vec<_>>(), ["in"]);
    }

    #[test]
    fn what_is_no_such_text() {
        let deep = "a{".repeat(100_000);
        let lists = format!("a={}", "[".repeat(100_000));
        for text in
            ["a", "a =", "a = \"", "a { b = 1", "}", "a = [ 1 2 ]", "= 1", "a=x", &deep, &lists]
        {
            assert_eq!(parse(text), None, "{}", &text[..text.len().min(20)]);
        }
        assert_eq!(parse("# nothing"), Some(Section::default()));
    }

    proptest! {
        #[test]
        fn any_text_ends(text in "[a-c={}\\[\\]\"#,\\\\ \n0-9.-]{0,200}", any in ".{0,100}") {
            let _ = (parse(&text), parse(&any));
        }
    }
}
