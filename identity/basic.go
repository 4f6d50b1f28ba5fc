package identity

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"hash"
	"net/netip"
	"runtime"
	"slices"
	"sync"
	"time"

	"shuultuur/filter"
	"shuultuur/identity/directory"
	"shuultuur/lib/fair"
	"shuultuur/lib/setting"
	"shuultuur/lib/tries"
	"shuultuur/lib/wait"
)

const (
	verifiedFor = 10 * time.Minute // how long a right password is not computed again
	refusedFor  = time.Minute      // the same for a wrong one
	maxKnown    = 40_000           // entries of each of the two tables below
	maxFailures = 10               // wrong passwords from one client address …
	failuresIn  = time.Minute      // … in this time, after which it must wait
	maxWaiting  = 64               // logins that wait to be verified
	maxAsking   = 32               // concurrent questions to a directory
	outage      = 24 * time.Hour   // how long answers of a directory are used while it is unreachable …
	again       = time.Minute      // … and how soon it is asked again
	maxSecret   = 1024             // bytes of name and password, with the colon
	lastAnswers = 5 * time.Second  // how long answers of a directory are awaited at the end
)

// A Wait asks the client to come back later: after too many wrong passwords
// (429), or because too many logins are being verified or no directory answers
// (503).
type Wait struct {
	Status int
	For    time.Duration // for Retry-After
	Err    error         // the error of the directory, or nil
	open   openHosts     // hosts that are reachable all the same
}

// unanswered returns the Wait for a directory that failed with err.
func unanswered(err error) *Wait { return &Wait{Status: 503, For: 5 * time.Second, Err: err} }

// OpenHost reports whether a host is reachable without a sign-in.
func (w *Wait) OpenHost(host string) bool { return w.open.has(host) }

func (w *Wait) Unwrap() error { return w.Err }

// RetryAfter returns the status of the answer and the value for Retry-After.
func (w *Wait) RetryAfter() (status int, after time.Duration) { return w.Status, w.For }

func (w *Wait) Error() string {
	switch {
	case w.Err != nil:
		return w.Err.Error()
	case w.Status == 429:
		return fmt.Sprintf("too many wrong passwords; wait %v", w.For.Round(time.Second))
	}
	return "too many passwords are being verified; try again soon"
}

// basic verifies names and passwords. Verification is slow on purpose. So no
// more goroutines verify than there are processors, and results are kept under
// an HMAC of name and password whose key never leaves the process.
type basic struct {
	realm    string
	spelling speller
	accounts map[string]*account
	source   directory.Source // for names that are not in the file; nil if there is none
	origin   string           // the name of the source in [filter.Client.Source]
	nobody   passwordHash     // compared for names that are not in the file, so that they take as long as others

	turns *fair.Semaphore // of verifications, by client

	key    []byte // of the HMACs; never leaves the process
	digest string // of the settings that the source's answers depend on
	reach  reach
	macs   sync.Pool
	asking wait.Group // questions to the directory that a request does not wait for to the end

	wrong *tries.Limit[netip.Addr] // passwords, by client; outlives a reload

	mu    sync.Mutex
	known map[[sha256.Size]byte]outcome
}

// An outcome is the result of a verification.
type outcome struct {
	account *account // nil: the password is wrong
	why     string   // the reason of the refusal, if the directory gave one
	proven  bool     // the password was right
	until   time.Time
	asked   time.Time // when it was verified
}

var colon = []byte(":")

// secret is storage for one Proxy-Authorization field.
type secret struct {
	buf [maxSecret + 2]byte
	mac hash.Hash
	sum [sha256.Size]byte
}

func newBasic(cfg *Basic, old *Identity) (*basic, error) {
	source, origin, err := cfg.source()
	if err != nil {
		return nil, err
	}
	turns := runtime.GOMAXPROCS(0)
	if source != nil {
		turns = maxAsking // directories take waiting time, not computing time
	}
	accounts := map[string]*account{}
	if cfg.File != "" {
		if accounts, err = readFile(string(cfg.File)); err != nil {
			return nil, setting.At("file", err)
		}
	} else if source == nil {
		return nil, setting.At("file", errors.New("the password file is not named, nor ldap or radius"))
	}
	key := make([]byte, 32)
	rand.Read(key) // never fails
	b := &basic{
		realm:    cfg.Realm,
		accounts: accounts,
		source:   source,
		origin:   origin,
		turns:    fair.New(int64(turns), maxWaiting),
		key:      key,
		known:    map[[sha256.Size]byte]outcome{},
		wrong:    &tries.Limit[netip.Addr]{Most: maxFailures, Within: failuresIn, Remember: maxKnown},
	}
	switch {
	case cfg.LDAP != nil:
		b.digest = setting.Digest([]any{cfg.LDAP.Servers, cfg.LDAP.Base, cfg.LDAP.User, cfg.LDAP.ActiveDirectory, cfg.LDAP.Bind})
	case cfg.RADIUS != nil:
		b.digest = setting.Digest(cfg.RADIUS.Servers)
	}
	if old != nil && old.basic != nil {
		b.adopt(old.basic)
	}
	b.macs.New = func() any { return &secret{mac: hmac.New(sha256.New, b.key)} }
	if b.realm == "" {
		b.realm = "Shuultuur"
	}
	for i := range len(b.realm) {
		if b.realm[i] < ' ' || b.realm[i] == 0x7f {
			return nil, setting.At("realm", fmt.Errorf("%q has control characters", b.realm))
		}
	}
	most := uint64(0)
	for _, a := range accounts {
		if c := a.hash.cost(); c > most {
			b.nobody, most = a.hash, c
		}
	}
	return b, nil
}

// source returns the verifier of names that are not in the file, and its name.
func (cfg *Basic) source() (directory.Source, string, error) {
	switch {
	case cfg.LDAP != nil && cfg.RADIUS != nil:
		return nil, "", setting.At("radius", errors.New("ldap is named too; choose one of them"))
	case cfg.LDAP != nil:
		s, err := directory.NewLDAP(*cfg.LDAP)
		return s, "ldap", setting.At("ldap", err)
	case cfg.RADIUS != nil:
		s, err := directory.NewRADIUS(*cfg.RADIUS)
		return s, "radius", setting.At("radius", err)
	}
	return nil, "", nil
}

// verify returns the account of the user who sent the field.
func (b *basic) verify(ctx context.Context, addr netip.Addr, field []byte) (*account, error) {
	s := b.macs.Get().(*secret)
	defer func() {
		clear(s.buf[:])
		b.macs.Put(s)
	}()
	name, password, ok := credentials(s.buf[:], field)
	if !ok {
		return nil, &Challenge{Realm: b.realm}
	}
	// The first colon separates name and password; it is part of the MAC.
	s.mac.Reset()
	s.mac.Write(name)
	s.mac.Write(colon)
	s.mac.Write(password)
	key := [sha256.Size]byte(s.mac.Sum(s.sum[:0]))

	o, ok := b.recall(key)
	if !ok {
		var err error
		if o, err = b.compare(ctx, addr, key, name, password); err != nil {
			return nil, err
		}
	}
	if o.account == nil {
		return nil, &Challenge{Realm: b.realm, Refused: string(name), Why: o.why, Proven: o.proven}
	}
	return o.account, nil
}

// compare verifies a password when a turn is free. It counts as wrong from the beginning, so that
// many at once are no more guesses than one after the other.
func (b *basic) compare(ctx context.Context, addr netip.Addr, key [sha256.Size]byte, name, password []byte) (o outcome, err error) {
	who := network(addr)
	guess, err := b.wrong.Begin(ctx, who)
	if errors.Is(err, tries.ErrTooMany) {
		return outcome{}, &Wait{Status: 429, For: b.wrong.Left(who)}
	}
	if err != nil {
		return outcome{}, fmt.Errorf("wait to verify a password: %w", err)
	}
	known := false
	defer func() { guess.End(err == nil && o.account == nil && !o.proven && !known) }()
	if o, known = b.recall(key); known { // meanwhile another goroutine may have verified the same
		return o, nil
	}
	if granted, _ := b.turns.Acquire(ctx, who, 1, fair.Forever); !granted {
		if err := ctx.Err(); err != nil {
			return outcome{}, fmt.Errorf("wait to verify a password: %w", err)
		}
		return outcome{}, &Wait{Status: 503, For: time.Second}
	}
	defer b.turns.Release(1)

	if o, known = b.recall(key); known {
		return o, nil
	}
	a := b.accounts[string(name)]
	if a == nil {
		a = b.accounts[b.spelling.plain(string(name))]
	}
	if a == nil && b.source != nil {
		return b.ask(ctx, key, string(name), string(password))
	}
	if a == nil {
		b.nobody.matches(password)
	} else if !a.hash.matches(password) {
		a = nil
	}
	return b.remember(key, a, directory.Refusal{}), nil
}

// ask lets the directory verify a password. While the directory is slow or
// unreachable, its earlier answer is used.
func (b *basic) ask(ctx context.Context, key [sha256.Size]byte, name, password string) (outcome, error) {
	b.mu.Lock()
	was, known := b.known[key]
	b.mu.Unlock()
	if !known || was.account == nil || time.Since(was.asked) > outage {
		return b.question(ctx, key, name, password)
	}
	type result struct {
		outcome
		err error
	}
	answered := make(chan result, 1)
	b.asking.Go(func(ctx context.Context) {
		o, err := b.question(ctx, key, name, password)
		answered <- result{o, err}
	})
	patience := time.NewTimer(atMost)
	defer patience.Stop()
	select {
	case r := <-answered:
		if r.err == nil {
			return r.outcome, nil
		}
	case <-patience.C:
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if o, ok := b.known[key]; ok && o.asked.After(was.asked) {
		return o, nil // a fresh answer
	}
	was.until = time.Now().Add(again)
	b.known[key] = was
	return was, nil
}

// question sends the question to the directory.
func (b *basic) question(ctx context.Context, key [sha256.Size]byte, name, password string) (outcome, error) {
	user, groups, err := b.source.Verify(ctx, name, password)
	if p, ok := errors.AsType[*directory.PersonError](err); ok {
		err = &directory.Refusal{Why: p.Error(), Proven: p.Proven}
	}
	if errors.Is(err, directory.ErrRefused) {
		b.reach.note(nil)
	} else if ctx.Err() == nil {
		b.reach.note(err)
	}
	switch {
	case err == nil:
		slices.Sort(groups)
		return b.remember(key, &account{name: user, groups: slices.Compact(groups)}, directory.Refusal{}), nil
	case errors.Is(err, directory.ErrRefused):
		var r directory.Refusal
		if is, ok := errors.AsType[*directory.Refusal](err); ok {
			r = *is
		}
		return b.remember(key, nil, r), nil
	}
	return outcome{}, unanswered(fmt.Errorf("verify the password of %q: %w", name, err))
}

// network returns the prefix that failures are counted by: an IPv6 client can
// choose among the addresses of a /64.
func network(addr netip.Addr) netip.Addr {
	if addr.Is6() {
		if p, err := addr.WithZone("").Prefix(64); err == nil {
			return p.Addr()
		}
	}
	return addr
}

func (b *basic) recall(key [sha256.Size]byte) (outcome, bool) {
	b.mu.Lock()
	o, ok := b.known[key]
	b.mu.Unlock()
	return o, ok && time.Now().Before(o.until)
}

// remember stores the result of a verification; no says why the password is refused.
func (b *basic) remember(key [sha256.Size]byte, a *account, no directory.Refusal) outcome {
	now := time.Now()
	o := outcome{a, no.Why, no.Proven, now.Add(verifiedFor), now}
	b.mu.Lock()
	defer b.mu.Unlock()
	if a == nil {
		o.until = now.Add(refusedFor)
	}
	makeRoom(b.known, func(o outcome) bool {
		return now.After(o.until) && (b.source == nil || o.account == nil || now.After(o.asked.Add(outage)))
	}, func(o outcome) bool { return o.account == nil }) // while the directory is away, users may be all that the table has
	b.known[key] = o
	return o
}

// makeRoom keeps a table below its limit. If it is full, makeRoom first removes
// entries that meet the conditions, one condition after the other; if that is not
// enough, it removes a tenth of all entries.
func makeRoom[K comparable, V any](m map[K]V, over ...func(V) bool) {
	for _, goes := range over {
		if len(m) < maxKnown {
			return
		}
		for k, v := range m {
			if goes(v) {
				delete(m, k)
			}
		}
	}
	if len(m) < maxKnown {
		return
	}
	for k := range m {
		if len(m) <= maxKnown*9/10 {
			return
		}
		delete(m, k)
	}
}

// Verify returns the client with this name and password, as Identify does for
// those in a field. Without an address, wrong passwords are counted by name.
func (id *Identity) Verify(ctx context.Context, addr netip.Addr, name, password string) (filter.Client, error) {
	if id.basic == nil {
		return filter.Client{Addr: addr}, errors.New("the settings have nothing to verify passwords with: name a file or a directory under identity: basic")
	}
	counted := addr.Unmap()
	if !counted.IsValid() {
		sum := sha256.Sum256([]byte(name))
		sum[0] = 0xfd // a private address that no client has (RFC 4193)
		counted = netip.AddrFrom16([16]byte(sum[:16]))
	}
	field := append([]byte("Basic "), base64.StdEncoding.EncodeToString([]byte(name+":"+password))...)
	user, err := id.basic.verify(ctx, counted, field)
	if err != nil {
		return filter.Client{Addr: addr}, err
	}
	c := id.NamedClient(addr, user.name, user.groups, "basic")
	if user.hash == nil {
		c.Source = id.basic.origin
	}
	return c, nil
}
