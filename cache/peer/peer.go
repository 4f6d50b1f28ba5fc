// Package peer joins the caches of several nodes, so that one of them keeps each object.
//
// The hash of an object's name selects the node that keeps it ([Peers.Owner]): of the
// reachable nodes, the one whose own hash with it is the highest, so that only the objects of
// a lost node move to others. A node asks the owner ([Node.Fetch]) and does not keep the
// object itself. An order that removes objects ([Peers.Broadcast]) goes to all nodes; an
// unreachable one gets it before it is asked for anything again.
//
// Nodes use HTTP over TLS 1.3, in which each side proves that it knows the same secret, from
// which its key is derived. Others get no answer.
package peer

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/zeebo/xxh3"

	"shuultuur/lib/setting"
)

// Config are the settings of a cache's peers.
type Config struct {
	// Listen is the address for other nodes.
	Listen string `yaml:"listen"`
	// Name is the address of this node among Nodes; default Listen.
	Name string `yaml:"name"`
	// Nodes are the addresses of all nodes, the same on each.
	Nodes []string `yaml:"nodes"`
	// Secret is the secret that these nodes share, of at least 16 bytes.
	Secret string `yaml:"secret" secret:"yes"`
}

func (c *Config) name() string {
	if c.Name != "" {
		return c.Name
	}
	return c.Listen
}

const leastSecret = 16

// Check finds mistakes.
func (c *Config) Check() error {
	var errs []error
	if _, _, err := net.SplitHostPort(c.Listen); err != nil {
		errs = append(errs, setting.At("listen", fmt.Errorf("%q is not an address with a port, such as 10.0.0.1:3130", c.Listen)))
	}
	for i, n := range c.Nodes {
		if host, port, err := net.SplitHostPort(n); err != nil || host == "" || port == "" || port == "0" {
			errs = append(errs, setting.At(fmt.Sprintf("nodes[%d]", i), fmt.Errorf("%q is not an address with a port, such as 10.0.0.1:3130", n)))
		}
	}
	if !slices.Contains(c.Nodes, c.name()) {
		errs = append(errs, setting.At("nodes", fmt.Errorf("%q, this node, is not among them; give its address as name", c.name())))
	}
	if len(c.Secret) < leastSecret {
		errs = append(errs, setting.At("secret", fmt.Errorf("%d bytes are too few to be safe; write %d or more", len(c.Secret), leastSecret)))
	}
	return errors.Join(errs...)
}

// A Key is the hash of an object's name.
type Key = xxh3.Uint128

// An Order removes objects from a cache: those of a kind that were stored before a time.
type Order struct {
	Kind  string    `json:"kind"`
	Value string    `json:"value"`
	At    time.Time `json:"at"` // of sending, by which older releases go
}

// A Local is the cache of this node.
type Local interface {
	// Answer answers a request of another node. The caller reads and closes the body; length
	// is negative if unknown.
	Answer(ctx context.Context, ask []byte) (head []byte, body io.ReadCloser, length int64, err error)
	// CarryOut carries out the orders of another node.
	CarryOut([]Order)
}

// Times and limits.
const (
	probeEvery   = time.Second
	probeTimeout = 3 * time.Second
	tellTimeout  = time.Second
	silence      = 2 * time.Minute // exceeds the time that origins may take
	maxAsk       = 1 << 20
	maxOrders    = 10_000 // waiting for a node
	orderBytes   = 64 << 20
)

// Peers are the nodes of a cache.
type Peers struct {
	cfg   Config
	local Local
	log   *slog.Logger
	tls   *tls.Config
	seed  uint64
	nodes []*Node // without this one

	Asked   atomic.Int64 // answered requests of other nodes
	Refused atomic.Int64 // connections that did not know the secret

	mu     sync.Mutex
	server *http.Server
	stop   context.CancelFunc
	work   sync.WaitGroup
}

// A Node is another node.
type Node struct {
	Name string
	p    *Peers
	seed uint64
	up   atomic.Bool
	// Hits are answers from its store, Misses other answers, Failed requests without an
	// answer.
	Hits, Misses, Failed atomic.Int64
	Dropped              atomic.Int64 // orders not delivered because there were too many to keep
	// Silence is the time limit for a pause in an answer.
	Silence time.Duration

	client *http.Client
	kick   chan struct{}

	mu      sync.Mutex
	orders  []Order       // not yet delivered
	anew    int           // how often orders was restarted
	changed chan struct{} // closed when some were delivered
	life    context.Context
	endLife context.CancelFunc // ends life when the node goes down
}

// New makes the peers in the settings.
func New(cfg Config, local Local, log *slog.Logger) (*Peers, error) {
	p := &Peers{cfg: cfg, local: local, log: log, seed: xxh3.HashString(cfg.name())}
	var err error
	if p.tls, err = identity(cfg.Secret, &p.Refused); err != nil {
		return nil, fmt.Errorf("making the key of the cache's peers: %w", err)
	}
	for _, name := range cfg.Nodes {
		if name == cfg.name() || slices.ContainsFunc(p.nodes, func(n *Node) bool { return n.Name == name }) {
			continue
		}
		n := &Node{Name: name, p: p, seed: xxh3.HashString(name), Silence: silence, kick: make(chan struct{}, 1), changed: make(chan struct{})}
		n.life, n.endLife = context.WithCancel(context.Background())
		n.client = &http.Client{Transport: &http.Transport{
			TLSClientConfig: p.tls, MaxIdleConnsPerHost: 64, IdleConnTimeout: time.Minute, DisableCompression: true,
			DialContext: (&net.Dialer{Timeout: probeTimeout}).DialContext, TLSHandshakeTimeout: probeTimeout,
			WriteBufferSize: 16 << 10, ReadBufferSize: 64 << 10,
		}}
		p.nodes = append(p.nodes, n)
	}
	return p, nil
}

// identity makes the certificate that proves the secret, and accepts only the same key.
func identity(secret string, refused *atomic.Int64) (*tls.Config, error) {
	seed, err := hkdf.Key(sha256.New, []byte(secret), nil, "shuultuur cache peers", ed25519.SeedSize)
	if err != nil {
		return nil, err
	}
	key := ed25519.NewKeyFromSeed(seed)
	public := key.Public().(ed25519.PublicKey)
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: time.Unix(0, 0), NotAfter: time.Date(2999, 1, 1, 0, 0, 0, 0, time.UTC)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, public, key)
	if err != nil {
		return nil, err
	}
	return &tls.Config{
		MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}},
		ClientAuth: tls.RequireAnyClientCert, NextProtos: []string{"http/1.1"},
		InsecureSkipVerify: true, // the key counts instead of names:
		VerifyConnection: func(s tls.ConnectionState) error {
			if len(s.PeerCertificates) > 0 {
				if k, ok := s.PeerCertificates[0].PublicKey.(ed25519.PublicKey); ok && k.Equal(public) {
					return nil
				}
			}
			refused.Add(1)
			return errors.New("the other side does not know the secret of the cache's peers")
		},
	}, nil
}

// Listen accepts requests of other nodes, and checks which nodes are reachable, until Close. A
// second call does nothing.
func (p *Peers) Listen(ctx context.Context) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.server != nil {
		return nil
	}
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", p.cfg.Listen)
	if err != nil {
		return fmt.Errorf("listening for the cache's peers: %w", err)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /fetch", p.answer)
	mux.HandleFunc("POST /orders", p.obey)
	p.server = &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 8 << 10,
		ErrorLog: slog.NewLogLogger(p.log.Handler(), slog.LevelDebug)}
	ctx, p.stop = context.WithCancel(context.WithoutCancel(ctx))
	server := p.server
	p.work.Go(func() { _ = server.Serve(tls.NewListener(l, p.tls)) }) // ends with Close
	for _, n := range p.nodes {
		p.work.Go(func() { n.follow(ctx) })
	}
	return nil
}

// Close ends the work that Listen started.
func (p *Peers) Close() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.server == nil {
		return nil
	}
	p.stop()
	err := p.server.Close()
	p.work.Wait()
	for _, n := range p.nodes {
		n.client.CloseIdleConnections()
	}
	return err
}

// Nodes returns the other nodes.
func (p *Peers) Nodes() []*Node { return p.nodes }

// Owner returns the node that keeps an object, nil for this one.
func (p *Peers) Owner(k Key) (owner *Node) {
	most := score(p.seed, k)
	for _, n := range p.nodes {
		if s := score(n.seed, k); s > most && n.up.Load() {
			most, owner = s, n
		}
	}
	return owner
}

// score returns the hash of a node and an object.
func score(seed uint64, k Key) uint64 {
	var b [24]byte
	binary.LittleEndian.PutUint64(b[:], seed)
	binary.LittleEndian.PutUint64(b[8:], k.Lo)
	binary.LittleEndian.PutUint64(b[16:], k.Hi)
	return xxh3.Hash(b[:])
}

// Up reports whether the node is reachable.
func (n *Node) Up() bool { return n.up.Load() }

// Fetch sends a request to the node and returns the head and the body of its answer. The
// caller closes the body, whose length is negative if unknown. If the node goes down, or
// pauses for too long, Fetch or reading fails.
func (n *Node) Fetch(ctx context.Context, ask []byte) (head []byte, body io.ReadCloser, length int64, err error) {
	ctx, cancel := context.WithCancel(ctx)
	n.mu.Lock()
	life := n.life
	n.mu.Unlock()
	stop := context.AfterFunc(life, cancel)
	late := time.AfterFunc(n.Silence, cancel)
	head, body, length, err = n.fetch(ctx, ask)
	late.Stop()
	if err != nil {
		stop()
		cancel()
		n.Failed.Add(1)
		return nil, nil, 0, fmt.Errorf("asking the cache's peer %s: %w", n.Name, err)
	}
	return head, &answerBody{ReadCloser: body, end: func() { stop(); cancel() }, late: late, silence: n.Silence}, length, nil
}

// An answerBody is a body that releases the resources of its request. It ends early if the node
// pauses for too long.
type answerBody struct {
	io.ReadCloser
	end     func()
	late    *time.Timer
	silence time.Duration
}

func (e *answerBody) Read(b []byte) (int, error) {
	e.late.Reset(e.silence) // do not count the time of a slow client
	defer e.late.Stop()
	return e.ReadCloser.Read(b)
}

func (e *answerBody) Close() error {
	err := e.ReadCloser.Close()
	e.end()
	return err
}

func (n *Node) fetch(ctx context.Context, ask []byte) (head []byte, body io.ReadCloser, length int64, err error) {
	r, err := n.post(ctx, "fetch", ask)
	if err != nil {
		var op *net.OpError
		if errors.As(err, &op) && op.Op == "dial" {
			n.markDown(err)
		}
		return nil, nil, 0, err
	}
	var size [4]byte
	if _, err = io.ReadFull(r.Body, size[:]); err == nil {
		if m := binary.LittleEndian.Uint32(size[:]); m > maxAsk {
			err = errors.New("the answer's head is too large")
		} else {
			head = make([]byte, m)
			_, err = io.ReadFull(r.Body, head)
		}
	}
	if err != nil {
		r.Body.Close()
		return nil, nil, 0, err
	}
	length = -1
	if r.ContentLength >= 0 {
		length = r.ContentLength - int64(len(head)) - 4
	}
	return head, r.Body, length, nil
}

func (n *Node) post(ctx context.Context, what string, body []byte) (*http.Response, error) {
	q, err := http.NewRequestWithContext(ctx, http.MethodPost, "https://"+n.Name+"/"+what, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	r, err := n.client.Do(q)
	if err != nil {
		return nil, err
	}
	if r.StatusCode != http.StatusOK {
		r.Body.Close()
		return nil, fmt.Errorf("status %s", r.Status)
	}
	return r, nil
}

// follow delivers orders to the node, and checks whether it is reachable, until ctx ends.
func (n *Node) follow(ctx context.Context) {
	tick := time.NewTicker(probeEvery)
	defer tick.Stop()
	for {
		n.deliver(ctx)
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		case <-n.kick:
		}
	}
}

// deliver sends the waiting orders. Without any it checks whether the node is reachable.
func (n *Node) deliver(ctx context.Context) {
	n.mu.Lock()
	orders, anew := n.orders, n.anew
	n.mu.Unlock()
	body, err := json.Marshal(orders)
	if err != nil {
		n.p.log.Error("purges for a peer of the cache cannot be written", "error", err)
		return
	}
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	r, err := n.post(ctx, "orders", body)
	if err != nil {
		if !errors.Is(ctx.Err(), context.Canceled) {
			n.markDown(err)
		}
		return
	}
	r.Body.Close()
	n.mu.Lock()
	defer n.mu.Unlock()
	if anew == n.anew {
		n.orders = n.orders[len(orders):]
	}
	close(n.changed)
	n.changed = make(chan struct{})
	if len(n.orders) == 0 && !n.up.Swap(true) {
		n.p.log.Info("a peer of the cache is reachable", "node", n.Name)
	}
}

// markDown records that the node is unreachable.
func (n *Node) markDown(err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.up.Swap(false) {
		n.p.log.Warn("a peer of the cache is unreachable; others fetch its objects", "node", n.Name, "error", err)
		n.endLife()
		n.life, n.endLife = context.WithCancel(context.Background())
	}
}

// Broadcast sends an order to all nodes, and waits for a limited time until the reachable ones have
// it.
func (p *Peers) Broadcast(ctx context.Context, o Order) {
	ctx, cancel := context.WithTimeout(ctx, tellTimeout)
	defer cancel()
	o.At = time.Now()
	for _, n := range p.nodes {
		n.queue(o)
	}
	for _, n := range p.nodes {
		n.waitDelivered(ctx)
	}
}

func (n *Node) queue(o Order) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if len(n.orders) >= maxOrders { // replace them by one for everything
		n.Dropped.Add(int64(len(n.orders)))
		n.orders, o = nil, Order{Kind: "all", At: o.At}
		n.anew++
	}
	n.orders = append(n.orders, o)
	select {
	case n.kick <- struct{}{}:
	default:
	}
}

// waitDelivered waits until the node has all orders, is down, or ctx ends.
func (n *Node) waitDelivered(ctx context.Context) {
	for {
		n.mu.Lock()
		changed, lost, done := n.changed, n.life.Done(), len(n.orders) == 0 || !n.up.Load()
		n.mu.Unlock()
		if done {
			return
		}
		select {
		case <-changed:
		case <-lost:
		case <-ctx.Done():
			return
		}
	}
}

// answer answers the request of another node.
func (p *Peers) answer(w http.ResponseWriter, r *http.Request) {
	ask, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxAsk))
	if err != nil {
		http.Error(w, "the request cannot be read", http.StatusBadRequest)
		return
	}
	p.Asked.Add(1)
	head, body, length, err := p.local.Answer(r.Context(), ask)
	if err != nil {
		http.Error(w, "no answer", http.StatusBadGateway)
		return
	}
	defer body.Close()
	if length >= 0 {
		w.Header().Set("Content-Length", fmt.Sprint(4+int64(len(head))+length))
	}
	b := append(binary.LittleEndian.AppendUint32(make([]byte, 0, 4+len(head)), uint32(len(head))), head...)
	if _, err = w.Write(b); err == nil && length != 0 {
		if length < 0 { // it may come slowly, and its beginning is needed now
			_ = http.NewResponseController(w).Flush()
		}
		_, err = io.Copy(w, body)
	}
	if err != nil {
		panic(http.ErrAbortHandler) // shows the other side that the body is incomplete
	}
}

// obey carries out the orders of another node.
func (p *Peers) obey(w http.ResponseWriter, r *http.Request) {
	var orders []Order
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, orderBytes)).Decode(&orders); err != nil {
		http.Error(w, "these are not purges", http.StatusBadRequest)
		return
	}
	p.local.CarryOut(orders)
}
