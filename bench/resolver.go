package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"shuultuur/lib/dns"
	"shuultuur/tool/load"
)

const resolverAbout = "names refused, cached and asked for upstream, with a list of a million domains, beside unbound and dnsmasq"

const (
	listedNames  = 1_000_000
	askedListed  = 100_000 // of those
	cachedNames  = 10_000
	resolverZone = "example.com."
)

// The targets of the resolver.
const (
	resolverUnbound = 1.0 // answers per processor time of the server, relative to unbound's, at least
	resolverDnsmasq = 1.3
	listLoad        = 500 * time.Millisecond // from the start to the first answer with a new list
	listMemory      = 30                     // additional MB with the list
	entryTime       = 50 * time.Millisecond  // until an added or removed entry applies
)

// A nameServer is a server to measure.
type nameServer struct {
	name, addr  string
	start       func(*resolverRig, *nameServer) error
	refuses     string // rcode of refusals
	proc        *process
	ready       time.Duration   // from its start to its first answer
	fresh       []time.Duration // the same with a new list, if that differs
	list        bool            // it has the list
	own, mapped float64         // MB after the rounds: its own, and of mapped files
}

// A resolverRig is a rig with a list, an upstream and queries.
type resolverRig struct {
	*rig
	program, listed   string
	listedQ, cachedQ  string
	upstream, folderP string
	admin             string
}

// resolver compares the name server's filter with others.
func resolver(ctx context.Context, opt options, out io.Writer) error {
	base, err := newNameRig(ctx, out, resolverAbout, "nsd", "taskset")
	if err != nil || base == nil {
		return err
	}
	r := &resolverRig{rig: base.rig}
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
	// New names come last, because they evict other names from a small cache.
	for _, kinds := range [][]string{{"cached", "refused"}, {"new"}} {
		for round := range opt.rounds + 1 { // the first round, which is not counted, fills the caches
			for _, s := range servers {
				for _, kind := range kinds {
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
	}
	for _, s := range servers {
		s.own, s.mapped = s.proc.memoryMB("status", "RssAnon:"), s.proc.memoryMB("status", "RssFile:")
	}
	changed, err := r.oneEntry(servers[0])
	if err != nil {
		return err
	}
	return r.printResolver(out, &t, servers, missing, changed, opt)
}

// layOutNames writes the list, the queries and the zone of the upstream, builds the program,
// and starts the upstream.
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
	zone.WriteString("$ORIGIN " + resolverZone + "\n$TTL 86400\n@ SOA ns hostmaster 1 3600 600 86400 300\n@ NS ns\nns A 127.0.0.1\n*.new A 192.0.2.1\n")
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
	if r.program, err = r.build(dir); err != nil {
		return err
	}
	if r.upstream, err = freeAddr(); err != nil {
		return err
	}
	_, port, _ := strings.Cut(r.upstream, ":")
	_, err = r.start(dnsGeneratorCore, "nsd", r.upstream, []string{"nsd", "-d", "-c", "FILE"}, expand(nsdSettings, "PORT", port, "DIR", dir))
	return err
}

// makeNames makes n different domains that resemble those in lists.
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
		switch err := s.start(r, s); {
		case errors.Is(err, errMissing):
			missing = append(missing, err.Error())
			continue
		case err != nil:
			return nil, nil, fmt.Errorf("%s: %w", s.name, err)
		}
		started = append(started, s)
	}
	return started, missing, nil
}

// begin starts a server and waits for its first answer.
func (r *resolverRig) begin(s *nameServer, args []string, settings string) (err error) {
	begin := time.Now()
	if s.proc, err = r.rig.start(dnsServerCore, s.name, s.addr, args, settings); err != nil {
		return err
	}
	if err := r.answering(s.addr); err != nil {
		return fmt.Errorf("%w:\n%s", err, s.proc.tail())
	}
	s.ready = time.Since(begin)
	return nil
}

// answering waits until the server answers a query for the zone.
func (r *resolverRig) answering(addr string) error {
	var err error
	for end := time.Now().Add(60 * time.Second); time.Now().Before(end) && r.ctx.Err() == nil; time.Sleep(5 * time.Millisecond) {
		var records int
		if _, records, err = askAddress(addr, "h1."+resolverZone, 300*time.Millisecond); err == nil && records == 1 {
			return nil
		}
	}
	return errors.Join(errors.New("it does not answer"), err, r.ctx.Err())
}

// askAddress queries a name's address over UDP, and returns the response code and the number
// of records in the answer.
func askAddress(addr, name string, timeout time.Duration) (rcode, records int, err error) {
	wire, err := dns.Name(name)
	if err != nil {
		return 0, 0, err
	}
	conn, err := net.DialTimeout("udp", addr, timeout)
	if err != nil {
		return 0, 0, err
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(timeout)); err != nil {
		return 0, 0, err
	}
	if _, err := conn.Write(dns.AppendQuery(nil, wire, dns.TypeA, 1232)); err != nil {
		return 0, 0, err
	}
	buf := make([]byte, 4096)
	n, err := conn.Read(buf)
	if err != nil {
		return 0, 0, err
	}
	if n < 12 {
		return 0, 0, fmt.Errorf("an answer of %d bytes", n)
	}
	return int(buf[3] & 15), int(buf[7]), nil
}

const resolverSettings = `listen: {proxy: "127.0.0.1:0", admin: "ADMIN"}
data: DIR/data
LISTS
policies:
  - name: everyone
    rules: [RULE]
dns:
  listen: ["ADDR"]
  log: off
  forward: {upstreams: ["UPSTREAM"]}
`

// beginResolver starts ours. With the list it is started a few times with an empty disk, as at
// the first start or with a new version of the list, and then normally.
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
	run := []string{r.program, "run", "-config", "FILE"}
	for range freshStarts {
		if !s.list {
			break
		}
		if err := os.RemoveAll(filepath.Join(dir, "data")); err != nil {
			return err
		}
		if err := r.begin(s, run, settings); err != nil {
			return err
		}
		s.fresh = append(s.fresh, s.ready)
		tree := processTree(s.proc.cmd.Process.Pid)
		_ = s.proc.cmd.Process.Signal(os.Interrupt) // an error means that it has already ended
		s.proc.stop(tree)
	}
	return r.begin(s, run, settings)
}

// freshStarts is the number of measurements of the first start.
const freshStarts = 3

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
	return r.begin(s, []string{"unbound", "-d", "-c", "FILE"},
		expand(unboundSettings, "HOST", host, "UPPORT", upPort, "PORT", port, "ZONES", zones, "UPHOST", upHost))
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
	return r.begin(s, []string{"dnsmasq", "-k", "-C", "FILE"},
		fmt.Sprintf("no-resolv\nno-hosts\nno-poll\nuser=root\npid-file=\nlisten-address=%s\nbind-interfaces\nport=%s\nserver=%s#%s\ncache-size=20000\ndns-forward-max=2000\nconf-file=%s\n",
			host, port, upHost, upPort, zones))
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

// volley runs one round of queries of a kind, and measures the server's processor time.
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
	if kind == "new" { // names without previous queries
		cfg.Random, cfg.Seed = true, uint64(time.Now().UnixNano())
		if cfg.Queries, err = load.RandomQueries("new."+resolverZone, "A"); err != nil {
			return volley{}, err
		}
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

// An amendment is the result of adding entries to a list in use and removing them.
type amendment struct {
	took          []time.Duration // until each applied
	before, after float64         // MB resident
}

// oneEntry adds entries to our list while it serves, one by one, for names in its cache, and
// removes them again.
func (r *resolverRig) oneEntry(s *nameServer) (am amendment, err error) {
	am.before = s.proc.residentMB()
	for i := range 5 {
		name := fmt.Sprintf("h%d.%s", i, resolverZone)
		for _, remove := range []bool{false, true} {
			took, err := r.amend(s, name, remove)
			if err != nil {
				return am, fmt.Errorf("changing %s: %w", name, err)
			}
			am.took = append(am.took, took)
		}
	}
	am.after = s.proc.residentMB()
	slices.Sort(am.took)
	return am, nil
}

// amend changes the list and waits until the answer changes.
func (r *resolverRig) amend(s *nameServer, name string, remove bool) (time.Duration, error) {
	want := dns.RcodeNXDomain
	if remove {
		want = 0
	}
	begin := time.Now()
	body := strings.NewReader(fmt.Sprintf(`[{"entry":%q,"remove":%t}]`, strings.TrimSuffix(name, "."), remove))
	req, err := http.NewRequestWithContext(r.ctx, http.MethodPost, "http://"+r.admin+"/lists/million", body)
	if err != nil {
		return 0, err
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, err
	}
	text, _ := io.ReadAll(io.LimitReader(resp.Body, 1000))
	resp.Body.Close()
	if resp.StatusCode/100 != 2 {
		return 0, fmt.Errorf("%s: %s", resp.Status, text)
	}
	for end := begin.Add(10 * time.Second); ; {
		rcode, _, err := askAddress(s.addr, name, time.Second)
		if err == nil && rcode == want {
			return time.Since(begin), nil
		}
		if time.Now().After(end) {
			return 0, errors.Join(errors.New("it is answered as before"), err)
		}
	}
}

// A resolverTable has the volleys by server and kind.
type resolverTable struct{ all map[string][]volley }

func (t *resolverTable) add(name, kind string, v volley) {
	if t.all == nil {
		t.all = map[string][]volley{}
	}
	t.all[name+" "+kind] = append(t.all[name+" "+kind], v)
}

// ratio returns the median over rounds of shuultuur's value relative to the peer's: answers
// per second of the server's processor time, and per second.
func (t *resolverTable) ratio(kind, theirs string) (cost, rate float64) {
	var costs, rates []float64
	ours := t.all["shuultuur "+kind]
	for i, v := range t.all[theirs+" "+kind] {
		costs = append(costs, v.perQuery/ours[i].perQuery)
		rates = append(rates, ours[i].rate/v.rate)
	}
	same := func(v float64) float64 { return v }
	return median(costs, same), median(rates, same)
}

func (r *resolverRig) printResolver(w io.Writer, t *resolverTable, servers []*nameServer, missing []string, am amendment, opt options) error {
	var b strings.Builder
	fmt.Fprintf(&b, "### %s\n\n%s. %s\n`go run -C bench . resolver -rounds %d -seconds %g`, UDP, 400 queries under way, servers on one core, the generator on the other, by turns, medians. %d listed names, %d of them asked for below; %d cached names; new ones are asked of an upstream, which shares the generator's core. Shuultuur %s.\n\n",
		resolverAbout, time.Now().UTC().Format("2006-01-02 15:04 MST"), machine("at the end"), opt.rounds, opt.seconds, listedNames, askedListed, cachedNames, r.revision())
	b.WriteString("| server | refused/s | CPU µs each | cached/s | CPU µs each | new/s | CPU µs each | lost | first start, s | start, s | own MB | of files MB |\n|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|\n")
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
		refused, cached, unknown := cell("refused"), cell("cached"), cell("new")
		fresh := s.ready.Seconds()
		if len(s.fresh) > 0 {
			fresh = median(s.fresh, time.Duration.Seconds)
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %s | %d | %.2f | %.2f | %.0f | %.0f |\n", s.name, refused, cached, unknown, lost, fresh, s.ready.Seconds(), s.own, s.mapped)
	}
	b.WriteString("\nA start is from the program's to its first answer, on one core; at the first, the list has never been seen. Memory is what is resident after the rounds; pages of files are the system's to take back.\n")
	b.WriteString("\n")
	for _, m := range missing {
		fmt.Fprintf(&b, "* left out, %s\n", m)
	}
	if cost, rate := t.ratio("new", "unbound"); len(t.all["unbound new"]) > 0 {
		fmt.Fprintf(&b, "* new names to unbound, for each second of the server's processor: %.2f× (answers/s %.2f×)\n", cost, rate)
	}
	for _, p := range []struct {
		name  string
		least float64
	}{{"unbound", resolverUnbound}, {"dnsmasq", resolverDnsmasq}} {
		for _, kind := range []string{"refused", "cached"} {
			if len(t.all[p.name+" "+kind]) == 0 {
				continue
			}
			cost, rate := t.ratio(kind, p.name)
			fmt.Fprintf(&b, "* target ≥ %g × %s for each second of the server's processor, %s: %.2f× (answers/s %.2f×): **%s**\n", p.least, p.name, kind, cost, rate, verdict(cost >= p.least))
		}
	}
	ours, bare := servers[0], servers[1]
	load := median(ours.fresh, time.Duration.Seconds)
	fmt.Fprintf(&b, "* target ≤ %.1f s to load the list: %.2f s from the first start to the first answer (median of %d): **%s**\n", listLoad.Seconds(), load, len(ours.fresh), verdict(load <= listLoad.Seconds()))
	own, mapped := ours.own-bare.own, ours.mapped-bare.mapped
	fmt.Fprintf(&b, "* target ≤ %d MB more with the list: %.0f MB (its own %+.0f, of files %+.0f): **%s**\n", listMemory, own+mapped, own, mapped, verdict(own+mapped <= listMemory))
	fmt.Fprintf(&b, "* target ≤ %d ms until an entry that is added or removed holds, for a cached name: %d ms (median of %d, longest %d ms), resident %.0f MB before and %.0f after: **%s**\n\n",
		entryTime.Milliseconds(), am.took[len(am.took)/2].Milliseconds(), len(am.took), am.took[len(am.took)-1].Milliseconds(), am.before, am.after, verdict(am.took[len(am.took)/2] <= entryTime))
	_, err := io.WriteString(w, b.String())
	return err
}
