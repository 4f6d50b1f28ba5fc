package policy

import (
	"net/netip"
	"testing"
	"time"

	"shuultuur/filter"
)

// editing is a check that changes every page.
type editing struct{ *fake }

func (editing) Changes(_ *filter.Transaction, dst *filter.Changes) bool {
	dst.Reset()
	dst.Style = append(dst.Style, ".ad{display:none}"...)
	return true
}

func (editing) Sheet(*filter.Transaction, bool) (css []byte, zipped, ok bool) {
	return []byte(".all{}"), false, true
}

func TestPagesAreChangedWhereThePolicySaysHide(t *testing.T) {
	begin := time.Date(2026, 1, 31, 12, 0, 0, 0, time.Local)
	for name, tt := range map[string]struct {
		hide   bool
		client string
		action filter.Action
		paused bool
		want   bool
	}{
		"hide":                        {hide: true, client: "192.0.2.1", want: true},
		"a rule warned and was left":  {hide: true, client: "192.0.2.1", action: filter.Warn, want: true},
		"hide is left out":            {client: "192.0.2.1"},
		"a rule allows the page":      {hide: true, client: "192.0.2.1", action: filter.Allow},
		"during a pause":              {hide: true, client: "192.0.2.1", paused: true},
		"no policy covers the client": {hide: true, client: "198.51.100.1"},
	} {
		var pauses Pauses
		if tt.paused {
			pauses.Set([]Pause{{"", begin.Add(time.Minute)}})
		}
		e := newEngineOf(t, Config{{Name: "p", Networks: []Network{{Prefix: netip.MustParsePrefix("192.0.2.0/24")}}, Hide: tt.hide}}, Parts{Pauses: &pauses}, phrases(1), editing{list(nil)})
		tr := &filter.Transaction{Start: begin, Client: filter.Client{Addr: netip.MustParseAddr(tt.client)}, Verdict: filter.Verdict{Action: tt.action}}
		var changes filter.Changes
		if got := e.Changes(tr, &changes); got != tt.want || got && len(changes.Style) == 0 {
			t.Errorf("%s: Changes = %v with style %q, want %v", name, got, changes.Style, tt.want)
		}
		sheet := tt.want || tt.action == filter.Allow && tt.hide && !tt.paused
		if _, _, ok := e.Sheet(tr, false); ok != sheet {
			t.Errorf("%s: Sheet found one: %v, want %v", name, ok, sheet)
		}
	}
}
