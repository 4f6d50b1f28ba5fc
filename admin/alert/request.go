package alert

import (
	"crypto/rand"
	"net/netip"
	"slices"
	"strings"
	"time"
)

// Requests is the theme of requests to open a site, by which the settings say who is told of them.
const Requests = "requests"

// askAgain is how long nobody is told again of what the same remedy would do.
const askAgain = 24 * time.Hour

// A Request is somebody's to open a site.
type Request struct {
	Remedy string // requests with the same one are answered together
	User   string
	Name   string // of the device
	Client netip.Addr
	Groups []string
	Policy string
	Host   string
	Time   bool   // it asks for more time
	Words  string // what was said about it
	At     time.Time
}

// Ask tells those whom the settings name of a request, once in a day for each remedy.
func (d *Desk) Ask(q Request) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.watch == nil {
		return
	}
	now := d.now()
	for _, a := range slices.Backward(d.alerts) {
		if a.Theme == Requests && a.Remedy == q.Remedy && now.Sub(a.First) < askAgain {
			return
		}
	}
	a := &Alert{ID: rand.Text()[:12], Theme: Requests, User: q.User, Name: q.Name, Client: q.Client, Groups: slices.Clone(q.Groups), Policy: q.Policy,
		First: q.At.UTC(), Last: q.At.UTC(), Matches: 1, Hosts: []string{strings.ToValidUTF8(q.Host, "?")}, Remedy: q.Remedy, Time: q.Time, State: Closed}
	if q.Words != "" {
		a.Evidence = []string{shorten(q.Words)}
	}
	if a.Sent = d.watch.sendings(a, now); len(a.Sent) == 0 {
		return
	}
	d.alerts = append(d.alerts, a)
	d.dirty = true
	d.wake()
}
