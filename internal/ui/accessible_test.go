package ui

import (
	"os"
	"testing"
)

// axeVar names a file with axe-core's axe.min.js, to have its rules too.
const axeVar = "OUTBOXGEN_AXE"

// accessible fails the test for what keeps people from using the view: nameless controls, text
// that is hard to read in either scheme, ids that are there twice, headings that skip a level.
func (p *tab) accessible() {
	p.t.Helper()
	for _, dark := range []bool{false, true} {
		p.size(1280, dark)
		for _, finding := range eval[[]string](p, accessibleJS) {
			p.t.Errorf("%s, dark %v: %s", eval[string](p, "location.hash"), dark, finding)
		}
		p.axe()
	}
	p.size(1280, false)
}

// axe runs axe-core where somebody has named it.
func (p *tab) axe() {
	p.t.Helper()
	file := os.Getenv(axeVar)
	if file == "" {
		return
	}
	script, err := os.ReadFile(file)
	if err != nil {
		p.t.Fatal(err)
	}
	_ = eval[any](p, string(script)+"; 0")
	_ = eval[any](p, `window.axed = null; axe.run({ runOnly: ["wcag2a", "wcag2aa", "wcag21aa", "best-practice"] }).then((r) => { window.axed = r.violations.map((v) => v.id + ": " + v.help + " " + v.nodes.slice(0, 3).map((n) => n.html.slice(0, 120) + " " + n.any.map((a) => a.message).join(";")).join(" | ")); }); 0`)
	p.wait("window.axed")
	for _, v := range eval[[]string](p, "window.axed") {
		p.t.Errorf("%s: axe: %s", eval[string](p, "location.hash"), v)
	}
}

const accessibleJS = `(() => {
  const found = [];
  const shown = (el) => el.checkVisibility({ visibilityProperty: true }) && el.getClientRects().length > 0;
  const short = (el) => el.outerHTML.slice(0, 140);
  if (!document.documentElement.lang) found.push("no language");
  if (document.querySelectorAll("h1").length !== 1) found.push("not one h1");
  const ids = [...document.querySelectorAll("[id]")].map((e) => e.id);
  for (const id of ids) if (ids.indexOf(id) !== ids.lastIndexOf(id)) found.push("twice: #" + id);
  let level = 0;
  for (const h of document.querySelectorAll("main h1, main h2, main h3")) {
    if (Number(h.tagName[1]) > level + 1) found.push("skips a level: " + short(h));
    level = Number(h.tagName[1]);
  }
  for (const el of document.querySelectorAll("button, a[href], input, select")) {
    if (!shown(el)) continue;
    const name = el.getAttribute("aria-label") || el.textContent.trim() || [...(el.labels ?? [])].map((l) => l.textContent.trim()).join("");
    if (!name || el.matches("select") && !el.labels.length) found.push("no name: " + short(el));
    if (el.tabIndex > 0) found.push("changes the order of the focus: " + short(el));
  }
  for (const el of document.querySelectorAll("[aria-labelledby], [for], [list]")) {
    const to = el.getAttribute("aria-labelledby") ?? el.getAttribute("for") ?? el.getAttribute("list");
    if (!document.getElementById(to)) found.push("leads nowhere: " + short(el));
  }
  const rgb = (text) => (text.match(/[\d.]+/g) ?? []).map(Number);
  const light = ([r, g, b]) => [r, g, b].map((v) => v / 255).map((v) => v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4).reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
  const behind = (el) => {
    for (let e = el; e; e = e.parentElement) {
      const c = rgb(getComputedStyle(e).backgroundColor);
      if (c.length === 3 || c[3] > 0.99) return c;
    }
    return [255, 255, 255];
  };
  const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  for (let node = walk.nextNode(); node; node = walk.nextNode()) {
    const el = node.parentElement;
    if (!node.data.trim() || !shown(el) || el.closest(":disabled, .unseen, .skip, option")) continue;
    const [a, b] = [light(rgb(getComputedStyle(el).color)), light(behind(el))].sort((x, y) => y - x);
    const contrast = (a + 0.05) / (b + 0.05);
    if (contrast < 4.5) found.push("contrast " + contrast.toFixed(2) + ": " + short(el));
  }
  return [...new Set(found)].slice(0, 20);
})()`

// All of it without a mouse, in the order in which things stand on the page.
func TestKeyboard(t *testing.T) {
	w := newWorld(t)
	w.dead(1, 60, "too large")
	page := openTab(t, newBrowser(t), w.serve(true))
	focus := `document.activeElement.id || document.activeElement.textContent.trim().slice(0, 40)`
	expect := func(want string) {
		t.Helper()
		if got := eval[string](page, focus); got != want {
			t.Errorf("the focus is on %q, want %q", got, want)
		}
	}
	page.keys("\t")
	expect("skip")
	page.keys("\r")
	expect("main")
	_ = eval[any](page, "document.activeElement.blur(); 0")
	page.keys("?")
	page.wait(`document.querySelector("#keys[open]")`)
	page.keys("g", "d") // not while a dialog is open
	page.keys("\u001b")
	page.wait(`!document.querySelector("#keys[open]")`)
	page.keys("/")
	expect("q")
	page.keys("o", "r", "d", "e", "r", "/", "1", "\r")
	page.wait(`location.hash === "#/search?q=order%2F1" && document.querySelector("h1")?.textContent === "Search" && document.querySelectorAll("tbody tr").length === 1`)
	page.keys("j", "\r")
	page.wait(`location.hash.startsWith("#/event/") && document.querySelector("h1")?.textContent === "Event"`)
	expect("Event") // the heading

	page.keys("g", "d")
	page.wait(`location.hash === "#/dead" && document.querySelectorAll("tbody tr").length === 50`)
	page.keys("j", "x", "j", " ")
	page.wait(`document.querySelector(".chosen").textContent.startsWith("2 selected")`)
	page.keys("n")
	page.wait(`document.querySelectorAll("tbody tr").length === 10`)
	page.keys("j", "x")
	page.wait(`document.querySelector(".chosen").textContent.startsWith("3 selected, 2 on other pages")`)

	// The dialog keeps the focus, and Esc changes nothing.
	tabTo := func(want string) {
		t.Helper()
		for range 60 {
			if eval[string](page, focus) == want {
				return
			}
			page.keys("\t")
		}
		t.Fatalf("Tab doesn't lead to %q", want)
	}
	_ = eval[any](page, `document.querySelector(".chosen button").focus(); 0`)
	tabTo("Redrive…")
	page.keys("\r")
	page.wait(`document.querySelector("#mend[open] form")`)
	for range 12 {
		page.keys("\t")
		if !eval[bool](page, `document.activeElement === document.body || Boolean(document.activeElement.closest("#mend"))`) {
			t.Fatal("the focus leaves the dialog")
		}
	}
	page.keys("\u001b")
	page.wait(`!document.querySelector("#mend[open]")`)
	expect("Redrive…")
	if n := w.count("outbox_event WHERE status = 3"); n != 60 {
		t.Errorf("%d events are dead, want 60", n)
	}
	page.keys("\r")
	page.wait(`document.querySelector("#mend[open] form")`)
	// Closed, and open again before the browser has told of the former.
	_ = eval[any](page, `document.querySelector("#mend").close(); [...document.querySelectorAll("main button")].find((b) => b.textContent === "Redrive…").click(); 0`)
	page.wait(`document.querySelector("#mend[open] form")`)
	tabTo("Redrive 3 events")
	page.keys("\r")
	page.wait(`document.querySelector("#mend [role=status]")?.textContent.startsWith("3 events of 3")`)
	page.keys("\u001b")
	page.wait(`document.querySelector("#mend[open]") === null`)
	if n := w.count("outbox_event WHERE status = 3"); n != 57 {
		t.Errorf("%d events are dead, want 57", n)
	}
}
