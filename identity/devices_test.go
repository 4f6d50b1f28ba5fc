package identity

import (
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"
	"testing"
	"time"

	"shuultuur/identity/session"
	"shuultuur/lib/setting"
)

// TestTheSessionOfAnotherDeviceEnds: by the files of three DHCP servers, and as a neighbour; a
// file that cannot be read and neighbours that cannot be known take nothing away.
func TestTheSessionOfAnotherDeviceEnds(t *testing.T) {
	at := netip.MustParseAddr("10.1.0.5")
	file := filepath.Join(t.TempDir(), "leases")
	sessions := session.New(sessionStore{}, slog.New(slog.DiscardHandler))
	var near map[netip.Addr]string
	var failing error
	d := &Devices{files: []string{file}, sessions: sessions, log: slog.New(slog.DiscardHandler), look: func() (map[netip.Addr]string, error) { return near, failing }}
	writes := 0
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		writes++ // files that are written at once may have one size and time
		if err := os.Chtimes(file, time.Time{}, time.Unix(1_700_000_000+int64(writes), 0)); err != nil {
			t.Fatal(err)
		}
		d.tell()
	}
	begin := func() {
		t.Helper()
		if err := sessions.Start(session.Session{Addr: at, User: "anna", Until: time.Now().Add(time.Hour)}); err != nil {
			t.Fatal(err)
		}
	}
	check := func(what string, want bool) {
		t.Helper()
		if got := sessions.Lookup(at) != nil; got != want {
			t.Errorf("%s: the session goes on: %v, want %v", what, got, want)
		}
	}
	for name, lease := range map[string]string{
		"dnsmasq": "1770000000 %s 10.1.0.5 laptop *\n",
		"isc":     "lease 10.1.0.5 {\n  hardware ethernet aa:bb:cc:00:00:09;\n}\nlease 10.1.0.5 {\n  hardware ethernet %s;\n}\n",
		"kea":     "address,hwaddr,client_id\n10.1.0.5,aa:bb:cc:00:00:09,\n10.1.0.5,%s,\n",
	} {
		write(fmt.Sprintf(lease, "aa:bb:cc:00:00:01"))
		begin()
		write(fmt.Sprintf(lease, "AA:BB:CC:00:00:01") + "\n")
		check(name+": the same device", true)
		if err := os.Remove(file); err != nil {
			t.Fatal(err)
		}
		d.tell()
		check(name+": without the file", true)
		write(fmt.Sprintf(lease, "aa:bb:cc:00:00:02"))
		check(name+": another device", false)
	}
	near = map[netip.Addr]string{at: "aa:bb:cc:00:00:02"}
	d.tell()
	begin()
	near, failing = nil, errors.New("not permitted")
	d.tell()
	check("neighbours that are not known", true)
	near, failing = map[netip.Addr]string{at: "aa:bb:cc:00:00:03"}, nil
	d.tell()
	check("another neighbour", false)
}

func TestWatchingDevicesEnds(t *testing.T) {
	sessions := session.New(sessionStore{}, slog.New(slog.DiscardHandler))
	WatchDevices([]setting.Source{setting.Source(filepath.Join(t.TempDir(), "none"))}, sessions, slog.New(slog.DiscardHandler)).Close()
}
