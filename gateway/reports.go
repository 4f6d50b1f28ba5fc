package gateway

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"shuultuur/admin/mail"
	"shuultuur/admin/report"
	"shuultuur/atomicfile"
	"shuultuur/setting"
)

// reports are sent by mail at the times that the settings say.
type reports struct {
	config []report.Schedule
	sender *mail.Sender
	file   string // what was sent
	source func() report.Source
	groups func(netip.Addr, string) []string
	log    *slog.Logger

	mu    sync.Mutex
	fault string
}

func newReports(_ context.Context, b *builder) (*reports, error) {
	r := &reports{config: b.settings.Reports, sender: b.mail, file: filepath.Join(string(b.settings.Data), "reports.json"), log: b.log}
	if g := b.g; g != nil {
		r.source = func() report.Source {
			if s := g.Store(); s != nil {
				return s
			}
			return nil
		}
		r.groups = func(a netip.Addr, user string) []string {
			return g.engine.Load().identity.Named(a, user, nil, "").Groups
		}
	}
	for i := range r.config {
		c := &r.config[i]
		if err := c.Check(); err != nil {
			return nil, setting.At(fmt.Sprintf("[%d]", i), err)
		}
		if b.mail == nil {
			return nil, setting.At(fmt.Sprintf("[%d].mail", i), errors.New("there is no mail server; name one under mail: server"))
		}
		for j, to := range c.Mail {
			var err error
			if c.Mail[j], err = mail.Address(to); err != nil {
				return nil, setting.At(fmt.Sprintf("[%d].mail[%d]", i, j), err)
			}
		}
	}
	return r, nil
}

// How often it is looked whether a report is due, and how long one that was not
// taken waits.
const (
	reportEvery = 20 * time.Second
	reportPause = 10 * time.Minute
	reportTime  = 10 * time.Minute // for reading the record
)

// Run sends reports until ctx ends.
func (r *reports) Run(ctx context.Context) error {
	tick := time.NewTicker(reportEvery)
	defer tick.Stop()
	var again time.Time
	for {
		if now := time.Now(); now.After(again) {
			if err := r.send(ctx, now); err != nil && ctx.Err() == nil {
				r.log.Error("a report is not sent; will try again", "error", err)
				again = now.Add(reportPause)
				r.say(err.Error())
			} else {
				r.say("")
			}
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

func (r *reports) say(fault string) {
	r.mu.Lock()
	r.fault = fault
	r.mu.Unlock()
}

// Problems name a report that was not taken.
func (r *reports) Problems() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.fault == "" {
		return nil
	}
	return []string{"reports: " + r.fault}
}

// send sends what is due and was not sent. What the settings ask for newly
// begins with the next time.
func (r *reports) send(ctx context.Context, now time.Time) error {
	sent := map[string]time.Time{}
	text, err := os.ReadFile(r.file)
	if err == nil {
		err = json.Unmarshal(text, &sent)
	} else if os.IsNotExist(err) {
		err = nil
	}
	if err != nil {
		return fmt.Errorf("reading which reports were sent: %w", err)
	}
	for i := range r.config {
		c := &r.config[i]
		due := c.Due(now)
		was, known := sent[c.Key()]
		if known && !was.Before(due) {
			continue
		}
		if known {
			if err := r.one(ctx, c, due); err != nil {
				return err
			}
		}
		sent[c.Key()] = due
		text, err := json.Marshal(sent)
		if err == nil {
			err = atomicfile.WriteBytes(r.file, 0o600, text)
		}
		if err != nil {
			return fmt.Errorf("keeping which reports were sent: %w", err)
		}
	}
	return nil
}

// one makes and sends a report.
func (r *reports) one(ctx context.Context, c *report.Schedule, due time.Time) error {
	source := r.source()
	if source == nil {
		return errors.New("no store that can be asked keeps events")
	}
	since, until, err := report.Span(c.Every, due)
	if err != nil {
		return err
	}
	reading, cancel := context.WithTimeout(ctx, reportTime)
	defer cancel()
	x, err := report.Build(reading, source, report.Question{Since: since, Until: until, Group: c.Group, Groups: r.groups})
	if err != nil {
		return err
	}
	var paper, table bytes.Buffer
	if err := errors.Join(x.PDF(&paper), x.CSV(&table)); err != nil {
		return err
	}
	name := "report-" + since.Format(time.DateOnly)
	return r.sender.Send(ctx, &mail.Message{To: c.Mail, Subject: x.Title, Text: x.Title + "\n\n" + strings.Join(x.Says, "\n") + "\n",
		Files: []mail.File{{Name: name + ".pdf", Type: "application/pdf", Data: paper.Bytes()}, {Name: name + ".csv", Type: "text/csv; charset=utf-8", Data: table.Bytes()}}})
}
