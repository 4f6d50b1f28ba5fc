package cache

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"shuultuur/cache/peer"
	"shuultuur/filter"
	"shuultuur/lib/message"
	testpeer "shuultuur/test/peer"
)

// A ring is several nodes in front of one origin, which share their objects.
type ring struct {
	t       *testing.T
	fetched atomic.Int64
	version atomic.Int64
	names   []string
	dirs    []string
	nodes   []*Cache
	fronts  []*RoundTripper
	ends    []func()
}

const ringSecret = "only these nodes know"

func newRing(t *testing.T, n int) *ring {
	t.Helper()
	r := &ring{t: t, nodes: make([]*Cache, n), fronts: make([]*RoundTripper, n), ends: make([]func(), n)}
	for range n {
		r.names = append(r.names, "127.0.0.1:"+testpeer.Port(t))
		r.dirs = append(r.dirs, t.TempDir())
	}
	for i := range n {
		r.start(i)
	}
	t.Cleanup(func() {
		for i := range n {
			r.end(i)
		}
	})
	r.settle()
	return r
}

func (r *ring) RoundTrip(_ context.Context, q *message.Request) (*message.Response, error) {
	if q.Method == "POST" {
		r.version.Add(1)
		return respond(204, ""), nil
	}
	r.fetched.Add(1)
	return respond(200, fmt.Sprintf("%s version %d", q.Path, r.version.Load()), "Cache-Control", "max-age=600", "X-One", "a", "x-TWO", "b"), nil
}

// start starts a node with the content of its disk.
func (r *ring) start(i int) {
	r.t.Helper()
	c, err := New(Config{Disk: 64 << 20, Memory: 4 << 20, Peers: &peer.Config{Listen: r.names[i], Nodes: r.names, Secret: ringSecret}},
		Parts{Data: r.dirs[i], Stores: func(*filter.Transaction) bool { return true }})
	if err != nil {
		r.t.Fatal(err)
	}
	front := c.InFrontOf(r)
	c.Serve(front)
	if err := c.Listen(r.t.Context()); err != nil {
		r.t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error)
	go func() { ended <- c.Run(ctx) }()
	r.nodes[i], r.fronts[i] = c, front
	r.ends[i] = func() { stop(); <-ended; c.Close() }
}

func (r *ring) end(i int) {
	if r.ends[i] != nil {
		r.ends[i]()
		r.ends[i], r.nodes[i] = nil, nil
	}
}

// settle waits until each node knows which of the others are reachable.
func (r *ring) settle() {
	r.t.Helper()
	for end := time.Now().Add(time.Minute); ; time.Sleep(5 * time.Millisecond) {
		wrong := ""
		for i, c := range r.nodes {
			if c == nil {
				continue
			}
			for _, n := range c.peers.Nodes() {
				for k, name := range r.names {
					if n.Name == name && n.Up() != (r.nodes[k] != nil) {
						wrong = fmt.Sprintf("node %d takes node %d to be up: %v", i, k, n.Up())
					}
				}
			}
		}
		if wrong == "" {
			return
		}
		if time.Now().After(end) {
			r.t.Fatalf("the nodes do not agree in time: %s", wrong)
		}
	}
}

func (r *ring) get(node, object int) (body, note string) {
	r.t.Helper()
	status, body, note := send(r.t, r.fronts[node], r.t.Context(), request("GET", fmt.Sprintf("http://example.org/%d", object)))
	if status != 200 || !strings.HasPrefix(body, fmt.Sprintf("/%d version ", object)) {
		r.t.Errorf("object %d from node %d: status %d, body %q", object, node, status, body)
	}
	return body, note
}

func (r *ring) storedObjects() (n int) {
	for _, c := range r.nodes {
		if c != nil {
			n += c.Stats().Objects
		}
	}
	return n
}

func TestPeersKeepEachObjectOnce(t *testing.T) {
	const objects = 90
	r := newRing(t, 3)
	for node := range r.nodes {
		for i := range objects {
			r.get(node, i)
		}
	}
	if n := r.fetched.Load(); n != objects || r.storedObjects() != objects {
		t.Errorf("the nodes fetched %d objects and keep %d, want %d each", n, r.storedObjects(), objects)
	}
	for i, c := range r.nodes {
		if n := c.Stats().Objects; n < objects/6 || n > objects*2/3 {
			t.Errorf("node %d keeps %d of %d objects", i, n, objects)
		}
	}
	// A change of an object at the origin removes it on every node.
	send(t, r.fronts[1], t.Context(), request("POST", "http://example.org/5"))
	for node := range r.nodes {
		if body, _ := r.get(node, 5); !strings.HasSuffix(body, "version 1") {
			t.Errorf("node %d answers %q after a POST through another node", node, body)
		}
	}
	before := r.fetched.Load()
	if err := r.nodes[2].Purge("url", "http://example.org/6"); err != nil {
		t.Fatal(err)
	}
	for node := range r.nodes {
		r.get(node, 6)
	}
	if n := r.fetched.Load() - before; n != 1 {
		t.Errorf("the origin was asked %d times after a purge on one of the nodes, want once", n)
	}
}

func TestPeersSurviveTheLossOfOne(t *testing.T) {
	const objects = 90
	r := newRing(t, 3)
	for i := range objects {
		r.get(i%3, i)
	}
	lost := r.nodes[2].Stats().Objects
	r.end(2)
	for i := range objects {
		r.get(i%2, i) // at once, before the loss of a node is known
	}
	r.settle()
	for i := range objects {
		r.get((i+1)%2, i)
	}
	if n := r.fetched.Load() - objects; n < int64(lost) || n > 2*int64(lost) {
		t.Errorf("the origin was asked %d times after the loss of a node with %d of %d objects", n, lost, objects)
	}
	// Objects purged while a node was away are not there when it comes back.
	send(t, r.fronts[0], t.Context(), request("POST", "http://example.org/7"))
	if err := r.nodes[0].Purge("host", "example.org"); err != nil {
		t.Fatal(err)
	}
	r.start(2)
	r.settle()
	before := r.fetched.Load()
	for i := range objects {
		if body, _ := r.get(i%3, i); !strings.HasSuffix(body, "version 1") {
			t.Errorf("object %d is from before the purge: %q", i, body)
		}
	}
	if n := r.fetched.Load() - before; n != objects {
		t.Errorf("the origin was asked %d times after everything was purged, want %d", n, objects)
	}
}

func TestPeersAnswerOnlyThoseWhoKnowTheSecret(t *testing.T) {
	r := newRing(t, 2)
	r.get(0, 1)
	cfg := peer.Config{Listen: "127.0.0.1:0", Name: "127.0.0.1:1", Nodes: []string{"127.0.0.1:1", r.names[0]}, Secret: "another secret altogether"}
	stranger, err := peer.New(cfg, nil, r.nodes[0].log)
	if err != nil {
		t.Fatal(err)
	}
	q := request("GET", "http://example.org/1")
	if _, _, _, err := stranger.Nodes()[0].Fetch(t.Context(), encodeAsk(q, nil)); err == nil {
		t.Error("a node with another secret gets an answer")
	}
	if n := r.nodes[0].peers.Refused.Load(); n != 0 {
		t.Logf("%d refused", n)
	}
}

// A liar is a node that knows the secret and sends arbitrary answers.
type liar struct {
	*ring
	body   func() io.ReadCloser
	length int64
	head   []byte
	silent chan struct{} // it is silent until this is closed; nil if it answers
}

func (l *liar) CarryOut([]peer.Order) {}

func (l *liar) Answer(ctx context.Context, _ []byte) ([]byte, io.ReadCloser, int64, error) {
	if l.silent != nil {
		select {
		case <-l.silent:
		case <-ctx.Done():
		}
	}
	return l.head, l.body(), l.length, nil
}

// TestALyingNodeDoesNoHarm: nodes trust each other's content, but none can make another
// hang, or deceive it about the length.
func TestALyingNodeDoesNoHarm(t *testing.T) {
	honest := encodeAnswer(respond(200, "", "Cache-Control", "max-age=600"))
	text := func(s string) func() io.ReadCloser {
		return func() io.ReadCloser { return io.NopCloser(strings.NewReader(s)) }
	}
	for name, c := range map[string]struct {
		liar
		want string // what the client gets; "cut": less than the caller announced
	}{
		"less than it says":    {liar{head: honest, body: text("short"), length: 100}, "cut"},
		"more than it says":    {liar{head: honest, body: text("0123456789"), length: 4}, "/1 version 0"},
		"a head that is none":  {liar{head: []byte("rubbish"), body: text("x"), length: 1}, "/1 version 0"},
		"no head":              {liar{body: text(""), length: 0}, "/1 version 0"},
		"a status of nothing":  {liar{head: encodeAnswer(respond(42, "")), body: text("x"), length: 1}, "/1 version 0"},
		"a head without end":   {liar{head: make([]byte, 2<<20), body: text("x"), length: 1}, "/1 version 0"},
		"nothing, for a while": {liar{silent: make(chan struct{}), body: text("x")}, "/1 version 0"},
	} {
		t.Run(name, func(t *testing.T) {
			r := &ring{t: t, nodes: make([]*Cache, 1), fronts: make([]*RoundTripper, 1), ends: make([]func(), 1), dirs: []string{t.TempDir()}}
			r.names = []string{"127.0.0.1:" + testpeer.Port(t), "127.0.0.1:" + testpeer.Port(t)}
			l := c.liar
			other, err := peer.New(peer.Config{Listen: r.names[1], Nodes: r.names, Secret: ringSecret}, &l, slog.New(slog.DiscardHandler))
			if err != nil {
				t.Fatal(err)
			}
			if err := other.Listen(t.Context()); err != nil {
				t.Fatal(err)
			}
			defer other.Close()
			r.start(0)
			defer r.end(0)
			node := r.nodes[0].peers.Nodes()[0]
			node.Silence = 50 * time.Millisecond
			for end := time.Now().Add(time.Minute); !node.Up(); time.Sleep(time.Millisecond) {
				if time.Now().After(end) {
					t.Fatal("the other node was not reachable within 30 s")
				}
			}
			i := 0 // an object that the other node keeps
			for r.nodes[0].peers.Owner(hash(fmt.Appendf(nil, "http://example.org/%d", i))) == nil {
				i++
			}
			want := strings.Replace(c.want, "/1 ", fmt.Sprintf("/%d ", i), 1)
			s, err := r.fronts[0].RoundTrip(t.Context(), request("GET", fmt.Sprintf("http://example.org/%d", i)))
			if err != nil {
				t.Fatal(err)
			}
			defer s.Body.Close()
			body, err := io.ReadAll(s.Body)
			if c.want == "cut" {
				if err == nil {
					t.Errorf("the incomplete body %q was read without an error", body)
				}
				return
			}
			if err != nil || string(body) != want {
				t.Errorf("reading the body gave %q, %v; want %q", body, err, want)
			}
		})
	}
}
