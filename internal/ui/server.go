package ui

import (
	"context"
	"crypto/rand"
	"embed"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/outboxgen/outboxgen/internal/ops"
)

//go:embed assets
var assets embed.FS

// Config says what a server shows, and what it lets people do.
type Config struct {
	Source Source

	// AllowWrite lets the page pause claims, and redrive and discard events. Without it every such
	// request is refused.
	AllowWrite bool

	// File is the events.yaml, as the command lines that the page shows name it. Defaults to events.yaml.
	File string

	// PlanText is what the commands print of a plan: verb is what would be done with its events.
	PlanText func(verb string, plan ops.Plan) string

	// Hint returns the way out of an error, or nothing. It may be nil.
	Hint func(error) string
}

// Server serves the page.
type Server struct {
	cfg   Config
	token string
	begun context.Context // ends with Serve: what runs longer than a request
	end   context.CancelFunc

	status statusCache
	plans  shelf[plan]
	jobs   shelf[*job]
	work   sync.WaitGroup // the jobs
}

// New returns a server with a token of its own.
func New(cfg Config) *Server {
	if cfg.File == "" {
		cfg.File = "events.yaml"
	}
	if cfg.Hint == nil {
		cfg.Hint = func(error) string { return "" }
	}
	s := &Server{cfg: cfg, token: random()}
	s.begun, s.end = context.WithCancel(context.Background())
	return s
}

// random is 128 bits that nobody can guess.
func random() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails: see its documentation
	return hex.EncodeToString(b[:])
}

// NotLocalError refuses an address that other machines can reach.
type NotLocalError struct{ Address string }

func (e *NotLocalError) Error() string {
	return fmt.Sprintf("%q is not an address of this machine alone", e.Address)
}

// Hint says how the page is reached from another machine.
func (e *NotLocalError) Hint() string {
	return "listen on 127.0.0.1:8080, and from elsewhere forward the port: ssh -L 8080:127.0.0.1:8080 HOST"
}

// Listen opens a port of a loopback address; port 0 is a free one.
func Listen(ctx context.Context, address string) (net.Listener, error) {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, fmt.Errorf("listen on %q: want host:port, such as 127.0.0.1:8080", address)
	}
	if host == "localhost" {
		host = "127.0.0.1"
	}
	if ip := net.ParseIP(host); ip == nil || !ip.IsLoopback() {
		return nil, &NotLocalError{address}
	}
	return new(net.ListenConfig).Listen(ctx, "tcp", net.JoinHostPort(host, port))
}

// URL is where the page is, with the token. The token is in the fragment, which no browser
// sends: the page trades it for a cookie.
func (s *Server) URL(l net.Listener) string {
	return fmt.Sprintf("http://%s/#token=%s", l.Addr(), s.token)
}

// Serve serves until ctx ends. A change that is being made then stops behind a batch: what is
// done is in the audit.
func (s *Server) Serve(ctx context.Context, l net.Listener) error {
	server := &http.Server{
		Handler:           s.Handler(),
		ReadHeaderTimeout: 5 * time.Second,
		ReadTimeout:       10 * time.Second,
		WriteTimeout:      40 * time.Second,
		IdleTimeout:       time.Minute,
		MaxHeaderBytes:    16 << 10,
	}
	stopped := make(chan error, 1)
	go func() {
		<-ctx.Done()
		s.end()
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 3*time.Second)
		defer cancel()
		err := server.Shutdown(ctx)
		if errors.Is(err, context.DeadlineExceeded) {
			err = server.Close()
		}
		stopped <- err
	}()
	err := server.Serve(l)
	if !errors.Is(err, http.ErrServerClosed) {
		s.end()
		return err
	}
	s.work.Wait()
	return <-stopped
}

// Handler is the page, its data, and the guard before both.
func (s *Server) Handler() http.Handler {
	files, err := fs.Sub(assets, "assets")
	if err != nil {
		panic(err) // it is embedded
	}
	mux := http.NewServeMux()
	mux.Handle("/", http.FileServerFS(files))
	mux.HandleFunc("/api/", func(w http.ResponseWriter, _ *http.Request) {
		refuse(w, http.StatusNotFound, "there is no such thing here", "reload the page: it may be older than the program")
	})
	mux.HandleFunc("POST /api/session", s.session)
	for path, get := range map[string]func(*http.Request) (any, error){
		"meta": s.getMeta, "status": s.getStatus, "search": s.getSearch, "event/{id}": s.getEvent,
		"dead": s.getDead, "parked": s.getParked, "audit": s.getAudit, "job/{id}": s.getJob,
	} {
		mux.Handle("GET /api/"+path, s.known(answer(s, get)))
	}
	for path, post := range map[string]func(*http.Request) (any, error){
		"plan": s.postPlan, "run": s.postRun, "pause": s.postPause, "resume": s.postResume,
	} {
		mux.Handle("POST /api/"+path, s.known(s.writable(answer(s, post))))
	}
	return guard(mux)
}
