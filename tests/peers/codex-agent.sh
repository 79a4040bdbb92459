#!/usr/bin/env bash
# The production agent codex-acp, answered by the mock model: speaks ACP on stdin and stdout, makes no other call.
#
#   codex-agent.sh DIRECTORY [PORT]
#
# DIRECTORY becomes its CODEX_HOME. With PORT the mock on 127.0.0.1:PORT is used; without it an own mock is
# started, which reads MOCK_LLM_* from the environment and ends when the agent does.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source-path=SCRIPTDIR source=common.sh
. "$here/common.sh"
[ $# -ge 1 ] || fail "usage: $0 DIRECTORY [PORT]"
installed acp-agents

case "$(uname -m)" in
    x86_64) arch=x64 ;;
    aarch64) arch=arm64 ;;
    *) fail "$0: no codex-acp binary for $(uname -m)" ;;
esac
mkdir -p "$1"
home=$(cd "$1" && pwd) port=${2:-}

if [ -z "$port" ]; then
    rm -f "$home/mock.port"
    # Its output must not hold the agent's pipes open once the agent is gone.
    MOCK_LLM_PARENT=$$ node "$here/mock-llm/server.mjs" 0 "$home/mock.port" </dev/null >"$home/mock.log" 2>&1 &
    for _ in $(seq 200); do
        [ ! -s "$home/mock.port" ] || break
        sleep 0.05
    done
    port=$(cat "$home/mock.port") || fail "$0: the mock model did not start: $(cat "$home/mock.log")"
fi

cat >"$home/config.toml" <<TOML
# A name that codex knows: an unknown one puts a warning in front of every answer.
model = "gpt-5.4"
model_provider = "mock"
approval_policy = "never"
sandbox_mode = "read-only"
check_for_update_on_startup = false

[analytics]
enabled = false

[model_providers.mock]
name = "mock"
base_url = "http://127.0.0.1:$port/v1"
wire_api = "responses"
requires_openai_auth = false
TOML

unset OPENAI_API_KEY CODEX_API_KEY
export CODEX_HOME=$home NO_PROXY=127.0.0.1 no_proxy=127.0.0.1
exec "$peers_dir/acp-agents/node_modules/@zed-industries/codex-acp-linux-$arch/bin/codex-acp"
