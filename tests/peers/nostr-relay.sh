#!/usr/bin/env bash
# Runs PyPI nostr_relay on ws://127.0.0.1:PORT in the foreground; a connect that succeeds means ready.
#
#   nostr-relay.sh PORT DIRECTORY [open|offer|auth [PUBKEY ...]]
#
# DIRECTORY keeps the database and relay.log; a second run there finds the same events.
# open: no NIP-42. offer: challenges on connect, serves all. auth: serves only the PUBKEYs (hex) that authenticated.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source-path=SCRIPTDIR source=common.sh
. "$here/common.sh"
[ $# -ge 2 ] || fail "usage: $0 PORT DIRECTORY [open|offer|auth [PUBKEY ...]]"
installed nostr-relay

mkdir -p "$2"
port=$1 mode=${3:-open} directory=$(cd "$2" && pwd)
[ -e "$directory/relay.sqlite3" ] || cp "$peers_dir/nostr-relay/template.sqlite3" "$directory/relay.sqlite3"
nostr_relay_config "$directory/relay.yaml" "$directory/relay.sqlite3" "$port" "$mode"
exec "$peers_dir/nostr-relay/venv/bin/python" "$here/nostr-relay/serve.py" \
    "$directory/relay.yaml" "${@:4}" </dev/null >>"$directory/relay.log" 2>&1
