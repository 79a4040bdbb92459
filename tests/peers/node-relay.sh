#!/usr/bin/env bash
# Runs npm @nostr-relay/core on ws://127.0.0.1:PORT in the foreground; a connect that succeeds means ready.
#
#   node-relay.sh PORT DIRECTORY [open|offer|auth]
#
# DIRECTORY keeps events.jsonl and relay.log; a second run there finds the same events.
# open: no NIP-42. offer: challenges on connect, serves all. auth: serves only who authenticated.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source-path=SCRIPTDIR source=common.sh
. "$here/common.sh"
[ $# -ge 2 ] || fail "usage: $0 PORT DIRECTORY [open|offer|auth]"
installed node-relay
mode=${3:-open}
case "$mode" in
    open | offer | auth) ;;
    *) fail "$0: mode '$mode' is none of open, offer, auth" ;;
esac

mkdir -p "$2"
BUZZ_PEERS_DIR=$peers_dir exec node "$here/node-relay/server.mjs" \
    "$1" "$2" "$mode" </dev/null >>"$2/relay.log" 2>&1
