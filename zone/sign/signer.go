package sign

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	miekg "github.com/miekg/dns"

	"shuultuur/lib/setting"
	"shuultuur/zone"
)

// Config sets how to sign a zone. Without keys it is not signed.
type Config struct {
	// Keys are files with BIND's names (K*.key, K*.private, or their common part), or folders
	// with the zone's keys.
	Keys []setting.Source `yaml:"keys,omitempty" role:"owner"`
	// Denial says how to deny names and types that do not exist: "nsec" (the default: a chain of
	// names, signed in advance, which reveals all names), "nsec3" (a chain of hashed names, RFC
	// 5155, without salt or extra iterations, following RFC 9276) or "compact" (RFC 9824: one
	// record made for the question and signed on demand).
	Denial string `yaml:"denial,omitempty"`
	// OptOut leaves delegations without DS out of the NSEC3 chain.
	OptOut bool `yaml:"opt-out,omitempty"`
	// ZSKLifetime is how long a zone-signing key signs before its successor is made and replaces
	// it, at least 7 days; 0 means forever. Keys must then be folders. Use [BeginRoll] for keys
	// that sign the others, or everything.
	ZSKLifetime setting.Duration `yaml:"zsk-lifetime,omitempty"`
	// FreshPerSecond bounds the signatures made on demand; default 2000. With off there is no
	// limit.
	FreshPerSecond setting.Count `yaml:"fresh-per-second,omitempty"`
}

// Values of Config.Denial.
const (
	NSEC    = "nsec"
	NSEC3   = "nsec3"
	Compact = "compact"
)

// Enabled reports whether the zone is to be signed.
func (c Config) Enabled() bool { return len(c.Keys) > 0 }

// Validate returns the first mistake in c that shows without the keys.
func (c Config) Validate() error {
	switch c.Denial {
	case "", NSEC, NSEC3, Compact:
	default:
		return setting.At("denial", fmt.Errorf("%q is not one of nsec, nsec3, compact", c.Denial))
	}
	if c.OptOut && c.Denial != NSEC3 {
		return setting.At("opt-out", errors.New("only the chain of denial: nsec3 can leave delegations out"))
	}
	if life := c.ZSKLifetime.Or(0); life != 0 && life < leastLifetime {
		return setting.At("zsk-lifetime", fmt.Errorf("%v is less than %v: others could not forget one key before the next", c.ZSKLifetime, leastLifetime))
	}
	return nil
}

const (
	// early is how far in the past signatures begin to be valid: validators' clocks are wrong by
	// hours, not days (RFC 6781 section 4.4.2).
	early = 3 * time.Hour
	// shortest and spread give a signature's validity: 8 to 14 days, so that not all of a zone
	// is signed again at once.
	shortest = 8 * 24 * time.Hour
	spread   = 6 * 24 * time.Hour
	// reserve is the remaining validity at which a signature is renewed, and for which a
	// secondary can answer without its primary. Signatures with one more day are renewed at the
	// same time.
	reserve = 4 * 24 * time.Hour
	ahead   = 24 * time.Hour

	defaultFresh = 2000
)

// A Signer signs one zone. It is safe for concurrent use, but only one Zone runs at a time.
type Signer struct {
	origin string
	config Config
	keys   atomic.Pointer[[]*Key]

	rolling sync.Mutex
	seen    string    // state of the key files
	look    time.Time // when keys may be due again
	// parentSince is when the awaited DS record was first seen in the parent.
	parentSince time.Time

	signing sync.Mutex
	sigs    map[string]*Signatures // of whole zones, by view
	// restored are the signatures from before a restart, until a view has used them.
	restored map[string]*Signatures
	renewMu  sync.Mutex
	renew    map[string]time.Time // by view, see Renew
	begins   map[string]time.Time // by view: when the last of its signatures begins
	longest  time.Duration        // longest TTL of any record so far
	spreads  time.Duration        // how long a new version of the zone takes to reach all servers

	demand *demand
}

// New reads the keys of zone origin.
func New(origin string, c Config) (*Signer, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	keys, err := loadKeys(origin, c.Keys)
	if err != nil {
		return nil, err
	}
	for _, k := range keys {
		if c.ZSKLifetime.Or(0) > 0 && !slices.ContainsFunc(c.Keys, func(p setting.Source) bool { return filepath.Clean(string(p)) == filepath.Dir(k.file) }) {
			return nil, setting.At("zsk-lifetime", fmt.Errorf("%q is a file: name its folder, so that the next key is found there", k.file))
		}
	}
	s, err := NewWithKeys(origin, c, keys)
	if err != nil {
		return nil, setting.At("keys", err)
	}
	return s, nil
}

// NewWithKeys makes a signer for zone origin with existing keys, such as those of a zone in
// Redis. Config.Keys is ignored.
func NewWithKeys(origin string, c Config, keys []*Key) (*Signer, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	if c.Denial == "" {
		c.Denial = NSEC
	}
	origin = miekg.CanonicalName(origin)
	if len(keys) == 0 {
		return nil, fmt.Errorf("zone %q has no keys: make them with shuultuur zone keygen", origin)
	}
	keys, err := keysOf(origin, keys)
	if err != nil {
		return nil, err
	}
	s := &Signer{origin: origin, config: c, sigs: map[string]*Signatures{}, restored: map[string]*Signatures{}, renew: map[string]time.Time{}, begins: map[string]time.Time{}, demand: newDemand(c)}
	s.keys.Store(&keys)
	if ksk, zsk := s.active(time.Now()); len(ksk) == 0 || len(zsk) == 0 {
		return nil, errNoKey(origin, len(keys))
	}
	return s, nil
}

// Online reports whether the zone has no chain, and records signed on demand deny names
// instead.
func (s *Signer) Online() bool { return s.config.Denial == Compact }

// Has reports whether the signer uses the settings c.
func (s *Signer) Has(c Config) bool {
	if c.Denial == "" {
		c.Denial = NSEC
	}
	return reflect.DeepEqual(s.config, c)
}

// active returns the keys that sign the key sets and those that sign the rest at a time. Where
// an algorithm has only keys of one kind, they do both.
func (s *Signer) active(now time.Time) (ksk, zsk []*Key) { return active(*s.keys.Load(), now) }

func active(keys []*Key, now time.Time) (ksk, zsk []*Key) {
	both := map[uint8][2]int{}
	for _, k := range keys {
		if k.active(now) {
			n := both[k.Algorithm]
			if k.KSK() {
				n[0]++
			} else {
				n[1]++
			}
			both[k.Algorithm] = n
		}
	}
	for _, k := range keys {
		if !k.active(now) {
			continue
		}
		if n := both[k.Algorithm]; k.KSK() || n[0] == 0 {
			ksk = append(ksk, k)
		}
		if n := both[k.Algorithm]; !k.KSK() || n[1] == 0 {
			zsk = append(zsk, k)
		}
	}
	return ksk, zsk
}

// DS returns the records for the parent zone, one for each present or future key-signing key.
func (s *Signer) DS(now time.Time) []*miekg.DS {
	ksk, _ := s.active(now)
	var all []*miekg.DS
	for _, k := range ksk {
		all = append(all, k.DS())
	}
	return all
}

// Renew returns when to call Zone again with the same records of a view, and Whole if it was
// called: before the first signature expires, and when the time of a key comes. It is zero
// before the first time.
func (s *Signer) Renew(view string) time.Time {
	s.renewMu.Lock()
	defer s.renewMu.Unlock()
	at := s.renew[view]
	if whole, ok := s.renew[view+wholeSlot]; ok && whole.Before(at) {
		return whole
	}
	return at
}

// Due is Renew, or now if some signature begins later: the clock was ahead when it was made, and nobody
// believes the zone as long as that is so.
func (s *Signer) Due(view string, now time.Time) time.Time {
	at := s.Renew(view)
	s.renewMu.Lock()
	defer s.renewMu.Unlock()
	if !at.IsZero() && (now.Before(s.begins[view]) || now.Before(s.begins[view+wholeSlot])) {
		return now
	}
	return at
}

// wholeSlot is added to a view to store the signatures of Whole.
const wholeSlot = "\x00whole"

// A set is all records of a name and type.
type set struct {
	rrs  []miekg.RR
	keys []*Key
}

// Zone returns z as it is to be served: with its records, the keys, chain and signatures, and
// with s for signing on demand. Signatures and chains in z are removed; DNSKEY records of
// other servers stay. z is not changed, but the result shares its records. Zone uses all
// processors and stops when ctx ends.
func (s *Signer) Zone(ctx context.Context, z *zone.Zone, now time.Time) (*zone.Zone, error) {
	s.signing.Lock()
	defer s.signing.Unlock()

	records, err := s.records(ctx, z, z.View, s.config.Denial, now)
	if err != nil {
		return nil, err
	}
	return &zone.Zone{
		Origin: z.Origin, View: z.View, Clients: z.Clients, Records: records,
		Choices: z.Choices, Aliases: z.Aliases, Empty: z.Empty, Unknown: z.Unknown, ClimbCAA: z.ClimbCAA, Expires: z.Expires, Resolver: z.Resolver, Signer: s,
	}, nil
}

// AllRecords returns all records needed to serve z elsewhere. If the zone has no chain, because
// denial needs the private key, it adds a chain of NSEC records. Call it after Zone, whose
// signatures it reuses.
func (s *Signer) AllRecords(ctx context.Context, z *zone.Zone, now time.Time) ([]miekg.RR, error) {
	s.signing.Lock()
	defer s.signing.Unlock()
	denial := s.config.Denial
	if s.Online() {
		denial = NSEC
	}
	return s.records(ctx, z, z.View+wholeSlot, denial, now)
}

// records makes the records of a signed zone. slot is where its signatures are kept.
func (s *Signer) records(ctx context.Context, z *zone.Zone, slot, denial string, now time.Time) ([]miekg.RR, error) {
	p, err := s.arrange(z, now)
	if err != nil {
		return nil, fmt.Errorf("sign zone %q: %w", s.origin, err)
	}
	s.note(p)
	switch denial {
	case NSEC:
		p.chainNSEC()
	case NSEC3:
		if err := p.chainNSEC3(s.config.OptOut); err != nil {
			return nil, fmt.Errorf("sign zone %q: %w", s.origin, err)
		}
	}
	had := s.sigs[slot]
	if had == nil {
		had = s.restored[z.View]
	}
	sigs, kept, renew, err := s.signAll(ctx, p.sets, slot, now, had, s.sigs[z.View])
	if err != nil {
		return nil, fmt.Errorf("sign zone %q: %w", s.origin, err)
	}
	if s.sigs[slot] != nil || !s.Online() {
		delete(s.restored, z.View) // Whole may still come after a first Zone
	}
	s.sigs[slot] = kept
	s.renewMu.Lock()
	s.renew[slot] = s.keyTimes(now, renew).Truncate(time.Second)
	s.begins[slot] = now.Add(-early)
	s.renewMu.Unlock()

	records := make([]miekg.RR, 0, len(p.unsigned)+2*len(p.sets))
	records = append(records, p.unsigned...)
	for i, set := range p.sets {
		records = append(records, set.rrs...)
		for _, sig := range sigs[i] {
			records = append(records, sig)
		}
	}
	return records, nil
}

// Fingerprint changes when a zone would be signed differently: with other keys, or with
// another chain. New signatures alone do not change it.
func (s *Signer) Fingerprint(now time.Time) uint64 {
	h := sha256.New()
	fmt.Fprintln(h, s.config.Denial, s.config.OptOut)
	for _, k := range *s.keys.Load() {
		fmt.Fprintln(h, k.Flags, k.Algorithm, k.PublicKey, k.published(now), k.active(now), k.synced(now))
	}
	return binary.BigEndian.Uint64(h.Sum(nil))
}

// keyTimes returns the earlier of at and the next time of a key.
func (s *Signer) keyTimes(now, at time.Time) time.Time {
	for _, k := range *s.keys.Load() {
		for _, t := range []time.Time{k.publish, k.activate, k.inactive, k.remove, k.syncPublish, k.syncDelete} {
			if t.After(now) && t.Before(at) {
				at = t
			}
		}
	}
	return at
}

// signAll signs sets. It reuses earlier signatures, also of another use of the zone, that are
// valid for long enough. If it needs no others, kept is the previous slice.
func (s *Signer) signAll(ctx context.Context, sets []set, slot string, now time.Time, had, other *Signatures) (sigs [][]*miekg.RRSIG, kept *Signatures, renew time.Time, err error) {
	sigs = make([][]*miekg.RRSIG, len(sets))
	until := now.Add(reserve)
	if at := s.Renew(slot); !at.IsZero() && !now.Before(at) {
		until = until.Add(ahead) // renew more at once, to make the round worthwhile
	}

	const chunk = 64 // sets that a worker takes at once
	var (
		next   atomic.Int64
		mu     sync.Mutex
		failed error
		fresh  bool
		all    [][]outcome // of each worker
		count  int
		wg     sync.WaitGroup
	)
	latest := now.Add(shortest + spread)
	renew = latest
	for range runtime.GOMAXPROCS(0) {
		wg.Go(func() {
			mine := make([]outcome, 0, len(sets)/runtime.GOMAXPROCS(0)+chunk)
			var buf []byte
			first := latest
			var err error
			for err == nil {
				from := int(next.Add(chunk)) - chunk
				if from >= len(sets) {
					break
				}
				if err = ctx.Err(); err != nil {
					break
				}
				for i := from; i < min(from+chunk, len(sets)) && err == nil; i++ {
					sigs[i], mine, err = s.signSet(sets[i], now, until, had, other, mine, &buf)
					for _, sig := range sigs[i] {
						if at := time.Unix(int64(sig.Expiration), 0).Add(-reserve); at.Before(first) {
							first = at
						}
					}
				}
			}
			mu.Lock()
			defer mu.Unlock()
			all, count = append(all, mine), count+len(mine)
			fresh = fresh || slices.ContainsFunc(mine, func(m outcome) bool { return m.fresh })
			if first.Before(renew) {
				renew = first
			}
			if err != nil && failed == nil {
				failed = err
			}
		})
	}
	wg.Wait()
	if had != nil && !fresh && count == len(had.signatures) {
		return sigs, had, renew, failed
	}
	kept = &Signatures{signatures: make(map[digest]signature, count)}
	for _, mine := range all {
		for _, m := range mine {
			kept.signatures[m.digest] = m.signature
		}
	}
	return sigs, kept, renew, failed
}

// An outcome is a signature found or made.
type outcome struct {
	digest
	signature
	fresh bool
}

// signSet signs one set with each of its keys. It reuses signatures in had or other that are
// valid from now until after until, and appends all to all.
func (s *Signer) signSet(set set, now, until time.Time, had, other *Signatures, all []outcome, buf *[]byte) ([]*miekg.RRSIG, []outcome, error) {
	wire, err := canonical(set.rrs, buf)
	if err != nil {
		return nil, nil, err
	}
	sigs := make([]*miekg.RRSIG, 0, len(set.keys))
	for _, k := range set.keys {
		d := k.digest(wire)
		rrsig := k.blank(set.rrs[0], now)
		sig, ok := had.find(d, now, until)
		if !ok {
			sig, ok = other.find(d, now, until)
		}
		if !ok {
			data, err := k.signature(rrsig, wire)
			if err != nil {
				return nil, nil, err
			}
			sig = signature{string(data), rrsig.Inception, rrsig.Expiration}
		}
		rrsig.Inception, rrsig.Expiration = sig.inception, sig.expiration
		rrsig.Signature = base64.StdEncoding.EncodeToString([]byte(sig.data))
		all = append(all, outcome{d, sig, !ok})
		sigs = append(sigs, rrsig)
	}
	return sigs, all, nil
}

// blank returns the RRSIG of rr's set, valid from now on, without the signature.
func (k *Key) blank(rr miekg.RR, now time.Time) *miekg.RRSIG {
	h := rr.Header()
	labels := miekg.CountLabel(h.Name)
	if strings.HasPrefix(h.Name, "*.") {
		labels--
	}
	inception, expiration := life(now)
	return &miekg.RRSIG{
		Hdr:         miekg.RR_Header{Name: h.Name, Rrtype: miekg.TypeRRSIG, Class: h.Class, Ttl: h.Ttl},
		TypeCovered: h.Rrtype, Algorithm: k.Algorithm, Labels: uint8(labels), OrigTtl: h.Ttl,
		Inception: inception, Expiration: expiration,
		KeyTag: k.Tag, SignerName: k.Hdr.Name,
	}
}

// life returns a signature's times: from three hours ago to 8 to 14 days ahead.
func life(now time.Time) (inception, expiration uint32) {
	return uint32(now.Add(-early).Unix()), uint32(now.Add(shortest + rand.N(spread)).Unix())
}
