// Reads a profile from the text of its file (docs/profile-format.md), with errors that name the place.
import { build } from "./model.js";

const VERSION = 1;
const FIELDS = ["bytes", "items", "flops", "cpu_ns", "allocations", "allocated_bytes", "freed_bytes", "peak_bytes", "rss_bytes"];

export function fromJson(document) {
  if (document.format !== "ellwand profile") {
    throw new Error(`"format" is ${JSON.stringify(document.format ?? null)}; expected "ellwand profile"`);
  }
  if (document.version > VERSION) {
    throw new Error(`version ${document.version} is newer than this page, which reads versions up to ${VERSION}; make the page again with a newer Ellwand`);
  }
  lists(document);
  const { entries, details = [], ...head } = document;
  const columns = entries ?? {};
  const n = columns.operation?.length ?? 0;
  const column = (name, type, none) => {
    const values = columns[name];
    if (values === undefined && (none !== undefined || n === 0)) return new type(n).fill(none);
    if (!Array.isArray(values) || values.length !== n) {
      throw new Error(`entries.${name} has ${values?.length ?? "no"} values; entries.operation has ${n}`);
    }
    return type.from(values, (value) => value ?? NaN);
  };
  const read = {
    operation: column("operation", Uint32Array),
    lane: column("lane", Uint32Array),
    start: column("start_ns", Float64Array),
    duration: column("duration_ns", Float64Array),
    parent: column("parent", Int32Array, -1),
    link: column("link", Int32Array, 0),
    detail: column("detail", Int32Array, -1),
  };
  check(read, document.operations?.length ?? 0, document.lanes?.length ?? 0, details.length);
  return build(head, read, detailColumns(details));
}

// Checks what every view relies on, so that a damaged file is rejected here and not by the first view that reads it.
function lists(document) {
  const { operations = [], lanes = [], details = [], totals = [], tracks = [], breakdown } = document;
  for (const [name, list] of Object.entries({ operations, lanes, details, totals, tracks })) {
    if (!Array.isArray(list) || list.some((one) => one === null || typeof one !== "object")) throw new Error(`${name} is not a list of objects`);
  }
  totals.forEach(({ operation, lane, parent = -1 }, i) => {
    if (!Number.isInteger(operation) || !operations[operation] || !Number.isInteger(lane) || !lanes[lane] || !(parent < i)) throw new Error(`totals[${i}]: the operation, the lane or the parent does not exist`);
  });
  tracks.forEach(({ at_ns, value }, i) => {
    if (!Array.isArray(at_ns) || !Array.isArray(value) || at_ns.length !== value.length) throw new Error(`tracks[${i}]: expected as many value as at_ns`);
  });
  if (breakdown && !Array.isArray(breakdown.parts)) throw new Error("breakdown has no list of parts");
}

function check({ operation, lane, parent, detail }, operations, lanes, details) {
  for (let i = 0; i < operation.length; i++) {
    if (operation[i] >= operations) throw new Error(`entries.operation[${i}] is ${operation[i]}; there are ${operations} operations`);
    if (lane[i] >= lanes) throw new Error(`entries.lane[${i}] is ${lane[i]}; there are ${lanes} lanes`);
    if (i > 0 && lane[i] < lane[i - 1]) throw new Error(`entries.lane[${i}] is less than the one before; entries are sorted by lane`);
    if (parent[i] >= i || (parent[i] >= 0 && lane[parent[i]] !== lane[i])) {
      throw new Error(`entries.parent[${i}] is ${parent[i]}; expected an earlier entry of its lane`);
    }
    if (detail[i] >= details) throw new Error(`entries.detail[${i}] is ${detail[i]}; there are ${details} details`);
  }
}

export function detailColumns(details) {
  const columns = {};
  for (const field of FIELDS) {
    if (details.some((one) => one[field] !== undefined)) columns[field] = details.map((one) => one[field] ?? null);
  }
  const args = {};
  details.forEach((one, i) => {
    if (one.args && Object.keys(one.args).length > 0) args[i] = one.args;
  });
  return { count: details.length, columns, args };
}
