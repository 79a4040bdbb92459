//! What a relay may say.

/// Over HTTP.
pub(crate) const STATUSES: [(u16, &str); 12] = [
    (200, r#"{"accepted":true,"message":""}"#),
    (200, r#"{"accepted":false,"message":"duplicate: had it"}"#),
    (200, r#"{"accepted":false,"message":"blocked: no"}"#),
    (200, "<html>"),
    (
        400,
        r#"{"error":"invalid: event timestamp too far from server time"}"#,
    ),
    (400, r#"{"error":"restricted: unknown event kind"}"#),
    (401, r#"{"error":"NIP-98: replay detected"}"#),
    (403, r#"{"error":"relay_membership_required"}"#),
    (404, "not found"),
    (
        429,
        r#"{"error":"rate-limited: quota exceeded; retry in 4s"}"#,
    ),
    (500, r#"{"error":"internal server error"}"#),
    (503, ""),
];

/// On the socket, where it refuses.
pub(crate) const REASONS: [&str; 6] = [
    "rate-limited: quota exceeded; retry in 2s",
    "auth-required: not authenticated",
    "error: internal server error",
    "invalid: event timestamp too far from server time",
    "duplicate: had it",
    "blocked: no",
];
