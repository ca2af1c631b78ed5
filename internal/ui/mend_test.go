package ui

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/chromedp"
	"github.com/google/uuid"
)

func (w *world) count(rows string) (n int) {
	w.t.Helper()
	if err := w.db.QueryRowContext(w.t.Context(), "SELECT COUNT(*) FROM "+rows).Scan(&n); err != nil {
		w.t.Fatal(err)
	}
	return n
}

func (p *tab) fill(name, value string) {
	p.t.Helper()
	p.run(chromedp.Evaluate(fmt.Sprintf("document.querySelector('#mend input[name=%s]').select()", name), nil), input.InsertText(value))
}

// Two people redrive the same events from two pages: each event is made due once.
func TestTwoPagesRedriveTheSameEvents(t *testing.T) {
	const n = 60
	w := newWorld(t)
	w.dead(1, n, "too large")
	url, browser := w.serve(true), newBrowser(t)
	pages := []*tab{openTab(t, browser, url), openTab(t, browser, url)}
	for _, p := range pages {
		p.view("#/dead")
		p.click("Select all of the filter")
		p.click("Redrive…")
		p.wait(`document.querySelector("#mend form")`)
		p.says("60 events would be made due again", "outboxgen dead redrive --all")
		if !eval[bool](p, `document.querySelector("#mend button[type=submit]").disabled`) {
			t.Error("60 events can be redriven without their number being typed")
		}
		p.fill("typed", "6")
		if !eval[bool](p, `document.querySelector("#mend button[type=submit]").disabled`) {
			t.Error("60 events can be redriven with another number being typed")
		}
		p.fill("typed", "60")
		p.fill("rate", "40")
	}
	pages[0].picture("dialog")
	if dead := w.count("outbox_event WHERE status = 3"); dead != n {
		t.Errorf("the dry run left %d events dead, want %d", dead, n)
	}
	for _, p := range pages {
		p.click("Redrive 60 events")
	}
	pages[1].picture("progress")
	done := 0
	for _, p := range pages {
		p.wait(`document.querySelector("#mend .results ul")`)
		var mine, total int
		text := eval[string](p, `document.querySelector("#mend [role=status]").textContent`)
		if _, err := fmt.Sscanf(text, "%d event", &mine); err != nil {
			t.Fatal(text)
		}
		if _, err := fmt.Sscanf(text[strings.Index(text, "of ")+3:], "%d", &total); err != nil || total != n {
			t.Errorf("%q", text)
		}
		done += mine
		if mine < n && !strings.Contains(p.text(), "already processed") {
			t.Errorf("nothing says that events were processed already: %s", p.text())
		}
	}
	pages[1].picture("results")
	if audited := w.count("outbox_audit WHERE operation = 'dead.redrive'"); done != n || audited != n {
		t.Errorf("the pages say %d, the audit %d events; want %d", done, audited, n)
	}
	if pending := w.count("outbox_event WHERE status = 0"); pending != n {
		t.Errorf("%d events are pending, want %d", pending, n)
	}
	pages[0].front()
	pages[0].click("Close")
	pages[0].wait(`document.querySelector("main").textContent.includes("No event is dead here")`)
}

// Parked events come back through the consumer's process, or are given up, with a reason.
func TestParkedFromThePage(t *testing.T) {
	w := newWorld(t)
	ids := w.write(1, 3)
	for i, id := range ids {
		w.park(id, int64(1+i), "no rate")
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- w.report.RunRedrives(ctx) }()
	defer func() { stop(); <-ended }()

	page := openTab(t, newBrowser(t), w.serve(true))
	page.view("#/parked?consumer=sales-report")
	check := func(id uuid.UUID) {
		page.run(chromedp.Click(fmt.Sprintf("input[aria-label='Select %s']", id), chromedp.ByQuery))
	}
	check(ids[0])
	check(ids[1])
	page.click("Redrive…")
	page.click("Redrive 2 events")
	page.wait(`document.querySelector("#mend [role=status]")?.textContent.startsWith("2 events of 2")`)
	page.click("Close")
	page.wait(`document.querySelectorAll("tbody tr").length === 1`)
	page.view("#/event/" + ids[0].String())
	page.says("applied", "Redrive asked for", "Redriven")
	page.picture("redriven")

	page.view("#/event/" + ids[2].String())
	page.click("Discard…")
	page.wait(`document.querySelector("#mend form")`)
	page.fill("reason", "a test order")
	page.click("Discard 1 event")
	page.wait(`document.querySelector("#mend [role=status]")?.textContent.startsWith("1 event of 1")`)
	page.click("Close")
	page.wait(`document.querySelector("main").textContent.includes("Parked event discarded")`)
	if parked, applied := w.count("parked_event"), w.count("consumed_event WHERE outcome = 5"); parked != 0 || applied != 1 {
		t.Errorf("%d events are parked and %d discarded", parked, applied)
	}
}

// Claims are paused and resumed from the overview; without --allow-write nothing can be
// changed. When the server is gone the page says so, and goes on when it is back.
func TestPauseAndReadOnly(t *testing.T) {
	w := newWorld(t)
	w.dead(1, 2, "too large")
	browser := newBrowser(t)
	page := openTab(t, browser, w.serve(true))
	page.click("Pause claims…")
	page.wait(`document.querySelector("#mend form")`)
	page.fill("reason", "the broker is being moved")
	page.click("Pause claims")
	page.wait(`document.querySelector(".notice.warn")?.textContent.includes("the broker is being moved")`)
	page.picture("paused")
	reading := openTab(t, browser, w.serve(false))
	reading.wait(`document.querySelector(".notice.warn")?.textContent.includes("outboxgen resume ends it")`)
	page.front()
	page.click("Resume claims")
	page.wait(`!document.querySelector("main .notice.warn")`)

	reading.says("read only")
	for _, view := range []string{"#/", "#/dead", "#/parked?consumer=sales-report", "#/audit", "#/leases"} {
		reading.view(view)
		if got := eval[string](reading, `[...document.querySelectorAll("main button, main input[type=checkbox]:not([name=discarded])")].map((b) => b.textContent).filter((t) => !["Filter", "Stop looking", "Look again"].includes(t)).join()`); got != "" {
			t.Errorf("%s has %s", view, got)
		}
	}
	reading.allow("403")
	for _, path := range []string{"plan", "run", "pause", "resume"} {
		status := eval[int](reading, `(() => { const r = new XMLHttpRequest(); r.open("POST", "api/`+path+`", false); r.setRequestHeader("Content-Type", "application/json"); r.send("{}"); return r.status; })()`)
		if status != 403 {
			t.Errorf("POST %s answers with %d, want 403", path, status)
		}
	}
}

func TestServerGone(t *testing.T) {
	w := newWorld(t)
	w.dead(1, 2, "too large")
	l, err := Listen(t.Context(), "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := New(Config{Source: w.ops, PlanText: planText})
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(ctx, l) }()
	page := openTab(t, newBrowser(t), s.URL(l))
	page.wait(`document.querySelector(".tile")`)
	page.allow("net::ERR")
	stop()
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	page.wait(`document.querySelector("#lost:not([hidden])")`)
	page.says("does not answer", "Backlog")
	page.picture("gone")

	again, err := Listen(t.Context(), l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	back := New(Config{Source: w.ops, PlanText: planText})
	back.token = s.token // as if it had never been away
	ctx, stop = context.WithCancel(t.Context())
	go func() { ended <- back.Serve(ctx, again) }()
	page.wait(`document.querySelector("#lost[hidden]")`)
	page.wait(`document.querySelector(".tile")`)
	// The sessions of the browser keep connections open: a stop doesn't wait for them.
	begun := time.Now()
	stop()
	if err := <-ended; err != nil || time.Since(begun) > time.Minute {
		t.Errorf("the stop took %s: %v", time.Since(begun), err)
	}
}

// A search finds out what it was given.
func TestSearch(t *testing.T) {
	w := newWorld(t)
	ids := w.write(1, 1)
	w.server.Exec(t, "INSERT INTO orders (tenant_id, request_id, status, acceptance_event_id, currency, total, created_at) VALUES (7, 'a/b', 'accepted', '"+ids[0].String()+"', 'EUR', 10, UTC_TIMESTAMP(6))")
	page := openTab(t, newBrowser(t), w.serve(false))
	for text, says := range map[string]string{
		"order/1":                          "Found: aggregate order/1",
		"request:7/a/b":                    ids[0].String(),
		"order.accepted":                   "Found: events of the type order.accepted",
		"{" + ids[0].String() + "}":        "Written to the outbox",
		strings.ToUpper(ids[0].String()):   "Written to the outbox",
		"019b76da-a800-7000-8000-00000000": "nobody can tell what",
		"request:7/none":                   "no business row has this request",
		"":                                 "Found: the newest events",
	} {
		page.allow("400")
		page.view("#/leases")
		page.run(chromedp.Evaluate(fmt.Sprintf(`document.querySelector("#q").value = %q; document.querySelector("#search").requestSubmit()`, text), nil))
		page.wait(fmt.Sprintf("document.body.innerText.includes(%q)", says))
	}
}
