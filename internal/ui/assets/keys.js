import { byId } from "./dom.js";

const stored = "outboxgen-keys";

export function keysOn() {
  return localStorage.getItem(stored) !== "off";
}

// typing reports that a key belongs to a field.
const typing = (el) => el.matches?.("input:not([type=checkbox]), select, textarea, [contenteditable]");

const places = { o: "", s: "search", d: "dead", p: "parked", l: "leases", a: "audit" };

// setUpKeys makes the keys that hold in every view work.
export function setUpKeys({ go, copy }) {
  let prefix = 0; // when g was pressed
  byId("keys-on").addEventListener("change", (e) => localStorage.setItem(stored, e.target.checked ? "on" : "off"));
  byId("help").addEventListener("click", () => byId("keys").showModal());
  document.addEventListener("keydown", (e) => {
    if (e.ctrlKey || e.altKey || e.metaKey || typing(e.target) || document.querySelector("dialog[open]") || !keysOn()) return;
    const after = Date.now() - prefix < 1500;
    prefix = 0;
    if (after && e.key in places) go(places[e.key]);
    else if (e.key === "g") prefix = Date.now();
    else if (e.key === "/") byId("q").select();
    else if (e.key === "?") byId("keys").showModal();
    else if (e.key === "c") copy();
    else if (e.key === ".") byId("pause-polling")?.click();
    else if (e.key === "n") byId("next-page")?.click();
    else if (e.key === "j" || e.key === "ArrowDown" && e.target === document.body) firstRow(e);
    else return;
    if (e.key === "/") byId("q").focus();
    e.preventDefault();
  });
}

// firstRow begins the way through a list.
function firstRow(e) {
  if (!e.defaultPrevented) document.querySelector("tr[tabindex='0']")?.focus();
}

// rowKeys makes the rows of a table a list that keys walk through. open is called with a row's
// place, select with its place and whether it is to be selected; both may be missing.
export function rowKeys(table, { open, select }) {
  const rows = [...table.tBodies[0].rows];
  rows.forEach((row, at) => { row.tabIndex = at === 0 ? 0 : -1; });
  const move = (to, selecting) => {
    if (to < 0 || to >= rows.length) return;
    for (const r of rows) r.tabIndex = -1;
    rows[to].tabIndex = 0;
    rows[to].focus();
    if (selecting) select?.(to, true);
  };
  table.addEventListener("keydown", (e) => {
    const at = rows.indexOf(e.target);
    if (at < 0 || e.ctrlKey || e.altKey || e.metaKey) return;
    if (!keysOn() && e.key.length === 1 && e.key !== " ") return;
    switch (e.key) {
      case "j": case "ArrowDown": move(at + 1, e.shiftKey); break;
      case "k": case "ArrowUp": move(at - 1, e.shiftKey); break;
      case "Home": move(0); break;
      case "End": move(rows.length - 1); break;
      case "Enter": open?.(at); break;
      case "x": case " ": select?.(at); break;
      default: return;
    }
    e.preventDefault();
    e.stopPropagation();
  });
}
