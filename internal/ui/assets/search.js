import { announce, byId, db, h, plural, state, table } from "./dom.js";
import { get } from "./api.js";
import { when } from "./time.js";
import { rowKeys } from "./keys.js";
import { go } from "./main.js";

export function eventTable(caption, events) {
  const list = table(caption, ["State", "Event", "Type", "Aggregate", "#Version", "#Attempts", "Written"], events.map((e) => [
    state(e.state), h("a", { href: "#/event/" + e.event_id, class: "id" }, e.event_id), db(e.type), aggregateLink(e), String(e.aggregate_version), String(e.attempts), when(e.created_at),
  ]));
  rowKeys(list, { open: (at) => go("event/" + events[at].event_id) });
  return list;
}

// aggregateLink leads to the events of an event's aggregate.
export function aggregateLink(e) {
  if (!e.aggregate_type) return h("span", { class: "quiet" }, "–");
  const name = e.aggregate_type + "/" + e.aggregate_id;
  return name.length > 400 ? db(name) : h("a", { href: "#/search?" + new URLSearchParams({ q: name }) }, db(name));
}

// pager leads to the next page and back to the first; both are addresses.
export function pager(view, params, next, shown) {
  const with_ = (cursor) => "#/" + view + "?" + new URLSearchParams(Object.entries({ ...params, cursor }).filter(([, v]) => v));
  return h("p", { class: "bar pager" }, h("span", { class: "quiet" }, shown),
    params.cursor && h("a", { class: "button", href: with_("") }, "First page"),
    next && h("a", { class: "button", id: "next-page", href: with_(next) }, "Next page"));
}

export async function search({ meta, params, signal, draw, command }) {
  const q = params.q ?? "";
  byId("q").value = q;
  const begun = location.hash;
  const answer = await get("search", { q, cursor: params.cursor }, signal);
  if (location.hash !== begun) return; // the next search has begun
  command(answer.command);
  const found = answer.data;
  if (found.event_id) {
    history.replaceState(null, "", "#/event/" + found.event_id);
    dispatchEvent(new HashChangeEvent("hashchange"));
    return;
  }
  const items = found.page.items;
  draw("Search", h("p", { class: "about" }, "Found: ", db(found.what, 400), found.page.note && h("span", { class: "quiet" }, " – ", db(found.page.note, 1000))),
    items.length ? eventTable("Events that were found", items) : h("p", { class: "empty" }, "No event. ", h("span", { class: "quiet" }, hint(meta))),
    pager("search", params, found.page.next, items.length ? plural(items.length, "event") + " on this page, the newest first" : ""));
  announce(items.length ? plural(items.length, "event") + " found" : "No event found");
}

function hint(meta) {
  const requests = meta.requests.map((r) => "request:" + r);
  return `A search takes an event id, an aggregate such as order/123, ${[...new Set(requests)].join(", ")}${requests.length ? ", " : ""}an event type, or pending, published, dead or discarded.`;
}
