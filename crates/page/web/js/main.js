// The page reads its data, then draws the view for that kind of data.
import { startProfile } from "./views/page.js";
import { startHistory } from "./bench/history.js";
import { startRun } from "./bench/page.js";

async function start() {
  const app = document.getElementById("app");
  const started = performance.now();
  try {
    await ({ run: startRun, history: startHistory }[document.documentElement.dataset.kind] ?? startProfile)(app);
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
