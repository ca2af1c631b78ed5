import { announce, byId, db, h, number, plural } from "./dom.js";
import { get, post } from "./api.js";

const words = {
  "dead redrive": ["Redrive dead events", "Redrive"], "dead discard": ["Discard dead events", "Discard"],
  "parked redrive": ["Redrive parked events", "Redrive"], "parked discard": ["Discard parked events for good", "Discard"],
};

// finish is what is to be done when the dialog has closed. The event comes with a frame:
// by then the dialog may be open again, for something else.
let finish;
byId("mend").addEventListener("close", () => !byId("mend").open && finish?.());

// open shows the dialog, and calls closed when it is closed in whatever way.
function open(closed) {
  const dialog = byId("mend");
  if (!dialog.open) finish?.();
  const ended = new AbortController(), before = finish;
  finish = () => { finish = undefined; before?.(); ended.abort(); dialog.removeAttribute("aria-labelledby"); dialog.replaceChildren(); closed(); };
  dialog.setAttribute("aria-labelledby", "mend-title");
  if (!dialog.open) dialog.showModal();
  return { dialog, signal: ended.signal };
}

const title = (text) => h("h2", { id: "mend-title", tabindex: "-1" }, text);
const closer = (text) => h("button", { type: "button", onclick: () => byId("mend").close() }, text);
const trouble = (err) => h("p", { class: "notice bad", role: "alert" }, h("strong", {}, err.error ?? err.message), err.hint && h("span", { class: "hint" }, " ", err.hint));

function commandLine(text) {
  return h("p", { class: "command" }, h("code", { tabindex: "0" }, text));
}

// askReason asks for the reason of a change; nothing when people think better of it.
export function askReason(what, about, verb) {
  return new Promise((resolve) => {
    let answer = "";
    const { dialog } = open(() => resolve(answer));
    const input = h("input", { name: "reason", required: true, maxlength: "1000", autocomplete: "off" });
    dialog.replaceChildren(title(what), h("p", {}, about), h("form", { onsubmit: (e) => { e.preventDefault(); answer = input.value.trim(); dialog.close(); } },
      h("label", {}, h("span", {}, "Why, for those who find it"), input), h("p", { class: "bar" }, h("button", { type: "submit", class: "primary" }, verb), closer("Cancel"))));
    input.focus();
  });
}

// mend shows what a change would do, and makes it when it is confirmed. done is called when
// the dialog closes and something may have changed.
export async function mend(change, done) {
  const [heading, verb] = words[change.of + " " + change.do];
  let changed = false;
  const { dialog, signal } = open(() => changed && done());
  const head = title(heading);
  dialog.replaceChildren(head, h("p", { role: "status" }, "Looking what would be done…"), h("p", { class: "bar" }, closer("Cancel")));
  head.focus();
  let shown, command;
  try {
    ({ data: shown, command } = await post("plan", change));
  } catch (err) {
    dialog.replaceChildren(head, trouble(err), h("p", { class: "bar" }, closer("Close")));
    return;
  }
  if (signal.aborted) return;
  const rate = h("input", { name: "rate", type: "number", min: "0", max: "10000", value: "100", required: true });
  const reason = h("input", { name: "reason", required: true, maxlength: "1000", autocomplete: "off" });
  const typed = h("input", { name: "typed", inputmode: "numeric", autocomplete: "off", required: true, pattern: String(shown.count) });
  const go = h("button", { type: "submit", class: change.do === "discard" ? "primary danger" : "primary" }, `${verb} ${plural(shown.count, "event")}`);
  const ready = () => { go.disabled = shown.typed && typed.value.trim() !== String(shown.count); };
  typed.addEventListener("input", ready);
  ready();
  const problems = h("div");
  const form = h("form", { onsubmit: run },
    change.do === "redrive" && h("label", {}, h("span", {}, "Events a second (0: no limit)"), rate),
    change.do === "discard" && h("label", {}, h("span", {}, "Why, for the audit"), reason),
    shown.typed && h("label", {}, h("span", {}, `These are ${number(shown.count)} events: type their number`), typed),
    problems, h("p", { class: "bar" }, shown.count > 0 && go, closer(shown.count > 0 ? "Cancel" : "Close")));
  dialog.replaceChildren(head, h("p", {}, h("strong", {}, plural(shown.count, "event")), " would be ", change.do === "redrive" ? "redriven" : "discarded", ", as the command says it without --yes:"),
    commandLine(command), h("pre", { tabindex: "0", "aria-label": "What would be done" }, shown.text), form);
  (form.querySelector("input") ?? form.querySelector("button")).focus();

  async function run(e) {
    e.preventDefault();
    go.disabled = true;
    problems.replaceChildren();
    let answer;
    try {
      answer = await post("run", { plan: shown.id, typed: typed.value, rate: Number(rate.value), reason: reason.value.trim() });
    } catch (err) {
      problems.replaceChildren(trouble(err));
      ready();
      return;
    }
    changed = true;
    follow(dialog, signal, head, answer);
  }
}

// follow shows how far a change is, and what became of each event.
async function follow(dialog, signal, head, { command, data: { job } }) {
  const bar = h("progress", { "aria-label": "Progress" });
  const says = h("p", { role: "status" });
  const results = h("div", { class: "results" });
  const close = closer("Close; it goes on");
  dialog.replaceChildren(head, says, bar, results, h("p", { class: "quiet" }, "The command that does it:"), commandLine(command), h("p", { class: "bar" }, close));
  close.focus();
  for (let tell = 0; !signal.aborted; tell++) {
    let st;
    try {
      ({ data: st } = await get("job/" + job, {}, signal));
    } catch (err) {
      if (signal.aborted) return;
      results.replaceChildren(trouble(err));
      if (!err.lost) return;
      await new Promise((r) => setTimeout(r, 2000));
      continue;
    }
    bar.max = st.total;
    bar.value = st.finished ? st.total : st.waiting ? st.total - st.waiting : st.reached;
    const text = st.finished ? `${plural(st.done, "event")} of ${number(st.total)} ${st.verb}` : st.waiting ? `Waiting for the consumer: ${number(st.waiting)} left` : `${number(st.reached)} of ${plural(st.total, "event")}`;
    if (st.finished || tell % 4 === 0) says.textContent = text;
    if (st.finished) {
      results.replaceChildren(st.problem ? trouble(st.problem) : "", resultList(st));
      close.textContent = "Close";
      announce(text);
      return;
    }
    await new Promise((r) => setTimeout(r, 500));
  }
}

function resultList(st) {
  return h("ul", { "aria-label": "Results" }, st.results.map((r) => h("li", {}, h("a", { class: "id", href: "#/event/" + r.event_id, onclick: () => byId("mend").close() }, r.event_id), " ",
    h("span", { class: "state " + (r.done ? "good" : "warn") }, r.done ? "done" : "not done"), r.note && [" – ", db(r.note, 500)])),
  st.more > 0 && h("li", { class: "quiet" }, `and ${number(st.more)} more; the audit has them`));
}
