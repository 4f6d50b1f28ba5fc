//go:build !small

// Package virus is the check that scans bodies for viruses with clamd, and recognises bodies
// by their hash.
//
// [Check.Find] first computes the SHA-256 of a complete download or upload in memory. A hash
// in one of the lists is a finding without a scan. A remembered verdict for the hash is used
// again. Otherwise the bytes go to the first clamd that answers (clamd.go), on a kept
// connection, and the verdict is remembered. A body that is still arriving is forwarded to
// clamd as it arrives (stream.go); its last piece waits for the verdict.
//
// A body that could not be scanned is an error, which the policy turns into the finding
// virus-error: rules decide whether it passes.
package virus

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"shuultuur/check/build"
	"shuultuur/content"
	"shuultuur/filter"
	"shuultuur/lib/metric"
	"shuultuur/lib/setting"
)

const (
	maxLists = 1 << 22 // hashes in all lists
)

// A Check reports the category virus. It is safe for concurrent use.
type Check struct {
	scanners []*scanner
	hashes   map[[sha256.Size]byte]string
	skip     []string
	remember time.Duration
	largest  int64        // 0 for no limit
	memory   build.Memory // nil: nothing is remembered
	counters [counted]atomic.Int64

	ctx    context.Context // of probes
	stop   context.CancelFunc
	probes sync.WaitGroup
	mu     sync.Mutex // guards starting and ending probes
}

// Counters of a Check.
const (
	scanned = iota
	found
	listed
	remembered
	failed
	unscanned
	counted
)

var descs = [counted]*metric.Desc{
	scanned:    desc("scanned_total", "Bodies that a scanner has scanned."),
	found:      desc("found_total", "Bodies in which a scanner found something."),
	listed:     desc("listed_total", "Bodies whose hash is on a list."),
	remembered: desc("remembered_total", "Bodies whose verdict was remembered."),
	unscanned:  desc("unread_total", "Bodies that were not scanned, or only in part."),
	failed:     desc("failed_total", "Bodies that no scanner could scan."),
}

func desc(name, help string) *metric.Desc {
	return metric.NewDesc("shuultuur_virus_"+name, help)
}

// Build implements [build.Setting].
func (c *Config) Build(p build.Parts) (filter.Check, error) { return New(*c, p.Memory) }

// New makes the check. memory may be nil.
func New(cfg Config, memory build.Memory) (*Check, error) {
	c := &Check{skip: cfg.Skip.Or("image/*", "audio/*", "video/*"), remember: cfg.Remember.Or(time.Hour), largest: cfg.Largest.Or(64 << 20), memory: memory, hashes: map[[sha256.Size]byte]string{}}
	c.ctx, c.stop = context.WithCancel(context.Background())
	timeout := cfg.Timeout.Or(30 * time.Second)
	switch {
	case timeout == 0:
		return nil, setting.At("timeout", errors.New("off: a scanner that hangs would hold its connections forever"))
	case cfg.Connections.Off():
		return nil, setting.At("connections", errors.New("off: no scanner could be asked"))
	}
	for i, at := range cfg.Clamd {
		s, err := newScanner(at, timeout, cfg.Connections.Or(32), cfg.Sessions.Or(8))
		if err != nil {
			return nil, setting.At(fmt.Sprintf("clamd[%d]", i), err)
		}
		c.scanners = append(c.scanners, s)
	}
	for i, f := range cfg.Hashes {
		if err := c.read(string(f)); err != nil {
			return nil, setting.At(fmt.Sprintf("hashes[%d]", i), err)
		}
	}
	if len(c.scanners) == 0 && len(cfg.Hashes) == 0 {
		return nil, errors.New("there is nothing to look for: name clamd or hashes")
	}
	for i, t := range c.skip {
		if _, err := path.Match(t, ""); err != nil || !strings.Contains(t, "/") {
			return nil, setting.At(fmt.Sprintf("skip[%d]", i), fmt.Errorf(`%q is not a media type; write it like "image/png" or "image/*"`, t))
		}
	}
	return c, nil
}

// read reads a list of hashes.
func (c *Check) read(file string) error {
	f, err := os.Open(file)
	if err != nil {
		return err
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	for n := 1; lines.Scan(); n++ {
		line := strings.TrimSpace(lines.Text())
		if line == "" || line[0] == '#' {
			continue
		}
		text, what, _ := strings.Cut(line, " ")
		b, err := hex.DecodeString(text)
		if err != nil || len(b) != sha256.Size {
			return fmt.Errorf("%s:%d: %.80q is not a SHA-256: write 64 hexadecimal digits", file, n, text)
		}
		if len(c.hashes) >= maxLists {
			return fmt.Errorf("%s:%d: more than %d hashes", file, n, maxLists)
		}
		c.hashes[[sha256.Size]byte(b)] = strings.TrimSpace(fmt.Sprintf("%s (%s:%d)", strings.TrimLeft(what, " *"), file, n))
	}
	return lines.Err()
}

// Lifetime implements [filter.Changing]: clamd learns new signatures.
func (c *Check) Lifetime() (time.Duration, bool) { return c.remember, len(c.scanners) > 0 }

// Name implements [filter.Check].
func (c *Check) Name() string { return "virus" }

// Cost implements [filter.Check].
func (c *Check) Cost() filter.Cost { return filter.Heavy }

// Categories implements [filter.Check].
func (c *Check) Categories() []filter.Category {
	return []filter.Category{{Name: "virus"}, {Name: filter.Unread}}
}

// Wants implements [filter.Check]: bodies in both directions. Those of skipped types are wanted for
// their first bytes, which say whether they are what they are called.
func (c *Check) Wants(t *filter.Transaction, s filter.Stage) bool {
	return s == filter.RequestBody || s == filter.ResponseBody
}

// Find implements [filter.Check].
func (c *Check) Find(ctx context.Context, t *filter.Transaction, s filter.Stage, dst []filter.Finding) ([]filter.Finding, error) {
	b := t.Body
	if s == filter.RequestBody {
		b = t.Upload
	}
	if b == nil || s != filter.RequestBody && s != filter.ResponseBody {
		return dst, nil
	}
	if b.Len() == 0 {
		return dst, nil
	}
	skipped := s == filter.ResponseBody && b.Is(c.skip)
	if skipped && len(c.hashes) == 0 && !content.HasTaker(b, c) {
		return dst, nil
	}
	name, over, err := c.verdict(ctx, t.Client.Addr, b, skipped)
	if !over {
		b.Wait.AwaitEnd()
		if why := b.Wait.Unkept(); why != content.AllRead {
			err = &unreadError{fmt.Errorf("%s to be held until its end", why)}
		}
	}
	if _, unread := errors.AsType[*unreadError](err); unread {
		f := filter.Finding{Check: "virus", Category: filter.Unread, Evidence: err.Error()}
		if !over && !slices.Contains(dst, f) {
			c.count(err)
		}
		return append(dst, f), nil
	}
	switch {
	case name == "":
	case isUnread(name):
		dst = append(dst, filter.Finding{Check: "virus", Category: filter.Unread, Evidence: "not scanned: clamd says " + name})
	default:
		dst = append(dst, filter.Finding{Check: "virus", Category: "virus", Evidence: name})
	}
	return dst, err
}

// isUnread reports whether clamd names, in place of a virus, why it did not look into a file (with
// AlertExceedsMax and AlertEncrypted in clamd.conf).
func isUnread(name string) bool {
	return strings.HasPrefix(name, "Heuristics.Limits.Exceeded") || strings.HasPrefix(name, "Heuristics.Encrypted")
}

// verdict returns the virus in a body, "" for none; over is false while more of it must arrive. A
// body whose scanner fails while it arrives is scanned again when it is complete, if the server
// keeps it.
func (c *Check) verdict(ctx context.Context, who netip.Addr, b *content.Body, skipped bool) (name string, over bool, err error) {
	if !b.Available() || content.HasTaker(b, c) {
		s, err := c.stream(ctx, who, b, skipped)
		failed := s != nil && s.failed()
		switch {
		case s == nil: // the body was forgotten
			c.count(err)
			return "", true, err
		case failed && b.Wait.Kept() && !b.Complete():
			return "", false, nil
		case failed && b.Available():
		default:
			if s.over && !s.counted {
				s.counted = true
				c.count(s.err)
			}
			return s.name, s.over, s.err
		}
	}
	name, err = c.scanHeld(ctx, who, b, skipped)
	c.count(err)
	return name, true, err
}

// An unreadError says why a body was not scanned completely.
type unreadError struct{ why error }

func (e *unreadError) Error() string { return "not scanned: " + e.why.Error() }

// tooLong returns an error for a body that will certainly be larger than a scanner takes and is on
// no list.
func (c *Check) tooLong(b *content.Body) error {
	if len(c.hashes) > 0 || len(c.scanners) == 0 || b.Head().Coded() {
		return nil
	}
	_, expected, _ := b.Inspected()
	return c.tooLarge(expected)
}

// tooLarge returns an error for a body larger than the limit.
func (c *Check) tooLarge(n int64) error {
	if c.largest == 0 || n <= c.largest {
		return nil
	}
	return &unreadError{fmt.Errorf("more than %d bytes (checks.virus.largest)", c.largest)}
}

var errTooLarge = &unreadError{errors.New("too large to be decoded (proxy.inspected)")}

// count counts a body that was not scanned.
func (c *Check) count(err error) {
	if err == nil {
		return
	}
	if _, unread := errors.AsType[*unreadError](err); unread {
		c.counters[unscanned].Add(1)
		return
	}
	c.counters[failed].Add(1)
}

// scanHeld returns the virus in a complete body, "" for none.
func (c *Check) scanHeld(ctx context.Context, who netip.Addr, b *content.Body, skipped bool) (string, error) {
	hash := sha256.New()
	n := int64(0)
	for p, err := range b.Blocks() {
		if err != nil {
			return "", &unreadError{err}
		}
		n += int64(len(p))
		_, _ = hash.Write(p)
	}
	if b.Unread() == content.TooLarge {
		return "", errTooLarge
	}
	sum := [sha256.Size]byte(hash.Sum(nil))
	name, ok := c.knownHash(ctx, sum)
	if name != "" || skipped {
		return name, nil
	}
	if !ok && len(c.scanners) > 0 {
		err := c.tooLarge(n)
		if err == nil {
			name, err = c.scan(ctx, func(s *scanner) (string, error) {
				ctx, cancel := context.WithTimeout(ctx, s.timeout)
				defer cancel()
				if err := s.take(ctx, who); err != nil {
					return "", err
				}
				defer s.gate.Give(who)
				return s.scan(ctx, b)
			})
		}
		if err != nil {
			return "", err
		}
		c.learn(ctx, sum, name)
	}
	if f := c.newFiles(ctx, who, b); f != nil && name == "" {
		defer f.close()
		for p, err := range b.Blocks() {
			if err != nil {
				return "", &unreadError{err}
			}
			if f.parts.Write(p); f.name != "" {
				break
			}
		}
		return f.end()
	}
	return name, nil
}

// knownHash returns the entry for a hash in the lists or in memory.
func (c *Check) knownHash(ctx context.Context, sum [sha256.Size]byte) (name string, ok bool) {
	if what, ok := c.hashes[sum]; ok {
		c.counters[listed].Add(1)
		return "hash " + hex.EncodeToString(sum[:8]) + "… is on a list: " + what, true
	}
	if c.memory == nil || c.remember == 0 || len(c.scanners) == 0 {
		return "", false
	}
	v, ok := c.memory.Get(ctx, memoryKey(sum))
	if ok {
		c.counters[remembered].Add(1)
	}
	return string(v), ok
}

// learn counts and remembers the verdict of a scanner.
func (c *Check) learn(ctx context.Context, sum [sha256.Size]byte, name string) {
	c.counters[scanned].Add(1)
	if name != "" {
		c.counters[found].Add(1)
	}
	if c.memory != nil && c.remember > 0 {
		c.memory.Put(ctx, memoryKey(sum), []byte(name), c.remember)
	}
}

func memoryKey(sum [sha256.Size]byte) [16]byte {
	whole := sha256.Sum256(append([]byte("virus"), sum[:]...))
	return [16]byte(whole[:16])
}

// scan calls ask for one scanner after another, except those that do not answer. What one of them
// says of the body counts; what it says of itself does not.
func (c *Check) scan(ctx context.Context, ask func(*scanner) (string, error)) (name string, err error) {
	for _, s := range c.order() {
		if away := s.errAway(); away != nil {
			err = errors.Join(err, away)
			continue
		}
		late := time.AfterFunc(slow, func() { c.watch(s, nil) })
		name, failure := ask(s)
		late.Stop()
		if failure == nil {
			return name, nil
		}
		answer, answered := errors.AsType[*answerError](failure)
		_, unread := errors.AsType[*unreadError](failure)
		switch {
		case unread || ctx.Err() != nil:
			return "", failure // the other scanners would answer the same
		case errors.As(failure, new(*noPlaceError)):
		case !answered:
			c.watch(s, failure)
		case answer.sick():
			s.noteSick(answer)
		}
		err = errors.Join(err, failure)
	}
	return "", err
}

// Close ends probes and closes kept connections.
func (c *Check) Close() {
	c.mu.Lock()
	c.stop()
	c.mu.Unlock()
	c.probes.Wait()
	for _, s := range c.scanners {
		s.close()
	}
}

// Collect implements [metric.Collector].
func (c *Check) Collect(ch chan<- metric.Metric) {
	for n := range c.counters {
		ch <- metric.New(descs[n], metric.Count, float64(c.counters[n].Load()))
	}
}
