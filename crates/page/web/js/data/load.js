// Loads files that a person picks or drops: our JSON, also gzipped.
import { gunzip, payload, text } from "./inflate.js";
import { detailColumns, fromJson } from "./json.js";
import { build } from "./model.js";
import { decode } from "./columns.js";

export async function readFile(file) {
  let bytes = new Uint8Array(await file.arrayBuffer());
  if (bytes.length === 0) throw new Error("the file is empty");
  if (bytes[0] === 0x1f && bytes[1] === 0x8b) {
    try {
      bytes = await gunzip(bytes);
    } catch {
      throw new Error("the gzip data is damaged or cut short");
    }
  }
  let document;
  try {
    document = JSON.parse(text(bytes));
  } catch (error) {
    throw new Error(`not JSON (${error.message}); expected a profile of Ellwand, gzipped or not`);
  }
  if (document === null || typeof document !== "object") throw new Error("expected a JSON object");
  if (Array.isArray(document.traceEvents ?? document)) throw new Error("a Chrome trace; `ellwand view FILE` makes a page of it");
  const profile = fromJson(document);
  return profile.name ? profile : Object.assign(profile, { name: file.name });
}

export async function embeddedProfile(id) {
  const data = await payload(id);
  if (!data) return null;
  const { details, ...head } = data.head;
  const started = performance.now();
  const entries = decode(data.head, data.columns);
  performance.measure("decode", { start: started, end: performance.now() });
  const profile = build(head, entries, detailColumns(details ?? []));
  performance.measure("decode and build", { start: started, end: performance.now() });
  return profile;
}
