package ui

import (
	"testing"
)

// Every view, with some of everything and with hostile values, fits a phone and is accessible.
func TestViews(t *testing.T) {
	w := newWorld(t)
	published, parked := w.everything()
	page := openTab(t, newBrowser(t), w.serve(true))
	if got := eval[string](page, "location.href"); got != page.origin+"/#/" {
		t.Errorf("the address is %s: want it without the token", got)
	}
	for _, v := range []struct {
		name, hash string
		says       []string
	}{
		{"overview", "#/", []string{"Backlog", "sales-report", "parked", "relay-1 pid 4711", "40 lanes", "outboxgen status"}},
		{"search", "#/search?q=pending", []string{"Found: pending events", "outboxgen find --status pending"}},
		{"aggregate", "#/search?q=order/300", []string{"dead", "order.accepted"}},
		{"published", "#/event/" + published.String(), []string{"Written to the outbox", "the broker confirmed it", "sales-report", "applied", "nothing yet"}},
		{"parkedevent", "#/event/" + parked.String(), []string{"parked", "no rate for the currency", "Redrive…"}},
		{"dead", "#/dead", []string{"message too large", "0 selected", "Next page", "outboxgen dead list"}},
		{"parked", "#/parked?consumer=sales-report", []string{"no rate for the currency", "0 selected"}},
		{"parkedall", "#/parked", []string{"Choose a consumer to select events"}},
		{"leases", "#/leases", []string{"relay-1 pid 4711", "40 lanes"}},
		{"audit", "#/audit", []string{"Dead event redriven", "outboxgen audit"}},
		{"nothing", "#/search?q=order/none", []string{"No event."}},
	} {
		t.Run(v.name, func(t *testing.T) {
			page := page.of(t)
			page.view(v.hash)
			page.says(v.says...)
			page.picture(v.name)
			page.accessible()
			page.fits()
		})
	}
	hostileViews(t, page)
	if eval[bool](page, "'hacked' in window") {
		t.Error("a value of the database ran as a script")
	}
}

// hostileViews looks at the events with hostile values, and at the errors they lead to.
func hostileViews(t *testing.T, page *tab) {
	page.view("#/dead?kind=rejected&newer=1h")
	page.run()
	next := eval[string](page, `document.querySelector("#next-page").hash`)
	page.view(next)
	links := eval[[]string](page, `[...document.querySelectorAll("td a.id")].map((a) => a.hash)`)
	if len(links) < len(hostile) {
		t.Fatalf("%d dead events on the last page", len(links))
	}
	page.fits()
	page.picture("hostile")
	for i, link := range links[len(links)-len(hostile):] {
		page.view(link)
		page.fits()
		if i == 0 {
			page.says(hostile[0])
		}
		page.picture("hostile" + string(rune('0'+i)))
		page.view(eval[string](page, `(document.querySelector(".facts a[href*=search]") ?? {hash: "#/"}).hash`))
		page.fits()
	}
}

// of is the same tab in a subtest.
func (p *tab) of(t *testing.T) *tab {
	return &tab{t: t, ctx: p.ctx, origin: p.origin}
}

// fits fails the test where the page scrolls sideways, at a phone's width and at a desk's.
func (p *tab) fits() {
	p.t.Helper()
	for _, width := range []int64{360, 1280} {
		p.size(width, false)
		if got := eval[int64](p, "document.documentElement.scrollWidth"); got > width {
			p.t.Errorf("%s: %d pixels wide at %d: %v", eval[string](p, "location.hash"), got, width, eval[[]string](p, wideJS))
		}
	}
}

const wideJS = `[...document.querySelectorAll("main *, header *, footer *")].filter((e) => e.getBoundingClientRect().right > innerWidth + 1).slice(0, 5).map((e) => e.tagName + "." + e.className + " " + Math.round(e.getBoundingClientRect().right))`
