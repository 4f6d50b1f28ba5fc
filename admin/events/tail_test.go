package events

import (
	"context"
	"iter"
	"net/netip"
	"strings"
	"testing"

	"shuultuur/admin/account"
	"shuultuur/admin/web"
	"shuultuur/event"
)

// noRows is a record without rows.
type noRows struct{ event.Reader }

func (noRows) Query(context.Context, event.Filter, event.Page) iter.Seq2[event.Row, error] {
	return func(func(event.Row, error) bool) {}
}

// TestLivePagesShowWhatAPersonMaySee: the stream has the same limits as the record.
func TestLivePagesShowWhatAPersonMaySee(t *testing.T) {
	groups := func(_ netip.Addr, user string) []string {
		if user == "anna" {
			return []string{"7a"}
		}
		return []string{"7b"}
	}
	site := web.NewSite(web.Shared{Privacy: func() web.Privacy { return web.Privacy{URLs: account.Operator} }, Groups: groups})
	rows := []event.Row{{User: "anna", URL: "https://a.example/secret?q=1"}, {User: "ben", URL: "https://b.example/other"}}
	for role, want := range map[account.Role]string{
		account.Viewer:   "https://a.example/ https://b.example/",
		account.Operator: "https://a.example/secret?q=1 https://b.example/other",
		account.Helper:   "https://a.example/",
	} {
		b := site.Bounds(&account.Who{Name: "x", Role: role, Groups: []string{"7a"}})
		tails := &tail{events: noRows{}}
		w, err := tails.join(event.Filter{}, b.Redact)
		if err != nil {
			t.Fatal(err)
		}
		for _, row := range rows {
			tails.publish(&row)
		}
		tails.leave(w)
		select {
		case <-tails.ended:
		default:
			t.Error("the last viewer has left, and the record is still read")
		}
		var got []string
		for len(w.rows) > 0 {
			row := <-w.rows
			got = append(got, row.URL)
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%v sees %q, want %q", role, got, want)
		}
	}
}
