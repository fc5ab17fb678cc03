/* Reads the content of the dashboard again every few seconds. Without it the page is whole, and stays as it is. */
(() => {
  "use strict";
  const live = document.getElementById("idem-live");
  const board = document.getElementById("idem-board");
  if (!live || !board || !window.fetch) return;
  const button = live.querySelector("button");
  const status = live.querySelector("[role=status]");
  const every = Number(live.dataset.every) * 1000;
  const address = new URL(window.location.href);
  address.hash = "";
  address.searchParams.set("part", "1");
  // Who asked for less movement gets it, until they ask for updates.
  let isOn = !window.matchMedia("(prefers-reduced-motion: reduce)").matches;
  let timer = 0;
  let isReading = false;

  // What somebody is at with the keyboard, or has selected, is not taken away from them.
  const isBusy = () => board.contains(document.activeElement) || !window.getSelection().isCollapsed;

  const plan = (wait) => {
    window.clearTimeout(timer);
    if (isOn && !document.hidden) timer = window.setTimeout(read, wait);
  };

  const end = () => {
    isOn = false;
    status.textContent = live.dataset.ended;
    button.hidden = true;
  };

  async function read() {
    if (isReading || document.hidden) return;
    if (isBusy()) return plan(every);
    isReading = true;
    const began = Date.now();
    try {
      const answer = await fetch(address, {
        credentials: "same-origin",
        redirect: "manual",
        signal: AbortSignal.timeout(30000),
      });
      if (answer.type === "opaqueredirect" || answer.status === 403) return end();
      if (!answer.ok) throw new Error(String(answer.status));
      const text = await answer.text();
      if (isOn && !isBusy()) board.innerHTML = text;
      status.textContent = "";
    } catch (_error) {
      status.textContent = live.dataset.gone;
    } finally {
      isReading = false;
      // Never more than a twentieth of the time: a slow database is not asked more often.
      plan(Math.max(every, 20 * (Date.now() - began)));
    }
  }

  const show = () => {
    button.textContent = isOn ? live.dataset.on : live.dataset.off;
  };

  button.addEventListener("click", () => {
    isOn = !isOn;
    show();
    window.clearTimeout(timer);
    if (isOn) read();
  });
  document.addEventListener("visibilitychange", () => plan(0));
  live.hidden = false;
  show();
  plan(every);
})();
