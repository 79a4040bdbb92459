#!/usr/bin/env bash
# The example agent of npm @agentclientprotocol/sdk: speaks ACP on stdin and stdout, needs no model.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source-path=SCRIPTDIR source=common.sh
. "$here/common.sh"
installed acp-agents
# The flag is for Node 18, where `crypto` is not a global yet.
exec node --experimental-global-webcrypto \
    "$peers_dir/acp-agents/node_modules/@agentclientprotocol/sdk/dist/examples/agent.js"
