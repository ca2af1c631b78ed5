import { db, h, plural, table } from "./dom.js";
import { get } from "./api.js";
import { when } from "./time.js";
import { rowKeys } from "./keys.js";
import { pager } from "./search.js";
import { field, filterForm, select } from "./filters.js";
import { go } from "./main.js";

// The operations of the audit, in words.
export const operations = {
  pause: "Claims paused", resume: "Claims resumed", "dead.redrive": "Dead event redriven", "dead.discard": "Dead event discarded",
  "parked.redrive": "Redrive asked for", "parked.redriven": "Redriven", "parked.redrive-failed": "Redrive failed", "parked.force": "Redrive forced",
  "parked.discard": "Parked event discarded", purge: "Purged", "republish.event": "Event republished", "republish.delivery": "Delivery made anew",
};

export async function audit({ params, signal, draw, command }) {
  const answer = await get("audit", params, signal);
  command(answer.command);
  const { items, next, note } = answer.data;
  const form = filterForm("audit", [
    select("operation", "What", params.operation, Object.entries(operations)),
    field("operator", "Who", params.operator, "user@host"),
    field("event", "Event id", params.event),
  ]);
  const list = table("What people did", ["When", "What", "Who", "Consumer", "Event", "Detail"], items.map((a) => [
    when(a.at), operations[a.operation] ?? db(a.operation), db(a.operator), a.consumer ? db(a.consumer) : h("span", { class: "quiet" }, "–"),
    a.event_id ? h("a", { class: "id", href: "#/event/" + encodeURIComponent(a.event_id) }, db(a.event_id)) : h("span", { class: "quiet" }, "–"), db(a.detail, 300),
  ]));
  rowKeys(list, { open: (at) => items[at].event_id && go("event/" + items[at].event_id) });
  draw("Audit", form, note && h("p", { class: "quiet" }, db(note, 1000)), items.length ? list : h("p", { class: "empty" }, "Nobody has done anything of the kind."),
    pager("audit", params, next, items.length ? plural(items.length, "entry").replace("entrys", "entries") + " on this page, the newest first" : ""));
}
