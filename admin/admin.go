// Package admin is what the operator's side of the gateway answers: metrics,
// health, profiles. It listens on its own address, loopback unless the
// settings say otherwise, and is never reached through the proxy.
//
// Data moves one way: the gateway hands in functions that read its state;
// nothing here changes anything, but for single entries of lists (lists.go),
// for whom filtering rests (pause.go) and the sampling of waits while somebody takes a profile of them (contention.go).
package admin

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/pprof"
	"net/netip"
	"strings"
	"time"

	"shuultuur/filter"
	"shuultuur/intercept"
)

// Health is the state of a gateway as a load balancer or an operator asks for
// it. Problems are worth a look but do not stop the gateway.
type Health struct {
	Ready    bool     `json:"ready"` // accepting work: started, not draining
	Started  string   `json:"started"`
	Settings string   `json:"settings"` // file the running engine was built from
	Revision string   `json:"revision"` // of the running settings and lists
	State    string   `json:"state"`    // alone; shared with a fleet; degraded: the fleet's is out of reach
	Problems []string `json:"problems"`
}

// Quotas are what a client has left.
type Quotas struct {
	Policy string           `json:"policy"` // "" when there is none
	User   string           `json:"user"`
	Quotas []filter.Balance `json:"quotas"`
}

// Parts are what the admin address shows.
type Parts struct {
	Metrics http.Handler
	Health  func() Health
	Lists   *Lists  // nil: nothing of them is shown
	Events  *Events // nil: there is no record that can be asked
	Pause   *Pause  // nil: filtering never rests
	// Root returns the certificate that clients are to trust, nil for none.
	Root func() *intercept.Root
	// Refusals are the hosts proposed as exceptions from interception.
	Refusals func() any
	// Quotas says what a client has left of the quotas of a policy, or of the one
	// that covers it when policy is "".
	Quotas func(ctx context.Context, policy string, addr netip.Addr, user string) Quotas
	// Token opens profiles, lists, events and pauses to clients on other machines. Without one
	// they are for this machine only.
	Token string
}

// Handler returns the routes of the admin address.
//
//	GET /metrics          Prometheus text format
//	GET /health           200 while the process works, with its state as JSON
//	GET /ready            200 when it takes work, else 503
//	/lists…               the lists in use; see Lists
//	/events, /statistics  the record of transactions; see Events
//	/pause                for whom filtering rests; see Pause
//	GET /ca               the root certificate, to be installed, and how
//	GET /refusals         hosts whose clients refuse our certificate, as JSON
//	GET /quotas           what ?client=ADDRESS[&user=NAME][&policy=NAME] has left, as JSON
//	GET /debug/pprof/…    profiles and the execution trace, as net/http/pprof
//
// Profiles, lists, events and pauses are for clients on this machine; one elsewhere needs the
// token, as "Authorization: Bearer TOKEN" or as the password of Basic. The profiles block and mutex with ?seconds=N
// sample waits for as long.
//
// A request whose Host is a name other than localhost is refused: pages in a
// browser on this machine must not reach it by pointing a name of theirs at
// the loopback address.
func Handler(p Parts) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", p.Metrics)
	mux.HandleFunc("GET /health", func(w http.ResponseWriter, r *http.Request) {
		writeJSON(w, http.StatusOK, p.Health())
	})
	mux.HandleFunc("GET /ready", func(w http.ResponseWriter, r *http.Request) {
		h := p.Health()
		status := http.StatusOK
		if !h.Ready {
			status = http.StatusServiceUnavailable
		}
		writeJSON(w, status, h)
	})
	debug := http.NewServeMux()
	debug.HandleFunc("GET /debug/pprof/", pprof.Index)
	debug.HandleFunc("GET /debug/pprof/cmdline", pprof.Cmdline)
	debug.HandleFunc("GET /debug/pprof/profile", pprof.Profile)
	debug.HandleFunc("GET /debug/pprof/symbol", pprof.Symbol)
	debug.HandleFunc("GET /debug/pprof/trace", pprof.Trace)
	debug.Handle("GET /debug/pprof/block", blocks())
	debug.Handle("GET /debug/pprof/mutex", mutexes())
	mux.Handle("GET /debug/", guarded(p.Token, "profiles", debug))
	if p.Lists != nil {
		lists := p.Lists.routes(p.Token, p.Pause.notice)
		mux.Handle("/lists", lists)
		mux.Handle("/lists/", lists)
	}
	if p.Pause != nil {
		mux.Handle("/pause", p.Pause.routes(p.Token))
	}
	events := p.Events.routes(p.Token, p.Lists, p.Pause.notice)
	mux.Handle("/events", events)
	mux.Handle("/statistics", events)
	if p.Root != nil {
		mux.Handle("GET /ca", rootPage(p.Root))
		mux.Handle("GET /ca/{file}", rootFile(p.Root))
	}
	if p.Refusals != nil {
		mux.Handle("GET /refusals", guarded(p.Token, "hosts", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			writeJSON(w, http.StatusOK, p.Refusals())
		})))
	}
	if p.Quotas != nil {
		mux.Handle("GET /quotas", guarded(p.Token, "quotas", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			q := r.URL.Query()
			addr, err := netip.ParseAddr(q.Get("client"))
			if err != nil {
				http.Error(w, fmt.Sprintf("client=%q is not an address; whose quotas?", q.Get("client")), http.StatusBadRequest)
				return
			}
			writeJSON(w, http.StatusOK, p.Quotas(r.Context(), q.Get("policy"), addr.Unmap(), q.Get("user")))
		})))
	}
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		_, _ = w.Write([]byte("Shuultuur\n\n/metrics\n/health\n/ready\n/lists\n/events\n/statistics\n/pause\n/ca\n/refusals\n/quotas\n/debug/pprof/\n"))
	})
	return localOnly(mux)
}

func writeJSON(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v) // the client went away: nobody to tell
}

// guarded lets clients on other machines pass with the token only, and not at
// all when there is none.
func guarded(token, what string, next http.Handler) http.Handler {
	want := sha256.Sum256([]byte(token))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !local(r.RemoteAddr) {
			given, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
			if !ok {
				_, given, ok = r.BasicAuth()
			}
			got := sha256.Sum256([]byte(given)) // of one length, so that comparing tells nothing
			if token == "" {
				http.Error(w, what+" are for this machine only; listen.token in the settings opens them to others", http.StatusForbidden)
				return
			}
			if !ok || subtle.ConstantTimeCompare(got[:], want[:]) == 0 {
				w.Header().Add("WWW-Authenticate", `Bearer realm="shuultuur"`)
				w.Header().Add("WWW-Authenticate", `Basic realm="shuultuur"`)
				http.Error(w, what+" need the token of listen.token", http.StatusUnauthorized)
				return
			}
		}
		next.ServeHTTP(w, r)
	})
}

// local says whether a client is on this machine.
func local(remote string) bool {
	a, err := netip.ParseAddrPort(remote)
	return err == nil && a.Addr().Unmap().IsLoopback()
}

// localOnly refuses a Host that is a name of somebody else's.
func localOnly(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !ownName(r.Host) {
			http.Error(w, "ask for this page by address, not by name", http.StatusForbidden)
			return
		}
		next.ServeHTTP(w, r)
	})
}

func ownName(host string) bool {
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	host = strings.Trim(host, "[]")
	if strings.EqualFold(host, "localhost") {
		return true
	}
	_, err := netip.ParseAddr(host)
	return err == nil
}

// Serve answers on l until ctx ends, then lets running requests finish for a
// moment.
func Serve(ctx context.Context, l net.Listener, h http.Handler) error {
	s := &http.Server{Handler: h, ReadHeaderTimeout: 10 * time.Second, IdleTimeout: time.Minute, MaxHeaderBytes: 16 << 10}
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		<-ctx.Done()
		grace, cancel := context.WithTimeout(context.Background(), 2*time.Second)
		defer cancel()
		if s.Shutdown(grace) != nil {
			s.Close()
		}
	}()
	err := s.Serve(l)
	if errors.Is(err, http.ErrServerClosed) {
		<-stopped
		return nil
	}
	return err
}
