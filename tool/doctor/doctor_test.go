package doctor

import (
	"bufio"
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"math/big"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "write the golden files anew")

// fake is a machine with given facts.
type fake struct {
	system       string
	now          time.Time
	kernel       map[string]string
	soft, hard   uint64
	timeWait     int64
	synchronised bool
	seeded       bool
	memory       int64
	disk         Disk
	written      Written
	ports        map[string]error // facts that cannot be determined
	addresses    []netip.Addr
	output       map[string]string // outputs by command line; other programs are not installed
	err          error             // error of everything except Kernel, unless nil
}

func (f *fake) System() string                { return f.system }
func (f *fake) Now() time.Time                { return f.now }
func (f *fake) Files() (_, _ uint64, _ error) { return f.soft, f.hard, f.err }
func (f *fake) TimeWait() (int64, error)      { return f.timeWait, f.err }
func (f *fake) Synchronised() (bool, error)   { return f.synchronised, f.err }
func (f *fake) Entropy() (bool, error)        { return f.seeded, f.err }
func (f *fake) Memory() (int64, error)        { return f.memory, f.err }
func (f *fake) Disk(string) (Disk, error)     { return f.disk, f.err }
func (f *fake) Written(int) (Written, error)  { return f.written, f.err }

func (f *fake) Output(_ context.Context, name string, args ...string) (string, error) {
	if f.err != nil {
		return "", f.err
	}
	s, ok := f.output[strings.Join(append([]string{name}, args...), " ")]
	if !ok {
		return "", fmt.Errorf("running %s: %w", name, exec.ErrNotFound)
	}
	return s, nil
}

func (f *fake) Kernel(name string) (string, error) {
	s, ok := f.kernel[name]
	if !ok {
		return "", fmt.Errorf("sysctl %s: %w", name, fs.ErrNotExist)
	}
	return s, nil
}

var noon = time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC)

func strong() *fake {
	return &fake{
		system: "linux", now: noon, soft: 1 << 20, hard: 1 << 20, timeWait: 12, synchronised: true, seeded: true, memory: 8 << 30,
		disk: Disk{Free: 40 << 30, Total: 100 << 30, Files: 5_000_000, FilesLimited: true, Sync: 1200 * time.Microsecond},
		kernel: map[string]string{
			"net.core.somaxconn": "4096", "net.ipv4.tcp_max_syn_backlog": "8192", "fs.file-nr": "1184\t0\t9223372036854775807",
			"net.ipv4.ip_local_port_range": "10000\t65535", "net.netfilter.nf_conntrack_max": "262144", "net.netfilter.nf_conntrack_count": "512",
			"net.core.rmem_max": "4194304", "net.core.wmem_max": "4194304",
		},
	}
}

func weak() *fake {
	return &fake{
		system: "linux", now: time.Date(1970, 1, 1, 0, 3, 0, 0, time.UTC), soft: 1024, hard: 4096, timeWait: 20_000, memory: 512 << 20,
		disk: Disk{Free: 900 << 20, Total: 4 << 30, Files: 17, FilesLimited: true, Sync: 210 * time.Millisecond},
		kernel: map[string]string{
			"net.core.somaxconn": "128", "net.ipv4.tcp_max_syn_backlog": "128", "fs.file-nr": "9800\t0\t10000",
			"net.ipv4.ip_local_port_range": "32768\t60999", "net.netfilter.nf_conntrack_max": "7680", "net.netfilter.nf_conntrack_count": "7600",
			"net.core.rmem_max": "212992", "net.core.wmem_max": "212992",
		},
	}
}

func weakBSD() *fake {
	m := weak()
	m.system, m.now = "freebsd", noon
	m.kernel = map[string]string{
		"kern.ipc.soacceptqueue": "128", "kern.openfiles": "300", "kern.maxfiles": "12000",
		"net.inet.ip.portrange.first": "49152", "net.inet.ip.portrange.last": "65535", "kern.ipc.maxsockbuf": "262144",
	}
	return m
}

func golden(t *testing.T, name string, write func(io.Writer) error) {
	t.Helper()
	var got bytes.Buffer
	if err := write(&got); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(file, got.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got.String()); diff != "" {
		t.Errorf("the report of %s differs (-want +got):\n%s", name, diff)
	}
}

func TestReports(t *testing.T) {
	cfg := Config{Data: "data", Connections: 4096, Held: 64 << 20}
	small := cfg
	small.Held, small.Settings, small.Mistakes = 400<<20, "shuultuur.yaml", errors.New("shuultuur.yaml:3: listne: there is no such setting\nshuultuur.yaml:9: more")
	for _, c := range []struct {
		name    string
		machine *fake
		cfg     Config
		healthy bool
	}{
		{"strong", strong(), cfg, true},
		{"weak", weak(), small, false},
		{"freebsd", weakBSD(), cfg, false},
		{"bare", bare(), Config{Transparent: []string{"[::]:3129"}, TPROXY: []string{"[::]:3130"}}, false},
		{"bare-freebsd", bareBSD(), Config{Transparent: []string{"[::]:3129"}}, false},
		{"mute", &fake{system: "linux", now: noon, err: errors.New("not permitted")}, cfg, true},
	} {
		r := Look(t.Context(), c.machine, c.cfg)
		golden(t, c.name+".txt", r.Text)
		golden(t, c.name+".json", r.JSON)
		if r.Healthy() != c.healthy {
			t.Errorf("%s: got healthy %v, want %v", c.name, r.Healthy(), c.healthy)
		}
		for _, f := range r.Findings {
			if (f.Level == Low || f.Level == Bad) && (f.Wanted == "" || f.Why == "" || len(f.Mend) == 0) {
				t.Errorf("%s: the finding about %q is %s and does not say what is wanted, why, and what to do", c.name, f.About, f.Level)
			}
		}
	}
}

func find(t *testing.T, r *Report, about string) Finding {
	t.Helper()
	for _, f := range r.Findings {
		if f.About == about {
			return f
		}
	}
	t.Fatalf("no finding about %q in %+v", about, r.Findings)
	return Finding{}
}

func TestTheAcceptQueueByItsOldName(t *testing.T) {
	m := weakBSD()
	m.kernel["kern.ipc.somaxconn"] = m.kernel["kern.ipc.soacceptqueue"]
	delete(m.kernel, "kern.ipc.soacceptqueue")
	if got := find(t, Look(t.Context(), m, Config{}), "kern.ipc.somaxconn"); got.Level != Low {
		t.Errorf("the finding is %+v, want it low", got)
	}
}

func TestMemoryAgainstItsLimits(t *testing.T) {
	for _, c := range []struct {
		have, limit, held int64
		memory, bodies    Level
		advice            string
	}{
		{8 << 30, 0, 64 << 20, OK, OK, ""},
		{1 << 30, 0, 64 << 20, Low, OK, "768MiB"},
		{1 << 30, 768 << 20, 64 << 20, OK, OK, ""},
		{1 << 30, 800 << 20, 64 << 20, Bad, OK, "768MiB"},
		{1 << 30, 1 << 30, 64 << 20, Bad, OK, "768MiB"},
		{8 << 30, 256 << 20, 200 << 20, OK, Low, "held-total: 128MiB"},
		{8 << 30, 0, 5 << 30, OK, Low, "held-total: 3072MiB"},
		{1 << 30, 0, 400 << 20, Low, Low, "held-total: 384MiB"},
		{1 << 30, 2 << 30, 400 << 20, Bad, Low, "held-total: 384MiB"},
	} {
		m := strong()
		m.memory = c.have
		found := Look(t.Context(), m, Config{MemoryLimit: c.limit, Held: c.held})
		memory := find(t, found, "memory")
		bodies := Finding{Level: OK}
		if c.bodies != OK {
			bodies = find(t, found, "held bodies")
		}
		advice := strings.Join(append(memory.Mend, bodies.Mend...), "\n")
		if memory.Level != c.memory || bodies.Level != c.bodies || !strings.Contains(advice, c.advice) {
			t.Errorf("memory %d, GOMEMLIMIT %d, held %d: got %+v and %+v, want %s, %s and advice %q", c.have, c.limit, c.held, memory, bodies, c.memory, c.bodies, c.advice)
		}
		// A machine on which the advice was followed is fine.
		limit, held := c.limit, c.held
		if memory.Level != OK {
			limit = c.have >> 20 * 3 / 4 << 20
		}
		if bodies.Level != OK {
			held = min(held, max(limit, 0)/2)
			if limit == 0 {
				held = c.have >> 20 * 3 / 4 << 20 / 2
			}
		}
		for _, f := range Look(t.Context(), m, Config{MemoryLimit: limit, Held: held}).Findings {
			if (f.About == "memory" || f.About == "held bodies") && f.Level != OK {
				t.Errorf("after the advice for memory %d, GOMEMLIMIT %d, held %d was followed: %+v, want it ok", c.have, c.limit, c.held, f)
			}
		}
	}
}

// certificate writes a self-signed certificate and returns its file.
func certificate(t *testing.T, from, to time.Time) string {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	c := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "proxy.example"}, NotBefore: from, NotAfter: to}
	der, err := x509.CreateCertificate(rand.Reader, c, c, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "cert.pem")
	if err := os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

func TestCertificateDates(t *testing.T) {
	day := 24 * time.Hour
	notPEM := filepath.Join(t.TempDir(), "cert.pem")
	if err := os.WriteFile(notPEM, []byte("hello"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		file, found string
		want        Level
	}{
		{certificate(t, noon.Add(-day), noon.Add(90*day)), `"proxy.example", good until 2026-06-02`, OK},
		{certificate(t, noon.Add(-day), noon.Add(3*day)), "3 days", Low},
		{certificate(t, noon.Add(-9*day), noon.Add(-day)), "from 2026-02-23 to 2026-03-03", Bad},
		{certificate(t, noon.Add(day), noon.Add(9*day)), "from 2026-03-05", Bad},
		{notPEM, "no certificate in it", Bad},
		{"nothing.pem", "nothing.pem", Bad},
	} {
		got := find(t, Look(t.Context(), strong(), Config{Cert: c.file}), "certificate of listen.tls")
		if got.Level != c.want || !strings.Contains(got.Found, c.found) {
			t.Errorf("got %s, %q; want %s, %q", got.Level, got.Found, c.want, c.found)
		}
	}
}

func TestListAges(t *testing.T) {
	dir := t.TempDir()
	for name, age := range map[string]time.Duration{"new": time.Hour, "fresh": 29 * 24 * time.Hour, "old": 45 * 24 * time.Hour} {
		file := filepath.Join(dir, name)
		if err := os.WriteFile(file, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(file, noon, noon.Add(-age)); err != nil {
			t.Fatal(err)
		}
	}
	var cfg Config
	for _, name := range []string{"new", "fresh", "old", "gone"} {
		cfg.Lists = append(cfg.Lists, List{name, filepath.Join(dir, name)})
	}
	r := Look(t.Context(), strong(), cfg)
	for about, want := range map[string]Finding{
		"lists":     {Level: OK, Found: "2 fresh"},
		"list old":  {Level: Low, Found: "45 days old"},
		"list gone": {Level: Bad, Found: "no such file"},
	} {
		if got := find(t, r, about); got.Level != want.Level || !strings.Contains(got.Found, want.Found) {
			t.Errorf("%s: got %s, %q; want %s, %q", about, got.Level, got.Found, want.Level, want.Found)
		}
	}
}

// redisServer answers every connection with reply, whatever is asked.
func redisServer(t *testing.T, reply string) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = c.Read(make([]byte, 512))
			_, _ = io.WriteString(c, reply)
			c.Close()
		}
	}()
	t.Cleanup(func() { l.Close(); <-done })
	return l.Addr().String()
}

func bulkString(s string) string { return fmt.Sprintf("$%d\r\n%s\r\n", len(s), s) }

func TestRedis(t *testing.T) {
	info := func(max, policy string) string {
		return bulkString("# Server\r\nredis_version:7.2.4\r\n# Memory\r\nmaxmemory:" + max + "\r\nmaxmemory_policy:" + policy + "\r\n")
	}
	backlog := func(n string) string { return "*2\r\n" + bulkString("tcp-backlog") + bulkString(n) }
	for _, c := range []struct {
		reply                 string
		server, queue, memory Level
	}{
		{info("536870912", "volatile-lru") + backlog("511"), OK, OK, OK},
		{info("0", "noeviction") + backlog("128"), OK, Low, Low},
		{info("536870912", "noeviction") + backlog("511"), OK, OK, Low},
		{info("536870912", "allkeys-lfu") + "-ERR unknown command 'CONFIG'\r\n", OK, Unknown, OK},
		{bulkString("") + "*0\r\n", OK, Unknown, Unknown},
		{"-NOAUTH Authentication required.\r\n", Bad, "", ""},
		{"HTTP/1.1 400 Bad Request\r\n", Bad, "", ""},
		{"", Bad, "", ""},
	} {
		addr := redisServer(t, c.reply)
		r := Look(t.Context(), strong(), Config{Redis: addr})
		got := find(t, r, "redis "+addr)
		if got.Level != c.server {
			t.Errorf("%q: got %+v, want %s", c.reply, got, c.server)
		}
		if c.queue == "" {
			continue
		}
		if q, m := find(t, r, "redis backlog"), find(t, r, "redis memory"); q.Level != c.queue || m.Level != c.memory {
			t.Errorf("%q: got backlog %s, memory %s; want %s, %s", c.reply, q.Level, m.Level, c.queue, c.memory)
		}
	}
}

func FuzzReply(f *testing.F) {
	for _, s := range []string{"+OK\r\n", "-ERR no\r\n", bulkString("a:b"), "*2\r\n$1\r\na\r\n$0\r\n\r\n", "*-1\r\n", "$-1\r\n", "*1000\r\n", "$9999999\r\n", "\r\n"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		all, err := readReply(bufio.NewReader(bytes.NewReader(b)))
		size := 0
		for _, s := range all {
			size += len(s)
		}
		if err == nil && size > len(b) {
			t.Errorf("readReply(%q) returned %d bytes of %d", b, size, len(b))
		}
	})
}

func TestThisMachineAnswers(t *testing.T) {
	dir := t.TempDir()
	r := Look(t.Context(), ThisMachine{}, Config{Data: dir})
	for _, about := range []string{"open files of a process", "ports for outgoing connections", "random numbers", "memory", "disk sync"} {
		if f := find(t, r, about); f.Level == Unknown {
			t.Errorf("inspecting %s on this machine failed: %s", about, f.Found)
		}
	}
	left, err := os.ReadDir(dir)
	if err != nil || len(left) > 0 {
		t.Errorf("Disk leaves files behind: %v, %v", left, err)
	}
}

// TestWhatADayWrites: by the time that the gateway has run, from an hour on; on a card, much is low, and
// the pace of the record is the remedy where it is not slow already.
func TestWhatADayWrites(t *testing.T) {
	for _, c := range []struct {
		written     Written
		card, often bool
		level       Level
		found, mend string
	}{
		{Written{30 << 20, 6 * time.Hour}, true, false, OK, "120 MiB a day, by the last 6h0m0s", ""},
		{Written{30 << 20, 59 * time.Minute}, true, true, OK, "30 MiB since the start 59m0s ago; ask after an hour what a day writes", ""},
		{Written{0, 48 * time.Hour}, true, true, OK, "0 KiB a day, by the last 48h0m0s", ""},
		{Written{4 << 30, 48 * time.Hour}, false, true, OK, "2 GiB a day, by the last 48h0m0s", ""},
		{Written{4 << 30, 48 * time.Hour}, true, true, Low, "2 GiB a day, by the last 48h0m0s", "every: 1m"},
		{Written{4 << 30, 48 * time.Hour}, true, false, Low, "2 GiB a day, by the last 48h0m0s", "another disk"},
	} {
		m := strong()
		m.written, m.disk.Card = c.written, c.card
		f := find(t, Look(t.Context(), m, Config{Data: "data", Process: 7, Often: c.often}), "written to disks")
		mend := strings.Join(f.Mend, "\n")
		if f.Level != c.level || f.Found != c.found || !strings.Contains(mend, c.mend) || strings.Contains(mend, "every") != (c.level == Low && c.often) {
			t.Errorf("%+v: %+v", c, f)
		}
	}
}

func TestDiskOfAFolderThatIsNotThereYet(t *testing.T) {
	d, err := ThisMachine{}.Disk(filepath.Join(t.TempDir(), "a", "b"))
	if err != nil || d.Total == 0 || d.SyncUntried == "" {
		t.Errorf("Disk of a missing folder: %+v, %v; want the size of the folder above and no sync", d, err)
	}
}
