// Package notice asks a server once a day which version of the program is the newest. It
// fetches nothing else and installs nothing.
package notice

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	"shuultuur/lib/release"
)

const (
	every   = 24 * time.Hour
	again   = time.Hour   // interval after a failure
	longest = time.Minute // timeout of a request
	largest = 4 << 10     // most bytes of an answer
)

// A URL is the address of a text that begins with the newest version, such as "1.4.0". "make
// dist" writes it as the file latest. "" asks no server.
type URL string

// UnmarshalText reads a URL.
func (u *URL) UnmarshalText(text []byte) error {
	if s := string(text); s != "" && s != "off" {
		at, err := url.Parse(s)
		if err != nil || at.Scheme != "https" && at.Scheme != "http" || at.Host == "" {
			return fmt.Errorf("%.80q is not an address such as https://shuultuur.example/latest", s)
		}
		*u = URL(s)
		return nil
	}
	*u = ""
	return nil
}

// A Watch knows whether there is a newer version.
type Watch struct {
	from    URL
	client  *http.Client
	running string // version
	log     *slog.Logger
	wait    func(failed bool) <-chan time.Time // for the next question
	newest  atomic.Pointer[string]
}

// New returns a watch that asks at an address, for a program of the version running.
func New(from URL, client *http.Client, running string, log *slog.Logger) *Watch {
	return &Watch{from: from, client: client, running: running, log: log, wait: func(failed bool) <-chan time.Time {
		if failed {
			return time.After(again)
		}
		return time.After(every)
	}}
}

// Newer returns the newest version if it is newer than that of this program, else "". A nil
// Watch knows of none.
func (w *Watch) Newer() string {
	if w == nil {
		return ""
	}
	if v := w.newest.Load(); v != nil {
		return *v
	}
	return ""
}

// Run asks now and once a day until ctx ends; after a failure, in an hour.
func (w *Watch) Run(ctx context.Context) error {
	for {
		err := w.ask(ctx)
		if err != nil && ctx.Err() == nil {
			w.log.Warn("cannot ask for the newest version; it is asked again in an hour", "url", string(w.from), "error", err)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-w.wait(err != nil):
		}
	}
}

func (w *Watch) ask(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, longest)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, string(w.from), nil)
	if err != nil {
		return err
	}
	r.Header.Set("User-Agent", "Shuultuur") // so that it does not reveal its version
	res, err := w.client.Do(r)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return fmt.Errorf("the server answers %s", res.Status)
	}
	text, err := io.ReadAll(io.LimitReader(res.Body, largest))
	if err != nil {
		return err
	}
	words := strings.Fields(string(text))
	if len(words) == 0 || !release.IsVersion(words[0]) {
		return errors.New("the answer does not begin with a version such as 1.4.0")
	}
	if v := words[0]; !release.Newer(v, w.running) {
		w.newest.Store(nil)
	} else if was := w.newest.Swap(&v); was == nil || *was != v {
		w.log.Info("there is a newer version of this program", "newest", v, "running", w.running)
	}
	return nil
}
