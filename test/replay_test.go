package test

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"shuultuur/engine"
	"shuultuur/event"
	"shuultuur/filter"
	"shuultuur/gateway"
	"shuultuur/tool/replay"
	"shuultuur/whatif"
)

const replaySettings = `
listen: {proxy: 127.0.0.1:0, admin: 127.0.0.1:0}
data: data
lists:
  own: {format: domains, path: own.txt, category: gambling}
checks: {category: {lists: [own]}}
policies:
  - name: readers
    rules: [{name: betting, action: block, category: [gambling]}]
events: {sqlite: events.db, every: 100ms}
proxy: {parent: "http://%s"}
`

const replayLog = `
1767258000.000 180 10.1.2.3 TCP_MISS/200 4711 GET http://www.example.com/ anna HIER_DIRECT/192.0.2.1 text/html
1767258000.050   9 10.1.2.3 TCP_TUNNEL/200 88 CONNECT www.example.org:443 - HIER_DIRECT/192.0.2.2 -
1767258000.060   2 10.1.2.4 TCP_DENIED/403 3900 GET http://bet.example/play - HIER_NONE/- text/html
1767258000.070   2 10.1.2.4 TCP_MISS/404 39 GET http://www.example.com/none.png - HIER_DIRECT/192.0.2.1 image/png
1767258000.080   2 10.1.2.4 TCP_MISS/200 77 POST http://www.example.com/form - HIER_DIRECT/192.0.2.1 text/plain
1767258000.085   2 10.1.2.4 TCP_MISS/200 77 GET https://secure.example/x - HIER_DIRECT/192.0.2.1 text/plain
1767258000.090   2 10.1.2.4 TCP_MISS/200 39 GET http://win.bet.example/ - HIER_DIRECT/192.0.2.1 text/html
`

// The test replays a day's log through the gateway to an origin that answers everything. Then
// it judges the recorded events again, without the list.
func TestLogIsSentThroughTheGateway(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	origin := replay.NewOrigin(l, true)
	served := make(chan error, 1)
	go func() { served <- origin.Serve(ctx, l) }()

	dir := t.TempDir()
	file := filepath.Join(dir, "shuultuur.yaml")
	for name, text := range map[string]string{
		"shuultuur.yaml": fmt.Sprintf(replaySettings, origin.Addr()),
		"own.txt":        "bet.example\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	g, err := gateway.New(ctx, file, slog.New(slog.NewTextHandler(t.Output(), nil)))
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- g.Run(ctx) }()

	source := &whatif.Source{Files: []string{"-"}, Stdin: strings.NewReader(replayLog)}
	sender, err := replay.New(replay.SendConfig{Proxy: g.ProxyAddr(), Origin: origin, Parallel: 4, Speed: 2})
	if err != nil {
		t.Fatal(err)
	}
	r, err := sender.Run(t.Context(), source.Entries(t.Context()))
	if err != nil {
		t.Fatal(err)
	}
	if r.Sent != 7 || r.Answered != 7 || r.FromOrigin != 4 || r.Tunnels != 1 || r.Plain != 1 || len(r.Errors) != 0 {
		t.Errorf("the report of the replay is %+v", r)
	}
	if len(r.Changes) != 1 || r.Changes[0].Was != 200 || r.Changes[0].Is != 403 || r.Changes[0].Examples[0] != "http://win.bet.example/" {
		t.Errorf("changes of status: %+v, want 200 -> 403 for win.bet.example", r.Changes)
	}
	wantRecorded(t, g, 8) // with the probe
	what := whatif.Comparison{New: passAll(t, dir)}
	again := &whatif.Source{}
	x, err := what.Run(t.Context(), again.Events(t.Context(), g.Store(), file))
	if err != nil {
		t.Fatal(err)
	}
	if len(x.Changes) != 1 || x.Changes[0].Category != "gambling" || x.Changes[0].Count != 2 || x.Changes[0].Is != "pass" {
		t.Errorf("judged again without the list: %+v, want two events of gambling to pass", x.Changes)
	}
	stop()
	if err := <-ended; err != nil {
		t.Errorf("the gateway ended with: %v", err)
	}
	if err := <-served; err != nil {
		t.Errorf("the origin ended with: %v", err)
	}
}

// passAll returns the engine of settings that let everything pass.
func passAll(t *testing.T, dir string) whatif.Judge {
	t.Helper()
	file := filepath.Join(dir, "open.yaml")
	if err := os.WriteFile(file, []byte("policies: [{name: readers}]\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	engine, closeEngine, err := engine.Explain(t.Context(), file)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(closeEngine)
	d, err := engine.As("")
	if err != nil {
		t.Fatal(err)
	}
	return whatif.Judge{Name: file, Decider: d, Client: func(ctx context.Context, e *whatif.Entry) (c filter.Client) {
		c, _ = engine.Identify(ctx, e.Client)
		return c
	}}
}

// wantRecorded waits until n transactions are on record.
func wantRecorded(t *testing.T, g *gateway.Gateway, n int) {
	t.Helper()
	for end := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Millisecond) {
		got := 0
		for _, err := range g.Store().Query(t.Context(), event.Filter{}, event.Page{}) {
			if err != nil {
				t.Fatal(err)
			}
			got++
		}
		if got == n {
			return
		}
		if got > n || time.Now().After(end) {
			t.Fatalf("%d transactions are on record, want %d", got, n)
		}
	}
}
