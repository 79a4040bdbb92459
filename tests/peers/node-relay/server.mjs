// A WebSocket server and an event store around npm @nostr-relay/core, which decides what to answer.
//
//   node server.mjs PORT DIRECTORY [open|offer|auth]
//
// Packages come from $BUZZ_PEERS_DIR/node-relay. There is no HTTP API: POST gets 404.

import { appendFileSync, existsSync, readFileSync } from "node:fs";
import { createServer } from "node:http";
import { createRequire } from "node:module";
import { join } from "node:path";

const require = createRequire(join(process.env.BUZZ_PEERS_DIR, "node-relay", "package.json"));
const { EventRepository, EventType, EventUtils } = require("@nostr-relay/common");
const { NostrRelay } = require("@nostr-relay/core");
const { Validator } = require("@nostr-relay/validator");
const { WebSocketServer } = require("ws");

const [port, directory, mode = "open"] = process.argv.slice(2);
const FRAME_MAX = 1024 * 1024;
const EVENTS_MAX = 100_000;

class Store extends EventRepository {
  #events = new Map();
  #file;

  constructor(file) {
    super();
    this.#file = file;
    const lines = existsSync(file) ? readFileSync(file, "utf8").split("\n") : [];
    for (const line of lines) if (line) this.#insert(JSON.parse(line));
  }

  isSearchSupported() {
    return false;
  }

  upsert(event) {
    if (!this.#insert(event)) return { isDuplicate: true };
    appendFileSync(this.#file, `${JSON.stringify(event)}\n`);
    return { isDuplicate: false };
  }

  find(filter) {
    const found = [...this.#events.values()].filter((event) => matches(event, filter)).sort(newestFirst);
    return found.slice(0, filter.limit ?? found.length);
  }

  async destroy() {}

  #insert(event) {
    const key = address(event);
    const held = this.#events.get(key);
    if (held && newestFirst(held, event) <= 0) return false;
    this.#events.set(key, event);
    if (this.#events.size > EVENTS_MAX) this.#events.delete(this.#events.keys().next().value);
    return true;
  }
}

function address(event) {
  const name = EventUtils.extractDTagValue(event);
  const replaceable = EventUtils.getType(event.kind) !== EventType.REGULAR;
  return replaceable ? `${event.kind}:${event.pubkey}:${name}` : event.id;
}

function newestFirst(a, b) {
  return b.created_at - a.created_at || (a.id < b.id ? -1 : a.id > b.id ? 1 : 0);
}

function matches(event, filter) {
  const has = (list, value) => list === undefined || list.includes(value);
  if (!has(filter.ids, event.id) || !has(filter.authors, event.pubkey) || !has(filter.kinds, event.kind)) return false;
  if (event.created_at < (filter.since ?? 0) || event.created_at > (filter.until ?? Infinity)) return false;
  return Object.entries(filter)
    .filter(([key]) => key.startsWith("#"))
    .every(([key, wanted]) => event.tags.some(([name, value]) => name === key[1] && wanted.includes(value)));
}

// The library leaves enforcing NIP-42 to its host, apart from direct messages.
const authRequired = {
  handleMessage(context, message, next) {
    const text = "auth-required: authenticate first";
    if (context.pubkey || !["REQ", "EVENT"].includes(message[0])) return next(context, message);
    const refusal = message[0] === "REQ" ? ["CLOSED", message[1], text] : ["OK", message[1].id, false, text];
    context.sendMessage(refusal);
  },
};

const relay = new NostrRelay(new Store(join(directory, "events.jsonl")), {
  hostname: mode === "open" ? undefined : "127.0.0.1",
  maxSubscriptionsPerClient: 64,
  // The caches answer a repeated REQ with what was true a second ago, a repeated EVENT with its first OK.
  filterResultCacheTtl: 0,
  eventHandlingResultCacheTtl: 0,
});
if (mode === "auth") relay.register(authRequired);
const validator = new Validator();

const http = createServer((request, response) => {
  const document = { name: "@nostr-relay peer", supported_nips: [1, 2, 4, 11, 42], software: "@nostr-relay/core" };
  if (request.method !== "GET") return void response.writeHead(404).end();
  response.writeHead(200, { "content-type": "application/nostr+json" }).end(JSON.stringify(document));
});
new WebSocketServer({ server: http, maxPayload: FRAME_MAX }).on("connection", (socket, request) => {
  socket.on("error", (error) => console.error(error.message));
  socket.on("close", () => relay.handleDisconnect(socket));
  socket.on("message", async (data) => {
    try {
      await relay.handleMessage(socket, await validator.validateIncomingMessage(data));
    } catch (error) {
      socket.send(JSON.stringify(["NOTICE", error.message]));
    }
  });
  relay.handleConnection(socket, request.socket.remoteAddress);
});
http.listen(Number(port), "127.0.0.1", () => console.log(`ready ${http.address().port}`));
process.on("SIGTERM", () => process.exit(0));
