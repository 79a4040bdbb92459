//! The relay information document (NIP-11).

use serde_json::json;

use super::filter::LIMIT_MAX;
use super::frame::{FILTERS_MAX, FRAME_BYTES_MAX};
use super::http::{HttpReply, json_reply};
use super::{Auth, Rules};

impl Rules {
    pub(super) fn information(&self) -> HttpReply {
        let is_required = self.settings.auth == Auth::Required;
        let mut nips = vec![1, 2, 10, 11, 16, 17, 23, 25, 29, 33, 38, 42, 50, 56];
        if self.settings.membership_required {
            nips.push(43);
        }
        json_reply(
            200,
            &json!({
                "name": "Buzz Relay",
                "description": "A development relay",
                "pubkey": null,
                "contact": null,
                "supported_nips": nips,
                "supported_extensions": ["nip-er"],
                "software": "https://github.com/block/buzz",
                "version": "0.2.1",
                "limitation": {
                    "max_message_length": FRAME_BYTES_MAX,
                    "max_subscriptions": self.settings.subscriptions_max,
                    "max_filters": FILTERS_MAX,
                    "max_limit": LIMIT_MAX,
                    "max_subid_length": 256,
                    "min_pow_difficulty": null,
                    "auth_required": is_required,
                    "payment_required": false,
                    "restricted_writes": is_required,
                    "due_delivery_mode": "push",
                    "max_not_before_delta": 31_536_000,
                },
                "self": self.keys.public(),
            }),
        )
    }
}
