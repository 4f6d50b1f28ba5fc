package search

import (
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"shuultuur/event"
)

func TestSearchesAreKeptForEachAccountAndErased(t *testing.T) {
	b := &Book{File: filepath.Join(t.TempDir(), "searches.json")}
	names := func(who string) string {
		t.Helper()
		all, err := b.Of(who)
		if err != nil {
			t.Fatal(err)
		}
		var s []string
		for _, x := range all {
			s = append(s, x.Name+"="+x.Filter)
		}
		return strings.Join(s, " ")
	}
	for _, s := range []Search{{"olga", "b", "action:block", "1d"}, {"olga", "a", "user:anna", ""}, {"tess", "a", "client:10.0.0.7", ""}, {"olga", " b  ", "action:warn", ""}} {
		if err := b.Put(s); err != nil {
			t.Fatal(err)
		}
	}
	if got := names("olga") + "|" + names("tess") + "|" + names("ben"); got != "a=user:anna b=action:warn|a=client:10.0.0.7|" {
		t.Errorf("the saved searches are %s", got)
	}
	for _, bad := range []Search{{"olga", "", "action:block", ""}, {"olga", strings.Repeat("x", 200), "a", ""}, {"olga", "x", "action:dance", ""}} {
		if err := b.Put(bad); err == nil {
			t.Errorf("Put accepts %+v", bad)
		}
	}
	if n, err := b.Erase(event.Person{Users: []string{"anna"}, Clients: []netip.Addr{netip.MustParseAddr("10.0.0.7")}}, false); n != 2 || err != nil {
		t.Errorf("Erase removed %d searches, %v; want 2", n, err)
	}
	if text, err := os.ReadFile(b.File); err != nil || strings.Contains(string(text), "anna") || strings.Contains(string(text), "10.0.0.7") {
		t.Errorf("after the erasure the file has %s, %v", text, err)
	}
	if err := b.Put(Search{By: "olga", Name: "b"}); err != nil || strings.Contains(names("olga"), "b=") {
		t.Errorf("Put without a filter does not remove the search: %v", err)
	}
	for i := range MaxEach + 1 {
		err := b.Put(Search{"olga", fmt.Sprint(i), "a", ""})
		if (err == nil) != (i < MaxEach) {
			t.Fatalf("saving search %d of an account: %v", i, err)
		}
	}
}
