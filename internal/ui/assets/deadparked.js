import { announce, db, h, number, plural, table } from "./dom.js";
import { get } from "./api.js";
import { when } from "./time.js";
import { rowKeys } from "./keys.js";
import { aggregateLink, pager } from "./search.js";
import { field, filterForm, newer, older, select } from "./filters.js";
import { mend } from "./mend.js";
import { go } from "./main.js";

// What is selected, over the pages of one filter.
let selection = { of: "", ids: new Set(), all: false };

const filterNames = ["type", "kind", "aggregate", "older", "newer"];

// list is what the views of dead and of parked events have in common.
async function list(view, of, title, consumer, form, { meta, params, signal, draw, again, command }) {
  const answer = await get(of, params, signal);
  command(answer.command);
  const { items, next, note } = answer.data;
  const filter = Object.fromEntries(filterNames.map((n) => [n, params[n] ?? ""]));
  const discarded = of === "dead" && Boolean(params.discarded);
  const key = JSON.stringify([of, consumer, filter, discarded]);
  if (selection.of !== key) selection = { of: key, ids: new Set(), all: false };
  const selectable = meta.write && (of === "dead" || Boolean(consumer));
  const many = of === "parked" && !consumer;
  const mark = (e) => h("input", {
    type: "checkbox", tabindex: "-1", "aria-label": "Select " + e.event_id, checked: selection.all || selection.ids.has(e.event_id),
    onchange: (ev) => choose(items.indexOf(e), ev.target.checked),
  });
  const columns = [...(selectable ? [""] : []), "Event", ...(many ? ["Consumer"] : []), "Type", "Aggregate", "#Version", "Failed", "#Attempts", "Kind", "Reason"];
  const body = table(title, columns, items.map((e) => [
    ...(selectable ? [mark(e)] : []), h("a", { class: "id", href: "#/event/" + e.event_id }, e.event_id), ...(many ? [db(e.consumer)] : []),
    db(e.type), aggregateLink(e), String(e.aggregate_version), when(e.failed_at), String(e.attempts), db(e.kind),
    h("span", {}, e.requested && h("em", {}, "asked for by ", db(e.requested), " – "), db(e.reason, 200)),
  ]), (at) => ({ "aria-selected": selectable && String(selection.all || selection.ids.has(items[at].event_id)) }));
  if (selectable) body.setAttribute("role", "grid");

  function choose(at, on) {
    const id = items[at].event_id;
    if (selection.all) { // from now on it is those of this page
      selection = { of: key, ids: new Set(items.map((e) => e.event_id)), all: false };
    }
    if (on ?? !selection.ids.has(id)) selection.ids.add(id);
    else selection.ids.delete(id);
    redraw();
  }

  const count = h("span", { role: "status" });
  const act = (what) => mend({
    of, do: what, consumer, discarded, ids: selection.all ? [] : [...selection.ids], filter: selection.all ? filter : {},
  }, () => { selection = { of: "", ids: new Set(), all: false }; again(); });
  const button = (text, onclick) => h("button", { type: "button", onclick }, text);
  const redrive = button("Redrive…", () => act("redrive"));
  const discard = !discarded && button("Discard…", () => act("discard"));
  const bar = selectable && items.length > 0 && h("div", { class: "bar chosen", role: "toolbar", "aria-label": "Selected events" },
    count, button("Select the page", () => { items.forEach((e) => selection.ids.add(e.event_id)); redraw(); }),
    button("Select all of the filter", () => { selection = { of: key, ids: new Set(), all: true }; redraw(); }),
    button("Clear", () => { selection = { of: key, ids: new Set(), all: false }; redraw(); }), redrive, discard);

  function redraw() {
    const some = selection.all || selection.ids.size > 0;
    for (const [i, row] of [...body.tBodies[0].rows].entries()) {
      const on = selection.all || selection.ids.has(items[i].event_id);
      row.setAttribute("aria-selected", String(on));
      row.querySelector("input").checked = on;
    }
    const elsewhere = [...selection.ids].filter((id) => !items.some((e) => e.event_id === id)).length;
    count.textContent = selection.all ? "All of the filter are selected" : `${number(selection.ids.size)} selected${elsewhere ? `, ${number(elsewhere)} on other pages` : ""}`;
    for (const b of [redrive, discard]) if (b) b.disabled = !some;
  }

  rowKeys(body, { open: (at) => go("event/" + items[at].event_id), select: selectable ? choose : undefined });
  if (bar) redraw();
  draw(title, form, note && h("p", { class: "quiet" }, db(note, 1000)), meta.write && many && items.length > 0 && h("p", { class: "quiet" }, "Choose a consumer to select events."),
    bar, items.length ? body : h("p", { class: "empty" }, of === "dead" ? `No event is ${discarded ? "discarded" : "dead"} here.` : "No event is parked here."),
    pager(view, params, next, items.length ? plural(items.length, "event") + " on this page, the oldest first" : ""));
  announce(plural(items.length, "event"));
}

const kinds = (of) => h("datalist", { id: "kinds" }, (of === "dead"
  ? ["rejected", "failed", "undecodable"] : ["permanent", "attempts", "message", "unknown", "undecodable"]).map((k) => h("option", { value: k })));

function kindField(value) {
  const el = field("kind", "Kind of error", value);
  el.querySelector("input").setAttribute("list", "kinds");
  return el;
}

export async function dead(view) {
  const p = view.params;
  const form = filterForm("dead", [
    select("type", "Type", p.type, view.meta.types), kindField(p.kind), field("aggregate", "Aggregate", p.aggregate, "order/123"), older(p.older), newer(p.newer),
    h("label", { class: "check" }, h("input", { type: "checkbox", name: "discarded", value: "1", checked: Boolean(p.discarded) }), h("span", {}, "Discarded ones")), kinds("dead"),
  ]);
  await list("dead", "dead", p.discarded ? "Discarded events" : "Dead events", "", form, view);
}

export async function parked(view) {
  const names = view.meta.consumers.map((c) => c.name);
  if (names.length === 1) view.params.consumer = names[0];
  const p = view.params;
  const form = filterForm("parked", [
    select("consumer", "Consumer", p.consumer, names, names.length === 1 ? null : "all"), select("type", "Type", p.type, view.meta.types), kindField(p.kind),
    field("aggregate", "Aggregate", p.aggregate, "order/123"), older(p.older), newer(p.newer), kinds("parked"),
  ]);
  await list("parked", "parked", "Parked events", p.consumer ?? "", form, view);
}
