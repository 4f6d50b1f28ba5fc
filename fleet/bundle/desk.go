package bundle

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"filippo.io/age"

	"shuultuur/lib/atomicfile"
)

// Shares are the parts of the nodes that take a bundle, one after the other.
var Shares = []float64{0.01, 0.05, 0.25, 1}

// A Desk offers bundles to a fleet. Make one with [NewDesk].
type Desk struct {
	cfg     *offers
	dir     string // of what it remembers
	reports func() []Report
	tell    func(serial uint64) // that a bundle is offered
	log     *slog.Logger

	mu   sync.Mutex
	kept desk
}

// desk is what a desk remembers.
type desk struct {
	Offered Manifest  `json:"offered"` // its serial number is 0 if nothing was offered yet
	Began   time.Time `json:"began"`   // when its share began
	Good    *Manifest `json:"good"`    // the last bundle that all nodes were to take before
	Stopped string    `json:"stopped"` // why the bundle before was taken back, "" if it was not
	Waits   string    `json:"-"`       // for what the next share waits
	Placed  bool      `json:"-"`       // the place has what is offered
}

// Status is what a desk offers, and how that goes.
type Status struct {
	Offered Manifest
	Began   time.Time
	Stopped string // why the bundle before was taken back
	Waits   string // for what the next share waits
	CanBack bool   // there is a bundle from before
}

// deskName is the file in which a desk remembers, and OfferDir the folder that a desk offers unless its
// settings name another place.
const (
	deskName = "desk.json"
	OfferDir = "offer"
)

// NewDesk makes the desk of the settings c, which keeps what it remembers in dir. reports returns the
// latest report of each node; tell tells the nodes that a bundle is offered.
func NewDesk(c *Config, dir Dir, reports func() []Report, tell func(serial uint64), log *slog.Logger) (*Desk, error) {
	o, err := c.Desk.open(filepath.Join(string(dir), OfferDir))
	if err != nil {
		return nil, err
	}
	d := &Desk{cfg: o, dir: string(dir), reports: reports, tell: tell, log: log}
	b, err := os.ReadFile(filepath.Join(d.dir, deskName))
	if err == nil {
		err = json.Unmarshal(b, &d.kept)
	} else if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	if err != nil {
		// Serial numbers begin at the time, so that they rise even so.
		log.Error("what the desk offered is not known", "error", err)
		d.kept = desk{}
		err = atomicfile.SetAside(filepath.Join(d.dir, deskName))
	}
	return d, err
}

// A Content is what a bundle is made of.
type Content struct {
	Version, Reason string
	Keys            []string
	Files           map[string][]byte // by names relative to the folder of the settings; one is [SettingsName]
}

// Seals reports whether only some can read what the desk offers.
func (d *Desk) Seals() bool { return len(d.cfg.recipients) > 0 }

// Carries returns the keys of the settings that bundles have.
func (d *Desk) Carries() []string { return d.cfg.carries }

// Status returns what the desk offers.
func (d *Desk) Status() Status {
	d.mu.Lock()
	defer d.mu.Unlock()
	return Status{Offered: d.kept.Offered, Began: d.kept.Began, Stopped: d.kept.Stopped, Waits: d.kept.Waits, CanBack: d.kept.Good != nil}
}

// Publish offers a bundle to the first share of the nodes, or to all of them.
func (d *Desk) Publish(ctx context.Context, c Content, all bool, now time.Time) (Manifest, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	m := Manifest{Version: c.Version, Reason: c.Reason, Keys: c.Keys, Share: 1}
	known := map[string]File{}
	for _, f := range d.kept.Offered.Files {
		known[f.Sum] = f
	}
	for name, text := range c.Files {
		sum := sha256.Sum256(text)
		f := File{Name: name, Size: int64(len(text)), Sum: hex.EncodeToString(sum[:])}
		if was, ok := known[f.Sum]; ok && (was.Blob != "") == (len(d.cfg.recipients) > 0) {
			f.Blob = was.Blob
		} else if err := d.put(ctx, &f, text); err != nil {
			return m, err
		}
		m.Files = append(m.Files, f)
	}
	slices.SortFunc(m.Files, func(a, b File) int { return strings.Compare(a.Name, b.Name) })
	next := d.kept
	next.Stopped = ""
	if d.kept.Offered.Serial != 0 && d.kept.Offered.Share == 1 {
		good := d.kept.Offered
		next.Good = &good
	}
	if !all {
		m.Share = d.reaching(Shares[0], now)
	}
	if err := d.offer(ctx, &m, next, now); err != nil {
		return m, err
	}
	return m, nil
}

// put offers the content of a file, encrypted if the settings have recipients.
func (d *Desk) put(ctx context.Context, f *File, text []byte) error {
	if f.Size > maxFile {
		return fmt.Errorf("%q has %d bytes, of at most %d", f.Name, f.Size, int64(maxFile))
	}
	if len(d.cfg.recipients) > 0 {
		var sealed bytes.Buffer
		w, err := age.Encrypt(&sealed, d.cfg.recipients...)
		if err == nil {
			_, err = w.Write(text)
			err = errors.Join(err, w.Close())
		}
		if err != nil {
			return fmt.Errorf("encrypting %q: %w", f.Name, err)
		}
		text = sealed.Bytes()
		sum := sha256.Sum256(text)
		f.Blob = hex.EncodeToString(sum[:])
	}
	if err := d.cfg.to.Put(ctx, blobFolder+"/"+f.blob(), text); err != nil {
		return fmt.Errorf("offering %q at %s: %w", f.Name, d.cfg.to, err)
	}
	return nil
}

// reaching returns the share, or a larger one that includes a node that was heard of.
func (d *Desk) reaching(share float64, now time.Time) float64 {
	first := 1.0
	for _, r := range d.reports() {
		if r.Heard(now) {
			first = min(first, rank(r.Node))
		}
	}
	if first >= 1 || first < share {
		return share
	}
	return min(1, first+1e-9)
}

// offer signs a manifest with the next serial number and puts it in place of the one before. What the
// desk remembers is written first: a serial number is never used twice.
func (d *Desk) offer(ctx context.Context, m *Manifest, next desk, now time.Time) error {
	m.Serial = max(d.kept.Offered.Serial+1, uint64(now.Unix()))
	m.Created, m.Expires = now.UTC().Truncate(time.Second), now.Add(d.cfg.expires).UTC().Truncate(time.Second)
	text, signature, err := m.Sign(d.cfg.key)
	if err != nil {
		return err
	}
	next.Offered, next.Began, next.Waits, next.Placed = *m, now, "", false
	if err := d.keep(&next); err != nil {
		return fmt.Errorf("keeping what the desk offers: %w", err)
	}
	d.kept = next
	if err := d.place(ctx, m, text, signature); err != nil {
		return err
	}
	d.log.Info("a bundle is offered", "serial", m.Serial, "version", m.Version, "share", m.Share)
	return nil
}

// place puts a manifest and its signature where nodes look.
func (d *Desk) place(ctx context.Context, m *Manifest, text, signature []byte) error {
	// A node that meets the new one of the two beside the old one tries again.
	if err := errors.Join(d.cfg.to.Put(ctx, signatureName, signature), d.cfg.to.Put(ctx, manifestName, text)); err != nil {
		return fmt.Errorf("offering bundle %d at %s: %w", m.Serial, d.cfg.to, err)
	}
	d.kept.Placed = true
	d.tell(m.Serial)
	if f, ok := d.cfg.to.(Folder); ok {
		keep := []*Manifest{m}
		if d.kept.Good != nil {
			keep = append(keep, d.kept.Good)
		}
		Dir(f).clean(keep...)
	}
	return nil
}

func (d *Desk) keep(k *desk) error {
	b, err := json.Marshal(k)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(d.dir, 0o750); err != nil {
		return err
	}
	return atomicfile.WriteBytes(filepath.Join(d.dir, deskName), 0o640, b)
}

// ErrNothing reports that there is no bundle to give to more nodes, or to take back to.
var ErrNothing = errors.New("there is no such bundle")

// More gives the bundle to the next share of the nodes.
func (d *Desk) More(ctx context.Context, now time.Time) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.more(ctx, now)
}

func (d *Desk) more(ctx context.Context, now time.Time) error {
	m := d.kept.Offered
	if m.Serial == 0 || m.Share >= 1 {
		return ErrNothing
	}
	for _, s := range Shares {
		if s > m.Share {
			m.Share = s
			return d.offer(ctx, &m, d.kept, now)
		}
	}
	return ErrNothing
}

// Back offers the bundle before to all nodes. why is for people.
func (d *Desk) Back(ctx context.Context, why string, now time.Time) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.back(ctx, why, now)
}

func (d *Desk) back(ctx context.Context, why string, now time.Time) error {
	if d.kept.Good == nil {
		return ErrNothing
	}
	m, next := *d.kept.Good, d.kept
	m.Share = 1
	next.Stopped, next.Good = shortened(fmt.Sprintf("%s: %s", d.kept.Offered.Version, why)), nil
	return d.offer(ctx, &m, next, now)
}

// deskEvery is how often a desk looks at the reports.
const deskEvery = 5 * time.Second

// Run watches the reports until ctx ends.
func (d *Desk) Run(ctx context.Context) {
	tick := time.NewTicker(deskEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			if err := d.Watch(ctx, time.Now()); err != nil {
				d.log.Error("the bundle goes no further", "error", err)
			}
		}
	}
}

// Watch looks at the reports once: it gives the bundle to more nodes, takes it back, or makes it last
// longer.
func (d *Desk) Watch(ctx context.Context, now time.Time) error {
	reports := d.reports()
	d.mu.Lock()
	defer d.mu.Unlock()
	m := d.kept.Offered
	if m.Serial == 0 {
		return nil
	}
	if !d.kept.Placed { // after a start, or because the place was not to be had
		text, signature, err := m.Sign(d.cfg.key)
		if err == nil {
			err = d.place(ctx, &m, text, signature)
		}
		if err != nil {
			return err
		}
	}
	if m.Share >= 1 && m.Expires.Sub(now) < d.cfg.expires/3 {
		return d.offer(ctx, &m, d.kept, now)
	}
	v := judge(&m, d.kept.Began, d.cfg.wait, reports, now)
	d.kept.Waits = v.waits
	switch {
	case v.bad != "" && d.kept.Good == nil:
		d.kept.Waits = v.bad + "; there is no bundle before it to go back to"
		return nil
	case v.bad != "":
		d.log.Error("a bundle is taken back", "serial", m.Serial, "version", m.Version, "error", v.bad)
		return d.back(ctx, v.bad, now)
	case v.more:
		return d.more(ctx, now)
	}
	return nil
}

// A verdict is what follows from reports.
type verdict struct {
	bad   string // why the bundle is taken back
	more  bool   // it goes to more nodes
	waits string // for what that waits
}

// judge says how a bundle goes on whose share began at a time.
func judge(m *Manifest, began time.Time, wait time.Duration, reports []Report, now time.Time) (v verdict) {
	takers, run := 0, 0
	for i := range reports {
		r := &reports[i]
		if !m.Takes(r.Node) || !r.Heard(now) {
			continue
		}
		switch {
		case r.Serial == m.Serial:
			run++
		case r.Why != "" && r.Refused != m.Serial && now.Sub(began) > wait:
			continue // it gets no bundles, whichever is offered
		}
		takers++
		if why := r.Bad(m.Serial); why != "" {
			v.bad = r.Node + ": " + why
			return v
		}
	}
	switch left := began.Add(wait).Sub(now); {
	case m.Share >= 1:
	case takers == 0:
		v.waits = "no node of this share was heard of"
	case run < takers:
		v.waits = fmt.Sprintf("%d of %d nodes of this share run it", run, takers)
	case left > 0:
		v.waits = fmt.Sprintf("%d of %d nodes run it; they are watched for another %v", run, takers, left.Round(time.Second))
	default:
		v.more = true
	}
	return v
}
