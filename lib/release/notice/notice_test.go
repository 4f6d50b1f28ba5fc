package notice

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

func TestANewerVersionIsReported(t *testing.T) {
	for _, tt := range []struct {
		says, running string
		status        int
		newer, logged string
	}{
		{says: "1.5.0\n", running: "1.4.0", newer: "1.5.0", logged: "newest=1.5.0"},
		{says: "v1.5.0  2026-11-26\n", running: "1.4.0", newer: "v1.5.0", logged: "newest=v1.5.0"},
		{says: "1.4.0", running: "1.4.0"},
		{says: "1.3.9", running: "1.4.0"},
		{says: "1.5.0", running: "devel"},
		{says: "<html>not found", running: "1.4.0", logged: "does not begin with a version"},
		{says: "", running: "1.4.0", logged: "does not begin with a version"},
		{says: strings.Repeat("1", 1<<20), running: "1.4.0", logged: "does not begin with a version"},
		{says: "1.5.0", running: "1.4.0", status: 404, logged: "404"},
	} {
		asked := make(chan string, 1)
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if tt.status != 0 {
				w.WriteHeader(tt.status)
			}
			fmt.Fprint(w, tt.says)
			asked <- r.Header.Get("User-Agent") + " " + r.URL.RawQuery
		}))
		var log bytes.Buffer
		w := New(URL(s.URL), s.Client(), tt.running, slog.New(slog.NewTextHandler(&log, nil)))
		err := w.ask(t.Context())
		if err != nil {
			log.WriteString(err.Error())
		}
		if got := w.Newer(); got != tt.newer || !strings.Contains(log.String(), tt.logged) || tt.logged == "" && log.Len() > 0 {
			t.Errorf("the server says %.20q, running %s: Newer is %q, want %q; log %q, want %q", tt.says, tt.running, got, tt.newer, log.String(), tt.logged)
		}
		if got := <-asked; got != "Shuultuur " {
			t.Errorf("the server learns the User-Agent %q", got)
		}
		s.Close()
	}
}

// TestAServerThatCannotBeTrustedOrHangsTellsNothing: its certificate is unknown, or it accepts
// a request and never answers.
func TestAServerThatCannotBeTrustedOrHangsTellsNothing(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/hangs" {
			cancel()
			<-r.Context().Done()
			return
		}
		fmt.Fprintln(w, "1.5.0")
	}))
	s.Config.ErrorLog = log.New(io.Discard, "", 0) // it tells of the refused handshake
	s.StartTLS()
	defer s.Close()
	for _, tt := range []struct {
		path, want string
		client     *http.Client
	}{
		{"/", "certificate", &http.Client{Transport: new(http.Transport)}},
		{"/hangs", "canceled", s.Client()},
	} {
		w := New(URL(s.URL+tt.path), tt.client, "1.4.0", slog.New(slog.DiscardHandler))
		if err := w.ask(ctx); err == nil || !strings.Contains(err.Error(), tt.want) || w.Newer() != "" {
			t.Errorf("%s: %v, newer %q; want an error with %q", tt.path, err, w.Newer(), tt.want)
		}
	}
}

func TestTheWatchEndsWithItsContext(t *testing.T) {
	s := httptest.NewServer(http.NotFoundHandler())
	defer s.Close()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := New(URL(s.URL), s.Client(), "1.0.0", slog.New(slog.DiscardHandler)).Run(ctx); err != nil {
		t.Error(err)
	}
}

func TestAServerThatIsAwayIsAskedAgain(t *testing.T) {
	var asked atomic.Int32
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if asked.Add(1) < 3 {
			panic(http.ErrAbortHandler) // the connection breaks
		}
		fmt.Fprintln(w, "1.5.0")
	}))
	defer s.Close()
	w := New(URL(s.URL), s.Client(), "1.4.0", slog.New(slog.DiscardHandler))
	ctx, cancel := context.WithCancel(t.Context())
	soon := make(chan time.Time)
	close(soon)
	w.wait = func(failed bool) <-chan time.Time {
		if !failed {
			cancel()
		}
		return soon
	}
	if err := w.Run(ctx); err != nil || w.Newer() != "1.5.0" {
		t.Errorf("after %d questions: Newer is %q, %v; want 1.5.0", asked.Load(), w.Newer(), err)
	}
}

func TestAddressesOfNoticesAreChecked(t *testing.T) {
	for text, good := range map[string]bool{"https://shuultuur.example/latest": true, "http://10.0.0.1/v": true, "off": true, "": true, "true": false, "ftp://x/": false, "https://": false, "latest": false} {
		var u URL
		if err := u.UnmarshalText([]byte(text)); (err == nil) != good {
			t.Errorf("reading the URL %q: %v", text, err)
		}
		if text == "off" && u != "" {
			t.Errorf("off reads %q, want none", u)
		}
	}
}
