package report

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"shuultuur/admin/mail"
	"shuultuur/lib/atomicfile"
	"shuultuur/lib/release"
	"shuultuur/lib/setting"
)

// Check returns the mistake in the schedules, or nil.
func (r *Sending) Check() error {
	if release.Small {
		return release.Lacks("reports")
	}
	for i := range r.Schedules {
		c := &r.Schedules[i]
		if err := c.Check(); err != nil {
			return setting.At(fmt.Sprintf("[%d]", i), err)
		}
		if r.Mail == nil {
			return setting.At(fmt.Sprintf("[%d].mail", i), errors.New("there is no mail server; name one under mail: server"))
		}
		for j, to := range c.Mail {
			var err error
			if c.Mail[j], err = mail.Address(to); err != nil {
				return setting.At(fmt.Sprintf("[%d].mail[%d]", i, j), err)
			}
		}
	}
	return nil
}

// These are the intervals of checks for due reports, and of attempts for a refused report.
const (
	reportEvery = 20 * time.Second
	reportPause = 10 * time.Minute
	reportTime  = 10 * time.Minute // time for reading the record
)

// Run sends reports until ctx ends.
func (r *Sending) Run(ctx context.Context) error {
	tick := time.NewTicker(reportEvery)
	defer tick.Stop()
	var again time.Time
	for {
		if now := time.Now(); now.After(again) {
			if err := r.send(ctx, now); err != nil && ctx.Err() == nil {
				r.Log.Error("a report is not sent; will try again", "error", err)
				again = now.Add(reportPause)
				r.logFault(err.Error())
			} else {
				r.logFault("")
			}
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

func (r *Sending) logFault(fault string) {
	r.mu.Lock()
	r.fault = fault
	r.mu.Unlock()
}

// Problems returns the reports that the mail server did not accept.
func (r *Sending) Problems() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.fault == "" {
		return nil
	}
	return []string{"reports: " + r.fault}
}

// send sends reports that are due and not sent yet. A new schedule begins with its next time. A
// refused report does not delay the others.
func (r *Sending) send(ctx context.Context, now time.Time) error {
	sent := map[string]time.Time{}
	text, err := os.ReadFile(r.File)
	if err == nil {
		err = json.Unmarshal(text, &sent)
	} else if os.IsNotExist(err) {
		err = nil
	}
	if err != nil {
		return fmt.Errorf("reading which reports were sent: %w", err)
	}
	var failed error
	for i := range r.Schedules {
		c := &r.Schedules[i]
		due := c.Due(now)
		was, known := sent[c.Key()]
		if known && !was.Before(due) {
			continue
		}
		if known {
			if err := r.one(ctx, c, due); err != nil {
				failed = errors.Join(failed, err)
				continue
			}
		}
		sent[c.Key()] = due
		text, err := json.Marshal(sent)
		if err == nil {
			err = atomicfile.WriteBytes(r.File, 0o600, text)
		}
		if err != nil {
			return fmt.Errorf("keeping which reports were sent: %w", err)
		}
	}
	return failed
}

// one makes and sends a report.
func (r *Sending) one(ctx context.Context, c *Schedule, due time.Time) error {
	source := r.Source()
	if source == nil {
		return errors.New("no store that can be asked keeps events")
	}
	since, until, err := Span(c.Every, due)
	if err != nil {
		return err
	}
	reading, cancel := context.WithTimeout(ctx, reportTime)
	defer cancel()
	x, err := Build(reading, source, Question{Since: since, Until: until, Group: c.Group, Groups: r.Groups, Texts: r.Texts.For(c.Language)})
	if err != nil {
		return err
	}
	var paper, table bytes.Buffer
	if err := errors.Join(x.PDF(&paper), x.CSV(&table)); err != nil {
		return err
	}
	name := "report-" + since.Format(time.DateOnly)
	return r.Mail.Send(ctx, &mail.Message{To: c.Mail, Subject: x.Title, Text: x.Title + "\n\n" + strings.Join(x.Says, "\n") + "\n",
		Files: []mail.File{{Name: name + ".pdf", Type: "application/pdf", Data: paper.Bytes()}, {Name: name + ".csv", Type: "text/csv; charset=utf-8", Data: table.Bytes()}}})
}
