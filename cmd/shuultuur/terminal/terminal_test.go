package terminal

import (
	"bytes"
	"os"
	"strings"
	"testing"
	"time"

	"shuultuur/admin/remote"
	"shuultuur/admin/system"
	"shuultuur/policy"
)

func TestStatusBeginsWithOneSentence(t *testing.T) {
	now := time.Date(2026, 11, 26, 12, 0, 0, 0, time.Local)
	started := time.Date(2026, 11, 26, 6, 10, 0, 0, time.Local).UTC().Format(time.RFC3339)
	for name, c := range map[string]struct {
		s    remote.Status
		want string
	}{
		"all is well":     {remote.Status{Health: system.Health{Ready: true, Started: started, Settings: "/etc/s.yaml", State: "alone"}, Devices: 14}, "Filtering for 14 devices, since today, 06:10; no problems.\n  settings /etc/s.yaml, state alone\n"},
		"one device":      {remote.Status{Health: system.Health{Ready: true}, Devices: 1}, "Filtering for 1 device; no problems.\n"},
		"no record":       {remote.Status{Health: system.Health{Ready: true}, Devices: -1}, "Filtering; no problems.\n"},
		"a problem":       {remote.Status{Health: system.Health{Ready: true, Problems: []string{"list ads:\x1b[2J not here yet"}}, Devices: 0}, "Filtering for 0 devices; 1 problem.\n  list ads:[2J not here yet\n"},
		"it drains":       {remote.Status{Health: system.Health{Started: started}}, "The gateway starts or stops: it takes no connections at the moment.\n"},
		"paused":          {remote.Status{Health: system.Health{Ready: true}, Paused: []policy.Pause{{Until: now.Add(time.Hour)}}}, "Filtering is paused for everybody; no problems.\n  Paused for everybody until today, 13:00.\n"},
		"paused for some": {remote.Status{Health: system.Health{Ready: true}, Devices: 2, Paused: []policy.Pause{{Who: "anna", Until: now.Add(24 * time.Hour)}}}, "Filtering for 2 devices; no problems.\n  Paused for anna until tomorrow, 12:00.\n"},
		"a newer version": {remote.Status{Health: system.Health{Ready: true, Update: "v9"}, Devices: 2}, "Filtering for 2 devices; no problems.\n  Version v9 is there; this one is older.\n"},
	} {
		var b bytes.Buffer
		PrintStatus(&b, Ink{}, &c.s, now)
		if !strings.HasPrefix(b.String(), c.want) {
			t.Errorf("%s: got %q, want %q", name, b.String(), c.want)
		}
		b.Reset()
		PrintStatus(&b, Ink{true}, &c.s, now)
		if !strings.Contains(b.String(), "\x1b[3") || strings.Contains(b.String(), "\x1b[2J") {
			t.Errorf("%s: in colour: %q", name, b.String())
		}
	}
}

func TestMomentsAreSaidAsPeopleSayThem(t *testing.T) {
	now := time.Date(2026, 11, 26, 12, 0, 0, 0, time.Local)
	for want, at := range map[string]time.Time{
		"today, 06:10":            time.Date(2026, 11, 26, 6, 10, 0, 0, time.Local),
		"yesterday, 23:59":        time.Date(2026, 11, 25, 23, 59, 0, 0, time.Local),
		"tomorrow, 00:00":         time.Date(2026, 11, 27, 0, 0, 0, 0, time.Local),
		"3 March, 04:05":          time.Date(2026, 3, 3, 4, 5, 0, 0, time.Local),
		"31 December 2025, 12:00": time.Date(2025, 12, 31, 12, 0, 0, 0, time.Local),
	} {
		if got := Moment(at, now); got != want {
			t.Errorf("%v: got %q, want %q", at, got, want)
		}
	}
}

// TestPipesGetNoColours, and neither does a file, nor somebody who wants none.
func TestPipesGetNoColours(t *testing.T) {
	f, err := os.Create(t.TempDir() + "/out")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var b bytes.Buffer
	for _, ink := range []Ink{InkFor(f), InkFor(&b), {}} {
		if got := ink.Strong("a") + ink.Good("b") + ink.Bad("c") + ink.Faint("d"); got != "abcd" {
			t.Errorf("got %q, want no colours", got)
		}
	}
	if got := (Ink{true}).Bad("x"); got != "\x1b[31mx\x1b[0m" {
		t.Errorf("on a terminal: %q", got)
	}
}

func TestARulingIsASentence(t *testing.T) {
	now := time.Date(2026, 11, 26, 17, 20, 0, 0, time.Local)
	for want, c := range map[string]struct {
		d     policy.Decision
		ended bool
	}{
		"roblox.com is open for anna until today, 18:20.":              {policy.Decision{Site: "roblox.com", Who: "anna", Until: now.Add(time.Hour)}, false},
		"roblox.com is open for everybody, for good.":                  {policy.Decision{Site: "roblox.com"}, false},
		"Lists and rules decide about roblox.com for everybody again.": {policy.Decision{Site: "roblox.com"}, true},
	} {
		if got := Ruling(c.d, c.ended, now); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
