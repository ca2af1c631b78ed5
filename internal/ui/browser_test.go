package ui

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/input"
	cdplog "github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"

	"github.com/outboxgen/outboxgen/internal/chromium"
)

// screenshotsVar names a folder for pictures of every view.
const screenshotsVar = "OUTBOXGEN_SCREENSHOTS"

// newBrowser starts a browser without a window; it ends with the test.
func newBrowser(t *testing.T) context.Context {
	t.Helper()
	b, err := chromium.Find(t.Context(), func(line string) { t.Log(line) })
	if err != nil {
		t.Fatal(err)
	}
	opts := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(b.Path), chromedp.Env(b.Env...), chromedp.Flag("disable-gpu", true), chromedp.WSURLReadTimeout(2*time.Minute))
	if os.Geteuid() == 0 {
		opts = append(opts, chromedp.NoSandbox)
	}
	ctx, cancel := chromedp.NewExecAllocator(context.WithoutCancel(t.Context()), opts...)
	t.Cleanup(cancel)
	ctx, cancelFirst := chromedp.NewContext(ctx, chromedp.WithErrorf(func(string, ...any) {})) // events that it does not know
	t.Cleanup(cancelFirst)
	if err := chromedp.Run(ctx); err != nil {
		t.Fatalf("start %s: %v", b.Path, err)
	}
	return ctx
}

// tab is a page of the browser, which fails the test for every error in it and for every
// request that leaves its origin.
type tab struct {
	t      *testing.T
	ctx    context.Context
	origin string

	mu      sync.Mutex
	allowed string // in the text of an error that is expected
	errors  []string
}

// openTab opens the page at the address that outboxgen ui prints.
func openTab(t *testing.T, browser context.Context, url string) *tab {
	t.Helper()
	ctx, cancel := chromedp.NewContext(browser)
	p := &tab{t: t, ctx: ctx, origin: url[:strings.Index(url, "/#")]}
	t.Cleanup(func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		for _, e := range p.errors {
			t.Errorf("in the page: %s", e)
		}
		cancel()
	})
	chromedp.ListenTarget(ctx, p.note)
	if err := chromedp.Run(ctx); err != nil { // a time limit of the first one would be the tab's
		t.Fatal(err)
	}
	p.front()
	p.run(network.Enable(), cdplog.Enable(), chromedp.EmulateViewport(1280, 900), chromedp.Navigate(url))
	p.wait(`document.querySelector("h1") && !document.querySelector("main[aria-busy]")`)
	return p
}

func (p *tab) note(event any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	add := func(format string, args ...any) {
		text := fmt.Sprintf(format, args...)
		if p.allowed == "" || !strings.Contains(text, p.allowed) {
			p.errors = append(p.errors, text)
		}
	}
	switch e := event.(type) {
	case *runtime.EventExceptionThrown:
		add("exception: %s", e.ExceptionDetails.Error())
	case *runtime.EventConsoleAPICalled:
		if e.Type == runtime.APITypeError || e.Type == runtime.APITypeWarning {
			add("console: %s", e.Args[0].Value)
		}
	case *cdplog.EventEntryAdded:
		if e.Entry.Level == cdplog.LevelError {
			add("log: %s %s", e.Entry.Text, e.Entry.URL)
		}
	case *network.EventRequestWillBeSent:
		if !strings.HasPrefix(e.Request.URL, p.origin+"/") {
			add("a request to %s", e.Request.URL)
		}
	}
}

// allow lets errors with a text in them pass.
func (p *tab) allow(text string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.allowed = text
}

func (p *tab) run(actions ...chromedp.Action) {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.ctx, time.Minute)
	defer cancel()
	if err := chromedp.Run(ctx, actions...); err != nil {
		p.t.Fatal(err)
	}
}

// eval returns what an expression is.
func eval[T any](p *tab, js string) (out T) {
	p.t.Helper()
	p.run(chromedp.Evaluate(js, &out))
	return out
}

// wait waits until an expression is true.
func (p *tab) wait(js string) {
	p.t.Helper()
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(30 * time.Millisecond) {
		if eval[bool](p, "Boolean("+js+")") {
			return
		}
		if time.Now().After(deadline) {
			p.t.Fatalf("never true: %s\nthe page says: %s", js, eval[string](p, "document.body.innerText"))
		}
	}
}

// view goes to a view and waits until it is drawn.
func (p *tab) view(hash string) {
	p.t.Helper()
	p.run(chromedp.Evaluate(fmt.Sprintf(`document.querySelector("main").replaceChildren(); location.hash = ""; location.hash = %q`, hash), nil))
	p.wait(`document.querySelector("h1") && !document.querySelector("main[aria-busy]")`)
}

func (p *tab) text() string { return eval[string](p, "document.body.innerText") }

// says fails the test unless the page has all of the texts.
func (p *tab) says(texts ...string) {
	p.t.Helper()
	page := p.text()
	for _, text := range texts {
		if !strings.Contains(page, text) {
			p.t.Errorf("%q is not on the page:\n%s", text, page)
		}
	}
}

func (p *tab) keys(keys ...string) {
	p.t.Helper()
	for _, key := range keys {
		if key < " " {
			p.run(chromedp.KeyEvent(key))
			continue
		}
		// As a keyboard does it: the character doesn't come when the page takes the key.
		p.run(input.DispatchKeyEvent(input.KeyDown).WithKey(key).WithText(key), input.DispatchKeyEvent(input.KeyUp).WithKey(key))
	}
}

// click clicks a button by its text, in the dialog if one is open.
func (p *tab) click(text string) {
	p.t.Helper()
	js := fmt.Sprintf(`[...(document.querySelector("dialog[open]") ?? document.querySelector("main")).querySelectorAll("button")].find((b) => b.textContent.startsWith(%q) && !b.disabled)`, text)
	p.wait(js)
	p.run(chromedp.Evaluate(js+".click()", nil))
}

// front brings the tab to the front: what is behind draws no frames, for which pictures
// and the ends of dialogs wait.
func (p *tab) front() {
	p.t.Helper()
	p.run(page.BringToFront())
}

// size makes the window a phone's or a desk's, light or dark.
func (p *tab) size(width int64, dark bool) {
	p.t.Helper()
	scheme := "light"
	if dark {
		scheme = "dark"
	}
	p.run(chromedp.EmulateViewport(width, 900), emulation.SetEmulatedMedia().WithFeatures([]*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}}))
}

// picture takes one of the view, where somebody wants them.
func (p *tab) picture(name string) {
	p.t.Helper()
	dir := os.Getenv(screenshotsVar)
	if dir == "" {
		return
	}
	p.front()
	for _, width := range []int64{1280, 390} {
		for _, dark := range []bool{false, true} {
			p.size(width, dark)
			var image []byte
			p.run(chromedp.FullScreenshot(&image, 100))
			file := fmt.Sprintf("%s-%d-%v.png", name, width, map[bool]string{false: "light", true: "dark"}[dark])
			if err := os.WriteFile(filepath.Join(dir, file), image, 0o644); err != nil {
				p.t.Fatal(err)
			}
		}
	}
	p.size(1280, false)
}
