// Live events: one connection, only while the page is visible.

export const live = new EventTarget();
let source = null;
live.connected = false;

function set(connected) {
  if (live.connected === connected) return;
  live.connected = connected;
  live.dispatchEvent(new CustomEvent("link", { detail: connected }));
}

function open() {
  source = new EventSource("/api/events");
  source.onopen = () => { set(true); live.dispatchEvent(new Event("open")); };
  source.onmessage = e => {
    const frame = JSON.parse(e.data);
    set(frame.connected);
    live.dispatchEvent(new CustomEvent("frame", { detail: frame }));
    if (frame.missed) for (const pause of [0, 5000]) setTimeout(() => live.dispatchEvent(new Event("open")), pause); // a cluster may have no leader at first
  };
  source.onerror = () => {
    set(false);
    if (source.readyState === EventSource.CLOSED) { // an answer other than 200
      source.close();
      setTimeout(() => fetch("/api/state").then(r => { if (r.status === 401) location.reload(); else open(); }, open), 3000);
    }
  };
}

document.addEventListener("visibilitychange", () => {
  if (document.hidden && source) { source.close(); source = null; }
  else if (!document.hidden && !source) open();
});
if (!document.hidden) open();

// onFrame calls f for each frame, and reopened when the connection is back or frames were missed, until the
// returned function is called.
export function onFrame(f, reopened) {
  const frame = e => f(e.detail);
  live.addEventListener("frame", frame);
  if (reopened) live.addEventListener("open", reopened);
  return () => {
    live.removeEventListener("frame", frame);
    if (reopened) live.removeEventListener("open", reopened);
  };
}
