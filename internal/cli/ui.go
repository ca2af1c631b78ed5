package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"syscall"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/outboxgen/outboxgen/internal/ops"
	"github.com/outboxgen/outboxgen/internal/ui"
)

func (a *app) uiCommand() *cobra.Command {
	var o opsFlags
	var listen string
	var write, open bool
	cmd := &cobra.Command{
		Use:   "ui",
		Short: "Show the outbox and its consumers on a page in the browser, on this machine alone",
		Long: `Show the outbox and its consumers on a page in the browser: an overview, searches, the
life of an event, dead and parked events, leases, and the audit. It prints an address with a
token, and serves until Ctrl-C.

The page only reads. With --allow-write it also pauses claims, and redrives and discards
events, each after a dry run. It shows no payload. Only addresses of this machine are
listened on; from elsewhere forward the port: ssh -L 8080:127.0.0.1:8080 HOST`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx, stop := signal.NotifyContext(cmd.Context(), syscall.SIGINT, syscall.SIGTERM)
			defer stop()
			return a.serveUI(ctx, cmd, o, listen, write, open)
		},
	}
	o.register(cmd.Flags())
	cmd.Flags().StringVar(&listen, "listen", "127.0.0.1:0", "the address to serve on, of this machine alone; port 0 is a free one")
	cmd.Flags().BoolVar(&write, "allow-write", false, "let the page pause claims, and redrive and discard events")
	cmd.Flags().BoolVar(&open, "open", false, "open the page in the browser")
	return cmd
}

func (a *app) serveUI(ctx context.Context, cmd *cobra.Command, o opsFlags, listen string, write, open bool) error {
	l, err := ui.Listen(ctx, listen)
	if err != nil {
		var far *ui.NotLocalError
		if errors.As(err, &far) {
			return hinted{err, far.Hint()}
		}
		return hinted{err, "give another address or port with --listen, or leave it out for a free one"}
	}
	defer l.Close()
	s, closeAll, err := a.service(cmd, o)
	if err != nil {
		return err
	}
	defer closeAll()
	page := ui.New(ui.Config{Source: s, AllowWrite: write, File: a.config, PlanText: planText, Hint: hintOf})
	url := page.URL(l)
	if err := a.printData(struct {
		URL   string `json:"url"`
		Write bool   `json:"write"`
	}{url, write}, func(t *tableWriter) { t.row(url) }); err != nil {
		return err
	}
	if open {
		remove, err := browse(ctx, url)
		if err != nil {
			fmt.Fprintf(a.stderr, "outboxgen: no browser was opened, open the address by hand: %v\n", err)
		}
		defer remove()
	}
	return page.Serve(ctx, l)
}

// planText is what the commands print of a plan.
func planText(verb string, plan ops.Plan) string {
	var b bytes.Buffer
	t := &tableWriter{w: tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)}
	(&app{}).planTable(t, mending{verb: verb, plan: plan})
	_ = t.w.Flush() // into memory
	return b.String()
}

// hintOf is the way out of an error, as the commands print it.
func hintOf(err error) string {
	if unreached := (*net.OpError)(nil); errors.As(err, &unreached) {
		return "the database can't be reached: is it running? The page asks again"
	}
	return couldNotRun(opsError(err)).Hint
}

// browse opens the user's browser with a file that leads to an address: its token would be
// in the list of processes otherwise. It returns what removes the file.
func browse(ctx context.Context, url string) (remove func(), err error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return func() {}, err
	}
	dir, err := os.MkdirTemp(cache, "outboxgen-ui-") // for nobody else to read
	if err != nil {
		return func() {}, err
	}
	remove = func() { _ = os.RemoveAll(dir) }
	file := filepath.Join(dir, "open.html")
	if err := os.WriteFile(file, []byte(`<!doctype html><meta http-equiv="refresh" content="0; url=`+url+`">`), 0o600); err != nil {
		return remove, err
	}
	name := "xdg-open"
	if runtime.GOOS == "darwin" {
		name = "open"
	}
	opener := exec.CommandContext(ctx, name, file) //nolint:gosec // the file is our own
	if err := opener.Start(); err != nil {
		return remove, err
	}
	go func() { _ = opener.Wait() }() // it may be the browser itself
	return remove, nil
}
