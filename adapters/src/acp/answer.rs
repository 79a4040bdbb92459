//! What the answers of an agent mean. The only place that looks into its words.

use std::sync::Arc;

use agent_client_protocol_schema::ProtocolVersion;
use agent_client_protocol_schema::v1::AgentCapabilities;
use buzz_proto::schedule::{FailureClass, StopReason, TurnEnd};
use buzz_proto::wire::Excerpt;
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use super::codec::RpcError;
use super::reply::Reply;

/// Whether the agent can close sessions, or why the handshake failed.
pub(super) fn greeting(outcome: Result<Option<&RawValue>, RpcError>) -> Result<bool, String> {
    // A missing version means the first one, as other clients have it.
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Greeting {
        #[serde(default = "first")]
        protocol_version: Value,
        #[serde(default)]
        agent_capabilities: Value,
    }
    fn first() -> Value {
        Value::from(ProtocolVersion::V1.as_u16())
    }
    let result = outcome.map_err(|error| words(&error))?;
    let text = result.map_or("null", RawValue::get);
    let Ok(greeting) = serde_json::from_str::<Greeting>(text) else {
        return Err("the answer to initialize is not an object".to_owned());
    };
    if greeting.protocol_version != first() {
        let version = greeting.protocol_version;
        return Err(format!("it speaks version {version} of ACP, not 1"));
    }
    let capabilities: AgentCapabilities =
        serde_json::from_value(greeting.agent_capabilities).unwrap_or_default();
    Ok(capabilities.session_capabilities.close.is_some())
}

/// The session that an answer to `session/new` names.
pub(super) fn session_id(result: Option<&RawValue>) -> Option<Arc<str>> {
    #[derive(Deserialize)]
    struct Opened {
        #[serde(rename = "sessionId")]
        session: Arc<str>,
    }
    let opened: Opened = serde_json::from_str(result?.get()).ok()?;
    Some(opened.session)
}

/// What an answer to `session/prompt` says about the turn.
pub(super) fn turn_end(result: Option<&RawValue>, reply: Reply) -> TurnEnd {
    #[derive(Deserialize)]
    struct Answer {
        #[serde(rename = "stopReason")]
        stop: String,
    }
    let answer = result.and_then(|result| serde_json::from_str::<Answer>(result.get()).ok());
    let Some(Answer { stop }) = answer else {
        return broken("the answer to session/prompt has no stop reason");
    };
    let stop = match stop.to_ascii_lowercase().as_str() {
        "cancelled" => return TurnEnd::Cancelled,
        "end_turn" => StopReason::EndTurn,
        "max_tokens" => StopReason::MaxTokens,
        "max_turn_requests" => StopReason::MaxTurnRequests,
        "refusal" => StopReason::Refusal,
        _ => return broken(&format!("unknown stop reason {stop:?}")),
    };
    TurnEnd::Answered {
        reply: reply.finish(),
        stop,
    }
}

/// What an error answer of this class says about the turn.
pub(super) fn failure(class: FailureClass, error: &RpcError) -> TurnEnd {
    let text = Excerpt::new(&words(error));
    TurnEnd::Failed { class, text }
}

/// An error in one line.
pub(super) fn words(error: &RpcError) -> String {
    let RpcError {
        code,
        message,
        data,
    } = error;
    match data {
        Some(Value::Object(fields)) if fields.contains_key("details") => {
            format!("{message} ({code}): {}", fields["details"])
        }
        Some(data) if !data.is_null() => format!("{message} ({code}): {data}"),
        Some(_) | None => format!("{message} ({code})"),
    }
}

fn broken(text: &str) -> TurnEnd {
    TurnEnd::Failed {
        class: FailureClass::Protocol,
        text: Excerpt::new(text),
    }
}
