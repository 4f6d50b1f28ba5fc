package eventtest

import (
	"bytes"
	"net/netip"
	"os"
	"path/filepath"
	"testing"

	"shuultuur/event"
)

// Erases tests that a store removes a person's rows, and their bytes from the
// files in its folder, and keeps all other rows.
func Erases(t *testing.T, open func(path string) (event.Store, error)) {
	dir := t.TempDir()
	st, err := open(filepath.Join(dir, "record"))
	if err != nil {
		t.Fatal(err)
	}
	defer shut(t, st)
	const name, device = "zz-quilliam-77", "10.77.66.55"
	rows := Rows(Start(), 40_000)
	mine := 0
	for i := range rows {
		switch i % 100 {
		case 7:
			rows[i].User, rows[i].URL = name, "https://private.example/"+name
			mine++
		case 8:
			rows[i].Client = netip.MustParseAddr(device)
			mine++
		case 9:
			rows[i].Note = "paused for " + name
		}
	}
	write(t, st, rows[:30_000])
	write(t, st, nil) // upkeep
	r := st.(event.Reader)
	if _, err := r.Count(t.Context(), event.Question{By: event.User, Top: 3}); err != nil { // fills caches of the reader
		t.Fatal(err)
	}
	write(t, st, rows[30_000:])
	who := event.Person{Users: []string{name}, Clients: []netip.Addr{netip.MustParseAddr(device)}}
	counted, err := st.(event.Eraser).Erase(t.Context(), who, true)
	if err != nil {
		t.Fatal(err)
	}
	n, err := st.(event.Eraser).Erase(t.Context(), who, false)
	if err != nil || n < int64(mine) || n != counted {
		t.Fatalf("erased %d rows of %d, and counted %d: %v", n, mine, counted, err)
	}
	files, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil || len(files) == 0 {
		t.Fatalf("the store's folder: got files %q, %v, want some", files, err)
	}
	for _, f := range files {
		data, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		for _, word := range []string{name, device} {
			if bytes.Contains(data, []byte(word)) {
				t.Errorf("%s holds %q", f, word)
			}
		}
	}
	write(t, st, Rows(rows[len(rows)-1].Time.Add(1), 10))
	left, err := r.Count(t.Context(), event.Question{}, event.Question{Filter: parsed(t, "user:"+name)}, event.Question{Filter: parsed(t, "host:private.example")}, event.Question{Filter: parsed(t, "client:"+device)})
	if err != nil || left[0][0].Events != len(rows)-int(n)+10 || events(left[1]) != 0 || events(left[2]) != 0 || events(left[3]) != 0 {
		t.Errorf("after erasing %d of %d rows: %v %v", n, len(rows), left, err)
	}
	if got := collect(t, r, parsed(t, "user:pupil003"), event.Page{Limit: 5}); len(got) != 5 {
		t.Errorf("others have %d rows", len(got))
	}
}

func events(all []event.Tally) (n int) {
	for _, t := range all {
		n += t.Events
	}
	return n
}
