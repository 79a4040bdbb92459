#!/usr/bin/env bash
# Installs the independent relays and agents that the loopback suites talk to.
#
#   tests/peers/install.sh [nostr-relay] [node-relay] [acp-agents]     (default: all)
#
# Target: $BUZZ_PEERS_DIR, else target/peers under the repository root.
# A part whose pinned versions are already there is left alone. Silent unless something fails.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source-path=SCRIPTDIR source=common.sh
. "$here/common.sh"

main() {
    local parts=("$@") part
    [ ${#parts[@]} -gt 0 ] || parts=(nostr-relay node-relay acp-agents)
    mkdir -p "$peers_dir"
    # Test binaries run side by side, and each of them may want the peers.
    exec 9>"$peers_dir/.lock"
    flock 9
    for part in "${parts[@]}"; do
        case "$part" in
            nostr-relay) unless_current "$part" "$here/nostr-relay/requirements.txt" install_nostr_relay ;;
            node-relay | acp-agents) unless_current "$part" "$here/$part/package-lock.json" install_npm ;;
            *) fail "install.sh: no peer named '$part' (nostr-relay, node-relay, acp-agents)" ;;
        esac
    done
}

# unless_current PART LOCKFILE COMMAND: the stamp is written last, so a broken install is done again.
unless_current() {
    local target=$peers_dir/$1 stamp
    stamp=$(sha256sum <"$2")
    [ "$(cat "$target/.stamp" 2>/dev/null)" != "$stamp" ] || return 0
    rm -rf "$target"
    mkdir -p "$target"
    # In a subshell, so that whatever ends it leads to the log being shown.
    if ! ("$3" "$1" "$target") >"$peers_dir/$1.log" 2>&1 9>&-; then
        cat "$peers_dir/$1.log" >&2
        fail "install.sh: $1 could not be installed into $target"
    fi
    printf '%s\n' "$stamp" >"$target/.stamp"
}

# The pins are the whole dependency closure that the relay needs, so pip resolves nothing.
install_nostr_relay() {
    local target=$2
    need python3 python3 --version && need python3-pip python3 -m pip --version || return 1
    python3 -m venv --without-pip "$target/venv" &&
        python3 -m pip --python "$target/venv/bin/python" install --quiet --no-input \
            --no-deps --no-compile --only-binary :all: -r "$here/nostr-relay/requirements.txt" || return 1
    # Uncompiled, every start would take seconds longer; all cores do it faster than pip.
    env -u PYTHONDONTWRITEBYTECODE "$target/venv/bin/python" -m compileall -q -j 0 "$target/venv/lib"
    # Migrating an empty database takes longer than starting the relay: do it once, copy it later.
    nostr_relay_config "$target/template.yaml" "$target/template.sqlite3" 0 open
    (cd "$target" && "$target/venv/bin/python" "$here/nostr-relay/migrate.py" "$target/template.yaml")
}

install_npm() {
    need nodejs node --version && need npm npm --version || return 1
    cp "$here/$1/package.json" "$here/$1/package-lock.json" "$2/" &&
        (cd "$2" && npm ci --ignore-scripts --no-audit --no-fund --loglevel=error --update-notifier=false)
}

# need DEBIAN_PACKAGE PROBE...: one package at a time, because vendors' Node packages bring their own npm.
need() {
    ! "${@:2}" >/dev/null 2>&1 || return 0
    [ "$(id -u)" = 0 ] || fail "install.sh: '${*:2}' fails and only root can install the Debian package '$1'"
    apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$1"
}

main "$@"
