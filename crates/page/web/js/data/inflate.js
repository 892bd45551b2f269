// The data of the page: deflated, as base64 in a script element that never runs.

export function embedded(id) {
  const element = document.getElementById(`ellwand-${id}`);
  if (!element) return null;
  const bytes = fromBase64(element.textContent);
  element.remove();
  return bytes;
}

function fromBase64(text) {
  if (Uint8Array.fromBase64) return Uint8Array.fromBase64(text);
  const binary = atob(text);
  const bytes = new Uint8Array(binary.length);
  for (let i = 0; i < binary.length; i++) bytes[i] = binary.charCodeAt(i);
  return bytes;
}

// The format is "deflate-raw" or "gzip".
export async function inflate(bytes, format) {
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream(format));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

// The browser reads only gzip files with one member. A file with several is split where the header of another member
// can be.
export async function gunzip(bytes) {
  const header = (at) => bytes[at] === 0x1f && bytes[at + 1] === 0x8b && bytes[at + 2] === 8;
  const parts = [];
  for (let from = 0; from < bytes.length;) {
    let end = bytes.length;
    let part = await inflate(bytes.subarray(from), "gzip").catch(() => null);
    for (let at = from + 18; part === null && at < bytes.length; at++) {
      if (!header(at)) continue;
      part = await inflate(bytes.subarray(from, at), "gzip").catch(() => null);
      end = at;
    }
    if (part === null) throw new Error("no member of gzip data");
    parts.push(part);
    from = end;
  }
  return new Uint8Array(await new Blob(parts).arrayBuffer());
}

export function text(bytes) {
  return new TextDecoder().decode(bytes);
}

// The JSON head of a payload, and the columns that follow it.
export async function payload(id) {
  const packed = embedded(id);
  if (!packed) return null;
  const bytes = await inflate(packed, "deflate-raw");
  const length = new DataView(bytes.buffer).getUint32(0, true);
  return { head: JSON.parse(text(bytes.subarray(4, 4 + length))), columns: bytes.subarray(4 + length) };
}
