// Replaces the content at each refresh, and moves the countdowns in between.
const main = document.querySelector("main");
const silent = document.getElementById("silent");
const seconds = Number(main.dataset.refresh);

function tick() {
  for (const cell of document.querySelectorAll("[data-until]")) {
    const left = Math.round((new Date(cell.dataset.until) - Date.now()) / 1000);
    const whole = Math.abs(left);
    const hours = Math.floor(whole / 3600);
    const clock = [Math.floor(whole / 60) % 60, whole % 60].map((part) => String(part).padStart(2, "0")).join(":");
    const shown = hours > 0 ? `${hours}:${clock}` : clock;
    cell.textContent = left > 0 ? `in ${shown}` : `${shown} over`;
  }
}

async function refresh() {
  try {
    const answer = await fetch("content", { signal: AbortSignal.timeout(30000) });
    if (!answer.ok) throw new Error(answer.statusText);
    main.innerHTML = await answer.text();
    silent.hidden = true;
    tick();
  } catch {
    silent.hidden = false;
  }
  setTimeout(refresh, seconds * 1000);
}

tick();
setInterval(tick, 1000);
setTimeout(refresh, seconds * 1000);
