package ui

import (
	"crypto/sha256"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"mime"
	"net"
	"net/http"
	"strings"
)

// policy lets the page load what this server has, and nothing else; nothing inline.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// maxBody is how long the body of a request may be, in bytes: a page of event ids, and more.
const maxBody = 256 << 10

// guard lets requests of this machine's own page through. A name that isn't loopback's in Host is
// that of a foreign page whose name was made to lead here (DNS rebinding).
func guard(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", policy)
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("X-Frame-Options", "DENY")
		h.Set("Cache-Control", "no-store")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Cross-Origin-Opener-Policy", "same-origin")
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		reading := r.Method == http.MethodGet || r.Method == http.MethodHead
		switch {
		case !loopbackHost(r.Host):
			refuse(w, http.StatusForbidden, "the name in the address is not this machine's", "open the page as http://127.0.0.1:PORT/")
		case !reading && r.Method != http.MethodPost:
			refuse(w, http.StatusMethodNotAllowed, "this method is not known here", "")
		case !reading && !fromOurPage(r), reading && strings.HasPrefix(r.URL.Path, "/api/") && foreign(r):
			refuse(w, http.StatusForbidden, "this request was made by another site", "open the page by its own address")
		case !reading && !isJSON(r):
			refuse(w, http.StatusUnsupportedMediaType, "the body is not JSON", "")
		default:
			r.Body = http.MaxBytesReader(w, r.Body, maxBody)
			next.ServeHTTP(w, r)
		}
	})
}

// loopbackHost reports whether the Host header, with or without a port, is one of loopback's
// names. The port is another one when it is forwarded.
func loopbackHost(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	if host == "localhost" {
		return true
	}
	ip := net.ParseIP(strings.Trim(host, "[]"))
	return ip != nil && ip.IsLoopback()
}

// foreign reports a request that a page of another origin made, as far as the browser says so.
func foreign(r *http.Request) bool {
	if origin := r.Header.Get("Origin"); origin != "" && origin != "http://"+r.Host {
		return true
	}
	site := r.Header.Get("Sec-Fetch-Site")
	return site != "" && site != "same-origin" && site != "none"
}

// fromOurPage asks for more than foreign: browsers name the origin of every POST.
func fromOurPage(r *http.Request) bool {
	return r.Header.Get("Origin") == "http://"+r.Host && !foreign(r) && r.Header.Get("Sec-Fetch-Site") != "none"
}

func isJSON(r *http.Request) bool {
	kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	return err == nil && kind == "application/json"
}

// cookieName has the port in it: cookies don't keep the ports of a host apart.
func cookieName(r *http.Request) string {
	_, port, err := net.SplitHostPort(r.Host)
	if err != nil {
		port = "80"
	}
	return "outboxgen-" + port
}

// session trades the token of the URL for a cookie. It changes nothing else.
func (s *Server) session(w http.ResponseWriter, r *http.Request) {
	var body struct {
		Token string `json:"token"`
	}
	if err := decode(r, &body); err != nil || !s.isToken(body.Token) {
		refuse(w, http.StatusUnauthorized, errNoToken.Error(), hintNoToken)
		return
	}
	http.SetCookie(w, &http.Cookie{Name: cookieName(r), Value: s.token, Path: "/", HttpOnly: true, SameSite: http.SameSiteStrictMode})
	w.WriteHeader(http.StatusNoContent)
}

var errNoToken = errors.New("this page is not signed in")

const hintNoToken = "open the address that outboxgen ui has printed, with its token; a new start has a new one"

// isToken compares in constant time.
func (s *Server) isToken(text string) bool {
	a, b := sha256.Sum256([]byte(text)), sha256.Sum256([]byte(s.token))
	return subtle.ConstantTimeCompare(a[:], b[:]) == 1
}

// known lets those with the cookie through.
func (s *Server) known(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		cookie, err := r.Cookie(cookieName(r))
		if err != nil || !s.isToken(cookie.Value) {
			refuse(w, http.StatusUnauthorized, errNoToken.Error(), hintNoToken)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// writable lets changes through only where they were allowed at the start.
func (s *Server) writable(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !s.cfg.AllowWrite {
			refuse(w, http.StatusForbidden, "this page only reads", "start it with outboxgen ui --allow-write to change anything")
			return
		}
		next.ServeHTTP(w, r)
	})
}

// refuse answers with an error.
func refuse(w http.ResponseWriter, code int, message, hint string) {
	writeJSON(w, code, problem{message, hint})
}

// problem is an error as the page shows it.
type problem struct {
	Error string `json:"error"`
	Hint  string `json:"hint,omitempty"`
}

func writeJSON(w http.ResponseWriter, code int, data any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(data) // the browser has gone
}

// decode reads a body of JSON that has what it should have and no more.
func decode(r *http.Request, into any) error {
	dec := json.NewDecoder(r.Body)
	dec.DisallowUnknownFields()
	return dec.Decode(into)
}
