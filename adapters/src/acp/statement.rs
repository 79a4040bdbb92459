//! What the words of an error say.
//!
//! An error may quote the conversation, so nothing is searched for in a text: what counts must be
//! its first statement, behind words such as `internal error`, and nothing else may follow in the
//! same sentence. Codes such as `session_not_found` are read in the same way.

/// Words that are looked at: what counts comes first.
const WORDS_MAX: usize = 64;

/// Words in front of the first statement.
const PREFIX: &str = "error errors internal acp agent the a an server rpc json jsonrpc request \
    response invalid bad params param parameter parameters argument resource exception fatal \
    uncaught unhandled prompt session failed to code provider";

/// Words in front of the statement that someone must log in.
const AUTH_PREFIX: &str = "authenticate authentication unauthorized oauth access refresh token \
    credentials credential key your you has have is are was expired revoked invalid api not";

const SUBJECTS: &str = "session sessionid thread threadid conversation conversationid";

/// Words between a session and what is said of it.
const LINKS: &str = "id ids with named called is was has have had been be does do did could can \
    already acp agent the a this that for channel thread scope";

/// What is said of a session that is gone.
const GONE: [&str; 22] = [
    "not found",
    "notfound",
    "not exist",
    "not exists",
    "doesnt exist",
    "not known",
    "not recognized",
    "not active",
    "not alive",
    "not running",
    "no longer",
    "unknown",
    "expired",
    "ended",
    "closed",
    "gone",
    "terminated",
    "lost",
    "missing",
    "dead",
    "died",
    "exited",
];

/// What is said in front of a session that is gone.
const NONE: [&str; 14] = [
    "no such",
    "no active",
    "no open",
    "no",
    "unknown",
    "invalid",
    "expired",
    "closed",
    "could not find",
    "couldnt find",
    "cannot find",
    "unable to find",
    "failed to find",
    "not found",
];

/// Words that may follow either.
const TAIL: &str = "or and any more longer anymore yet found exists exist active available alive \
    open known id ids with for of in on by here this that the has have been is was not agent \
    server process expired ended closed gone lost deleted already acp store memory";

/// Words of one who wants a login: a session of the account is another thing.
const LOGIN: &str = "login signin auth authenticate authenticated authentication unauthorized \
    oauth token credential credentials";

const AUTH: [&str; 9] = [
    "authentication required",
    "authentication is required",
    "api error 401",
    "re authenticate",
    "reauthenticate",
    "please re authenticate",
    "please reauthenticate",
    "please run login",
    "not logged in",
];

/// The first words of a text, in lower case, and where its sentences end.
#[derive(Debug)]
pub(super) struct Statement(Vec<Token>);

#[derive(Debug, PartialEq, Eq)]
enum Token {
    Word(String),
    /// The end of a sentence or of a part of one.
    End,
}

impl Statement {
    pub(super) fn read(text: &str) -> Self {
        let mut tokens = Vec::new();
        let mut word = String::new();
        let mut chars = text.chars().peekable();
        let mut was_lower = false;
        while let Some(char) = chars.next() {
            if tokens.len() >= WORDS_MAX {
                break;
            }
            if matches!(char, '\'' | '’') && !word.is_empty() {
                continue;
            }
            let begins = was_lower && char.is_uppercase();
            was_lower = char.is_lowercase();
            if (begins || !char.is_alphanumeric()) && !word.is_empty() {
                tokens.push(Token::Word(std::mem::take(&mut word)));
            }
            if char.is_alphanumeric() {
                word.extend(char.to_lowercase());
                continue;
            }
            let is_last = chars.peek().is_none_or(|next| next.is_whitespace());
            let is_end = matches!(char, '.' | ':' | ';' | ',' | '!' | '?') && is_last
                || matches!(char, '\n' | '(' | '·' | '|' | '—' | '{');
            if is_end && tokens.last() != Some(&Token::End) {
                tokens.push(Token::End);
            }
        }
        if !word.is_empty() {
            tokens.push(Token::Word(word));
        }
        Self(tokens)
    }

    /// Whether it says that a session does not exist (any more); `id` is the session's name.
    pub(super) fn is_session_gone(&self, id: &str) -> bool {
        let id = Self::read(id);
        !self.mentions_login()
            && self.starts(&[PREFIX]).any(|rest| {
                let said_behind = first(rest, SUBJECTS)
                    .map(|rest| id.skip_names(rest))
                    .and_then(|rest| GONE.iter().find_map(|said| phrase(rest, said)));
                let said_before = NONE.iter().find_map(|said| {
                    let rest = id.skip_names(phrase(rest, said)?);
                    first(rest, SUBJECTS)
                });
                [said_behind, said_before]
                    .into_iter()
                    .flatten()
                    .any(|rest| id.ends_with(rest))
            })
    }

    /// Whether it says that someone must log in.
    pub(super) fn wants_login(&self) -> bool {
        self.starts(&[PREFIX, AUTH_PREFIX])
            .any(|rest| AUTH.iter().any(|said| phrase(rest, said).is_some()))
    }

    /// Whether it speaks of logging in at all.
    pub(super) fn mentions_login(&self) -> bool {
        (0..self.0.len()).any(|from| {
            let rest = self.0.get(from..).unwrap_or_default();
            first(rest, LOGIN).is_some()
                || ["log in", "logged in", "sign in", "signed in", "api key"]
                    .iter()
                    .any(|said| phrase(rest, said).is_some())
        })
    }

    /// Whether it says that the model does not exist.
    pub(super) fn is_model_unknown(&self) -> bool {
        self.starts(&[PREFIX]).any(|rest| {
            let Some(mut rest) = first(rest, "model") else {
                return false;
            };
            loop {
                match rest {
                    [Token::Word(not), Token::Word(found), ..]
                        if not == "not" && found == "found" =>
                    {
                        return true;
                    }
                    [Token::Word(_), tail @ ..] => rest = tail,
                    [Token::End, ..] | [] => return false,
                }
            }
        })
    }

    /// The words of a code, joined by `_`.
    pub(super) fn code(&self) -> String {
        self.words().collect::<Vec<_>>().join("_")
    }

    fn words(&self) -> impl Iterator<Item = &str> {
        self.0.iter().filter_map(|token| match token {
            Token::Word(word) => Some(word.as_str()),
            Token::End => None,
        })
    }

    /// Where its first statement may begin.
    fn starts<'a>(&'a self, prefixes: &[&str]) -> impl Iterator<Item = &'a [Token]> {
        let is_prefix = |token: &Token| match token {
            Token::Word(word) => {
                is_number(word) || prefixes.iter().any(|prefix| is_one_of(prefix, word))
            }
            Token::End => true,
        };
        let skipped = self.0.iter().take_while(|token| is_prefix(token)).count();
        (0..=skipped).filter_map(|from| self.0.get(from..))
    }

    /// Passes over links, and over names: words with digits, and those of the session itself.
    fn skip_names<'a>(&self, mut rest: &'a [Token]) -> &'a [Token] {
        loop {
            match rest {
                [Token::Word(word), tail @ ..] if self.is_name(word) || is_one_of(LINKS, word) => {
                    rest = tail;
                }
                [Token::End, tail @ ..] => rest = tail,
                [Token::Word(_), ..] | [] => return rest,
            }
        }
    }

    /// Whether nothing follows in the same sentence that makes it say something else.
    fn ends_with(&self, mut rest: &[Token]) -> bool {
        loop {
            match rest {
                [Token::Word(word), tail @ ..] if self.is_name(word) || is_one_of(TAIL, word) => {
                    rest = tail;
                }
                [Token::Word(_), ..] => return false,
                [Token::End, ..] | [] => return true,
            }
        }
    }

    fn is_name(&self, word: &str) -> bool {
        word.contains(|char: char| char.is_ascii_digit()) || self.words().any(|own| own == word)
    }
}

/// What follows one of these words.
fn first<'a>(rest: &'a [Token], words: &str) -> Option<&'a [Token]> {
    match rest {
        [Token::Word(word), tail @ ..] if is_one_of(words, word) => Some(tail),
        [Token::Word(_) | Token::End, ..] | [] => None,
    }
}

/// What follows these words, which may belong to two sentences.
fn phrase<'a>(mut rest: &'a [Token], words: &str) -> Option<&'a [Token]> {
    for wanted in words.split(' ') {
        if let [Token::End, tail @ ..] = rest {
            rest = tail;
        }
        rest = first(rest, wanted)?;
    }
    Some(rest)
}

fn is_one_of(words: &str, word: &str) -> bool {
    words.split_whitespace().any(|one| one == word)
}

fn is_number(word: &str) -> bool {
    word.bytes().all(|byte| byte.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: &str = "0c6d1f3a-abcd-beef";

    #[test]
    fn a_session_is_said_to_be_gone_in_many_ways() {
        for text in [
            "Session not found",
            "session_not_found",
            "SessionNotFound",
            "SESSION_EXPIRED",
            "sessionNotFound",
            "Session 0c6d1f3a-abcd-beef not found",
            "Session \"0c6d1f3a-abcd-beef\" not found.",
            "Session with id '77' was not found",
            "ACP session for channel 77 has ended",
            "Error: Session not found\n    at ClaudeAcpAgent.prompt (acp-agent.js:1:2)",
            "Internal error: session has expired; open another",
            "Invalid params: unknown session",
            "Invalid params: session not found: 0c6d1f3a-abcd-beef",
            "Unknown session: abc-9",
            "unknown sessionId",
            "No such session",
            "No active session with id 0c6d1f3a-abcd-beef",
            "No session found for 0c6d1f3a-abcd-beef",
            "Could not find session 0c6d1f3a",
            "Couldn't find session 0c6d1f3a",
            "Resource not found: session 0c6d1f3a",
            "The session doesn't exist",
            "session does not exist on this server",
            "session is no longer active",
            "thread not found: 0c6d1f3a",
            "Session not found or expired",
            "-32603: Session not found",
        ] {
            assert!(Statement::read(text).is_session_gone(ID), "{text}");
        }
    }

    #[test]
    fn other_words_about_sessions_do_not_say_that_one_is_gone() {
        for text in [
            "",
            "Internal error",
            "session",
            "The model could not say why \"session not found\" is shown",
            "could not answer: session not found is what you asked about",
            "Session not found is what you asked about",
            "User asked: session not found",
            "you said: unknown session",
            "File not found: session.rs",
            "Session limit reached",
            "Session storage was not found",
            "The session directory does not exist",
            "Invalid session configuration",
            "session/prompt failed: file not found",
            "about the usage_limit of an ACP session",
            "Session expired, please login",
            "Your session token has expired",
            "Tool failed: no such session",
            "no session title",
        ] {
            assert!(!Statement::read(text).is_session_gone(ID), "{text}");
        }
    }

    #[test]
    fn who_wants_a_login_says_so_first() {
        for text in [
            "Authentication required",
            "Internal error: Authentication required",
            "API Error: 401 {\"type\":\"error\"} · Please run /login",
            "Failed to authenticate. API Error: 401 unauthorized",
            "Re-authenticate to go on",
            "OAuth token has expired. Please re-authenticate.",
            "Invalid API key · Please run /login",
            "Not logged in",
        ] {
            assert!(Statement::read(text).wants_login(), "{text}");
        }
        for text in [
            "",
            "API Error: 500 Internal server error",
            "API Error: 4010",
            "the answer was \"API Error: 401\"",
            "You asked what API Error: 401 means",
            "The page says: Authentication required",
            "how do I re-authenticate",
        ] {
            assert!(!Statement::read(text).wants_login(), "{text}");
        }
    }

    #[test]
    fn a_model_is_said_to_be_unknown() {
        for text in [
            "model_not_found",
            "Model gpt-5.9 was not found",
            "Error: model not found",
        ] {
            assert!(Statement::read(text).is_model_unknown(), "{text}");
        }
        for text in [
            "the model says: not found",
            "Model error: file not found",
            "model",
        ] {
            assert!(!Statement::read(text).is_model_unknown(), "{text}");
        }
    }

    #[test]
    fn a_long_text_is_not_read_to_its_end() {
        let statement = Statement::read(&"word ".repeat(1_000_000));
        assert!(statement.0.len() <= WORDS_MAX + 1);
    }
}
