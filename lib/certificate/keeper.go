// Package certificate gets a certificate for our own listeners from an authority, by ACME (RFC 8555),
// and renews it.
//
// A [Keeper] has one certificate, for all names of the settings. It keeps it in the data folder and
// serves it to every listener that has no certificate file ([Keeper.Certificate]). Until the first one
// arrives, it serves one of its own making. [Keeper.Run] orders: the authority names a challenge for
// each name, and we answer it, on a listener ([Keeper.Answer], or in the handshake) or in a zone of ours
// ([Zones]). After a failure it waits, longer each time, and what it has stays in use.
//
// The messages are those of golang.org/x/crypto/acme. CertMagic would also decide when to order, but it
// keeps its state in package variables, logs through zap, and stores and locks files by its own rules
// beside those of the data folder; it adds a megabyte, and what is left for us to write is as long.
package certificate

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"shuultuur/lib/clock"
)

// Zones publish text records in zones of our own.
type Zones interface {
	// Publishes reports whether a zone that can be changed here has a name.
	Publishes(name string) bool
	// Publish adds a text record, and returns when it is served. remove takes it away again.
	Publish(ctx context.Context, name, text string) (remove func(context.Context) error, err error)
}

// Parts are what a keeper needs from the gateway.
type Parts struct {
	Folder   string                                      // of the data; "" on trial
	Client   *http.Client                                // asks the authority
	InUse    func(*Keeper) bool                          // whether our listeners ask this keeper; nil: they do
	Previous *Keeper                                     // which this one takes the place of, or nil
	HTTP     bool                                        // whether a listener on port 80 asks Answer
	TLS      bool                                        // whether a listener on port 443 asks Certificate
	Zones    func() Zones                                // those in use; nil for none
	Root     func(name string) (*tls.Certificate, error) // makes a certificate by the root that clients trust, if there is one
	Now      func() time.Time                            // default time.Now
	Log      *slog.Logger
}

// A Keeper keeps the certificate of our listeners. Make one with New.
type Keeper struct {
	cfg   Config
	parts Parts
	files files
	began chan struct{} // closed when Run begins
	ended chan struct{} // closed when Run returns

	mu       sync.Mutex
	pair     *tls.Certificate // served; nil on trial
	account  account
	unsaved  error                       // why the files cannot be written
	inFlight map[string]string           // answers to http-01, by path
	inHello  map[string]*tls.Certificate // answers to tls-alpn-01, by name
}

// New returns a keeper with the certificate that the data folder has.
func New(cfg Config, parts Parts) (*Keeper, error) {
	cfg, err := cfg.complete()
	if err != nil {
		return nil, err
	}
	if parts.Now == nil {
		parts.Now = time.Now
	}
	k := &Keeper{cfg: cfg, parts: parts, files: files{parts.Folder}, began: make(chan struct{}), ended: make(chan struct{}),
		inFlight: map[string]string{}, inHello: map[string]*tls.Certificate{}}
	if k.parts.Client, err = clientFor(parts.Client, string(cfg.Root)); err != nil {
		return nil, err
	}
	if parts.Folder == "" {
		return k, nil
	}
	return k, k.open()
}

// open reads the files, and makes a certificate of our own if there is none.
func (k *Keeper) open() error {
	k.account = k.files.account(k.parts.Log)
	if k.account.For != k.cfg.digest() { // what failed was another order
		k.account.failure = failure{}
	}
	if k.pair = k.files.pair(k.parts.Log); k.pair != nil && (!provisional(k.pair.Leaf) || covers(k.pair.Leaf, k.cfg.Names)) {
		return nil
	}
	pair, text, err := selfSigned(k.cfg.Names, k.parts.Now())
	if err != nil {
		return fmt.Errorf("making a certificate until the first one arrives: %w", err)
	}
	k.pair = pair
	k.unsaved = k.files.writePair(text)
	return nil
}

// Certificate returns the certificate for a handshake.
func (k *Keeper) Certificate(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	name := strings.ToLower(strings.TrimSuffix(hello.ServerName, "."))
	if slices.Equal(hello.SupportedProtos, []string{Protocol}) {
		if c := k.inHello[name]; c != nil {
			return c, nil
		}
		return nil, fmt.Errorf("no challenge is open for the name %q", name)
	}
	if k.pair == nil {
		return nil, errors.New("there is no certificate yet")
	}
	if provisional(k.pair.Leaf) && k.parts.Root != nil && k.pair.Leaf.VerifyHostname(name) == nil {
		if c, err := k.parts.Root(name); err == nil && c != nil {
			return c, nil
		}
	}
	return k.pair, nil
}

// challengePath is where an authority asks for answers to http-01.
const challengePath = "/.well-known/acme-challenge/"

// Answer returns the answer to a challenge of the authority at a path, "" if none is open there. The nil
// keeper has none.
func (k *Keeper) Answer(path string) string {
	if k == nil || !strings.HasPrefix(path, challengePath) {
		return ""
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.inFlight[path]
}

// Names returns the names that the certificate is to have.
func (k *Keeper) Names() []string { return k.cfg.Names }

// File is the name of the file with the certificate that is served, in the data folder.
func File(folder string) string { return files{folder}.pairFile() }

const (
	lookEvery = time.Minute      // the clock may be set meanwhile
	orderTime = 10 * time.Minute // longest time of one order
)

// waits are how long an order waits after one that failed. Let's Encrypt permits five failures an hour.
var waits = []time.Duration{time.Minute, 5 * time.Minute, 15 * time.Minute, 30 * time.Minute, time.Hour, 2 * time.Hour, 4 * time.Hour, 8 * time.Hour}

// longestWait bounds what the authority may ask for by Retry-After.
const longestWait = 7 * 24 * time.Hour

// Run orders certificates when they are due, until ctx ends.
func (k *Keeper) Run(ctx context.Context) error {
	close(k.began)
	defer close(k.ended)
	if !k.parts.Previous.over(ctx) || !k.inUse(ctx) {
		return nil
	}
	for {
		if wait := k.wait(k.parts.Now()); wait > 0 {
			timer := time.NewTimer(min(wait, lookEvery))
			select {
			case <-ctx.Done():
				timer.Stop()
				return nil
			case <-timer.C:
			}
			continue
		}
		k.try(ctx)
		if ctx.Err() != nil {
			return nil
		}
	}
}

// over waits until a keeper has ended its order, so that there is one at a time.
func (k *Keeper) over(ctx context.Context) bool {
	if k == nil {
		return true
	}
	select {
	case <-k.began:
	default:
		return true
	}
	select {
	case <-k.ended:
		return true
	case <-ctx.Done():
		return false
	}
}

// inUse waits until our listeners ask this keeper, since they have to answer the challenges.
func (k *Keeper) inUse(ctx context.Context) bool {
	if k.parts.InUse == nil {
		return true
	}
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for !k.parts.InUse(k) {
		select {
		case <-ctx.Done():
			return false
		case <-tick.C:
		}
	}
	return true
}

// wait returns how long it is until the next order.
func (k *Keeper) wait(now time.Time) time.Duration {
	k.mu.Lock()
	defer k.mu.Unlock()
	if f := &k.account.failure; clock.InForce(f.Next, now, longestWait) {
		return f.Next.Sub(now)
	}
	return due(k.pair.Leaf, k.cfg.Names).Sub(now)
}

// due returns when a certificate has to be renewed: after two thirds of its life, and at once if it has
// other names.
func due(leaf *x509.Certificate, names []string) time.Time {
	if provisional(leaf) || !covers(leaf, names) {
		return time.Time{}
	}
	return leaf.NotBefore.Add(leaf.NotAfter.Sub(leaf.NotBefore) * 2 / 3)
}

// covers reports whether a certificate has exactly these names.
func covers(leaf *x509.Certificate, names []string) bool {
	has := slices.Clone(leaf.DNSNames)
	for _, ip := range leaf.IPAddresses {
		has = append(has, ip.String())
	}
	return slices.Equal(slices.Sorted(slices.Values(has)), slices.Sorted(slices.Values(names)))
}

// try makes one order, and notes what came of it.
func (k *Keeper) try(ctx context.Context) {
	order, cancel := context.WithTimeout(ctx, orderTime)
	defer cancel()
	pair, text, err := k.order(order)
	if ctx.Err() != nil {
		return // the gateway ends, which is no failure
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.account.For = k.cfg.digest()
	if err != nil {
		k.fail(err)
		return
	}
	k.account.failure = failure{}
	k.pair = pair
	k.unsaved = errors.Join(k.files.writePair(text), k.files.writeAccount(&k.account))
	k.parts.Log.Info("a certificate arrived", "names", strings.Join(k.cfg.Names, " "), "issuer", issuer(pair.Leaf), "until", pair.Leaf.NotAfter.UTC().Format(time.RFC3339),
		"renew", due(pair.Leaf, k.cfg.Names).UTC().Format(time.RFC3339))
}

// fail notes a failed order. The certificate in use stays in use.
func (k *Keeper) fail(err error) {
	f, now := &k.account.failure, k.parts.Now()
	wait := waits[min(f.Times, len(waits)-1)]
	if life := k.pair.Leaf.NotAfter.Sub(k.pair.Leaf.NotBefore); !provisional(k.pair.Leaf) {
		wait = min(wait, max(life/12, time.Second)) // a certificate of six days is not given up within one
	}
	wait = min(max(wait, retryAfter(err, now)), longestWait)
	*f = failure{Times: f.Times + 1, At: now, Next: now.Add(wait), Why: words(err)}
	k.unsaved = k.files.writeAccount(&k.account)
	k.parts.Log.Warn("a certificate could not be had; the one in use stays", "names", strings.Join(k.cfg.Names, " "), "error", f.Why, "next", f.Next.UTC().Format(time.RFC3339))
}
