// The page of a profile: header, sections, keys; also loads other profiles.
import { button, footer, h, replace, themeButton } from "../base/dom.js";
import { counted, label, percent, time, visible, when } from "../base/format.js";
import { keepLink, readLink } from "../base/link.js";
import { derive, on, state, touch, update } from "../base/state.js";
import { lastSpans, lossesOf } from "../calc/losses.js";
import { rankOf, summarize } from "../calc/summary.js";
import { steps } from "../calc/sweep.js";
import { embeddedProfile, readFile } from "../data/load.js";
import { payload } from "../data/inflate.js";
import { drawAll, drawForPrint } from "../draw/plot.js";
import { cardsView } from "./cards.js";
import { chartsView } from "./charts.js";
import { differenceView } from "./difference.js";
import { environmentView } from "./environment.js";
import { findingsView } from "./findings.js";
import { flameView } from "./flame.js";
import { histogramView } from "./histogram.js";
import { memoryView } from "./memory.js";
import { tableView } from "./table.js";
import { timelineView } from "./timeline.js";

const SECTIONS = [
  ["findings", "Findings"], ["difference", "Difference"], ["timeline", "Timeline"], ["statistics", "Statistics"], ["time", "Time"], ["flame", "Flame graph"],
  ["histogram", "Durations"], ["memory", "Memory"], ["environment", "Environment"],
];

export async function startProfile(app) {
  const [profile, other, extras] = await Promise.all([embeddedProfile("data"), embeddedProfile("baseline"), payload("extras")]);
  const views = [findingsView(), differenceView(), timelineView(), tableView(), chartsView(), flameView(), histogramView(), memoryView(), environmentView()];
  derive("profile range", (keys) => {
    state.summary = summarize(state.profile, state.range ?? [0, state.profile.wall]);
    // Colours follow the whole recording, so a range does not change them.
    if (keys.has("profile")) state.profile.rank = rankOf(state.profile, state.range ? summarize(state.profile, [0, state.profile.wall]) : state.summary);
    return ["summary"];
  });
  app.append(header(), banner(), h("main", {}, cardsView(), views), rangeBar(), footer());
  keepLink();
  keys();
  drops(app);
  addEventListener("beforeprint", drawForPrint);
  show(profile, { other, extras: extras?.head ?? {}, link: true });
  // Draw every chart in advance for the browser's own print command.
  setTimeout(() => idle(() => drawAll()), 1000);
  await new Promise((done) => on("profile", () => setTimeout(done)));
}

function idle(act) {
  if (window.requestIdleCallback) requestIdleCallback(act, { timeout: 4000 });
  else setTimeout(act, 1500);
}

// Shows a profile; the selection in the previous one no longer applies.
function show(profile, { other = null, extras = {}, link = false } = {}) {
  update({ profile, other, extras, range: null, view: null, operation: -1, span: -1, filter: "" });
  if (link) readLink();
  // The first range needs these; compute them while the page is idle.
  idle(() => state.profile === profile && steps(profile));
}

function header() {
  const title = h("h1");
  const note = h("p", { class: "note" });
  const picker = h("input", { type: "file", id: "file", accept: ".json,.gz", hidden: true, onchange: () => take(picker, false) });
  const second = h("input", { type: "file", id: "second", accept: ".json,.gz", hidden: true, onchange: () => take(second, true) });
  const take = async (input, compare) => {
    if (input.files.length > 0) await load(input.files[0], compare);
    input.value = "";
  };
  on("profile other", () => {
    const { profile, other } = state;
    title.textContent = label(profile.name || "Profile", 60);
    title.title = visible((profile.name ?? "").slice(0, 2000));
    const facts = [when(profile.started_unix_ns), profile.environment?.program, profile.environment?.cpu].filter((fact) => typeof fact === "string");
    note.textContent = [...facts.map((fact) => label(fact, 60)), other && `compared with A: ${label(other.name || "profile", 40)}`].filter(Boolean).join(" · ");
  });
  return h("header", { class: "top" },
    h("div", { class: "title" }, title, note),
    h("div", { class: "tools" }, picker, second,
      button("Open…", () => picker.click(), { title: "Open a profile of Ellwand, gzipped or not; or drop it on the page" }),
      button("Compare with…", () => second.click(), { title: "Open a second profile as A; this one is B" }),
      button("Print", () => drawAll().then(() => print())),
      themeButton(() => touch("theme"))),
    h("nav", { "aria-label": "Sections" }, SECTIONS.map(link)));
}

function link([id, text]) {
  const element = h("a", { href: `#${id}`, onclick: (event) => jump(event, id) }, text);
  if (id === "difference") on("profile extras", () => (element.hidden = !state.extras?.difference));
  return element;
}

// Scrolls to a section without changing the hash, which holds the view.
function jump(event, id) {
  event.preventDefault();
  const target = document.getElementById(id);
  target.scrollIntoView({ block: "start" });
  target.querySelector("canvas, input, button, table")?.focus({ preventScroll: true });
}

async function load(file, compare) {
  document.documentElement.dataset.loading = file.name;
  try {
    const profile = await readFile(file);
    // The difference applies only to the profile that the page was made with.
    if (compare) update({ other: profile, extras: { ...state.extras, difference: null } });
    else show(profile);
    message(null);
  } catch (error) {
    message(`${label(file.name, 60)} was not opened: ${error.message}. The page still shows what it showed before.`);
  } finally {
    delete document.documentElement.dataset.loading;
  }
}

const notice = h("div", { class: "banner error", role: "alert", id: "message", hidden: true });

function message(text) {
  notice.hidden = text === null;
  replace(notice, text !== null && [h("span", {}, text), button("Dismiss", () => message(null))]);
}

// A banner, because lost spans must not be overlooked.
function banner() {
  const lost = h("div", { class: "banner warn", role: "status", id: "losses", hidden: true });
  on("profile", () => {
    const losses = state.profile.losses ?? {};
    const missing = lossesOf(state.profile);
    const parts = [
      [missing.lost, "span was lost", "spans were lost", " because the buffer was full"],
      [missing.refused, "device operation was", "device operations were", " left out, because it ended before it began or lies outside the recording"],
      [missing.aggregated, "span is", "spans are", " only in the totals of their operations, because the memory for spans was full: calls and times contain them, the drawings do not"],
      [losses.ending_threads, "span was lost", "spans were lost", " because their thread was ending"],
      [losses.details, "span lost its details", "spans lost their details"],
      [losses.sampled_out, "outermost span was skipped", "outermost spans were skipped", " by sampling: calls and times lack them"],
    ].filter(([number]) => number > 0).map(([number, one, many, why = ""]) => counted(number, one, many) + why);
    const last = lastSpans(state.profile);
    if (last > 0) parts.push(`only the last ${counted(last, "span")} of each thread are kept: calls, times and the profiler's own cost lack earlier ones`);
    lost.hidden = parts.length === 0;
    const some = missing.lost > 0 || losses.ending_threads > 0;
    lost.textContent = `${parts.join("; ")}.${some ? " Times of the parents of lost spans include them, counts do not." : ""}`;
  });
  return h("div", {}, notice, lost);
}

// The selected range, always visible.
function rangeBar() {
  const bar = h("div", { class: "range", id: "range", role: "status", hidden: true });
  on("profile range", () => {
    const { range, profile } = state;
    bar.hidden = !range;
    if (!range) return;
    const [from, to] = range;
    replace(bar, h("span", {}, h("strong", {}, time(to - from)), ` from ${time(from, 4)} to ${time(to, 4)} (${percent((to - from) / profile.wall)} of the recording)`),
      button("Zoom to it", () => update({ view: [from, to] })),
      button("Clear", () => update({ range: null }), { id: "clear-range" }));
  });
  return bar;
}

function keys() {
  addEventListener("keydown", (event) => {
    if (event.target.closest?.("input, select, textarea") || event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key === "/") {
      event.preventDefault();
      document.getElementById("filter").focus();
    }
  });
}

function drops(app) {
  const holdsFiles = (event) => event.dataTransfer?.types.includes("Files");
  const highlight = (on) => app.classList.toggle("dropping", on);
  addEventListener("dragover", (event) => {
    if (!holdsFiles(event)) return;
    event.preventDefault();
    highlight(true);
  });
  // Moving from one element to the next does not leave the window: the event then has a related element.
  addEventListener("dragleave", (event) => event.relatedTarget ?? highlight(false));
  addEventListener("drop", (event) => {
    highlight(false);
    if (!holdsFiles(event)) return;
    event.preventDefault();
    load(event.dataTransfer.files[0], false);
  });
}
