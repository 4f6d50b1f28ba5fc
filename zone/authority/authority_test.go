//go:build !small

package authority

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	miekg "github.com/miekg/dns"

	"shuultuur/lib/redis"
	"shuultuur/lib/setting"
	"shuultuur/test/redistest"
	"shuultuur/test/zonetest"
	"shuultuur/zone"
	"shuultuur/zone/redins"
	"shuultuur/zone/sign"
	"shuultuur/zone/transfer"
)

// run runs a set until the test ends or stop is called.
func run(t *testing.T, s *Authority) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error)
	go func() { done <- s.Run(ctx) }()
	stop = sync.OnceFunc(func() { cancel(); <-done })
	t.Cleanup(stop)
	return stop
}

// answer returns the address that a set answers with, or the response code.
func answer(t *testing.T, s *Authority, name string) string {
	t.Helper()
	r := zonetest.Ask(t, s.responder, zonetest.Question(name, miekg.TypeA), 4096)
	switch {
	case r == nil:
		return "declined"
	case len(r.Answer) > 0:
		return r.Answer[0].(*miekg.A).A.String()
	}
	return miekg.RcodeToString[r.Rcode]
}

const text = "$TTL 60\n@ SOA ns host 1 2 3 4 5\n@ NS ns\nns A 192.0.2.1\n"

func write(t *testing.T, file, text string) {
	t.Helper()
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestNewSettingsGoOnWithWhatIsServed(t *testing.T) {
	server := redistest.Start(t, "--notify-keyspace-events", "AK")
	server.Do(t, "SADD", "redins:zones", "redis.test.")
	server.Do(t, "HSET", "redins:zones:redis.test.", "www", `{"a":{"ttl":300,"records":[{"ip":"192.0.2.7"}]}}`)
	dir := t.TempDir()
	for _, name := range []string{"good", "bad", "gone"} {
		write(t, filepath.Join(dir, name+".test.zone"), text+"www A 192.0.2.1\n")
	}
	var cfg Config
	from := &redins.Config{Redis: redis.Config{Addresses: []string{server.Addr}}}
	nobody := func() Upstream { return nil }
	cfg.Transfer = transfer.Config{Folder: setting.Folder(t.TempDir()), Serial: transfer.Increment}
	file := func(name string) zone.File {
		return zone.File{Path: setting.Source(filepath.Join(dir, name+".test.zone"))}
	}
	cfg.Files.Files = []zone.File{file("good"), file("bad"), file("gone")}
	log := slog.New(slog.NewTextHandler(t.Output(), nil))
	first, err := New(cfg, from, nobody, nil, log)
	if err != nil {
		t.Fatal(err)
	}
	stop := run(t, first)
	first.Ready()
	if got := answer(t, first, "www.redis.test."); got != "192.0.2.7" {
		t.Fatalf("www.redis.test.: got %s, want 192.0.2.7", got)
	}
	server.Stop()

	// Redis is away, one file is bad, one is new, and one is no longer in the settings.
	write(t, filepath.Join(dir, "bad.test.zone"), text+"www A x\n")
	write(t, filepath.Join(dir, "good.test.zone"), text+"www A 192.0.2.2\n")
	write(t, filepath.Join(dir, "new.test.zone"), text+"www A 192.0.2.3\n")
	cfg.Files.Files = []zone.File{file("good"), file("bad"), file("new")}
	second, err := New(cfg, from, nobody, first, log)
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string][2]string{
		"www.good.test.": {"192.0.2.1", "192.0.2.2"}, "www.bad.test.": {"192.0.2.1", "192.0.2.1"}, "www.new.test.": {"declined", "192.0.2.3"},
		"www.gone.test.": {"192.0.2.1", "declined"}, "www.redis.test.": {"192.0.2.7", "192.0.2.7"},
	} {
		if got := answer(t, first, name); got != want[0] {
			t.Errorf("A of %s from the first authority: got %s, want %s", name, got, want[0])
		}
		if got := answer(t, second, name); got != want[1] {
			t.Errorf("A of %s from the second authority: got %s, want %s", name, got, want[1])
		}
	}
	if faults := second.Faults(); len(faults) != 1 || !strings.Contains(faults[0].Error(), "zones.files[1].path: ") || !strings.Contains(faults[0].Error(), "bad.test.zone:5: ") {
		t.Errorf("faults: got %v, want one that names the bad file and its line", faults)
	}
	if problems := second.Problems(); len(problems) == 0 || !strings.Contains(problems[0], "it is served as it was before") {
		t.Errorf("problems: got %q, want that the zone is served as before", problems)
	}
	stop()
	run(t, second)
	if got := answer(t, second, "www.redis.test."); got != "192.0.2.7" {
		t.Errorf("www.redis.test. after the change of settings: got %s, want 192.0.2.7", got)
	}
	// The serial number continues.
	if soa := second.responder.Served("good.test.", "").Info().Serial; soa != 2 {
		t.Errorf("serial %d, want 2", soa)
	}
}

// TestZonesThatLeaveRedisTakeTheirSignerAlong: a zone that leaves Redis is no longer signed,
// and the memory used for reading is returned.
func TestZonesThatLeaveRedisTakeTheirSignerAlong(t *testing.T) {
	server := redistest.Start(t, "--notify-keyspace-events", "AK")
	server.Do(t, "SADD", "redins:zones", "redis.example.")
	server.Do(t, "HSET", "redins:zones:redis.example.", "www", `{"a":{"ttl":300,"records":[{"ip":"192.0.2.7"}]}}`)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	z, err := New(Config{}, &redins.Config{Redis: redis.Config{Addresses: []string{server.Addr}}}, func() Upstream { return nil }, nil, slog.New(slog.NewTextHandler(t.Output(), nil)))
	if err != nil {
		t.Fatal(err)
	}
	run(t, z)
	z.Ready()
	if runtime.ReadMemStats(&after); after.NumForcedGC == before.NumForcedGC || len(z.responder.Zones()) != 1 {
		t.Errorf("%d zones read, %d forced collections; want 1 zone and a collection", len(z.responder.Zones()), after.NumForcedGC-before.NumForcedGC)
	}
	server.Do(t, "SREM", "redins:zones", "redis.example.")
	for end := time.Now().Add(time.Minute); len(z.responder.Zones()) > 0 && time.Now().Before(end); {
		time.Sleep(5 * time.Millisecond)
	}
	if n := len(z.responder.Zones()); n > 0 {
		t.Errorf("%d zones are still served after Redis lost them", n)
	}

	ring, err := sign.NewRing(sign.Config{})
	if err != nil {
		t.Fatal(err)
	}
	key, err := sign.Generate("redis.example.", "ed25519", true)
	if err != nil {
		t.Fatal(err)
	}
	path, err := key.Write(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	private, err := os.ReadFile(strings.TrimSuffix(path, ".key") + ".private")
	if err != nil {
		t.Fatal(err)
	}
	signer := func() *sign.Signer {
		t.Helper()
		signer, err := ring.Signer("redis.example.", key.DNSKEY.String(), string(private))
		if err != nil {
			t.Fatal(err)
		}
		return signer
	}
	first := signer()
	if signer() != first {
		t.Error("the same keys gave a new signer")
	}
	redisZones{z.publisher, ring}.Remove("redis.example.", "")
	if signer() == first {
		t.Error("the signer stayed after its zone was removed")
	}
}
