package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	mdns "github.com/miekg/dns"

	"shuultuur/load"
)

const resolverAbout = "names refused and names cached, with a list of a million domains, beside unbound and dnsmasq"

const (
	listedNames  = 1_000_000
	askedListed  = 100_000 // of those
	cachedNames  = 10_000
	resolverZone = "example.com."
)

// A nameServer is one that is measured.
type nameServer struct {
	name, addr string
	start      func(*resolverRig, *nameServer) error
	refuses    string // rcode of what it refuses
	proc       *process
	ready      time.Duration // from its start to its first answer
	list       bool          // it has the list
}

// A resolverRig is a rig with a list, an upstream and questions.
type resolverRig struct {
	*rig
	program, listed   string
	listedQ, cachedQ  string
	upstream, folderP string
	admin             string
}

// resolver sets the name server's filter beside others.
func resolver(ctx context.Context, opt options, out io.Writer) error {
	base, err := newNameRig(ctx, out, resolverAbout, "nsd", "taskset")
	if err != nil || base == nil {
		return err
	}
	r := &resolverRig{rig: base}
	defer r.close()
	if err := r.layOutNames(); err != nil {
		return err
	}
	servers, missing, err := r.startServers()
	if err != nil {
		return err
	}
	if err := r.pinSelf(dnsGeneratorCore); err != nil {
		return err
	}
	var t resolverTable
	for round := range opt.rounds + 1 { // the first fills caches and is not counted
		for _, s := range servers {
			for _, kind := range []string{"cached", "refused"} {
				if kind == "refused" && !s.list {
					continue
				}
				v, err := r.volley(s, kind, opt)
				if err != nil {
					return fmt.Errorf("round %d, %s, %s: %w", round, s.name, kind, err)
				}
				if round > 0 {
					t.add(s.name, kind, v)
				}
			}
		}
	}
	changed, err := r.oneEntry(servers[0])
	if err != nil {
		return err
	}
	return r.printResolver(out, &t, servers, missing, changed, opt)
}

// layOutNames writes the list, the questions and the zone of the upstream,
// builds the program, and starts the upstream.
func (r *resolverRig) layOutNames() error {
	dir, err := r.folder("names")
	if err != nil {
		return err
	}
	r.folderP = dir
	rnd := rand.New(rand.NewPCG(1, 2))
	names := makeNames(rnd, listedNames)
	var list, asked, cached, zone strings.Builder
	for i, n := range names {
		list.WriteString(n + "\n")
		if i%(listedNames/askedListed) == 0 {
			asked.WriteString("www." + n + " A\n")
		}
	}
	zone.WriteString("$ORIGIN " + resolverZone + "\n$TTL 86400\n@ SOA ns hostmaster 1 3600 600 86400 300\n@ NS ns\nns A 127.0.0.1\n")
	for i := range cachedNames {
		fmt.Fprintf(&zone, "h%d A 192.0.2.%d\n", i, i%250+1)
		fmt.Fprintf(&cached, "h%d.%s A\n", i, strings.TrimSuffix(resolverZone, "."))
	}
	r.listed, r.listedQ, r.cachedQ = filepath.Join(dir, "list"), filepath.Join(dir, "refused"), filepath.Join(dir, "cached")
	for file, text := range map[string]string{r.listed: list.String(), r.listedQ: asked.String(), r.cachedQ: cached.String(), filepath.Join(dir, "example.com.zone"): zone.String()} {
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			return err
		}
	}
	r.program = filepath.Join(dir, "bin")
	build := exec.CommandContext(r.ctx, "go", "build", "-o", r.program, "./cmd/shuultuur")
	build.Dir = r.root
	if out, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("build shuultuur: %w:\n%s", err, out)
	}
	if r.upstream, err = freeAddr(); err != nil {
		return err
	}
	_, port, _ := strings.Cut(r.upstream, ":")
	_, err = r.start(dnsGeneratorCore, "nsd", r.upstream, []string{"nsd", "-d", "-c", "FILE"}, expand(nsdSettings, "PORT", port, "DIR", dir))
	return err
}

// makeNames makes n different domains of the shape that lists have.
func makeNames(rnd *rand.Rand, n int) []string {
	tops := []string{"com", "net", "org", "de", "xyz", "info", "ru", "co.uk", "top", "com.br"}
	seen := make(map[string]bool, n)
	names := make([]string, 0, n)
	for len(names) < n {
		var b [24]byte
		size := 5 + rnd.IntN(12)
		for i := range size {
			b[i] = "abcdefghijklmnopqrstuvwxyz0123456789"[rnd.IntN(36)]
		}
		name := "a" + string(b[:size]) + "." + tops[rnd.IntN(len(tops))]
		if !seen[name] {
			seen[name] = true
			names = append(names, name)
		}
	}
	return names
}

func (r *resolverRig) startServers() (started []*nameServer, missing []string, err error) {
	for _, s := range []*nameServer{
		{name: "shuultuur", start: (*resolverRig).beginResolver, refuses: "NXDOMAIN", list: true},
		{name: "shuultuur without a list", start: (*resolverRig).beginResolver},
		{name: "unbound", start: (*resolverRig).beginUnbound, refuses: "NXDOMAIN", list: true},
		{name: "dnsmasq", start: (*resolverRig).beginDnsmasq, refuses: "NXDOMAIN", list: true},
	} {
		if s.addr, err = freeAddr(); err != nil {
			return nil, nil, err
		}
		begin := time.Now()
		switch err := s.start(r, s); {
		case errors.Is(err, errMissing):
			missing = append(missing, err.Error())
			continue
		case err != nil:
			return nil, nil, err
		}
		if err := r.answering(s.addr); err != nil {
			return nil, nil, fmt.Errorf("%s: %w:\n%s", s.name, err, s.proc.tail())
		}
		s.ready = time.Since(begin)
		started = append(started, s)
	}
	return started, missing, nil
}

// answering waits until the server answers a question out of the zone.
func (r *resolverRig) answering(addr string) error {
	c := &mdns.Client{Timeout: 300 * time.Millisecond}
	m := new(mdns.Msg)
	m.SetQuestion("h1."+resolverZone, mdns.TypeA)
	var err error
	for end := time.Now().Add(60 * time.Second); time.Now().Before(end) && r.ctx.Err() == nil; time.Sleep(5 * time.Millisecond) {
		var a *mdns.Msg
		if a, _, err = c.ExchangeContext(r.ctx, m, addr); err == nil && len(a.Answer) == 1 {
			return nil
		}
	}
	return errors.Join(errors.New("it does not answer"), err, r.ctx.Err())
}

const resolverSettings = `listen: {proxy: "127.0.0.1:0", admin: "ADMIN"}
data: DIR/data
LISTS
policies:
  - name: everyone
    rules: [RULE]
dns:
  listen: ["ADDR"]
  log: -1
  forward: {upstreams: ["UPSTREAM"]}
`

// beginResolver starts ours. The list is compiled before, as it is once for
// each version of it: what is timed is the start with it.
func (r *resolverRig) beginResolver(s *nameServer) error {
	dir, err := r.folder(s.name)
	if err != nil {
		return err
	}
	admin, err := freeAddr()
	if err != nil {
		return err
	}
	lists, rule := "", "{name: none, action: block, host: [none.invalid]}"
	if s.list {
		lists = "lists: {million: {format: domains, path: " + r.listed + "}}\nchecks: {category: {lists: [million]}}"
		rule = "{name: listed, action: block, category: [million], answer: nxdomain}"
		r.admin = admin
	}
	settings := expand(resolverSettings, "ADMIN", admin, "DIR", dir, "LISTS", lists, "RULE", rule, "ADDR", s.addr, "UPSTREAM", r.upstream)
	file := filepath.Join(dir, "before.yaml")
	if err := os.WriteFile(file, []byte(settings), 0o644); err != nil {
		return err
	}
	if out, err := exec.CommandContext(r.ctx, r.program, "check", "-config", file).CombinedOutput(); err != nil {
		return fmt.Errorf("compile the list: %w:\n%s", err, out)
	}
	s.proc, err = r.start(dnsServerCore, s.name, s.addr, []string{r.program, "run", "-config", "FILE"}, settings)
	return err
}

const unboundSettings = `server:
  interface: HOST@PORT
  do-daemonize: no
  username: ""
  chroot: ""
  pidfile: ""
  use-syslog: no
  verbosity: 0
  num-threads: 1
  so-rcvbuf: 1m
  do-not-query-localhost: no
  module-config: "iterator"
  msg-cache-size: 64m
  rrset-cache-size: 64m
  access-control: 127.0.0.0/8 allow
  include: "ZONES"
remote-control:
  control-enable: no
forward-zone:
  name: "."
  forward-addr: UPHOST@UPPORT
`

// beginUnbound gives unbound the list as local zones.
func (r *resolverRig) beginUnbound(s *nameServer) error {
	zones := filepath.Join(r.folderP, "zones")
	if err := r.rewriteList(zones, func(n string) string { return "local-zone: \"" + n + "\" always_nxdomain\n" }); err != nil {
		return err
	}
	if _, err := find("unbound"); err != nil {
		return fmt.Errorf("%w: unbound", errMissing)
	}
	host, port, _ := strings.Cut(s.addr, ":")
	upHost, upPort, _ := strings.Cut(r.upstream, ":")
	var err error
	s.proc, err = r.start(dnsServerCore, s.name, s.addr, []string{"unbound", "-d", "-c", "FILE"},
		expand(unboundSettings, "HOST", host, "UPPORT", upPort, "PORT", port, "ZONES", zones, "UPHOST", upHost))
	return err
}

// beginDnsmasq gives dnsmasq the list as names without an address.
func (r *resolverRig) beginDnsmasq(s *nameServer) error {
	if _, err := find("dnsmasq"); err != nil {
		return fmt.Errorf("%w: dnsmasq", errMissing)
	}
	zones := filepath.Join(r.folderP, "dnsmasq.list")
	if err := r.rewriteList(zones, func(n string) string { return "local=/" + n + "/\n" }); err != nil {
		return err
	}
	host, port, _ := strings.Cut(s.addr, ":")
	upHost, upPort, _ := strings.Cut(r.upstream, ":")
	var err error
	s.proc, err = r.start(dnsServerCore, s.name, s.addr, []string{"dnsmasq", "-k", "-C", "FILE"},
		fmt.Sprintf("no-resolv\nno-hosts\nno-poll\nuser=root\npid-file=\nlisten-address=%s\nbind-interfaces\nport=%s\nserver=%s#%s\ncache-size=20000\ndns-forward-max=2000\nconf-file=%s\n",
			host, port, upHost, upPort, zones))
	return err
}

func (r *resolverRig) rewriteList(to string, line func(string) string) error {
	text, err := os.ReadFile(r.listed)
	if err != nil {
		return err
	}
	var b bytes.Buffer
	for n := range strings.Lines(string(text)) {
		b.WriteString(line(strings.TrimSpace(n)))
	}
	return os.WriteFile(to, b.Bytes(), 0o644)
}

// volley is one round: questions of a kind, and the server's processor time.
func (r *resolverRig) volley(s *nameServer, kind string, opt options) (volley, error) {
	file, want := r.cachedQ, "NOERROR"
	if kind == "refused" {
		file, want = r.listedQ, s.refuses
	}
	f, err := os.Open(file)
	if err != nil {
		return volley{}, err
	}
	defer f.Close()
	cfg := load.DNSConfig{Server: s.addr, Window: 400, Sockets: 8, Duration: opt.duration()}
	if cfg.Queries, err = load.ReadQueries(f, file); err != nil {
		return volley{}, err
	}
	g, err := load.NewDNS(cfg)
	if err != nil {
		return volley{}, err
	}
	before := s.proc.cpu()
	rep, err := g.Run(r.ctx)
	if err := errors.Join(err, r.ctx.Err()); err != nil {
		return volley{}, err
	}
	if rep.Completed == 0 || rep.Rcodes[want] < rep.Completed*999/1000 {
		return volley{}, fmt.Errorf("other answers than %s: %v of %d", want, rep.Rcodes, rep.Completed)
	}
	n := float64(rep.Completed)
	return volley{n / rep.Seconds, float64((s.proc.cpu() - before).Microseconds()) / n, rep.Lost + rep.Unfinished}, nil
}

// oneEntry adds an entry to the list of ours while it serves and returns how
// long it takes until it holds, and how much the resident memory grows.
func (r *resolverRig) oneEntry(s *nameServer) (took []time.Duration, err error) {
	c := &mdns.Client{Timeout: time.Second}
	for i := range 5 {
		name := fmt.Sprintf("h%d.%s", i, resolverZone)
		m := new(mdns.Msg)
		m.SetQuestion(name, mdns.TypeA)
		begin := time.Now()
		body := strings.NewReader(`[{"entry":"` + strings.TrimSuffix(name, ".") + `"}]`)
		req, err := http.NewRequestWithContext(r.ctx, http.MethodPost, "http://"+r.admin+"/lists/million", body)
		if err != nil {
			return nil, err
		}
		req.Header.Set("Content-Type", "application/json")
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			return nil, err
		}
		text, _ := io.ReadAll(io.LimitReader(resp.Body, 1000))
		resp.Body.Close()
		if resp.StatusCode/100 != 2 {
			return nil, fmt.Errorf("adding %s: %s: %s", name, resp.Status, text)
		}
		for end := begin.Add(10 * time.Second); ; {
			a, _, err := c.ExchangeContext(r.ctx, m, s.addr)
			if err == nil && a.Rcode == mdns.RcodeNameError {
				break
			}
			if time.Now().After(end) {
				return nil, fmt.Errorf("%s is still answered: %w", name, err)
			}
		}
		took = append(took, time.Since(begin))
	}
	return took, nil
}

// A resolverTable holds the volleys by server and kind.
type resolverTable struct{ all map[string][]volley }

func (t *resolverTable) add(name, kind string, v volley) {
	if t.all == nil {
		t.all = map[string][]volley{}
	}
	t.all[name+" "+kind] = append(t.all[name+" "+kind], v)
}

// ratio is the median over rounds of ours to theirs.
func (t *resolverTable) ratio(kind, theirs string) float64 {
	var rs []float64
	ours := t.all["shuultuur "+kind]
	for i, v := range t.all[theirs+" "+kind] {
		rs = append(rs, ours[i].rate/v.rate)
	}
	return median(rs, func(v float64) float64 { return v })
}

func (r *resolverRig) printResolver(w io.Writer, t *resolverTable, servers []*nameServer, missing []string, took []time.Duration, opt options) error {
	var b strings.Builder
	fmt.Fprintf(&b, "### %s\n\n%s. %s\n`go run ./bench resolver -rounds %d -seconds %g`, UDP, 400 queries under way, servers on one core, the generator on the other, by turns, medians. %d listed names, %d of them asked for below; %d cached names. Shuultuur %s.\n\n",
		resolverAbout, time.Now().UTC().Format("2006-01-02 15:04 MST"), machine(), opt.rounds, opt.seconds, listedNames, askedListed, cachedNames, r.revision())
	b.WriteString("| server | refused/s | CPU µs each | cached/s | CPU µs each | lost | start, s | memory MB | of files MB |\n|---|--:|--:|--:|--:|--:|--:|--:|--:|\n")
	for _, s := range servers {
		lost := int64(0)
		cell := func(kind string) string {
			all := t.all[s.name+" "+kind]
			if len(all) == 0 {
				return "– | –"
			}
			for _, v := range all {
				lost += v.lost
			}
			return fmt.Sprintf("%s | %.2f", figure(median(all, volley.perSecond)), median(all, volley.cost))
		}
		refused, cached := cell("refused"), cell("cached")
		own, mapped := s.proc.memoryMB("status", "RssAnon:"), s.proc.memoryMB("status", "RssFile:")
		fmt.Fprintf(&b, "| %s | %s | %s | %d | %.1f | %.0f | %.0f |\n", s.name, refused, cached, lost, s.ready.Seconds(), own, mapped)
	}
	b.WriteString("\n")
	for _, m := range missing {
		fmt.Fprintf(&b, "* left out, %s\n", m)
	}
	for _, s := range servers {
		if s.name == "unbound" || s.name == "dnsmasq" {
			fmt.Fprintf(&b, "* against %s: refused %.2f×, cached %.2f×\n", s.name, t.ratio("refused", s.name), t.ratio("cached", s.name))
		}
	}
	slices.Sort(took)
	fmt.Fprintf(&b, "* one entry added to the list holds after %d ms (median of %d, longest %d ms)\n\n",
		took[len(took)/2].Milliseconds(), len(took), took[len(took)-1].Milliseconds())
	_, err := io.WriteString(w, b.String())
	return err
}
