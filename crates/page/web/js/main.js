// The page: reads its data, then draws the view of its kind.
import { startProfile } from "./views/page.js";
import { startRun } from "./bench/page.js";

async function start() {
  const app = document.getElementById("app");
  const started = performance.now();
  try {
    if (document.documentElement.dataset.kind === "run") await startRun(app);
    else await startProfile(app);
    document.documentElement.dataset.ready = "yes";
  } catch (error) {
    app.textContent = `This page cannot show its data: ${error.message}`;
    document.documentElement.dataset.ready = "failed";
    throw error;
  } finally {
    app.removeAttribute("aria-busy");
    document.documentElement.dataset.milliseconds = String(Math.round(performance.now() - started));
  }
}

start();
