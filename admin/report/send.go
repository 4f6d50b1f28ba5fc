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
	"shuultuur/lib/sheet"
	"shuultuur/lib/smtp"
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
				if r.left {
					again = now.Add(reportPause)
				}
			}
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// remember notes who did not get the last report of each schedule.
func (r *Sending) remember(sent map[string]dispatch) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.lost, r.left = r.lost[:0], false
	for i := range r.Schedules {
		d := sent[r.Schedules[i].Key()]
		for _, to := range d.Lost {
			r.lost = append(r.lost, "refused for "+to)
		}
		for _, to := range d.Left {
			r.lost, r.left = append(r.lost, "refused for now for "+to), true
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
	var all []string
	for _, fault := range append([]string{r.fault}, r.lost...) {
		if fault != "" {
			all = append(all, "reports: "+fault)
		}
	}
	return all
}

// send sends reports that are due and not sent yet. A new schedule begins with its next time. A
// refused report does not delay the others.
func (r *Sending) send(ctx context.Context, now time.Time) error {
	sent := map[string]dispatch{}
	text, err := os.ReadFile(r.File)
	switch {
	case os.IsNotExist(err):
		err = nil
	case err == nil && (json.Unmarshal(text, &sent) != nil || sent == nil):
		sent, err = map[string]dispatch{}, atomicfile.SetAside(r.File) // a schedule begins with its next time
	}
	if err != nil {
		return fmt.Errorf("reading which reports were sent: %w", err)
	}
	var failed error
	defer func() { r.remember(sent) }()
	for i := range r.Schedules {
		c := &r.Schedules[i]
		due := c.Due(now)
		was, known := sent[c.Key()]
		if known && !was.Due.Before(due) && len(was.Left) == 0 {
			continue
		}
		next := dispatch{Due: due}
		if known {
			to := []string(c.Mail)
			if !was.Due.Before(due) {
				to, next.Lost = was.Left, was.Lost
			}
			err := r.one(ctx, c, to, due)
			refused, some := errors.AsType[smtp.Refused](err)
			for _, x := range refused {
				if x.Temporary() {
					next.Left = append(next.Left, x.To)
				} else {
					next.Lost = append(next.Lost, x.To+": "+x.Err.Error())
				}
			}
			if err != nil && !some {
				failed = errors.Join(failed, err)
				continue
			}
			if err != nil {
				r.Log.Error("a report is not sent to all of its recipients", "error", err)
			}
		}
		sent[c.Key()] = next
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

// A dispatch is what was sent of a schedule.
type dispatch struct {
	Due  time.Time `json:"due"`            // of the last report
	Left []string  `json:"left,omitempty"` // whom the server refused for now; the others have it
	Lost []string  `json:"lost,omitempty"` // who never gets it, and why; [Sending.Problems] says so until the next
}

// UnmarshalJSON also reads a time alone, which stands for a report that all have.
func (d *dispatch) UnmarshalJSON(b []byte) error {
	if len(b) > 0 && b[0] == '"' {
		return json.Unmarshal(b, &d.Due)
	}
	type plain dispatch
	return json.Unmarshal(b, (*plain)(d))
}

// one makes a report and sends it to some addresses of its schedule.
func (r *Sending) one(ctx context.Context, c *Schedule, to []string, due time.Time) error {
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
	table.WriteString(sheet.Mark) // people open it
	if err := errors.Join(x.PDF(&paper), x.CSV(&table)); err != nil {
		return err
	}
	name := "report-" + since.Format(time.DateOnly)
	return r.Mail.Send(ctx, &mail.Message{To: to, Subject: x.Title, Text: x.Title + "\n\n" + strings.Join(x.Says, "\n") + "\n",
		Files: []mail.File{{Name: name + ".pdf", Type: "application/pdf", Data: paper.Bytes()}, {Name: name + ".csv", Type: "text/csv; charset=utf-8", Data: table.Bytes()}}})
}
