// Package page serves a page for browsers: which pools, locks and semaphores there are, who
// holds them, and who waits (README.md). Its files are embedded in the program and need no build.
// The page is a client of the gateway's other routes, and can do nothing that these do not allow.
package page

import (
	"bytes"
	"embed"
	"io/fs"
	"net/http"
	"path"
	"time"

	"github.com/go-chi/chi/v5"

	"github.com/kvslots/kvslots/gateway/internal/jsonhttp"
	"github.com/kvslots/kvslots/kvslots"
)

// Store is the part of a *kvslots.Store that the page uses.
type Store interface {
	Metrics() kvslots.Metrics
	Ready() error
}

// Config configures a Dialect.
type Config struct {
	// Admin shows the buttons for what operators do. Without it the page only reads. The
	// gateway's tokens decide what clients may do; this decides what the page offers.
	Admin bool

	Sync    string // see gateway.Config
	Version string // of the program
}

// Dialect serves the page, its files and Path.
type Dialect struct {
	store Store
	cfg   Config
	files map[string][]byte // by name
}

// Path is the route of the gateway's own state, for the page.
const Path = "/v1/page"

// policy allows what the page's own files do, and nothing else: in particular no script or style
// within the HTML, and no request to another origin.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'"

//go:embed static
var static embed.FS

// types are the types of the files, since those of package mime depend on the machine.
var types = map[string]string{
	".html": "text/html; charset=utf-8",
	".css":  "text/css; charset=utf-8",
	".js":   "text/javascript; charset=utf-8",
	".svg":  "image/svg+xml",
}

// New returns a Dialect for the gateway of a store, such as a *kvslots.Store.
func New(store Store, cfg Config) *Dialect {
	d := &Dialect{store: store, cfg: cfg, files: map[string][]byte{}}
	entries, _ := fs.ReadDir(static, "static") // embedded, so it cannot fail
	for _, entry := range entries {
		d.files[entry.Name()], _ = fs.ReadFile(static, "static/"+entry.Name())
	}
	return d
}

// Mount adds the routes. The gateway serves / itself, by ServePage.
func (d *Dialect) Mount(r chi.Router) {
	for pattern, handler := range map[string]http.HandlerFunc{
		"/page/{file}": d.serveFile,
		Path:           d.serveState,
	} {
		r.Get(pattern, handler)
		r.Head(pattern, handler)
	}
}

// ServePage answers with the page.
func (d *Dialect) ServePage(w http.ResponseWriter, r *http.Request) { d.send(w, r, "index.html") }

func (d *Dialect) serveFile(w http.ResponseWriter, r *http.Request) {
	d.send(w, r, chi.URLParam(r, "file"))
}

func (d *Dialect) send(w http.ResponseWriter, r *http.Request, name string) {
	content, ok := d.files[name]
	if !ok {
		_ = jsonhttp.Answer(w, http.StatusNotFound, map[string]string{"error": "no such file of the page"})
		return
	}
	h := w.Header()
	h.Set("Content-Type", types[path.Ext(name)])
	h.Set("Content-Security-Policy", policy)
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	http.ServeContent(w, r, name, time.Time{}, bytes.NewReader(content))
}

type state struct {
	Version      string  `json:"version"`
	UI           string  `json:"ui"` // "read" or "admin"
	Sync         string  `json:"sync"`
	Ready        bool    `json:"ready"`
	Reason       string  `json:"reason,omitempty"` // why it is not ready
	Peers        int     `json:"peers"`            // gateways and programs that share the bucket, as this gateway sees
	LagRevisions uint64  `json:"lag_revisions"`
	Lag          float64 `json:"lag_s"`
	Pools        int     `json:"pools"`
	Named        int     `json:"named"` // locks and semaphores in use
	Waiting      int     `json:"waiting"`
	Sessions     int     `json:"sessions"`
}

func (d *Dialect) serveState(w http.ResponseWriter, _ *http.Request) {
	m := d.store.Metrics()
	s := state{
		Version: d.cfg.Version, UI: "read", Sync: d.cfg.Sync, Ready: true,
		Peers: m.Peers, LagRevisions: m.LagRevisions, Lag: m.Lag.Seconds(),
		Pools: m.Pools.Pools, Named: m.Named.Pools, Waiting: m.Waiting, Sessions: m.Sessions,
	}
	if d.cfg.Admin {
		s.UI = "admin"
	}
	if err := d.store.Ready(); err != nil {
		s.Ready, s.Reason = false, err.Error()
	}
	_ = jsonhttp.Answer(w, http.StatusOK, s)
}
