package alert

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"shuultuur/event"
	"shuultuur/filter"
	"shuultuur/lib/atomicfile"
	"shuultuur/lib/clock"
	"shuultuur/lib/metric"
	"shuultuur/lib/problem"
	"shuultuur/policy/search"
)

// A State is the state of an alert.
type State string

// States.
const (
	Open         State = "open"
	Acknowledged State = "acknowledged"
	Closed       State = "closed"
)

// An Alert is a notification about a person and a theme. It grows while more matches arrive.
type Alert struct {
	ID       string     `json:"id"`
	Theme    string     `json:"theme"`
	Severity Severity   `json:"severity"`
	User     string     `json:"user,omitempty"`
	Name     string     `json:"name,omitempty"` // of the device, if it is known
	Client   netip.Addr `json:"client"`
	Groups   []string   `json:"groups,omitempty"`
	Policy   string     `json:"policy,omitempty"`
	First    time.Time  `json:"first"`
	Last     time.Time  `json:"last"`
	Matches  int        `json:"matches"`
	Blocked  int        `json:"blocked"`            // of them
	Hosts    []string   `json:"hosts,omitempty"`    // hosts, the latest last
	Evidence []string   `json:"evidence,omitempty"` // evidence, the latest last
	Events   []string   `json:"events,omitempty"`   // identifiers of transactions
	Remedy   string     `json:"remedy,omitempty"`   // what a request asks for
	Time     bool       `json:"time,omitempty"`     // it is for more time

	State State     `json:"state"`
	Notes []Note    `json:"notes,omitempty"`
	Sent  []Sending `json:"sent,omitempty"`
}

// A Note is a person's note on an alert.
type Note struct {
	At   time.Time `json:"at"`
	By   string    `json:"by"`
	Does State     `json:"does"`
	Text string    `json:"text,omitempty"`
}

// A Sending is a message about an alert to one address.
type Sending struct {
	To    string    `json:"to"` // name@school.example, or the format and host of a webhook
	Due   time.Time `json:"due"`
	At    time.Time `json:"at,omitzero"` // when it was accepted
	Tries int       `json:"tries,omitempty"`
	Error string    `json:"error,omitempty"`
	Key   string    `json:"key"` // the receiver in the settings

	Message string `json:"message,omitempty"` // the identifier of the message that has it, once that was tried
	refused bool   // the receiver refuses it of itself: it comes after the others
}

// Who names the person: "anna@10.1.2.3".
func (a *Alert) Who() string {
	switch {
	case a.User == "":
		return a.Client.String()
	case !a.Client.IsValid():
		return a.User
	}
	return a.User + "@" + a.Client.String()
}

// Limits of the kept alerts and waiting messages.
const (
	maxAlerts   = 10_000
	maxQueue    = 4096
	maxPending  = 20_000 // people below the threshold of a theme
	maxOf       = 20     // hosts, pieces of evidence and events of one alert
	maxEvidence = 300    // bytes
	maxNote     = 2000
	writeEvery  = time.Second
)

// A match is one transaction that a theme wants.
type match struct {
	theme, evidence, host, id, policy string
	who                               filter.Client
	at                                time.Time
	blocked                           bool
}

// A Desk holds the alerts. It outlives the settings.
type Desk struct {
	file   string
	log    *slog.Logger
	queue  chan match
	ready  chan struct{} // signals that the settings changed, or that something is due
	lost   metric.Counter
	raised *metric.CounterVec
	fails  metric.Counter

	alone  sync.Mutex // held by the only Run
	search *search.Searches

	mu      sync.Mutex
	watch   *Watch
	alerts  []*Alert
	pending map[key][]match // people below the threshold
	dirty   bool
	fault   error
	now     func() time.Time

	running   func() time.Duration // since any moment, whatever becomes of the clock
	clock     *clock.Guard         // whether closed alerts may be dropped by their age
	receivers map[string]*receiver // by Sending.Key
	inFlight  int                  // messages
}

// A key is the person and the theme of an alert.
type key struct{ theme, user, client string }

func (m *match) key() key {
	if m.who.User != "" {
		return key{m.theme, m.who.User, ""}
	}
	return key{m.theme, "", m.who.Addr.String()}
}

// OpenDesk reads the alerts kept in a file, which need not exist.
func OpenDesk(file string, log *slog.Logger) (*Desk, error) {
	d := &Desk{file: file, log: log, queue: make(chan match, maxQueue), ready: make(chan struct{}, 1), pending: map[key][]match{}, receivers: map[string]*receiver{}, now: time.Now, search: search.NewSearches(),
		lost:   metric.NewCounter("shuultuur_alerts_dropped_total", "Matches of watched themes that became no alert because too many were waiting."),
		raised: metric.NewCounterVec("shuultuur_alerts_total", "Alerts, by theme and severity.", "theme", "severity"),
		fails:  metric.NewCounter("shuultuur_alerts_failed_total", "Messages about alerts that a mail server or webhook did not take; they are sent again.")}
	begin := time.Now()
	d.running = func() time.Duration { return time.Since(begin) }
	d.clock = clock.New(clock.Config{File: filepath.Join(filepath.Dir(file), "clock-alerts.json"), Log: log.With("store", "alerts"), Wall: func() time.Time { return d.now() }})
	text, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return d, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading the alerts in %q: %w", file, err)
	}
	if err := json.Unmarshal(text, &d.alerts); err != nil || slices.Contains(d.alerts, nil) {
		d.alerts = nil
		log.Error("the file of alerts is damaged and set aside: former alerts are not shown", "file", file, "error", err)
		return d, atomicfile.SetAside(file)
	}
	return d, nil
}

// Collect implements [metric.Collector].
func (d *Desk) Collect(ch chan<- metric.Metric) {
	d.lost.Collect(ch)
	d.raised.Collect(ch)
	d.fails.Collect(ch)
}

// Use takes other settings into use.
func (d *Desk) Use(w *Watch) {
	d.mu.Lock()
	d.watch = w
	d.mu.Unlock()
	d.wake()
}

func (d *Desk) wake() {
	select {
	case d.ready <- struct{}{}:
	default:
	}
}

// Add adds a completed transaction that a theme wants. It never blocks: matches that do not fit
// into the queue are dropped and counted.
func (d *Desk) Add(t *filter.Transaction) {
	for i := range t.Monitored {
		r := &t.Monitored[i]
		theme, kind := ThemeOf(r.Rule)
		if theme == "" {
			continue
		}
		m := match{theme: theme, host: strings.Clone(t.Host), id: t.ID, policy: r.Policy, at: t.Start.Add(t.Duration).UTC().Truncate(time.Millisecond), who: t.Client, blocked: t.Verdict.Action >= filter.Warn}
		m.who.Groups = slices.Clone(t.Client.Groups)
		m.evidence = kind
		if f := &r.Finding; f.Category != "" {
			m.evidence = strings.TrimSpace(f.Category + " " + shorten(f.Evidence)) // a copy: the list may be closed
		} else if kind == "search" && t.URL != "" {
			m.evidence = "search: " + cmp.Or(d.search.Term(t.URL), string(t.Searched), shorten(t.URL))
		}
		select {
		case d.queue <- m:
		default:
			d.lost.Inc()
		}
	}
}

func shorten(s string) string {
	if len(s) > maxEvidence {
		s = s[:maxEvidence] + "…"
	}
	return strings.ToValidUTF8(s, "?")
}

// Run makes alerts from the matches, sends and keeps them, until ctx ends.
func (d *Desk) Run(ctx context.Context) error {
	d.alone.Lock() // the previous Run ends first
	defer d.alone.Unlock()
	tick := time.NewTicker(writeEvery)
	defer tick.Stop()
	var sending sync.WaitGroup // while matches keep arriving
	defer sending.Wait()
	for {
		select {
		case <-ctx.Done():
			for len(d.queue) > 0 {
				d.count(<-d.queue)
			}
			return d.write()
		case m := <-d.queue:
			d.count(m)
			continue
		case <-d.ready:
		case <-tick.C:
		}
		d.forget()
		if err := d.write(); err != nil {
			d.log.Error("alerts are not kept; will try again", "error", err)
		}
		d.deliver(ctx, &sending)
	}
}

// count counts a match.
func (d *Desk) count(m match) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.watch == nil {
		return
	}
	t := d.watch.config.Themes[m.theme]
	if t == nil {
		return // it was found by earlier settings
	}
	within := t.Within.Or(time.Hour)
	k := m.key()
	for _, a := range slices.Backward(d.alerts) {
		if a.State != Closed && a.key() == k && m.at.Sub(a.Last) <= within && a.Severity == t.Severity {
			a.grow(&m)
			d.dirty = true
			return
		}
	}
	all := slices.DeleteFunc(append(d.pending[k], m), func(x match) bool { return m.at.Sub(x.at) > within })
	if len(all) < max(t.After, 1) {
		if _, known := d.pending[k]; !known && len(d.pending) >= maxPending {
			d.lost.Inc()
			return
		}
		d.pending[k] = all
		return
	}
	delete(d.pending, k)
	a := &Alert{ID: rand.Text()[:12], Theme: m.theme, Severity: t.Severity, User: m.who.User, Client: m.who.Addr, Groups: m.who.Groups, Policy: m.policy, First: all[0].at, State: Open}
	for i := range all {
		a.grow(&all[i])
	}
	a.Sent = d.watch.sendings(a, d.now())
	d.alerts = append(d.alerts, a)
	d.raised.With(a.Theme, a.Severity.String()).Inc()
	d.dirty = true
	d.log.Warn("alert", "theme", a.Theme, "severity", a.Severity.String(), "id", a.ID)
	d.wake()
}

func (a *Alert) key() key {
	m := match{theme: a.Theme, who: filter.Client{User: a.User, Addr: a.Client}}
	return m.key()
}

// grow adds a match to an alert.
func (a *Alert) grow(m *match) {
	a.Matches++
	if m.blocked {
		a.Blocked++
	}
	if m.at.After(a.Last) {
		a.Last = m.at
	}
	add := func(to *[]string, s string) {
		if s == "" || slices.Contains(*to, s) {
			return
		}
		if *to = append(*to, s); len(*to) > maxOf {
			*to = slices.Delete(*to, 1, 2) // the first and the latest
		}
	}
	add(&a.Hosts, m.host)
	add(&a.Evidence, m.evidence)
	add(&a.Events, m.id)
}

// forget drops alerts that are too old, and people below the threshold for too
// long.
func (d *Desk) forget() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.watch == nil {
		return
	}
	now := d.now()
	for k, all := range d.pending {
		if t := d.watch.config.Themes[k.theme]; t == nil || now.Sub(all[len(all)-1].at) > t.Within.Or(time.Hour) {
			delete(d.pending, k)
		}
	}
	before := len(d.alerts)
	keep := d.watch.config.Keep.Or(365 * 24 * time.Hour)
	if believed, _ := d.clock.Check(d.newest); believed && !d.watch.config.Keep.Off() {
		d.alerts = slices.DeleteFunc(d.alerts, func(a *Alert) bool { return a.State == Closed && now.Sub(a.Last) > keep && !a.waits() })
	}
	d.alerts = slices.DeleteFunc(d.alerts, func(a *Alert) bool { return a.Theme == Requests && !a.waits() && now.Sub(a.First) > askAgain })
	for len(d.alerts) > maxAlerts { // the oldest closed one, or the oldest
		i := max(slices.IndexFunc(d.alerts, func(a *Alert) bool { return a.State == Closed }), 0)
		if a := d.alerts[i]; a.waits() {
			d.log.Error("an alert is dropped of which nobody has heard, because there are too many", "alert", a.ID, "theme", a.Theme, "most", maxAlerts)
			d.lost.Inc()
		}
		d.alerts = slices.Delete(d.alerts, i, i+1)
	}
	d.dirty = d.dirty || len(d.alerts) != before
}

// newest returns when the newest alert grew.
func (d *Desk) newest() (at time.Time, err error) {
	for _, a := range d.alerts {
		if a.Last.After(at) {
			at = a.Last
		}
	}
	return at, nil
}

// waits reports whether somebody has yet to be told of the alert.
func (a *Alert) waits() bool {
	return slices.ContainsFunc(a.Sent, func(s Sending) bool { return s.At.IsZero() })
}

// write stores the alerts if something has changed.
func (d *Desk) write() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.writeLocked()
}

func (d *Desk) writeLocked() error {
	if !d.dirty {
		return nil
	}
	text, err := json.Marshal(d.alerts)
	if err == nil {
		err = atomicfile.WriteBytes(d.file, 0o600, text)
	}
	d.fault = err
	d.dirty = err != nil
	return err
}

// Problems returns the problems that need attention: messages that could not be
// delivered, whatever the state of their alerts, and a file that cannot be
// written.
func (d *Desk) Problems() (all []problem.Problem) {
	add := func(k problem.Kind, text string) { all = append(all, problem.Problem{Kind: k, Text: text}) }
	d.mu.Lock()
	defer d.mu.Unlock()
	if p := d.clock.Problem(); p != "" {
		add(problem.Clock, "alerts: "+p)
	}
	if d.fault != nil {
		add(problem.Because(problem.Messages, d.fault), fmt.Sprintf("alerts are not kept: %v", d.fault))
	}
	n, last := 0, ""
	for _, a := range d.alerts {
		for i := range a.Sent {
			if s := &a.Sent[i]; s.At.IsZero() && s.Tries > 0 {
				n++
				if last = s.To + ", about " + a.page(); s.Error != "" {
					last += ": " + s.Error
				}
			}
		}
	}
	if n > 0 {
		add(problem.Messages, fmt.Sprintf("alerts: %d wait because a message was not taken, and is sent again; the last: %s", n, last))
	}
	return all
}

// All returns the alerts, open ones first, then the newest.
func (d *Desk) All() []Alert {
	d.mu.Lock()
	defer d.mu.Unlock()
	all := make([]Alert, 0, len(d.alerts))
	for _, a := range d.alerts {
		if a.Theme != Requests { // its page has them
			all = append(all, a.clone())
		}
	}
	order := map[State]int{Open: 0, Acknowledged: 1, Closed: 2}
	slices.SortStableFunc(all, func(a, b Alert) int {
		return cmp.Or(order[a.State]-order[b.State], b.Severity.rank()-a.Severity.rank(), b.Last.Compare(a.Last))
	})
	return all
}

func (a *Alert) clone() Alert {
	c := *a
	c.Notes, c.Sent = slices.Clone(a.Notes), slices.Clone(a.Sent)
	c.Hosts, c.Evidence, c.Events = slices.Clone(a.Hosts), slices.Clone(a.Evidence), slices.Clone(a.Events)
	return c
}

// ErrNone reports that there is no alert with an identifier.
var ErrNone = errors.New("there is no alert with this identifier")

// One returns an alert.
func (d *Desk) One(id string) (Alert, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, a := range d.alerts {
		if a.ID == id && a.Theme != Requests {
			return a.clone(), nil
		}
	}
	return Alert{}, ErrNone
}

// Settle acknowledges, closes or reopens an alert. Closing needs a note. When Settle returns,
// the change is stored.
func (d *Desk) Settle(id, by string, does State, note string) error {
	note = strings.TrimSpace(note)
	switch {
	case does != Open && does != Acknowledged && does != Closed:
		return fmt.Errorf("%q is not what can be done: acknowledged, closed or open", does)
	case does == Closed && note == "":
		return errors.New("write a note that says how the alert was dealt with")
	case len(note) > maxNote:
		return fmt.Errorf("a note has %d bytes at most", maxNote)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, a := range d.alerts {
		if a.ID != id || a.Theme == Requests {
			continue
		}
		if len(a.Notes) >= 100 {
			return errors.New("the alert has 100 notes already")
		}
		was := *a
		a.State = does
		a.Notes = append(a.Notes, Note{At: d.now().UTC().Truncate(time.Second), By: by, Does: does, Text: note})
		d.dirty = true
		if err := d.writeLocked(); err != nil {
			*a = was
			return fmt.Errorf("keeping the note: %w", err)
		}
		return nil
	}
	return ErrNone
}

// Erase removes the data about a person, including notes on other alerts that name the person.
// It returns the number of alerts; with dry it only counts them.
func (d *Desk) Erase(_ context.Context, p event.Person, dry bool) (int64, error) {
	for len(d.queue) > 0 { // waiting messages are included
		select {
		case m := <-d.queue:
			d.count(m)
		default:
		}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	about := func(user string, client netip.Addr) bool {
		return user != "" && slices.Contains(p.Users, user) || client.IsValid() && slices.Contains(p.Clients, client)
	}
	left := slices.DeleteFunc(slices.Clone(d.alerts), func(a *Alert) bool { return about(a.User, a.Client) })
	n := int64(len(d.alerts) - len(left))
	if dry {
		return n, nil
	}
	d.alerts = left
	for _, a := range left {
		for i := range a.Notes {
			if p.In(a.Notes[i].Text) {
				a.Notes[i].Text, d.dirty = "", true
			}
		}
	}
	for k, all := range d.pending {
		if about(all[0].who.User, all[0].who.Addr) {
			delete(d.pending, k)
		}
	}
	d.dirty = d.dirty || n > 0
	return n, d.writeLocked()
}
