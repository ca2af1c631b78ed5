import { announce, byId, h } from "./dom.js";
import { get, lost, noProblem, problem, signIn } from "./api.js";
import { keysOn, setUpKeys } from "./keys.js";
import { overview } from "./overview.js";
import { search } from "./search.js";
import { event } from "./event.js";
import { dead, parked } from "./deadparked.js";
import { leases } from "./leases.js";
import { audit } from "./audit.js";

const views = { "": overview, search, event, dead, parked, leases, audit };

let meta;
let current = new AbortController();

// route reads #/dead?type=x: the view, what follows its name, and its parameters.
function route() {
  const [path, query] = location.hash.replace(/^#\/?/, "").split("?");
  const [name, ...rest] = path.split("/");
  return { name, arg: decodeURIComponent(rest.join("/")), params: Object.fromEntries(new URLSearchParams(query ?? "")) };
}

// go changes the address, and with it the view.
export function go(path, params = {}) {
  const given = Object.entries(params).filter(([, v]) => v);
  const hash = "#/" + path + (given.length ? "?" + new URLSearchParams(given) : "");
  if (hash === location.hash) show();
  else location.hash = hash;
}

export function setCommand(text) {
  byId("command").textContent = text;
  byId("copy").disabled = !text;
}

// show draws the view of the address. What was there stays until there is something new.
async function show(moved = false) {
  const { name, arg, params } = route();
  const view = views[name];
  current.abort();
  current = new AbortController();
  const signal = current.signal;
  const main = byId("main");
  for (const a of byId("views").querySelectorAll("a")) {
    const here = a.getAttribute("href") === "#/" + name;
    if (here) a.setAttribute("aria-current", "page");
    else a.removeAttribute("aria-current");
  }
  noProblem();
  if (name !== "search") byId("q").value = "";
  if (!view) {
    problem(new Error("There is no such view"));
    return;
  }
  main.setAttribute("aria-busy", "true");
  let drawn = false;
  // draw puts a view's content in place, and the focus on its heading after a change of the address.
  const draw = (title, ...content) => {
    if (signal.aborted) return;
    document.title = `${title} – ${meta.service} – outboxgen`;
    const heading = h("h1", { tabindex: "-1" }, title);
    main.replaceChildren(heading, ...content.flat().filter(Boolean));
    if (moved && !drawn) {
      heading.focus({ preventScroll: true });
      scrollTo(0, 0);
    }
    drawn = true;
  };
  // failed shows an error and keeps what is drawn.
  const failed = (err) => {
    if (err.name === "AbortError" || signal.aborted) return;
    if (!drawn) main.replaceChildren(h("h1", { tabindex: "-1" }, document.title.split(" – ")[0]));
    if (err.lost) lost(() => show());
    else problem(err, () => show());
  };
  try {
    await view({ meta, arg, params, signal, draw, failed, again: () => show(), command: (text) => signal.aborted || setCommand(text) });
  } catch (err) {
    failed(err);
  }
  if (!signal.aborted) main.removeAttribute("aria-busy");
}

async function copy() {
  const text = byId("command").textContent;
  try {
    await navigator.clipboard.writeText(text);
    announce("Copied");
    byId("copy").textContent = "Copied";
    setTimeout(() => { byId("copy").textContent = "Copy"; }, 1500);
  } catch {
    getSelection().selectAllChildren(byId("command"));
    announce("Selected: copy it with the browser's key");
  }
}

async function start() {
  try {
    await signIn();
    meta = (await get("meta"));
  } catch (err) {
    if (err.lost) lost(start);
    else problem(err);
    return;
  }
  byId("service").textContent = meta.service;
  byId("mode").textContent = meta.write ? "may change" : "read only";
  byId("mode").classList.toggle("write", meta.write);
  byId("mode").title = meta.write ? `Changes are written down as ${meta.operator}` : "Start it with --allow-write to change anything";
  if (!location.hash.startsWith("#/")) history.replaceState(null, "", "#/");
  addEventListener("hashchange", () => show(true));
  show();
}

byId("search").addEventListener("submit", (e) => {
  e.preventDefault();
  go("search", { q: byId("q").value.trim() });
});
byId("copy").addEventListener("click", copy);
byId("skip").addEventListener("click", (e) => {
  e.preventDefault();
  byId("main").focus();
});
setUpKeys({ go, copy });
if (!keysOn()) byId("keys-on").checked = false;
start();
