import { h } from "./dom.js";
import { go } from "./main.js";

// The fields of a filter. Their values are in the address, so that a filter can be linked.

export function field(name, label, value = "", placeholder = "") {
  return h("label", {}, h("span", {}, label), h("input", { name, value: value || false, placeholder, autocomplete: "off", spellcheck: "false", maxlength: "300" }));
}

// select takes its choices as values, or as pairs of a value and what is shown.
export function select(name, label, value, choices, any = "any") {
  const known = choices.map((c) => Array.isArray(c) ? c : [c, c]);
  if (value && !known.some(([v]) => v === value)) known.push([value, value]);
  return h("label", {}, h("span", {}, label), h("select", { name }, any !== null && h("option", { value: "" }, any),
    known.map(([v, text]) => h("option", { value: v, selected: v === value }, text))));
}

const spans = [["10m", "10 minutes"], ["1h", "1 hour"], ["6h", "6 hours"], ["24h", "1 day"], ["168h", "7 days"]];

export const older = (value) => select("older", "Failed longer ago than", value, spans);
export const newer = (value) => select("newer", "Failed within", value, spans);

// filterForm shows the list that its fields narrow, in the same view.
export function filterForm(view, fields) {
  const form = h("form", {
    class: "filters", "aria-label": "Filter",
    onsubmit: (e) => {
      e.preventDefault();
      go(view, Object.fromEntries([...new FormData(form)].map(([k, v]) => [k, v.trim()])));
    },
    onchange: (e) => e.target.matches("select, [type=checkbox]") && form.requestSubmit(),
  }, fields, h("button", { type: "submit" }, "Filter"), h("a", { class: "button", href: "#/" + view }, "Clear"));
  return form;
}
