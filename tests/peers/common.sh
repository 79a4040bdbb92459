# Shared by the scripts in this folder; sourced with $here set to it.
# shellcheck shell=bash

peers_dir=$(realpath -m -- "${BUZZ_PEERS_DIR:-$here/../../target/peers}")

fail() {
    printf '%s\n' "$*" >&2
    exit 1
}

# installed PART: starting must never turn into installing, a test would time out on it.
installed() {
    [ -e "$peers_dir/$1/.stamp" ] || fail "$0: peer '$1' is not in $peers_dir; run tests/peers/install.sh $1"
}

# nostr_relay_config FILE DATABASE PORT MODE
nostr_relay_config() {
    local enabled=true save=a query=a
    case "$4" in
        open) enabled=false ;;
        offer) ;;
        auth) save=w query=r ;;
        *) fail "$0: mode '$4' is none of open, offer, auth" ;;
    esac
    cat >"$1" <<YAML
relay_name: nostr_relay peer
storage:
  sqlalchemy.url: sqlite+aiosqlite:///$2
  validators: [nostr_relay.validators.is_signed]
gunicorn: {bind: "127.0.0.1:$3", loglevel: warning, access_log: false}
authentication:
  enabled: $enabled
  relay_urls: ["ws://127.0.0.1:$3", "ws://127.0.0.1:$3/", "ws://localhost:$3", "ws://localhost:$3/"]
  actions: {save: $save, query: $query}
subscription_limit: 64
YAML
}
