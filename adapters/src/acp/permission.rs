//! Answers to `session/request_permission`.

use agent_client_protocol_schema::v1::{
    RequestPermissionOutcome, RequestPermissionResponse, SelectedPermissionOutcome,
};
use serde::Deserialize;
use serde_json::value::RawValue;

use super::Permissions;

/// The answer for the options in `params`. Options are told apart by kind: their ids mean
/// something to the agent alone.
pub(super) fn answer(
    permissions: Permissions,
    params: Option<&RawValue>,
) -> RequestPermissionResponse {
    // Read leniently: one option of a kind unknown here must not hide the others.
    let request: Request = params
        .and_then(|params| serde_json::from_str(params.get()).ok())
        .unwrap_or_default();
    let of_kind = |kind: &str| {
        request
            .options
            .iter()
            .find(|option| option.kind.eq_ignore_ascii_case(kind))
    };
    let choice = match permissions {
        Permissions::AllowOnce => of_kind("allow_once").or_else(|| of_kind("reject_once")),
        Permissions::RejectOnce => of_kind("reject_once"),
    };
    RequestPermissionResponse::new(
        choice.map_or(RequestPermissionOutcome::Cancelled, |option| {
            let id = option.id.clone();
            RequestPermissionOutcome::Selected(SelectedPermissionOutcome::new(id))
        }),
    )
}

/// The answer while a turn is being cancelled, and outside of turns.
pub(super) fn cancelled() -> RequestPermissionResponse {
    RequestPermissionResponse::new(RequestPermissionOutcome::Cancelled)
}

#[derive(Default, Deserialize)]
struct Request {
    #[serde(default)]
    options: Vec<Choice>,
}

#[derive(Deserialize)]
struct Choice {
    #[serde(default)]
    kind: String,
    #[serde(rename = "optionId")]
    id: String,
}
