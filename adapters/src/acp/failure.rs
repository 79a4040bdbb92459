//! What an error answer says about the turn, and about the next attempt.
//!
//! A class that ends or delays work must be beyond doubt: a code of the protocol, a typed field, or
//! the first statement of a text. Everything else may pass.

use buzz_proto::schedule::FailureClass;
use buzz_proto::time::UnixTime;
use serde_json::Value;

use super::codec::{self, RpcError};
use super::limit;
use super::statement::Statement;

/// Codes by which agents and providers say that someone must log in, pay, or allow something.
const NEEDS_HUMAN: [&str; 11] = [
    "authentication_error",
    "authentication_failed",
    "authentication_required",
    "auth_required",
    "login_required",
    "unauthorized",
    "unauthenticated",
    "invalid_api_key",
    "billing_error",
    "payment_required",
    "model_not_found",
];

/// Names of fields that hold a code or a statement about the error itself. Others may hold what was
/// asked and answered.
const STATEMENTS: [&str; 16] = [
    "message",
    "details",
    "detail",
    "description",
    "error",
    "errors",
    "reason",
    "cause",
    "code",
    "errorcode",
    "type",
    "errortype",
    "kind",
    "name",
    "status",
    "codexerrorinfo",
];

/// Names of fields that hold an error in full.
const INNER: [&str; 2] = ["data", "response"];

/// Names of fields that hold what was asked and answered: nothing below them is about the error.
const QUOTES: [&str; 18] = [
    "arguments",
    "body",
    "content",
    "contents",
    "conversation",
    "history",
    "input",
    "messages",
    "output",
    "params",
    "parameters",
    "prompt",
    "query",
    "request",
    "result",
    "text",
    "transcript",
    "tools",
];

/// Statements of one error that are looked at.
const STATEMENTS_MAX: usize = 32;

/// What kind of failure an error is that answers a request about `session`, at `wall`.
pub(super) fn class(error: &RpcError, session: &str, wall: UnixTime) -> FailureClass {
    let data = error.data.as_ref();
    let texts = texts(error);
    if error.code == 429 || data.is_some_and(limit::is_named) {
        let until = data.and_then(|data| limit::end(data, wall));
        return FailureClass::UsageLimit { until };
    }
    let mut ends = texts
        .iter()
        .filter_map(|text| limit::end_in_text(text, wall));
    if let Some(until) = ends.next() {
        return FailureClass::UsageLimit { until };
    }
    let statements: Vec<Statement> = texts.iter().map(|text| Statement::read(text)).collect();
    if needs_human(error, &texts, &statements) {
        return FailureClass::NeedsHuman;
    }
    let is_gone = statements
        .iter()
        .any(|statement| statement.is_session_gone(session));
    if is_gone || is_nothing_else_missing(error, session) {
        return FailureClass::SessionGone;
    }
    FailureClass::Transient
}

/// The number that a field of this name holds, if the name is one for statuses of HTTP.
pub(super) fn status(name: &str, value: &Value) -> Option<u64> {
    let name = plain(name);
    let is_status = [
        "status",
        "code",
        "statuscode",
        "httpstatus",
        "httpstatuscode",
    ]
    .contains(&name.as_str());
    let number = match value {
        Value::Number(number) => number.as_u64(),
        Value::String(text) => text.parse().ok(),
        Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => None,
    };
    number.filter(|_| is_status)
}

/// Whether a field of this name holds what was asked and answered.
pub(super) fn is_quote(name: &str) -> bool {
    QUOTES.contains(&plain(name).as_str())
}

fn needs_human(error: &RpcError, texts: &[&str], statements: &[Statement]) -> bool {
    let has_code = texts.iter().zip(statements).any(|(text, statement)| {
        !text.contains(char::is_whitespace) && NEEDS_HUMAN.contains(&statement.code().as_str())
    });
    let is_code_of_login = error.code == codec::AUTH_REQUIRED
        && (error.message.trim().is_empty() || statements.iter().any(Statement::mentions_login));
    let is_model_unknown = error.code == codec::RESOURCE_NOT_FOUND
        && statements.iter().any(Statement::is_model_unknown);
    has_code
        || is_code_of_login
        || is_model_unknown
        || statements.iter().any(Statement::wants_login)
        || error.data.as_ref().is_some_and(is_locked)
}

/// Whether a status of HTTP says that someone must log in or pay.
fn is_locked(data: &Value) -> bool {
    match data {
        Value::Array(values) => values.iter().any(is_locked),
        Value::Object(fields) => fields.iter().any(|(name, value)| {
            matches!(status(name, value), Some(401 | 402)) || !is_quote(name) && is_locked(value)
        }),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
    }
}

/// Whether something was not found, and the session is all that it can be.
fn is_nothing_else_missing(error: &RpcError, session: &str) -> bool {
    let said = Statement::read(&error.message).code();
    let is_bare = ["", "not_found", "resource_not_found"].contains(&said.as_str());
    let names_session = |value: &Value| match value {
        Value::Null => true,
        Value::String(text) => text.contains(session),
        Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => false,
    };
    error.code == codec::RESOURCE_NOT_FOUND
        && is_bare
        && match &error.data {
            None => true,
            Some(Value::Object(fields)) => fields.values().all(names_session),
            Some(data) => names_session(data),
        }
}

/// The message, and what typed fields say.
fn texts(error: &RpcError) -> Vec<&str> {
    let mut texts = vec![error.message.as_str()];
    if let Some(data) = &error.data {
        collect(data, &mut texts);
    }
    texts
}

fn collect<'a>(value: &'a Value, texts: &mut Vec<&'a str>) {
    match value {
        Value::String(text) if texts.len() < STATEMENTS_MAX => texts.push(text),
        Value::Array(values) => values.iter().for_each(|value| collect(value, texts)),
        Value::Object(fields) => {
            for (name, value) in fields {
                let name = plain(name);
                if STATEMENTS.contains(&name.as_str()) || INNER.contains(&name.as_str()) {
                    collect(value, texts);
                }
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

fn plain(name: &str) -> String {
    let letters = name.chars().filter(char::is_ascii_alphanumeric);
    letters.map(|char| char.to_ascii_lowercase()).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const WALL: UnixTime = UnixTime(1_767_323_045);

    fn class_of(code: i64, message: &str, data: Value) -> FailureClass {
        let error = RpcError {
            code,
            message: message.to_owned(),
            data: Some(data).filter(|data| !data.is_null()),
        };
        class(&error, "s-77", WALL)
    }

    #[test]
    fn an_error_that_says_that_the_session_is_gone_is_known_by_message_and_data() {
        for (code, message, data) in [
            (
                -32603,
                "Internal error",
                json!({"details": "Session not found"}),
            ),
            (-32603, "Internal error", json!("session s-77 has ended")),
            (
                -32603,
                "Internal error",
                json!({"error": {"code": "SESSION_NOT_FOUND"}}),
            ),
            (-32602, "Invalid params: unknown session", json!(null)),
            (-32002, "Session not found", json!(null)),
            (-32002, "Resource not found", json!(null)),
            (-32002, "Resource not found", json!({"uri": "s-77"})),
            (-32000, "Session not found", json!(null)),
            (-32001, "session expired", json!({"x": 1})),
        ] {
            let class = class_of(code, message, data.clone());
            assert_eq!(class, FailureClass::SessionGone, "{code} {message} {data}");
        }
    }

    #[test]
    fn an_error_that_quotes_a_conversation_may_pass() {
        for (code, message, data) in [
            (-32603, "Internal error", json!(null)),
            (
                -32603,
                "Internal error",
                json!({"prompt": "Session not found"}),
            ),
            (
                -32603,
                "Internal error",
                json!({"history": [{"text": "session not found"}]}),
            ),
            (-32603, "the user wrote: session not found", json!(null)),
            (-32603, "cannot say what \"API Error: 401\" is", json!(null)),
            (
                -32603,
                "Internal error",
                json!({"input": "authentication_error"}),
            ),
            (
                -32603,
                "Internal error",
                json!({"details": "the rate_limit is 5"}),
            ),
            (
                -32603,
                "x",
                json!({"history": [{"status": 429, "code": 401}]}),
            ),
            (
                -32603,
                "x",
                json!({"request": {"input": "rate_limit_error"}}),
            ),
            (-32002, "Resource not found", json!({"uri": "file:///a"})),
            (-32002, "File not found", json!(null)),
            (-32000, "Server error", json!(null)),
            (-32000, "see the log for more", json!(null)),
            (0, "\"broken\"", json!(null)),
        ] {
            let class = class_of(code, message, data.clone());
            assert_eq!(class, FailureClass::Transient, "{code} {message} {data}");
        }
    }

    #[test]
    fn what_only_a_human_can_mend_is_known() {
        for (code, message, data) in [
            (-32000, "Authentication required", json!(null)),
            (-32000, "", json!(null)),
            (-32000, "please log in", json!(null)),
            (-32603, "Authentication required", json!(null)),
            (
                -32603,
                "Internal error",
                json!({"details": "API Error: 401 {} · Please run /login"}),
            ),
            (-32603, "Internal error: Re-authenticate", json!(null)),
            (-32603, "x", json!({"codex_error_info": "unauthorized"})),
            (
                -32603,
                "x",
                json!({"error": {"type": "authentication_error"}}),
            ),
            (-32603, "x", json!({"a": {"http_status_code": 401}})),
            (-32603, "x", json!({"statusCode": "402"})),
            (-32002, "Model opus-9 not found", json!(null)),
            (-32603, "x", json!({"code": "model_not_found"})),
        ] {
            let class = class_of(code, message, data.clone());
            assert_eq!(class, FailureClass::NeedsHuman, "{code} {message} {data}");
        }
    }

    #[test]
    fn a_used_up_allowance_is_known_with_its_end() {
        let hour = Some(UnixTime(WALL.0 + 3600));
        for (code, message, data, until) in [
            (429, "x", json!(null), None),
            (429, "x", json!({"retry_after": 3600}), hour),
            (-32603, "x", json!({"type": "rate_limit_error"}), None),
            (
                -32603,
                "x",
                json!({"type": "usage_limit_reached", "resets_at": WALL.0 + 3600}),
                hour,
            ),
            (
                -32000,
                "Rate limited",
                json!({"error": {"status": 429, "retryAfter": 3600}}),
                hour,
            ),
            (
                -32603,
                "Claude AI usage limit reached|1767326645",
                json!(null),
                hour,
            ),
            (
                -32603,
                "x",
                json!({"details": "Claude AI usage limit reached|1767326645"}),
                hour,
            ),
        ] {
            let class = class_of(code, message, data.clone());
            assert_eq!(
                class,
                FailureClass::UsageLimit { until },
                "{code} {message} {data}"
            );
        }
    }

    #[test]
    fn an_error_of_any_shape_has_a_class() {
        let mut deep = json!("Session not found");
        for _ in 0..100 {
            deep = json!({"error": [deep]});
        }
        assert_eq!(class_of(-32603, "x", deep), FailureClass::SessionGone);
        let wide = json!({"errors": vec!["x"; 100_000]});
        assert_eq!(class_of(i64::MIN, "", wide), FailureClass::Transient);
    }
}
