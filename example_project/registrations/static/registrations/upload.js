// Follows the upload of the page; without it the page reloads by itself.
"use strict";

const upload = document.querySelector("[data-status]");

function show(found) {
  for (const place of upload.querySelectorAll("[data-count]")) {
    place.textContent = found[place.dataset.count];
  }
  upload.querySelector("progress").value = found.done;
  upload.querySelector(".state").textContent = found.words;
}

async function follow() {
  let wait = 5;
  try {
    const answer = await fetch(upload.dataset.status, { headers: { Accept: "application/json" } });
    if (answer.ok) {
      const found = await answer.json();
      show(found);
      if (!found.is_live) {
        location.replace(upload.dataset.page);
        return;
      }
      wait = Number(answer.headers.get("Retry-After")) || wait;
    }
  } catch {
    // The server is away; ask again.
  }
  setTimeout(follow, wait * 1000);
}

if (upload) {
  follow();
}
