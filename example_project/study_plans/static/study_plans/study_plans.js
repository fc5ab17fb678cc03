// Follows the job of the page; without it the page reloads by itself.
"use strict";

const job = document.querySelector("[data-job]");
const part = (name) => job.querySelector(name);

function show(found) {
  part(".state").textContent = found.state;
  part(".attempt").textContent = found.attempt ? `attempt ${found.attempt}` : "not begun";
  if (found.progress) {
    part("progress").max = found.progress.total || 1;
    part("progress").value = found.progress.done;
    part(".note-of-job").textContent = found.progress.note;
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
      wait = 1;
    }
  } catch {
    // The server is away; ask again.
  }
  setTimeout(follow, wait * 1000);
}

if (job) {
  follow();
}
