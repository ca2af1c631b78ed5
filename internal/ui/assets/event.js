import { db, h, number, plural, state } from "./dom.js";
import { get } from "./api.js";
import { when } from "./time.js";
import { aggregateLink } from "./search.js";
import { operations } from "./audit.js";
import { mend } from "./mend.js";

// step is a place in an event's life: when, if that is known, and what.
const step = (at, sign, what, ...more) => ({ at: at ? Date.parse(at) : Infinity, el: h("li", { class: sign }, h("div", { class: "what" }, what), h("div", { class: "at" }, at ? when(at, true) : h("span", { class: "quiet" }, "time not known")), more) });

const reason = (kind, text) => text && h("p", { class: "reason" }, kind && h("b", {}, db(kind), ": "), db(text, 20000));

function ofOutbox(e) {
  const steps = [step(e.created_at, "good", "Written to the outbox")];
  if (e.attempts > 0 || e.last_error) {
    const now = step(e.failed_at, e.state === "DEAD" ? "bad" : "warn", [e.state === "DEAD" ? "Dead after " : "Failed: ", plural(e.attempts, "attempt")], reason(e.last_error_kind, e.last_error));
    if (!e.failed_at) now.at = Date.parse(e.published_at ?? e.created_at) - (e.published_at ? 1 : -1); // its place, where nobody knows when
    steps.push(now);
  }
  if (e.state === "PUBLISHING") steps.push(step(e.lease_until, "busy", ["Being published by ", db(e.lease_host), ` pid ${e.lease_pid}, until the lease ends`]));
  if (e.state === "PENDING") steps.push(step(e.available_at, "idle", "Due"));
  if (e.published_at) steps.push(step(e.published_at, "good", "Published: the broker confirmed it"));
  return steps;
}

function ofConsumer(c) {
  const word = { applied: "good", skipped: "idle", parked: "bad", failing: "warn", discarded: "idle", open: "idle" }[c.state] ?? "idle";
  const more = [reason(c.kind, c.reason)];
  if (c.attempts) more.push(h("p", { class: "quiet" }, plural(c.attempts, "failed attempt")));
  if (c.redrive_by) more.push(h("p", {}, "A redrive was asked for by ", db(c.redrive_by), ", due ", when(c.redrive_at)));
  if (!c.handles) more.push(h("p", { class: "quiet" }, "events.yaml does not have this type among those that it handles."));
  const at = step(c.at, word, [db(c.consumer), " ", state(c.state)], more);
  if (!c.at && c.state === "open") at.el.querySelector(".at").remove();
  return at;
}

function buttons(event, of, consumer, again, discarded = false) {
  return h("p", { class: "bar" },
    h("button", { type: "button", onclick: () => mend({ of, do: "redrive", consumer, ids: [event], discarded }, again) }, "Redrive…"),
    !discarded && h("button", { type: "button", onclick: () => mend({ of, do: "discard", consumer, ids: [event] }, again) }, "Discard…"));
}

const fact = (name, value) => value !== undefined && value !== null && value !== "" && h("div", {}, h("dt", {}, name), h("dd", {}, value));

function facts(life) {
  const e = life.event;
  return h("dl", { class: "facts" },
    fact("Event id", h("span", { class: "id" }, life.event_id)),
    fact("State", e ? state(e.state) : "not in the outbox"),
    e && [
      fact("Type", [db(e.type), h("span", { class: "quiet" }, ` schema version ${e.schema_version}`)]),
      fact("Aggregate", [aggregateLink(e), h("span", { class: "quiet" }, ` version ${number(e.aggregate_version)}`)]),
      fact("Of the same aggregate", [`${number(life.earlier)} earlier, ${number(life.later)} later`, life.next_id && [" – ", h("a", { href: "#/event/" + life.next_id }, "the next one")]]),
      fact("Trace", life.trace_id && h("span", { class: "id" }, db(life.trace_id))),
    ],
    life.source && fact("Business row", ["of ", db(life.source.table), ", aggregate ", db(life.source.aggregate_id)]));
}

export async function event({ meta, arg, signal, draw, again, command }) {
  const answer = await get("event/" + encodeURIComponent(arg), {}, signal);
  command(answer.command);
  const life = answer.data;
  const steps = [
    ...(life.event ? ofOutbox(life.event) : []),
    ...life.consumers.map(ofConsumer),
    ...life.audit.map((a) => step(a.at, "person", [operations[a.operation] ?? db(a.operation), a.consumer && [" – ", db(a.consumer), ","], " by ", db(a.operator)], reason("", a.detail))),
  ].sort((a, b) => a.at - b.at);
  const actions = [];
  if (meta.write && ["DEAD", "DISCARDED"].includes(life.event?.state)) actions.push(h("h2", {}, "In the outbox"), buttons(life.event_id, "dead", "", again, life.event.state === "DISCARDED"));
  for (const c of life.consumers) if (meta.write && c.state === "parked") actions.push(h("h2", {}, "Parked by ", db(c.consumer)), buttons(life.event_id, "parked", c.consumer, again));
  draw("Event", life.note && h("p", { class: "notice warn" }, db(life.note, 1000)), facts(life),
    h("section", {}, h("h2", {}, "What became of it"), steps.length ? h("ol", { class: "timeline" }, steps.map((s) => s.el)) : h("p", { class: "empty" }, "Nothing is known of it.")),
    actions.length > 0 && h("section", { class: "actions" }, actions));
}
