package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"shuultuur/tool/load"
)

const cacheAbout = "objects from a cache, beside trafficserver, squid, varnish and nginx"

// cacheSizes are the requested objects, by file name. For misses, each request has another
// query.
var cacheSizes = []struct {
	name        string
	bytes       int64
	connections int
	miss        bool
}{{"1 KiB", 1 << 10, 10, false}, {"100 KiB", 100 << 10, 10, false}, {"10 MiB", 10 << 20, 10, false},
	{"1 KiB missed", 1 << 10, 10, true}, {"100 KiB missed", 100 << 10, 10, true}, {"1 KiB, 10,000 connections", 1 << 10, 10_000, false}}

// missesASecond exceeds the misses per second of any cache here.
const missesASecond = 30_000

// A cacher is one subject. Reverse proxies of the origin are requested directly.
type cacher struct {
	name, program string
	reverse       bool
	begin         func(r *cacheRig, c *cacher) error

	proc  *process
	addr  string
	also  string // a second address for half of many connections, if there is one
	about string
	cells map[string][]window
	asked int // queries of misses so far
}

func cachers() []*cacher {
	return []*cacher{
		{name: "shuultuur, memory", begin: func(r *cacheRig, c *cacher) error { return r.beginCacher(c, "{memory: 256MiB}") }},
		{name: "shuultuur, disk", begin: (*cacheRig).beginDiskCacher},
		{name: "shuultuur, no cache", begin: func(r *cacheRig, c *cacher) error { return r.beginCacher(c, "null") }},
		{name: "trafficserver", program: "traffic_server", begin: (*cacheRig).beginTrafficServer},
		{name: "squid", program: "squid", begin: (*cacheRig).beginCachingSquid},
		{name: "varnish", program: "varnishd", reverse: true, begin: (*cacheRig).beginVarnish},
		{name: "nginx", reverse: true, begin: (*cacheRig).beginCachingNginx},
	}
}

// caching runs the benchmark.
func caching(ctx context.Context, opt options, out io.Writer) error {
	base, err := newRig(ctx, false)
	if err != nil {
		return err
	}
	defer base.close()
	r := &cacheRig{base}
	for i, s := range cacheSizes {
		if err := os.WriteFile(filepath.Join(r.dir, "www", fmt.Sprintf("object%d.bin", i)), make([]byte, s.bytes), 0o644); err != nil {
			return err
		}
	}
	var subjects []*cacher
	var missing []string
	for _, c := range cachers() {
		if c.program != "" {
			path, err := find(c.program)
			if err != nil {
				missing = append(missing, c.name+": left out, "+err.Error())
				continue
			}
			c.about = versionOf(path, []string{"-V"})
			if c.program == "squid" {
				c.about = versionOf(path, []string{"-v"})
			}
		}
		fmt.Fprintf(os.Stderr, "start %s\n", c.name)
		if c.addr, err = freeAddr(); err != nil {
			return err
		}
		if err := c.begin(r, c); err != nil {
			return err
		}
		c.cells = map[string][]window{}
		subjects = append(subjects, c)
	}
	if err := r.pinSelf(loadCore); err != nil {
		return err
	}
	for round := range opt.rounds + 1 { // the first round, which is not counted, fills the caches
		for i, s := range cacheSizes {
			for _, c := range subjects {
				// Misses of reverse proxies are not comparable, and an origin with 10,000
				// connections is another benchmark.
				if s.miss && c.reverse || s.connections > 1000 && c.name == "shuultuur, no cache" {
					continue
				}
				w, err := r.cacheRound(c, i, opt.seconds)
				if err != nil {
					return fmt.Errorf("%s, %s: %w", c.name, s.name, err)
				}
				if round > 0 {
					c.cells[s.name] = append(c.cells[s.name], w)
				}
			}
		}
	}
	return r.printCaching(opt, subjects, missing, out)
}

// cacheRound requests one object from one subject again and again.
func (r *cacheRig) cacheRound(c *cacher, object int, seconds float64) (window, error) {
	file := object
	if cacheSizes[object].connections > 1000 { // many clients request an object in the cache
		file = 0
	}
	url := fmt.Sprintf("http://%s/object%d.bin", r.origin, file)
	cfg := load.Config{URLs: []string{url}, Parallel: cacheSizes[object].connections, Order: "order", KeepAlive: true, Timeout: 20 * time.Second,
		Proxy: c.addr, Duration: time.Duration(seconds * float64(time.Second))}
	if c.reverse {
		cfg.Proxy, cfg.URLs[0] = "", strings.Replace(url, r.origin, c.addr, 1)
	}
	if cacheSizes[object].connections > 1000 { // a round must take longer than opening them
		cfg.Duration *= 4
	}
	if cacheSizes[object].miss {
		url, cfg.URLs = cfg.URLs[0], nil
		for range int(seconds * missesASecond) {
			c.asked++
			cfg.URLs = append(cfg.URLs, fmt.Sprintf("%s?%d", url, c.asked))
		}
	}
	before := c.proc.cpu()
	rep, err := r.halves(cfg, c)
	if err != nil {
		return window{}, err
	}
	w := window{report: rep, cpu: c.proc.cpu() - before, peakMB: c.proc.peakMB()}
	if n := rep.Errors; len(n) > 0 {
		return w, fmt.Errorf("errors: %v", n)
	}
	return w, nil
}

// halves loads a subject. With many connections, half of them go to its second address.
func (r *cacheRig) halves(cfg load.Config, c *cacher) (*load.Report, error) {
	if cfg.Parallel <= 1000 || c.also == "" {
		return r.load(cfg)
	}
	cfg.Parallel /= 2
	other := cfg
	other.Proxy = c.also
	var more *load.Report
	var fault error
	done := make(chan struct{})
	go func() {
		defer close(done)
		more, fault = r.load(other)
	}()
	rep, err := r.load(cfg)
	<-done
	if err = errors.Join(err, fault); err != nil {
		return nil, err
	}
	rep.Fetches += more.Fetches
	rep.Seconds = max(rep.Seconds, more.Seconds)
	rep.MaxParallel += more.MaxParallel
	for class, n := range more.Errors {
		if rep.Errors == nil {
			rep.Errors = map[string]int64{}
		}
		rep.Errors[class] += n
	}
	return rep, nil
}

// printCaching writes the table. It compares processor time per request, which does not depend
// on other load of the machine.
func (r *cacheRig) printCaching(opt options, subjects []*cacher, missing []string, out io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "### %s\n\n%s. %s\n`go run -C bench . cache -rounds %d -seconds %g`: 10 kept-alive connections where nothing else is said, one object of each size, and misses; with 10,000 connections a round is four times as long and opens them, and Shuultuur has two listeners, as it keeps two of 20,000 open files for each connection; the caches on core %s, load and origin on core %s, by turns, medians. shuultuur, trafficserver and squid are forward proxies; varnish and nginx stand before the origin. Shuultuur %s.\n\n",
		cacheAbout, time.Now().UTC().Format("2006-01-02 15:04 MST"), machine("at the end"), opt.rounds, opt.seconds, proxyCore, loadCore, r.revision())
	b.WriteString("| cache |")
	for _, s := range cacheSizes {
		fmt.Fprintf(&b, " %s/s | CPU µs each |", s.name)
	}
	b.WriteString(" most MB |\n|---|" + strings.Repeat("--:|", 2*len(cacheSizes)+1) + "\n")
	cost := map[string]map[string]float64{}
	for _, c := range subjects {
		cost[c.name] = map[string]float64{}
		fmt.Fprintf(&b, "| %s |", strings.TrimSpace(c.name+" "+c.about))
		most := 0.0
		for _, s := range cacheSizes {
			rounds := c.cells[s.name]
			if len(rounds) == 0 {
				b.WriteString(" | |")
				continue
			}
			for _, w := range rounds {
				most = max(most, w.peakMB)
			}
			cost[c.name][s.name] = median(rounds, window.perFetch)
			fmt.Fprintf(&b, " %.0f | %.1f |", median(rounds, window.rate), cost[c.name][s.name])
		}
		fmt.Fprintf(&b, " %.0f |\n", most)
	}
	b.WriteString("\n")
	for _, t := range []struct {
		peer, size string
		least      float64
	}{{"trafficserver", "1 KiB", 1}, {"trafficserver", "100 KiB", 1}, {"trafficserver", "10 MiB", 1}, {"squid", "100 KiB", 3}} {
		theirs, ok := cost[t.peer]
		for _, ours := range []string{"shuultuur, memory", "shuultuur, disk"} {
			if !ok {
				continue
			}
			ratio := theirs[t.size] / cost[ours][t.size]
			verdict := "missed"
			if ratio >= t.least {
				verdict = "reached"
			}
			fmt.Fprintf(&b, "* target ≥ %g × %s for each second of the processor, %s, %s: %.2f×: **%s**\n", t.least, t.peer, t.size, ours, ratio, verdict)
		}
	}
	for _, s := range cacheSizes {
		if none := cost["shuultuur, no cache"][s.name]; s.miss && none > 0 {
			ratio, verdict := cost["shuultuur, memory"][s.name]/none, "missed"
			if ratio <= 1.1 {
				verdict = "reached"
			}
			fmt.Fprintf(&b, "* target ≤ 1.1 × no cache, processor time, %s: %.2f×: **%s**\n", s.name, ratio, verdict)
		}
	}
	for _, m := range missing {
		fmt.Fprintf(&b, "* %s\n", m)
	}
	b.WriteString("\n")
	_, err := io.WriteString(out, b.String())
	return err
}

const cachingSettings = `listen: {proxy: ["ADDR", "ALSO"], admin: "ADMIN"}
data: DIR
proxy: {private: [127.0.0.0/8], connections: 16384, per-client: 16384, requests: 16384, queue-time: 20s}
cache: CACHE
policies: [{name: everyone}]
`

func (r *cacheRig) beginCacher(c *cacher, cache string) error {
	dir, err := r.folder(c.name)
	if err != nil {
		return err
	}
	if r.program == "" {
		if r.program, err = r.build(dir); err != nil {
			return err
		}
	}
	admin, err := freeAddr()
	if err != nil {
		return err
	}
	if c.also, err = freeAddr(); err != nil {
		return err
	}
	c.proc, err = r.start(proxyCore, c.name, c.addr, []string{r.program, "run", "-config", "FILE"},
		expand(cachingSettings, "ADDR", c.addr, "ALSO", c.also, "ADMIN", admin, "DIR", filepath.Join(dir, "data"), "CACHE", cache))
	return err
}

// beginDiskCacher fills the cache and restarts it, so that its objects are only on the disk.
func (r *cacheRig) beginDiskCacher(c *cacher) error {
	const cache = "{memory: 64MiB, disk: 4GiB}"
	if err := r.beginCacher(c, cache); err != nil {
		return err
	}
	for i := range cacheSizes {
		if _, err := r.cacheRound(c, i, 0.5); err != nil {
			return err
		}
	}
	if err := c.proc.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		return err
	}
	select {
	case <-c.proc.done:
	case <-time.After(30 * time.Second):
		return errors.New("the process does not end")
	}
	r.procs = slices.DeleteFunc(r.procs, func(p *process) bool { return p == c.proc })
	return r.beginCacher(c, cache)
}

func (r *cacheRig) beginCachingSquid(c *cacher) (err error) {
	dir, err := r.folder("squid")
	if err != nil {
		return err
	}
	c.proc, err = r.start(proxyCore, "squid", c.addr, []string{"squid", "-N", "-f", "FILE"}, expand(`http_port ADDR
visible_hostname localhost
http_access allow all
cache_mem 256 MB
maximum_object_size 64 MB
maximum_object_size_in_memory 64 MB
access_log none
cache_log DIR/cache.log
cache_store_log none
netdb_filename none
pinger_enable off
pid_filename DIR/squid.pid
coredump_dir DIR
max_filedescriptors 16384
shutdown_lifetime 0 seconds
`, "ADDR", c.addr, "DIR", dir))
	return err
}

func (r *cacheRig) beginVarnish(c *cacher) (err error) {
	dir, err := r.folder("varnish")
	if err != nil {
		return err
	}
	host, port, _ := strings.Cut(r.origin, ":")
	c.proc, err = r.start(proxyCore, "varnish", c.addr, []string{"varnishd", "-F", "-a", c.addr, "-f", "FILE", "-s", "malloc,256m", "-n", filepath.Join(dir, "work"), "-j", "none", "-T", "none"},
		fmt.Sprintf("vcl 4.1;\nbackend default { .host = %q; .port = %q; }\n", host, port))
	return err
}

func (r *cacheRig) beginCachingNginx(c *cacher) (err error) {
	dir, err := r.folder("nginx cache")
	if err != nil {
		return err
	}
	c.proc, err = r.start(proxyCore, "nginx cache", c.addr, []string{"nginx", "-c", "FILE"}, expand(`daemon off; master_process off; worker_processes 1;
error_log DIR/err; pid DIR/pid;
events { worker_connections 16384; }
http {
	access_log off; sendfile on; keepalive_requests 1000000000; keepalive_timeout 300s;
	proxy_cache_path DIR/store keys_zone=one:16m max_size=2g; proxy_temp_path DIR/proxy;
	client_body_temp_path DIR/a; fastcgi_temp_path DIR/b; uwsgi_temp_path DIR/c; scgi_temp_path DIR/d;
	server { listen ADDR; location / { proxy_pass http://ORIGIN; proxy_cache one; proxy_cache_valid 200 1h; } }
}
`, "DIR", dir, "ADDR", c.addr, "ORIGIN", r.origin))
	return err
}

// beginTrafficServer starts it in its own folder, as a forward proxy.
func (r *cacheRig) beginTrafficServer(c *cacher) error {
	dir, err := r.folder("trafficserver")
	if err != nil {
		return err
	}
	_, port, _ := strings.Cut(c.addr, ":")
	for _, sub := range []string{"etc", "run", "log", "store"} {
		if err := os.MkdirAll(filepath.Join(dir, sub), 0o777); err != nil {
			return err
		}
	}
	for name, text := range map[string]string{
		"etc/storage.config": filepath.Join(dir, "store") + " 512M\n",
		"etc/ip_allow.yaml":  "ip_allow:\n  - {apply: in, ip_addrs: 0/0, action: allow, methods: ALL}\n",
		"etc/records.config": expand(`CONFIG proxy.config.http.server_ports STRING PORT:ip-in=127.0.0.1
CONFIG proxy.config.url_remap.remap_required INT 0
CONFIG proxy.config.reverse_proxy.enabled INT 0
CONFIG proxy.config.exec_thread.autoconfig INT 0
CONFIG proxy.config.exec_thread.limit INT 1
CONFIG proxy.config.cache.ram_cache.size INT 268435456
CONFIG proxy.config.log.logging_enabled INT 0
CONFIG proxy.config.admin.user_id STRING #-1
CONFIG proxy.config.http.keep_alive_no_activity_timeout_in INT 300
`, "PORT", port),
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			return err
		}
	}
	root := expand("prefix: DIR\nexec_prefix: /usr\nbindir: /usr/bin\nsbindir: /usr/sbin\nsysconfdir: DIR/etc\ndatadir: DIR\nincludedir: /usr/include\nlibdir: /usr/lib\nlibexecdir: /usr/lib/trafficserver/modules\nlocalstatedir: DIR\nruntimedir: DIR/run\nlogdir: DIR/log\nmandir: /usr/share/man\ninfodir: /usr/share/info\ncachedir: DIR/store\n", "DIR", dir)
	if c.proc, err = r.start(proxyCore, "trafficserver", c.addr, []string{"traffic_server", "--run-root=FILE"}, root); err != nil {
		return err
	}
	// Its network thread has meanwhile set its affinity to all cores, including that of its
	// clients.
	pin := exec.CommandContext(r.ctx, "taskset", "-apc", proxyCore, strconv.Itoa(c.proc.cmd.Process.Pid))
	if output, err := pin.CombinedOutput(); err != nil {
		return fmt.Errorf("keeping trafficserver on its core: %w: %s", err, output)
	}
	return nil
}
