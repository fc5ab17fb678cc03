// Follows the job of the page; without it the page reloads by itself.
"use strict";

const job = document.querySelector("[data-job]");
const part = (name) => job.querySelector(name);
const WITHOUT_PROGRESS = {
  pending: "waiting for a worker",
  running: "a worker has begun",
  retry: "waiting for the next attempt",
};
let written = null;

function show(found) {
  part(".state").textContent = found.state;
  part(".attempt").textContent = found.attempt ? `attempt ${found.attempt}` : "not begun";
  if (found.progress) {
    part("progress").max = found.progress.total || 1;
    part("progress").value = found.progress.done;
  }
  part(".note-of-job").textContent = found.progress ? found.progress.note : WITHOUT_PROGRESS[found.state];
}

// What is written is on the page only: it is read anew when there is more of it.
async function showWritten(done) {
  if (done === written) {
    return;
  }
  const answer = await fetch(job.dataset.page);
  const page = new DOMParser().parseFromString(await answer.text(), "text/html");
  const found = page.querySelector(".written");
  if (found) {
    document.querySelector(".written").replaceWith(found);
    written = done;
  }
}

async function follow() {
  let wait = 5;
  try {
    const answer = await fetch(job.dataset.job, { headers: { Accept: "application/json" } });
    const found = answer.ok ? await answer.json() : null;
    if (answer.status === 404 || (found && !["pending", "running", "retry"].includes(found.state))) {
      location.replace(job.dataset.page);
      return;
    }
    if (found) {
      show(found);
      wait = Number(answer.headers.get("Retry-After")) || wait;
      await showWritten(found.progress ? found.progress.done : 0);
    }
  } catch {
    // The server is away; ask again.
  }
  setTimeout(follow, wait * 1000);
}

if (job) {
  follow();
}
