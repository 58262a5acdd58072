//! What keys do: questions, help, and what is asked of the measurement.

/// A key that means something.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Key {
    /// A character.
    Char(char),
    /// Escape, alone.
    Escape,
    /// Anything else, such as an arrow.
    Other,
}

/// The keys in what a terminal sent; a sequence (an arrow, the mouse) is one key.
#[must_use]
pub fn keys_in(bytes: &[u8]) -> Vec<Key> {
    let mut keys = Vec::new();
    let mut rest = bytes;
    while let [first, after @ ..] = rest {
        rest = after;
        keys.push(match first {
            0x1b if after.is_empty() => Key::Escape,
            0x1b => {
                let is_end = |byte: &u8| byte.is_ascii_alphabetic() || *byte == b'~';
                // ESC [ or ESC O, parameters, a letter.
                let skip = usize::from(matches!(after[0], b'[' | b'O'));
                let end = after.iter().skip(skip).position(is_end);
                rest = end.map_or(&[], |end| &after[skip + end + 1..]);
                Key::Other
            }
            0x20..=0x7e => Key::Char(char::from(*first)),
            _ => Key::Other,
        });
    }
    keys
}

/// Who looks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Seat {
    /// The process that measures.
    Own,
    /// Somebody who looked in, and can leave again.
    Attached,
}

/// What stands in the last line or over the view.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Dialog {
    /// Nothing.
    #[default]
    None,
    /// Whether the run is to be ended.
    AskEnd,
    /// What the keys do.
    Help,
    /// Why this run cannot be left.
    NoDetach,
}

/// What a key asks for beyond the view.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wish {
    /// End the measurement as Ctrl-C does.
    End,
    /// Leave the view; the measurement goes on.
    Leave,
}

impl Dialog {
    /// What the key makes of it.
    #[must_use]
    pub fn pressed(self, key: Key, seat: Seat) -> (Self, Option<Wish>) {
        match (self, key) {
            (Self::AskEnd, Key::Char('y' | 'Y')) => (Self::None, Some(Wish::End)),
            // Whatever else is pressed takes away what is shown; nothing happens by it.
            (Self::AskEnd | Self::Help | Self::NoDetach, _) => (Self::None, None),
            (Self::None, Key::Char('q' | 'Q')) => (Self::AskEnd, None),
            (Self::None, Key::Char('?' | 'h')) => (Self::Help, None),
            (Self::None, Key::Char('d' | 'D')) => match seat {
                Seat::Attached => (Self::None, Some(Wish::Leave)),
                Seat::Own => (Self::NoDetach, None),
            },
            (Self::None, _) => (Self::None, None),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn typed(text: &str, seat: Seat) -> (Dialog, Vec<Wish>) {
        let mut wishes = Vec::new();
        let mut dialog = Dialog::None;
        for key in keys_in(text.as_bytes()) {
            let (next, wish) = dialog.pressed(key, seat);
            dialog = next;
            wishes.extend(wish);
        }
        (dialog, wishes)
    }

    #[test]
    fn a_run_is_ended_by_a_yes_only() {
        for (text, dialog, wishes) in [
            ("q", Dialog::AskEnd, vec![]),
            ("qy", Dialog::None, vec![Wish::End]),
            ("qn", Dialog::None, vec![]),
            ("qq", Dialog::None, vec![]),
            ("y", Dialog::None, vec![]),
            ("?q", Dialog::None, vec![]),
            ("?qqy", Dialog::None, vec![Wish::End]),
            ("q\x1b[A", Dialog::None, vec![]),
            ("\x1b[1;5Bq", Dialog::AskEnd, vec![]),
            ("\x1bOPq\x1b", Dialog::None, vec![]),
            ("d", Dialog::NoDetach, vec![]),
        ] {
            assert_eq!(typed(text, Seat::Own), (dialog, wishes), "{text:?}");
        }
        assert_eq!(typed("d", Seat::Attached), (Dialog::None, vec![Wish::Leave]));
        assert_eq!(typed("qd", Seat::Attached), (Dialog::None, vec![]));
    }

    #[test]
    fn broken_sequences_are_no_keys() {
        assert_eq!(keys_in(b"\x1b["), [Key::Other]);
        assert_eq!(keys_in(b"\x1b[12;"), [Key::Other]);
        assert_eq!(keys_in(b"\x1b"), [Key::Escape]);
        assert_eq!(keys_in(&[0xc3, 0xa4, b'q']), [Key::Other, Key::Other, Key::Char('q')]);
        assert_eq!(keys_in(b""), []);
    }
}
