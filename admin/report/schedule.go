package report

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"net/netip"
	"strings"
	"sync"
	"time"

	"shuultuur/admin/mail"
	"shuultuur/event"
	"shuultuur/lib/clock"
	"shuultuur/lib/setting"
	"shuultuur/text"
)

// A Schedule has reports sent by mail.
type Schedule struct {
	Every string                    `yaml:"every"`                // day, about the day before, or week, on Mondays about the week before
	At    string                    `yaml:"at"`                   // when on the day; default "07:00"
	Group string                    `yaml:"group" names:"people"` // only of these people; default everybody
	Mail  setting.OneOrMore[string] `yaml:"mail" names:"people"`  // recipients
	// Language is the language of the report, a tag such as mn or uz-Cyrl; default
	// en.
	Language string `yaml:"language"`
}

// Check returns the mistake in the settings, or nil.
func (s *Schedule) Check() error {
	if s.At == "" {
		s.At = "07:00"
	}
	if _, err := time.Parse("15:04", s.At); err != nil {
		return setting.At("at", fmt.Errorf(`%q is not a time of day: write it like "07:00"`, s.At))
	}
	if s.Every != "day" && s.Every != "week" {
		return setting.At("every", fmt.Errorf("%q is neither day nor week", s.Every))
	}
	if len(s.Mail) == 0 {
		return setting.At("mail", errors.New("to whom? name addresses of mail"))
	}
	return nil
}

// Key identifies a schedule.
func (s *Schedule) Key() string {
	return strings.Join([]string{s.Every, s.At, s.Group, strings.Join(s.Mail, ",")}, " ")
}

// Due returns the latest time, not after now, at which a report was due.
func (s *Schedule) Due(now time.Time) time.Time {
	on, _ := time.Parse("15:04", s.At) // Check has verified it
	back, step := 0, 1
	if s.Every == "week" {
		back, step = (int(now.Weekday())+6)%7, 7
	}
	y, m, d := now.Date()
	for {
		at := clock.Moment(y, m, d-back, on.Hour()*60+on.Minute(), now.Location())
		if !at.After(now) {
			return at
		}
		back += step
	}
}

// A Source can be queried for rows.
type Source interface {
	Query(ctx context.Context, f event.Filter, p event.Page) iter.Seq2[event.Row, error]
}

// A Sending sends reports by mail at the times in schedules. Call Check before Run.
type Sending struct {
	Schedules []Schedule
	Mail      *mail.Sender                                // nil: there is no mail server
	File      string                                      // keeps the list of sent reports
	Source    func() Source                               // nil if no store of events can be queried
	Groups    func(addr netip.Addr, user string) []string // groups of a user
	Texts     text.Choice
	Log       *slog.Logger

	mu    sync.Mutex
	lost  []string // who did not get the last reports
	left  bool     // some of them are to get it later
	fault string
}
