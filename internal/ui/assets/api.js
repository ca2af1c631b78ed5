import { byId, h } from "./dom.js";
import { serverSays } from "./time.js";

// Problem is an error that the server explains. lost says that nobody answers.
export class Problem extends Error {
  constructor(message, hint, status = 0) {
    super(message);
    this.hint = hint;
    this.status = status;
    this.lost = status === 0;
  }
}

async function ask(path, options) {
  let answer;
  try {
    answer = await fetch(path, { cache: "no-store", credentials: "same-origin", ...options });
  } catch (err) {
    if (err.name === "AbortError") throw err;
    throw new Problem("The server of this page does not answer", "outboxgen ui may have been stopped");
  }
  serverSays(answer.headers.get("Date"));
  const body = answer.status === 204 ? {} : await answer.json().catch((err) => {
    if (err.name === "AbortError") throw err;
    return { error: `the server answered with ${answer.status}` };
  });
  if (!answer.ok) throw new Problem(body.error ?? `the server answered with ${answer.status}`, body.hint, answer.status);
  return body;
}

// get asks for data; empty parameters are left out.
export function get(path, params = {}, signal = undefined) {
  const given = Object.entries(params).filter(([, v]) => v !== "" && v !== undefined && v !== false);
  const query = new URLSearchParams(given).toString();
  return ask("api/" + path + (query && "?" + query), { signal });
}

export function post(path, body = {}) {
  return ask("api/" + path, { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body) });
}

// signIn trades the token in the address for a cookie, and takes it out of there.
export async function signIn() {
  const token = /^#token=([0-9a-f]+)$/.exec(location.hash)?.[1];
  if (!token) return;
  history.replaceState(null, "", location.pathname + "#/");
  await post("session", { token });
}

// problem shows an error above the view, which stays as it is.
export function problem(err, again) {
  const box = byId("problem");
  box.replaceChildren(
    h("strong", {}, err.message), err.hint && h("span", { class: "hint" }, " ", err.hint),
    again && h("button", { type: "button", onclick: () => { noProblem(); again(); } }, "Try again"),
    h("button", { type: "button", onclick: noProblem }, "Dismiss"));
  box.hidden = false;
}

export function noProblem() {
  byId("problem").hidden = true;
}

let trying = false;

// lost says that nobody answers, and goes on trying until somebody does.
export function lost(found) {
  if (trying) return;
  trying = true;
  const box = byId("lost");
  const since = Date.now();
  box.hidden = false;
  box.replaceChildren(h("strong", {}, "The server of this page does not answer."), " Was outboxgen ui stopped? It was missed first: ", h("time", { datetime: new Date(since).toISOString(), "data-age": "" }, "now"), ". Trying again; what you see is as it was.");
  const attempt = async (wait) => {
    try {
      await get("meta");
    } catch (err) {
      if (err.lost) {
        setTimeout(attempt, wait, Math.min(wait * 1.5, 15000));
        return;
      }
      problem(err);
    }
    trying = false;
    box.hidden = true;
    found();
  };
  setTimeout(attempt, 1000, 2000);
}
