import { db, h, number, plain } from "./dom.js";
import { span } from "./time.js";

// The heights of the boxes and of the gaps between them, as in views.css, in pixels.
const typeHeight = 58, consumerHeight = 84, gap = 10, width = 160;

const thickest = 14;

function rates(minute, hour, what) {
  return h("span", { class: "rates" }, h("b", {}, number(minute)), "/min ", h("span", { class: "quiet" }, `${number(hour)}/h ${what}`));
}

function typeBox(f) {
  return h("li", { class: "box type" }, h("span", { class: "name", title: plain(f.type) }, db(f.type)),
    h("span", { class: "line" }, rates(f.published_minute, f.published_hour, "published")),
    f.written_hour > f.published_hour && h("span", { class: "unseen" }, `${number(f.written_hour - f.published_hour)} of the last hour not published`));
}

function consumerBox(c) {
  const troubles = [
    c.parked > 0 && h("a", { class: "bad", href: "#/parked?" + new URLSearchParams({ consumer: c.name }) }, `${number(c.parked)} parked`),
    c.failing > 0 && h("span", { class: "warn" }, `${number(c.failing)} failing`),
    c.redrives > 0 && h("span", {}, `${number(c.redrives)} to redrive`),
  ].filter(Boolean);
  const behind = c.behind > 0 ? [`${number(c.behind)}${c.behind >= 1000 ? " or more" : ""} behind, ${span(c.behind_seconds)}`] : ["up to date"];
  return h("li", { class: "box consumer" + (c.parked ? " troubled" : "") }, h("span", { class: "name", title: plain(c.name) }, db(c.name)),
    h("span", { class: "line" }, rates(c.applied_minute, c.applied_hour, "done")),
    h("span", { class: "line" }, h("span", { class: c.behind ? "warn" : "quiet" }, behind), troubles.map((t) => [" · ", t])),
    h("span", { class: "line handles" }, "handles ", c.handles.map((name, i) => [i > 0 && ", ", db(name)])));
}

// flow draws event types on the left, consumers on the right, and what goes from one to the
// other as lines, the thicker the more. What the lines say is in the boxes too.
export function flow(st) {
  const left = st.flow.length * (typeHeight + gap) - gap;
  const right = st.consumers.length * (consumerHeight + gap) - gap;
  const height = Math.max(left, right, 0);
  const most = Math.max(1, ...st.flow.map((f) => f.published_minute));
  const leftAt = (i) => (height - left) / 2 + i * (typeHeight + gap) + typeHeight / 2;
  const rightAt = (i) => (height - right) / 2 + i * (consumerHeight + gap) + consumerHeight / 2;
  const lines = st.consumers.flatMap((c, to) => st.flow.flatMap((f, from) => {
    if (!c.handles.includes(f.type)) return [];
    const rate = f.published_minute;
    const stroke = rate ? 1.5 + (thickest - 1.5) * Math.sqrt(rate / most) : 1.5;
    return [h("path", {
      d: `M0 ${leftAt(from)} C ${width / 2} ${leftAt(from)} ${width / 2} ${rightAt(to)} ${width} ${rightAt(to)}`,
      "stroke-width": stroke.toFixed(1), fill: "none", class: rate ? "edge" : "edge still", "data-edge": `${f.type} ${c.name}`, "vector-effect": "non-scaling-stroke",
    })];
  }));
  if (!st.flow.length) return h("p", { class: "quiet" }, "events.yaml has no events yet.");
  return h("div", { class: "flow" },
    h("ul", { "aria-label": "Event types" }, st.flow.map(typeBox)),
    h("svg", { viewBox: `0 0 ${width} ${height}`, height, preserveAspectRatio: "none", "aria-hidden": "true" }, lines),
    st.consumers.length ? h("ul", { "aria-label": "Consumers" }, st.consumers.map(consumerBox)) : h("p", { class: "quiet" }, "events.yaml has no consumers."));
}
