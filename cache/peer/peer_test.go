package peer

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"strings"
	"sync"
	"testing"
	"time"
)

// A local answers requests for a word with that word.
type local struct {
	mu     sync.Mutex
	orders []Order
	got    chan struct{}
}

func (l *local) Answer(_ context.Context, ask []byte) ([]byte, io.ReadCloser, int64, error) {
	word, ok := strings.CutPrefix(string(ask), "get ")
	switch {
	case !ok:
		return nil, nil, 0, errors.New("no such thing")
	case word == "broken":
		return []byte("head"), io.NopCloser(io.MultiReader(strings.NewReader("begun"), broken{})), -1, nil
	case word == "stream":
		return []byte("head"), io.NopCloser(strings.NewReader(word)), -1, nil
	}
	return []byte("head of " + word), io.NopCloser(strings.NewReader(word)), int64(len(word)), nil
}

type broken struct{}

func (broken) Read([]byte) (int, error) { return 0, io.ErrUnexpectedEOF }

func (l *local) CarryOut(o []Order) {
	l.mu.Lock()
	l.orders = append(l.orders, o...)
	l.mu.Unlock()
	if len(o) > 0 {
		l.got <- struct{}{}
	}
}

// free returns addresses at which nobody listens.
func free(t *testing.T, n int) (list []string) {
	t.Helper()
	for range n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		list = append(list, l.Addr().String())
	}
	return list
}

func begin(t *testing.T, cfg Config) (*Peers, *local) {
	t.Helper()
	l := &local{got: make(chan struct{}, 16)}
	p, err := New(cfg, l, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(p.Listen(t.Context()), p.Listen(t.Context())); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close() })
	return p, l
}

const secret = "a secret of peers"

// pair starts two nodes that reach each other.
func pair(t *testing.T) (a, b *Peers, of *local) {
	t.Helper()
	nodes := free(t, 2)
	b, of = begin(t, Config{Listen: nodes[1], Nodes: nodes, Secret: secret})
	a, _ = begin(t, Config{Listen: nodes[0], Nodes: nodes, Secret: secret})
	await(t, "the peer is up", a.Nodes()[0].Up)
	return a, b, of
}

func await(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("not after a minute: %s", what)
		}
	}
}

func TestANodeFetchesFromAnother(t *testing.T) {
	a, b, _ := pair(t)
	n := a.Nodes()[0]
	for word, want := range map[string]struct {
		head   string
		length int64
	}{"hello": {"head of hello", 5}, "stream": {"head", -1}, "": {"head of ", 0}} {
		head, body, length, err := n.Fetch(t.Context(), []byte("get "+word))
		if err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(body)
		if cerr := body.Close(); err != nil || cerr != nil || string(got) != word || string(head) != want.head || length != want.length {
			t.Errorf("%q: got head %q, body %q, length %d, errors %v and %v", word, head, got, length, err, cerr)
		}
	}
	if _, _, _, err := n.Fetch(t.Context(), []byte("what")); err == nil {
		t.Error("a request that the peer cannot answer returned no error")
	}
	_, body, _, err := n.Fetch(t.Context(), []byte("get broken"))
	if err != nil {
		t.Fatal(err)
	}
	if got, err := io.ReadAll(body); err == nil {
		t.Errorf("an answer that was cut ended as %q, without an error", got)
	}
	body.Close()
	if got := b.Asked.Load(); got != 5 {
		t.Errorf("%d requests counted, want 5", got)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, _, _, err := n.Fetch(ctx, []byte("get hello")); err == nil {
		t.Error("a request whose context has ended returned no error")
	}
}

func TestOrdersReachTheOtherNodes(t *testing.T) {
	a, _, of := pair(t)
	for _, o := range []Order{{Kind: "url", Value: "http://x/"}, {Kind: "host", Value: "x"}} {
		a.Broadcast(t.Context(), o)
		<-of.got
	}
	of.mu.Lock()
	defer of.mu.Unlock()
	if len(of.orders) != 2 || of.orders[0].Kind != "url" || of.orders[0].Value != "http://x/" || of.orders[0].At.IsZero() || of.orders[1].Value != "x" {
		t.Errorf("the other node got %+v", of.orders)
	}
}

func TestOrdersWaitForANodeThatIsAway(t *testing.T) {
	nodes := free(t, 2)
	a, _ := begin(t, Config{Listen: nodes[0], Nodes: nodes, Secret: secret})
	n := a.Nodes()[0]
	a.Broadcast(t.Context(), Order{Kind: "host", Value: "x"})
	if n.Up() {
		t.Error("a node that does not listen counts as up")
	}
	_, of := begin(t, Config{Listen: nodes[1], Nodes: nodes, Secret: secret})
	select {
	case <-of.got:
	case <-time.After(time.Minute):
		t.Fatal("the order did not arrive within a minute")
	}
	await(t, "the peer is up", n.Up)
}

func TestTooManyOrdersBecomeOneForEverything(t *testing.T) {
	p, err := New(Config{Listen: "a:1", Nodes: []string{"a:1", "b:1"}, Secret: secret}, nil, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	n := p.Nodes()[0]
	for range maxOrders + 1 {
		n.queue(Order{Kind: "url", Value: "x"})
	}
	if len(n.orders) != 1 || n.orders[0].Kind != "all" || n.Dropped.Load() != maxOrders {
		t.Errorf("%d orders wait, the first %+v, %d dropped", len(n.orders), n.orders[0], n.Dropped.Load())
	}
}

func TestANodeGoesDownAndItsObjectsGoElsewhere(t *testing.T) {
	a, b, _ := pair(t)
	n := a.Nodes()[0]
	theirs := 0
	for i := range uint64(1000) {
		if a.Owner(Key{Lo: i}) == n {
			theirs++
			if b.Owner(Key{Lo: i}) != nil && b.Nodes()[0].Up() {
				t.Fatalf("the nodes disagree about the owner of %d", i)
			}
		}
	}
	if theirs < 400 || theirs > 600 {
		t.Errorf("the other node has %d of 1000 objects, want about half", theirs)
	}
	b.Close()
	await(t, "the peer is down", func() bool { return !n.Up() })
	for i := range uint64(1000) {
		if a.Owner(Key{Lo: i}) != nil {
			t.Fatal("a node that is down owns an object")
		}
	}
	if _, _, _, err := n.Fetch(t.Context(), []byte("get x")); err == nil {
		t.Error("a fetch from a node that is down returned no error")
	}
}

func TestStrangersAreRefused(t *testing.T) {
	nodes := free(t, 2)
	b, _ := begin(t, Config{Listen: nodes[1], Nodes: nodes, Secret: secret})
	a, _ := begin(t, Config{Listen: nodes[0], Nodes: nodes, Secret: "another secret of peers"})
	await(t, "a connection is refused", func() bool { return a.Refused.Load()+b.Refused.Load() > 0 })
	if a.Nodes()[0].Up() || b.Nodes()[0].Up() {
		t.Error("nodes with different secrets count as reachable")
	}
	if _, _, _, err := a.Nodes()[0].Fetch(t.Context(), []byte("get x")); err == nil {
		t.Error("a node with another secret answered")
	}
}

func TestMistakesInTheSettingsAreNamed(t *testing.T) {
	good := Config{Listen: "10.0.0.1:3130", Nodes: []string{"10.0.0.1:3130", "10.0.0.2:3130"}, Secret: secret}
	if err := good.Check(); err != nil {
		t.Errorf("good settings: %v", err)
	}
	for want, change := range map[string]func(c *Config){
		"listen":   func(c *Config) { c.Listen, c.Name = "10.0.0.1", "10.0.0.1:3130" },
		"nodes[1]": func(c *Config) { c.Nodes[1] = "10.0.0.2:0" },
		"nodes":    func(c *Config) { c.Name = "10.0.0.9:3130" },
		"secret":   func(c *Config) { c.Secret = "short" },
	} {
		c := good
		c.Nodes = append([]string(nil), good.Nodes...)
		change(&c)
		if err := c.Check(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v", want, err)
		}
	}
}
