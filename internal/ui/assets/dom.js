// Elements, made of text alone: nothing here turns a string into HTML.

const svgNames = new Set(["svg", "path", "polyline", "line", "circle"]);

// h makes an element. Properties that begin with "on" are listeners; undefined, null and false
// leave an attribute out.
export function h(name, props, ...children) {
  const el = svgNames.has(name) ? document.createElementNS("http://www.w3.org/2000/svg", name) : document.createElement(name);
  for (const [key, value] of Object.entries(props ?? {})) {
    if (key.startsWith("on")) el.addEventListener(key.slice(2), value);
    else if (value !== undefined && value !== null && value !== false) el.setAttribute(key, value === true ? "" : value);
  }
  el.append(...children.flat(9).filter((c) => c !== undefined && c !== null && c !== false));
  return el;
}

export const byId = (id) => document.getElementById(id);

// Characters that nobody sees, or that turn the direction of what follows.
const hidden = /[\u0000-\u001f\u007f-\u009f\u00ad\u061c\u115f\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]/;
const hiddenAll = new RegExp(hidden, "g");

const named = (c) => "U+" + c.codePointAt(0).toString(16).toUpperCase().padStart(4, "0");

// plain is a text of the database for a title: what is hidden in it is spelled out.
export const plain = (text) => String(text).replace(hiddenAll, (c) => `<${named(c)}>`);

// db shows a text of the database: apart from the text around it, cut behind most
// characters, with what is hidden in it spelled out.
export function db(text, most = 200) {
  const all = Array.from(String(text ?? ""));
  const shown = all.length > most ? all.slice(0, most).join("") + "…" : all.join("");
  const el = h("bdi", { class: "db" });
  if (all.length > most) el.title = plain(all.slice(0, 2000).join(""));
  let rest = shown;
  for (let at = rest.search(hidden); at >= 0; at = rest.search(hidden)) {
    if (at > 0) el.append(rest.slice(0, at));
    el.append(h("span", { class: "hidden-char" }, named(rest[at])));
    rest = rest.slice(at + 1);
  }
  el.append(rest);
  return el;
}

// morph makes an element what another one is and keeps what is the same, with its focus.
// Listeners stay as they were: what is morphed has links, but no buttons.
export function morph(old, fresh) {
  for (const { name } of [...old.attributes]) if (!fresh.hasAttribute(name)) old.removeAttribute(name);
  for (const { name, value } of [...fresh.attributes]) if (old.getAttribute(name) !== value) old.setAttribute(name, value);
  const now = [...old.childNodes];
  const want = [...fresh.childNodes];
  want.forEach((w, i) => {
    const n = now[i];
    if (!n) old.append(w);
    else if (n.nodeType !== w.nodeType || n.nodeName !== w.nodeName) n.replaceWith(w);
    else if (n.nodeType === Node.TEXT_NODE) {
      if (n.data !== w.data) n.data = w.data;
    } else morph(n, w);
  });
  now.slice(want.length).forEach((n) => n.remove());
}

// announce tells those who can't see it what has changed.
export function announce(text) {
  const live = byId("live");
  live.textContent = "";
  requestAnimationFrame(() => { live.textContent = text; });
}

// table is a list of rows, each an array of cells; on a phone each is a card.
export function table(caption, columns, rows, rowProps = () => ({})) {
  return h("table", { class: "list", role: "table" },
    h("caption", { class: "unseen" }, caption),
    h("thead", { role: "rowgroup" }, h("tr", { role: "row" }, columns.map((c) =>
      h("th", { scope: "col", role: "columnheader", class: c.startsWith("#") && "number" }, c.replace("#", "") || h("span", { class: "unseen" }, "Selected"))))),
    h("tbody", { role: "rowgroup" }, rows.map((cells, at) => h("tr", { role: "row", ...rowProps(at) }, cells.map((cell, i) =>
      h("td", { role: "cell", "data-label": columns[i].replace("#", ""), class: columns[i].startsWith("#") ? "number" : columns[i] === "" && "select" }, cell))))));
}

// state is an event's or a consumption's state, as a word with a sign.
export function state(word) {
  const name = String(word).toLowerCase();
  const [kind, sign] = {
    pending: ["idle", "○"], open: ["idle", "○"], publishing: ["busy", "◐"], failing: ["warn", "◑"], published: ["good", "●"], applied: ["good", "●"],
    skipped: ["idle", "–"], dead: ["bad", "✕"], parked: ["bad", "✕"], discarded: ["idle", "⌫"],
  }[name] ?? ["idle", "·"];
  return h("span", { class: "state " + kind }, h("span", { "aria-hidden": "true" }, sign + " "), name === "open" ? "nothing yet" : name);
}

export const number = (n) => Number(n ?? 0).toLocaleString("en");

export const plural = (n, what) => `${number(n)} ${what}${n === 1 ? "" : "s"}`;
