import { announce, db, h, morph, number, plural, table } from "./dom.js";
import { get, post, problem } from "./api.js";
import { when, span } from "./time.js";
import { flow } from "./flow.js";
import { askReason } from "./mend.js";

// How often the overview looks, in milliseconds: seldom when it takes the database long, and
// ever less while nobody sees it.
const pollEvery = 2000;
const hiddenMost = 60000;

// What the sparklines are drawn of: five minutes, kept in memory.
const kept = 150;
const past = { backlog: [], lag: [] };

let paused = false;

function remember(list, value) {
  list.push(value);
  if (list.length > kept) list.shift();
}

function spark(list) {
  if (list.length < 2) return h("svg", { class: "spark", viewBox: "0 0 100 24", "aria-hidden": "true" });
  const top = Math.max(...list, 1);
  const step = 100 / (kept - 1);
  const from = 100 - (list.length - 1) * step;
  const points = list.map((v, i) => `${(from + i * step).toFixed(1)},${(22 - 20 * v / top).toFixed(1)}`).join(" ");
  return h("svg", { class: "spark", viewBox: "0 0 100 24", preserveAspectRatio: "none", "aria-hidden": "true" },
    h("polyline", { points, fill: "none", "vector-effect": "non-scaling-stroke" }));
}

function tile(name, value, note, more, kind = "") {
  return h("div", { class: "tile " + kind }, h("dt", {}, name), h("dd", {}, h("span", { class: "value" }, value), note && h("span", { class: "note" }, note), more));
}

function tiles(st) {
  const e = st.events;
  const peak = past.lag.length > 1 ? `up to ${span(Math.max(...past.lag))} while this page looked` : "";
  return h("dl", { class: "tiles" },
    tile("Backlog", number(e.pending), "events that wait", spark(past.backlog)),
    tile("Lag", st.oldest ? span(st.oldest.seconds) : "none", st.oldest ? ["oldest: ", h("a", { href: "#/event/" + st.oldest.event_id, title: st.oldest.event_id }, "…" + st.oldest.event_id.slice(-6)), peak && h("span", { class: "unseen" }, peak)] : "nothing is due", spark(past.lag)),
    tile("Published", (e.estimated ? "about " : "") + number(e.published), "kept in the outbox"),
    tile("Dead", number(e.dead), e.dead ? h("a", { href: "#/dead" }, "look at them") : "no relay gave up", null, e.dead ? "bad" : ""),
    tile("Discarded", number(e.discarded), e.discarded ? h("a", { href: "#/dead?discarded=1" }, "look at them") : "given up by people"),
    tile("Relays", number(st.relays.length), st.relays.length ? h("a", { href: "#/leases" }, plural(st.leases.length, "lease")) : "nobody publishes", null, st.relays.length ? "" : "warn"));
}

function groups(title, rows, columns, none) {
  return h("section", {}, h("h2", {}, title), rows.length ? table(title, columns, rows) : h("p", { class: "quiet" }, none));
}

export function leaseTable(st) {
  const held = st.ordering === "aggregate" ? "lane" : "event";
  return groups("Leases", st.leases.map((l) => [
    l.host ? h("span", {}, db(l.host), ` pid ${l.pid}`) : h("span", { class: "quiet" }, "a relay that is gone"), db(l.owner), plural(l.held, held), when(l.from), when(l.until),
  ]), ["Held by", "Owner", "#Holds", "First ends", "Last ends"], "Nobody holds a lease: nothing is on its way to the broker.");
}

export function relayTable(st) {
  return groups("Relays", st.relays.map((r) => [h("span", {}, db(r.host), ` pid ${r.pid}`), db(r.owner), when(r.started_at), when(r.alive_until)]),
    ["Process", "Owner", "Started", "Counts as alive until"], "No relay shows signs of life: is one running?");
}

function content(st) {
  const deadRows = st.dead.map((g) => [db(g.type), db(g.kind || "none written down"), h("a", { href: "#/dead?" + new URLSearchParams({ type: g.type, ...(g.kind && { kind: g.kind }) }) }, number(g.count))]);
  const parkedRows = st.consumers.flatMap((c) => c.parked_by.map((g) => [
    db(c.name), db(g.type), db(g.kind), h("a", { href: "#/parked?" + new URLSearchParams({ consumer: c.name, ...(g.type && { type: g.type }), kind: g.kind }) }, number(g.count)),
  ]));
  return h("div", {}, tiles(st), h("section", {}, h("h2", {}, "Flow"), st.sampled && h("p", { class: "quiet" }, "Of the newest events only: there were more in the last hour."), flow(st)),
    h("div", { class: "halves" },
      groups("Dead by type and kind", deadRows, ["Type", "Kind of error", "#Events"], "No event is dead."),
      groups("Parked by consumer", parkedRows, ["Consumer", "Type", "Kind", "#Events"], "No event is parked.")),
    h("div", { class: "halves" }, leaseTable(st), relayTable(st)));
}

// pauseBanner says who has paused the claims.
function pauseBanner(st, meta) {
  if (!st.pause) return h("div", { hidden: true });
  return h("div", { class: "notice warn", role: "status" }, h("strong", {}, "Claims are paused"), " by ", db(st.pause.operator), " ", when(st.pause.since), ": ", db(st.pause.reason, 1000),
    h("span", { class: "hint" }, meta.write ? "" : " outboxgen resume ends it."));
}

export async function overview({ meta, signal, draw, failed, command }) {
  let banner = h("div", { hidden: true });
  const body = h("div", {}, h("p", { class: "quiet" }, "Looking…"));
  const at = h("span", { class: "quiet" });
  const pauseButton = h("button", { type: "button", id: "pause-polling", "aria-pressed": String(paused), onclick: toggle }, label());
  const claims = meta.write && h("button", { type: "button", onclick: changeClaims, hidden: true });
  const bar = h("p", { class: "bar" }, pauseButton, claims, at);
  let st, timer, shownPause, first = true, hiddenWait = pollEvery;

  function label() { return paused ? "Go on looking" : "Stop looking"; }

  function toggle() {
    paused = !paused;
    pauseButton.textContent = label();
    pauseButton.setAttribute("aria-pressed", String(paused));
    announce(paused ? "The overview stands still" : "The overview is live");
    clearTimeout(timer);
    if (!paused) look();
    else at.replaceChildren("stands still since ", when(new Date().toISOString()));
  }

  async function changeClaims() {
    try {
      if (st.pause) await post("resume");
      else {
        const reason = await askReason("Pause the claims of all relays", "Events go on being written, and wait. What is leased is published.", "Pause claims");
        if (!reason) return;
        await post("pause", { reason });
      }
    } catch (err) {
      problem(err);
    }
    clearTimeout(timer);
    look();
  }

  async function look() {
    clearTimeout(timer);
    const begun = performance.now();
    try {
      const answer = await get("status", {}, signal);
      st = answer.data;
      command(answer.command);
    } catch (err) {
      if (!signal.aborted) failed(err);
      if (!signal.aborted && !err.lost && err.status !== 401) timer = setTimeout(look, 5 * pollEvery);
      return;
    }
    remember(past.backlog, st.events.pending);
    remember(past.lag, st.oldest?.seconds ?? 0);
    if (first) {
      first = false;
      body.replaceChildren(content(st));
    } else morph(body.firstElementChild, content(st));
    const fresh = pauseBanner(st, meta);
    banner.replaceWith(fresh);
    banner = fresh;
    if (shownPause !== undefined && shownPause !== Boolean(st.pause)) announce(st.pause ? "Claims were paused" : "Claims go on");
    shownPause = Boolean(st.pause);
    if (claims) {
      claims.hidden = false;
      claims.textContent = st.pause ? "Resume claims" : "Pause claims…";
    }
    at.replaceChildren("as of ", when(st.at));
    const took = performance.now() - begun;
    hiddenWait = document.hidden ? Math.min(hiddenWait * 2, hiddenMost) : pollEvery;
    if (!paused) timer = setTimeout(look, Math.max(pollEvery, 4 * took, hiddenWait));
  }

  const seen = () => { if (!document.hidden && !paused) look(); };
  document.addEventListener("visibilitychange", seen, { signal });
  signal.addEventListener("abort", () => clearTimeout(timer));
  draw("Overview", bar, banner, body);
  await look();
}
