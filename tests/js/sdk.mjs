// Drives the stock OpenAI SDK against a gateway: one call per line of input, one result per line out.
import OpenAI, { toFile } from "openai";
import { createInterface } from "node:readline";

const client = new OpenAI({ baseURL: process.argv[2] + "/v1", apiKey: "unused" });

async function upload(image) {
  const data = Buffer.from(image.base64, "base64");
  return toFile(data, image.name, image.type ? { type: image.type } : undefined);
}

async function run({ method, params }) {
  const sent = { ...params };
  if (Array.isArray(sent.image)) sent.image = await Promise.all(sent.image.map(upload));
  else if (sent.image) sent.image = await upload(sent.image);
  if (sent.mask) sent.mask = await upload(sent.mask);
  if (method === "models.list") {
    const ids = [];
    for await (const model of client.models.list()) ids.push(model.id);
    return { ids };
  }
  if (method === "models.retrieve") return client.models.retrieve(sent.id);
  const call = client.images[method.split(".")[1]](sent);
  const { data, response } = await call.withResponse();
  return { ...data, requestId: data._request_id, pool: response.headers.get("x-turnout-pool") };
}

for await (const line of createInterface({ input: process.stdin })) {
  let result;
  try {
    result = { ok: await run(JSON.parse(line)) };
  } catch (error) {
    const { name, status, code, param, type, message, requestID } = error;
    result = { error: { kind: error.constructor.name, name, status, code, param, type, message, requestID } };
  }
  process.stdout.write(JSON.stringify(result) + "\n");
}
