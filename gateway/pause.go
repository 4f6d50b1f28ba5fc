package gateway

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"shuultuur/admin"
	"shuultuur/atomicfile"
	"shuultuur/event"
	"shuultuur/filter"
	"shuultuur/policy"
)

// pauseTopic is the topic of the change bus under which nodes tell one another
// for whom filtering rests.
const pauseTopic = "pauses"

// pauses are those of now, which outlive engines, and in a file restarts.
type pauses struct {
	policy.Pauses
	file string
	mu   sync.Mutex
	made time.Time // when they were last changed, here or on another node; guarded by mu
}

func (s *Settings) pausesFile() string { return filepath.Join(s.path(s.Data), "pauses") }

// load reads what was kept over a restart.
func (p *pauses) load(file string) error {
	p.file = file
	data, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("reading for whom filtering rests: %w", err)
	}
	made, all, err := policy.ParsePauses(strings.TrimSpace(string(data)))
	if err != nil {
		return fmt.Errorf("reading for whom filtering rests: %s: %w; delete the file, and it rests for nobody", file, err)
	}
	p.made = made
	return p.Set(all)
}

// replace takes pauses into use and keeps them. The caller holds mu.
func (p *pauses) replace(made time.Time, all []policy.Pause) error {
	if err := p.Set(all); err != nil {
		return err
	}
	p.made = made
	err := atomicfile.WriteBytes(p.file, 0o640, []byte(policy.FormatPauses(made, all)+"\n"))
	if err != nil {
		return fmt.Errorf("keeping for whom filtering rests over a restart: %w", err)
	}
	return nil
}

// pause has filtering rest for who (see [policy.Pause]) until a time, or go on
// when that is not in the future; for "", go on for all. by is who asked for it.
func (g *Gateway) pause(who string, until time.Time, by netip.Addr) error {
	now := time.Now()
	if who = strings.TrimSpace(who); who != "" {
		if n := (policy.Network{}); n.UnmarshalText([]byte(who)) == nil {
			if who = n.String(); n.IsSingleIP() {
				who = n.Addr().String()
			}
		} else if e := g.engine.Load(); e == nil || !e.identity.Knows(who) {
			return &admin.BadChange{Err: fmt.Errorf("%q is neither an address, a network nor a user or group of the settings", who)}
		}
	}
	p := &g.pauses
	p.mu.Lock()
	defer p.mu.Unlock()
	before := p.At(now)
	rests := until.After(now)
	all := slices.DeleteFunc(slices.Clone(before), func(x policy.Pause) bool { return x.Who == who || !rests && who == "" })
	asked := policy.Pause{Who: who, Until: until}
	said := "filtering goes on for " + asked.Whom()
	if rests {
		all = append(all, asked)
		said = fmt.Sprintf("filtering rests for %s until %s, %v", asked.Whom(), until.Format(time.DateTime), until.Sub(now).Round(time.Second))
	} else if len(all) == len(before) {
		if who == "" {
			return nil
		}
		return &admin.BadChange{Err: fmt.Errorf("there is no pause for %q", who)}
	}
	// Later than what it replaces, also where another node's clock is ahead.
	made := now
	if !made.After(p.made) {
		made = p.made.Add(time.Millisecond)
	}
	if err := p.replace(made, all); err != nil {
		if p.made != made {
			return &admin.BadChange{Err: err}
		}
		g.log.Error("pause not kept", "error", err)
	}
	g.fleet.tell(pauseTopic, policy.FormatPauses(made, all))
	g.log.Info(said, "by", by)
	f := filter.Finding{Check: "admin", Category: "pause"}
	t := filter.Transaction{ID: g.ids.Next(now), Start: now, Client: filter.Client{Addr: by}, Note: said, Verdict: filter.Verdict{Reason: filter.Reason{Finding: f}}}
	g.events.Add(event.From(&t))
	return nil
}

// heardPauses takes over what another node has set.
func (g *Gateway) heardPauses(word string) {
	made, all, err := policy.ParsePauses(word)
	p := &g.pauses
	p.mu.Lock()
	defer p.mu.Unlock()
	if err == nil && made.After(p.made) {
		if err = p.replace(made, all); err == nil {
			g.log.Info("another node says for whom filtering rests", "pauses", len(p.At(time.Now())))
		}
	}
	if err != nil {
		g.log.Error("what another node says of pauses is not taken", "error", err)
	}
}

// endPauses lets go of pauses that are over.
func (g *Gateway) endPauses(now time.Time) {
	p := &g.pauses
	p.mu.Lock()
	defer p.mu.Unlock()
	all, left := p.At(time.Time{}), p.At(now)
	if len(all) == len(left) {
		return
	}
	if err := p.replace(p.made, left); err != nil {
		g.log.Error("pause not kept", "error", err)
	}
	for _, x := range all {
		if !slices.Contains(left, x) {
			g.log.Info("filtering goes on for "+x.Whom(), "because", "its pause is over")
		}
	}
}

// resting says for whom filtering rests, for the operator.
func (g *Gateway) resting() (problems []string) {
	for _, p := range g.pauses.At(time.Now()) {
		problems = append(problems, fmt.Sprintf("filtering rests for %s until %s", p.Whom(), p.Until.Format(time.DateTime)))
	}
	return problems
}

// Pause asks the gateway that runs with the settings in file to let filtering
// rest for who, for as long as length says (a time, or "tomorrow"), to go on
// when length is "0s", or with "" nothing. It returns the pauses that hold then.
func Pause(ctx context.Context, file, who, length string) ([]policy.Pause, error) {
	s, err := Read(file)
	if err != nil {
		return nil, err
	}
	at := s.admin()
	if at == "" {
		return nil, s.mistake(filter.Setting("listen.admin", errors.New("it is switched off: there is no way to ask the gateway")))
	}
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	method, body := http.MethodGet, ""
	if length != "" {
		method, body = http.MethodPost, url.Values{"who": {who}, "for": {length}}.Encode()
	}
	q, err := http.NewRequestWithContext(ctx, method, at+"/pause", strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	q.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	if s.Listen.Token != "" {
		q.Header.Set("Authorization", "Bearer "+s.Listen.Token)
	}
	r, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Do(q) // not by a proxy
	if err != nil {
		return nil, fmt.Errorf("asking the gateway at its admin address, does it run? %w", err)
	}
	defer r.Body.Close()
	data, err := io.ReadAll(io.LimitReader(r.Body, 1<<20))
	if err != nil {
		return nil, err
	}
	if r.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("the gateway says: %s", strings.TrimSpace(string(data)))
	}
	var all []policy.Pause
	if err := json.Unmarshal(data, &all); err != nil {
		return nil, fmt.Errorf("%s/pause: %w", at, err)
	}
	return all, nil
}

// admin is the URL of the admin address, "" when there is none.
func (s *Settings) admin() string {
	if len(s.Listen.Admin) == 0 {
		return ""
	}
	at := s.Listen.Admin[0]
	host, port, err := net.SplitHostPort(at)
	if ip, bad := netip.ParseAddr(host); err == nil && (host == "" || bad == nil && ip.IsUnspecified()) {
		at = net.JoinHostPort("localhost", port)
	}
	return "http://" + at
}
