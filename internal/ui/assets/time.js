import { h } from "./dom.js";

// What the server's clock is ahead of the browser's, in milliseconds.
let ahead = 0;

export function serverSays(date) {
  const at = Date.parse(date);
  if (!Number.isNaN(at)) ahead = at - Date.now();
}

// span is a duration in two units at most: 3 min, 2 h 5 min.
export function span(seconds) {
  const s = Math.max(0, seconds);
  if (s < 1) return s > 0.05 ? `${Math.round(s * 1000)} ms` : "0 s";
  if (s < 60) return `${Math.floor(s)} s`;
  if (s < 3600) return `${Math.floor(s / 60)} min`;
  if (s < 86400) return `${Math.floor(s / 3600)} h ${Math.floor((s % 3600) / 60)} min`;
  return `${Math.floor(s / 86400)} d ${Math.floor((s % 86400) / 3600)} h`;
}

function age(at) {
  const seconds = (Date.now() + ahead - at) / 1000;
  if (Math.abs(seconds) < 1.5) return "now"; // clocks are never quite the same
  return seconds < 0 ? `in ${span(-seconds)}` : `${span(seconds)} ago`;
}

// when shows a time as an age, with the exact time behind it; exact shows both.
export function when(text, exact = false) {
  const at = Date.parse(text ?? "");
  if (Number.isNaN(at) || at <= 0) return h("span", { class: "quiet" }, "–");
  const iso = text.replace(/(\.\d+)?(Z|\+00:00)$/, "Z");
  const time = h("time", { datetime: text, title: text, "data-age": "" }, age(at));
  return exact ? h("span", {}, h("span", { class: "exact" }, iso), " ", h("span", { class: "quiet" }, "(", time, ")")) : time;
}

// Ages get older.
setInterval(() => {
  if (document.hidden) return;
  for (const el of document.querySelectorAll("time[data-age]")) {
    const text = age(Date.parse(el.dateTime));
    if (el.textContent !== text) el.textContent = text;
  }
}, 5000);
