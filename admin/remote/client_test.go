package remote_test

import (
	"context"
	"net/http/httptest"
	"net/netip"
	"strconv"
	"strings"
	"testing"
	"time"

	"shuultuur/admin"
	"shuultuur/admin/account"
	"shuultuur/admin/admintest"
	"shuultuur/admin/remote"
	"shuultuur/admin/web"
	"shuultuur/event"
)

// A program that follows the record gets each row once and in order, even when there are more
// than a stream sends, and when the stream breaks.
func TestAProgramFollowsTheRecord(t *testing.T) {
	g := &admintest.Growing{}
	n := 0
	add := func(host string) {
		n++
		g.Add(event.Row{Time: time.Now(), ID: strconv.Itoa(n), Client: netip.MustParseAddr("10.0.0.1"), Host: host, URL: "http://" + host + "/"})
	}
	for range 450 {
		add("old.example")
	}
	p := admintest.Nobody()
	p.Events = &web.Record{Reader: g}
	s := httptest.NewServer(admin.New(p))
	defer s.Close()
	c := remote.Client{URL: s.URL}
	ids := func(limit int, oldest bool) (all []string) {
		t.Helper()
		for r, err := range c.Events(t.Context(), "host:old.example", limit, oldest) {
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, r.ID)
		}
		return all
	}
	if all := ids(0, true); len(all) != 450 || all[0] != "1" || all[449] != "450" {
		t.Errorf("oldest first: %d rows, %v", len(all), all)
	}
	if all := ids(201, false); len(all) != 201 || all[0] != "450" || all[200] != "250" {
		t.Errorf("newest first: rows %v, want 450 to 250", all)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	got := make(chan string, 10_000)
	done := make(chan error, 1)
	go func() {
		for r, err := range c.Follow(ctx, "host:new.example") {
			if err != nil {
				done <- err
				return
			}
			got <- r.ID
		}
		done <- nil
	}()
	var seen []string
	until := func(id string) {
		t.Helper()
		for len(seen) == 0 || seen[len(seen)-1] != id {
			select {
			case x := <-got:
				seen = append(seen, x)
			case err := <-done:
				t.Fatalf("Follow ended: %v", err)
			case <-ctx.Done():
				t.Fatalf("%d rows arrived, but not %s", len(seen), id)
			}
		}
	}
	for len(got) == 0 { // until it follows the record
		add("new.example")
		time.Sleep(50 * time.Millisecond)
	}
	for range 3000 {
		add("new.example")
		add("other.example")
	}
	add("new.example")
	until(strconv.Itoa(n))
	s.CloseClientConnections()
	for range 20 {
		add("new.example")
	}
	until(strconv.Itoa(n))
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
	for i, id := range seen[1:] {
		a, _ := strconv.Atoi(seen[i])
		if b, _ := strconv.Atoi(id); b <= a || b > a+2 {
			t.Fatalf("row %s follows row %s", id, seen[i])
		}
	}
	if len(seen) < 3021 {
		t.Errorf("%d rows arrived, want at least 3021", len(seen))
	}
}

// Programs can ask for sums by a field instead of rows.
func TestSumsByAField(t *testing.T) {
	h := admintest.NewHouse(t)
	for query, want := range map[string]string{
		"by=host": `"a.example"`, "by=user&top=1&filter=user:ben": `[{"name":"ben","events":1,"blocked":1}]`, "by=nonsense": "400 by=", "by=host&top=x": "400", "by=text": "400", "by=id": "400", "by=host&top=-1": "400",
		"by=host&filter=nonsense:x": "400",
	} {
		w := h.Ask(account.Owner, "GET", "/events?"+query, "")
		if got := strconv.Itoa(w.Code) + " " + w.Body.String(); !strings.Contains(got, want) {
			t.Errorf("%s: %s, want %s", query, got, want)
		}
	}
	if w := h.Ask(account.Helper, "GET", "/events?by=user", ""); strings.Contains(w.Body.String(), "ben") || !strings.Contains(w.Body.String(), "anna") {
		t.Errorf("the sums for a helper have people of other groups: %s", w.Body)
	}
}
