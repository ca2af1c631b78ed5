package ui

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"

	"github.com/outboxgen/outboxgen/internal/ops"
	"github.com/outboxgen/outboxgen/internal/spec"
)

// fake is a source that counts what was asked of it; what it hasn't it was not asked for.
type fake struct {
	Source
	statuses, paused int
	err              error
}

func (f *fake) Model() *spec.Model { return &spec.Model{} }

func (f *fake) Status(context.Context) (ops.Status, error) {
	f.statuses++
	return ops.Status{Service: "orders"}, f.err
}

func (f *fake) PauseClaims(context.Context, string) (*ops.Pause, bool, error) {
	f.paused++
	return &ops.Pause{}, false, nil
}

// asked is a request as the page makes it, to be changed.
func asked(s *Server, method, path, body string) *http.Request {
	r := httptest.NewRequest(method, "http://127.0.0.1:8080"+path, strings.NewReader(body))
	r.AddCookie(&http.Cookie{Name: "outboxgen-8080", Value: s.token})
	if method != http.MethodGet {
		r.Header.Set("Origin", "http://127.0.0.1:8080")
		r.Header.Set("Sec-Fetch-Site", "same-origin")
		r.Header.Set("Content-Type", "application/json; charset=utf-8")
	}
	return r
}

func answered(s *Server, r *http.Request) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	s.Handler().ServeHTTP(w, r)
	return w
}

func TestOnlyLoopbackIsListenedOn(t *testing.T) {
	for _, address := range []string{"0.0.0.0:0", ":0", "[::]:0", "192.168.1.4:8080", "example.com:80"} {
		l, err := Listen(t.Context(), address)
		var far *NotLocalError
		if !errors.As(err, &far) || !strings.Contains(far.Hint(), "ssh -L") {
			t.Errorf("%s: %v", address, err)
		}
		if err == nil {
			l.Close()
		}
	}
	if _, err := Listen(t.Context(), "8080"); err == nil {
		t.Error("an address without a host is taken")
	}
	for _, address := range []string{"127.0.0.1:0", "localhost:0", "127.8.8.8:0"} {
		l, err := Listen(t.Context(), address)
		if err != nil {
			t.Errorf("%s: %v", address, err)
			continue
		}
		l.Close()
	}
}

func TestGuard(t *testing.T) {
	f := &fake{}
	s := New(Config{Source: f, AllowWrite: true})
	get := func(change func(*http.Request)) *http.Request {
		r := asked(s, "GET", "/api/status", "")
		change(r)
		return r
	}
	post := func(change func(*http.Request)) *http.Request {
		r := asked(s, "POST", "/api/pause", `{"reason": "why"}`)
		change(r)
		return r
	}
	for name, c := range map[string]struct {
		r    *http.Request
		want int
	}{
		"a look":                   {get(func(*http.Request) {}), 200},
		"a change":                 {post(func(*http.Request) {}), 200},
		"a forwarded port":         {get(func(r *http.Request) { r.Host = "localhost:8080" }), 200},
		"a page without a cookie":  {asked(s, "GET", "/", ""), 200},
		"no cookie":                {get(func(r *http.Request) { r.Header.Del("Cookie") }), 401},
		"no cookie, a change":      {post(func(r *http.Request) { r.Header.Del("Cookie") }), 401},
		"a wrong cookie":           {get(func(r *http.Request) { r.Header.Set("Cookie", "outboxgen-8080="+strings.Repeat("0", 32)) }), 401},
		"a part of the token":      {get(func(r *http.Request) { r.Header.Set("Cookie", "outboxgen-8080="+s.token[:31]) }), 401},
		"another port's cookie":    {get(func(r *http.Request) { r.Host = "127.0.0.1:8081" }), 401},
		"a foreign name":           {get(func(r *http.Request) { r.Host = "evil.example:8080" }), 403},
		"a foreign name, a file":   {func() *http.Request { r := asked(s, "GET", "/", ""); r.Host = "localhost.evil.example"; return r }(), 403},
		"a name like an address":   {get(func(r *http.Request) { r.Host = "127.0.0.1.evil.example:8080" }), 403},
		"a foreign origin reads":   {get(func(r *http.Request) { r.Header.Set("Origin", "http://evil.example") }), 403},
		"a foreign site reads":     {get(func(r *http.Request) { r.Header.Set("Sec-Fetch-Site", "cross-site") }), 403},
		"another port reads":       {get(func(r *http.Request) { r.Header.Set("Sec-Fetch-Site", "same-site") }), 403},
		"a foreign origin":         {post(func(r *http.Request) { r.Header.Set("Origin", "http://evil.example") }), 403},
		"another port":             {post(func(r *http.Request) { r.Header.Set("Origin", "http://127.0.0.1:9000") }), 403},
		"no origin":                {post(func(r *http.Request) { r.Header.Del("Origin") }), 403},
		"an opaque origin":         {post(func(r *http.Request) { r.Header.Set("Origin", "null") }), 403},
		"a foreign site":           {post(func(r *http.Request) { r.Header.Set("Sec-Fetch-Site", "cross-site") }), 403},
		"a form":                   {post(func(r *http.Request) { r.Header.Set("Content-Type", "text/plain") }), 415},
		"another method":           {post(func(r *http.Request) { r.Method = "PUT" }), 405},
		"a change by GET":          {post(func(r *http.Request) { r.Method = "GET" }), 404},
		"too long a body":          {asked(s, "POST", "/api/pause", `{"reason": "`+strings.Repeat("x", maxBody)+`"}`), 413},
		"a body that nobody knows": {asked(s, "POST", "/api/pause", `{"reasons": "x"}`), 400},
	} {
		w := answered(s, c.r)
		if w.Code != c.want {
			t.Errorf("%s: %d, want %d: %s", name, w.Code, c.want, w.Body)
		}
		for header, want := range map[string]string{
			"Content-Security-Policy": policy, "X-Content-Type-Options": "nosniff", "Cache-Control": "no-store",
			"Referrer-Policy": "no-referrer", "X-Frame-Options": "DENY",
		} {
			if got := w.Header().Get(header); got != want {
				t.Errorf("%s: %s is %q", name, header, got)
			}
		}
	}
	if f.paused != 1 {
		t.Errorf("claims were paused %d times, want once", f.paused)
	}
	if strings.Contains(policy, "unsafe") || strings.Contains(policy, "http") || !strings.Contains(policy, "frame-ancestors 'none'") {
		t.Errorf("the policy is %s", policy)
	}
}

// Without --allow-write nothing that could change anything is done.
func TestReadOnlyServer(t *testing.T) {
	f := &fake{}
	s := New(Config{Source: f})
	for _, path := range []string{"plan", "run", "pause", "resume"} {
		if w := answered(s, asked(s, "POST", "/api/"+path, `{"reason": "x"}`)); w.Code != 403 || !strings.Contains(w.Body.String(), "--allow-write") {
			t.Errorf("%s: %d %s", path, w.Code, w.Body)
		}
	}
	if f.paused != 0 {
		t.Error("claims were paused")
	}
}

// The token is traded for a cookie that no script and no other site has.
func TestSession(t *testing.T) {
	s, other := New(Config{Source: &fake{}}), New(Config{Source: &fake{}})
	if len(s.token) != 32 || s.token == other.token {
		t.Fatalf("the tokens are %s and %s", s.token, other.token)
	}
	trade := func(token string) *httptest.ResponseRecorder {
		r := asked(s, "POST", "/api/session", `{"token": "`+token+`"}`)
		r.Header.Del("Cookie")
		return answered(s, r)
	}
	if w := trade(other.token); w.Code != 401 || w.Header().Get("Set-Cookie") != "" {
		t.Errorf("a wrong token: %d %v", w.Code, w.Header())
	}
	w := trade(s.token)
	if got, want := w.Header().Get("Set-Cookie"), "outboxgen-8080="+s.token+"; Path=/; HttpOnly; SameSite=Strict"; w.Code != 204 || got != want {
		t.Errorf("%d, the cookie is %q, want %q", w.Code, got, want)
	}
}

// An error of the database is shown with its hint, and the next look is a new one.
func TestProblems(t *testing.T) {
	f := &fake{err: errors.New("connection refused")}
	s := New(Config{Source: f, Hint: func(error) string { return "start it" }})
	w := answered(s, asked(s, "GET", "/api/status", ""))
	if w.Code != 502 || w.Body.String() != `{"error":"connection refused","hint":"start it"}`+"\n" {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	f.err = nil
	for range 3 {
		if w := answered(s, asked(s, "GET", "/api/status", "")); w.Code != 200 || !json.Valid(w.Body.Bytes()) {
			t.Errorf("%d %s", w.Code, w.Body)
		}
	}
	if f.statuses != 2 {
		t.Errorf("the database was asked %d times, want once for all pages and once for the error", f.statuses)
	}
}

// Nothing in the page turns text into HTML or code, and nothing in it is anybody else's.
func TestAssets(t *testing.T) {
	risky := regexp.MustCompile(`innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval\(|new Function|srcdoc|javascript:|\sstyle=|\son[a-z]+="|DOMParser|setHTML`)
	foreign := regexp.MustCompile(`(https?:)?//[a-z0-9.]+\.[a-z]{2,}`)
	err := fs.WalkDir(assets, "assets", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := fs.ReadFile(assets, path)
		if found := risky.Find(text); found != nil {
			t.Errorf("%s has %q", path, found)
		}
		for _, found := range foreign.FindAllString(string(text), -1) {
			if found != "http://www.w3.org" { // the namespace of SVG
				t.Errorf("%s leads to %s", path, found)
			}
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	w := answered(New(Config{Source: &fake{}}), httptest.NewRequest("GET", "http://localhost/", nil))
	if body, _ := io.ReadAll(w.Body); w.Code != 200 || !strings.Contains(string(body), `src="main.js"`) {
		t.Errorf("%d %s", w.Code, body)
	}
}

// What is copied into a shell is one word there, whatever the database holds.
func TestQuoted(t *testing.T) {
	for word, want := range map[string]string{
		"order/123": "order/123", "": "''", "a b": "'a b'", "it's $(rm)": `'it'\''s $(rm)'`, "a\nb\u202e'": `$'a\x0ab\u202e\''`, "~root": "'~root'", "ü": "'ü'",
	} {
		if got := quoted(word); got != want {
			t.Errorf("%q: got %s, want %s", word, got, want)
		}
	}
}
