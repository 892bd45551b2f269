// The page of a report.
import { payload } from "../data/inflate.js";
import { h } from "../base/dom.js";

export async function startRun(app) {
  const { head } = await payload("data");
  app.append(h("pre", {}, JSON.stringify(head, null, 1)));
}
