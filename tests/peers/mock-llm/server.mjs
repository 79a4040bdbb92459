// A model without a model: answers POST /v1/responses (server-sent events) the same way every time.
//
//   node server.mjs PORT [PORT_FILE]      PORT 0 takes a free one, which is written to PORT_FILE
//
// MOCK_LLM_ANSWER    the answer; by default "mock: " and the last line of the last user text
// MOCK_LLM_CHUNKS    pieces the answer is streamed in (default 2)
// MOCK_LLM_DELAY_MS  pause before each piece (default 0), for cancel and time-out tests
// MOCK_LLM_PARENT    process id: the server ends with it

import { renameSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import { setTimeout as pause } from "node:timers/promises";

const [port = "0", portFile] = process.argv.slice(2);
const chunks = Number(process.env.MOCK_LLM_CHUNKS ?? 2);
const delay = Number(process.env.MOCK_LLM_DELAY_MS ?? 0);
const parent = process.env.MOCK_LLM_PARENT;
const BODY_MAX = 16 * 1024 * 1024;
let turns = 0;

const server = createServer((request, response) => {
  respond(request, response).catch((error) => {
    console.error(error);
    response.destroy();
  });
});
server.listen(Number(port), "127.0.0.1", () => {
  const bound = String(server.address().port);
  if (portFile) {
    writeFileSync(`${portFile}.part`, bound);
    renameSync(`${portFile}.part`, portFile);
  }
  console.log(`ready ${bound}`);
});
process.on("SIGTERM", () => process.exit(0));
// An orphan is adopted by another process: that is how a killed agent is noticed.
if (parent) setInterval(() => process.ppid === Number(parent) || process.exit(0), 200);

async function respond(request, response) {
  let body = "";
  for await (const piece of request) {
    body += piece;
    if (body.length > BODY_MAX) return void response.writeHead(413).end();
  }
  console.log(`${request.method} ${request.url} ${body.length} bytes`);
  const path = request.url.split("?")[0];
  if (path === "/v1/models") {
    response.writeHead(200, { "content-type": "application/json" });
    return void response.end(JSON.stringify({ object: "list", data: [], models: [] }));
  }
  if (request.method !== "POST" || path !== "/v1/responses") return void response.writeHead(404).end();
  response.writeHead(200, { "content-type": "text/event-stream" });
  await stream(response, process.env.MOCK_LLM_ANSWER ?? `mock: ${lastLine(JSON.parse(body))}`);
}

function lastLine({ input = [] }) {
  const text = input
    .filter((item) => item.role === "user")
    .flatMap((item) => item.content ?? [])
    .findLast((part) => typeof part.text === "string" && part.text.trim() !== "")?.text;
  return (text ?? "").trimEnd().split("\n").pop();
}

async function stream(response, answer) {
  turns += 1;
  const id = `resp_${turns}`;
  const send = (type, fields) => response.write(`event: ${type}\ndata: ${JSON.stringify({ type, ...fields })}\n\n`);
  const message = (text, status) => ({
    id: `msg_${turns}`,
    type: "message",
    role: "assistant",
    status,
    content: text ? [{ type: "output_text", text, annotations: [] }] : [],
  });
  const at = { item_id: `msg_${turns}`, output_index: 0, content_index: 0 };
  const letters = [...answer];
  const step = Math.max(1, Math.ceil(letters.length / chunks));

  send("response.created", { response: { id, status: "in_progress", output: [] } });
  send("response.output_item.added", { output_index: 0, item: message("", "in_progress") });
  for (let from = 0; from < letters.length && !response.destroyed; from += step) {
    if (delay) await pause(delay);
    send("response.output_text.delta", { ...at, delta: letters.slice(from, from + step).join("") });
  }
  const usage = { input_tokens: 1, output_tokens: 1, total_tokens: 2 };
  const output = [message(answer, "completed")];
  send("response.output_item.done", { output_index: 0, item: output[0] });
  send("response.completed", { response: { id, status: "completed", output, usage } });
  response.end();
}
