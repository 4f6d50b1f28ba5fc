package main

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// The cores of the two sides.
const (
	loadCore  = "0"
	proxyCore = "1"
)

// rig is everything that a run starts and must stop again.
type rig struct {
	signIn  string // as in scenario
	ctx     context.Context
	root    string // of this repository
	dir     string // temporary
	pages   []string
	heavy   []byte // a page of bad words; nil without filters
	origin  string // host:port of nginx
	procs   []*process
	program string        // ours, built once for several subjects
	certs   *certificates // nil if the origin uses plain HTTP
	visits  int           // to the sites, so far
}

// Each kind of run adds its own methods to a rig.
type (
	peerRig   struct{ *rig } // the filters that are compared
	verifier  struct{ *rig } // output of the filters
	dnsRig    struct{ *rig } // name servers, plain and encrypted
	cacheRig  struct{ *rig } // caching proxies
	icapRig   struct{ *rig } // ICAP servers, and Squid in front of them
	socketRig struct{ *rig } // connections that stay open
)

// process is a daemon in the foreground.
type process struct {
	name string
	cmd  *exec.Cmd
	log  string
	done chan struct{} // closed when it has ended
}

// newRig writes the pages and starts nginx, with TLS if wanted.
func newRig(ctx context.Context, tls bool) (*rig, error) {
	if runtime.GOOS != "linux" {
		return nil, errors.New("the benchmarks read /proc and use taskset: they need Linux")
	}
	for _, need := range []string{"taskset", "nginx"} {
		if _, err := find(need); err != nil {
			return nil, fmt.Errorf("%q is needed: %w", need, err)
		}
	}
	if runtime.NumCPU() < 2 {
		return nil, errors.New("two cores are needed: one for the load and the origin, one for the proxy")
	}
	root, err := repository()
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "shuultuur-bench-")
	if err != nil {
		return nil, fmt.Errorf("make a temporary folder: %w", err)
	}
	r := &rig{ctx: ctx, root: root, dir: dir}
	// Daemons started by root change to other users.
	if err := os.Chmod(dir, 0o755); err != nil {
		r.close()
		return nil, err
	}
	if err := r.layOut(); err != nil {
		r.close()
		return nil, err
	}
	if tls {
		if r.certs, err = r.certify(); err != nil {
			r.close()
			return nil, fmt.Errorf("make certificates: %w", err)
		}
	}
	if err := r.startOrigin(); err != nil {
		r.close()
		return nil, err
	}
	return r, nil
}

// close stops all processes and removes the folder.
func (r *rig) close() {
	trees := make([][]int, len(r.procs))
	for i, p := range r.procs {
		trees[i] = processTree(p.cmd.Process.Pid)
		// An error means that it has already ended.
		_ = p.cmd.Process.Signal(syscall.SIGTERM)
	}
	for i, p := range r.procs {
		p.stop(trees[i])
	}
	os.RemoveAll(r.dir)
}

// find searches for a program also in the folders of daemons.
func find(name string) (string, error) {
	if path, err := exec.LookPath(name); err == nil {
		return path, nil
	}
	for _, dir := range []string{"/usr/sbin", "/usr/local/sbin", "/sbin"} {
		if path, err := exec.LookPath(filepath.Join(dir, name)); err == nil {
			return path, nil
		}
	}
	return "", fmt.Errorf("%q is not installed", name)
}

// repository returns the folder of the project, from here upwards.
func repository() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "cmd", "shuultuur", "main.go")); err == nil {
			return dir, nil
		}
		up := filepath.Dir(dir)
		if up == dir {
			return "", errors.New("no cmd/shuultuur here or above: run it inside the repository")
		}
		dir = up
	}
}

// dataFolder returns $SHUULTUUR_DATA, or shared/data beside the repository.
func (r *rig) dataFolder() (string, error) {
	dir := os.Getenv("SHUULTUUR_DATA")
	if dir == "" {
		dir = filepath.Join(r.root, "..", "shared", "data")
	}
	if _, err := os.Stat(filepath.Join(dir, "pages")); err != nil {
		return "", fmt.Errorf("no pages to serve: set SHUULTUUR_DATA to a folder with pages/*.html (%w)", err)
	}
	return dir, nil
}

const (
	smallSize  = 1 << 10
	bigSize    = 100_000_000
	largeSize  = 2_000_000
	largerSize = 20_000_000
)

// layOut writes the files for nginx: the pages with compressed copies, a small page, two long
// ones, and a big file.
func (r *rig) layOut() error {
	data, err := r.dataFolder()
	if err != nil {
		return err
	}
	www := filepath.Join(r.dir, "www")
	if err := os.MkdirAll(filepath.Join(www, "verify"), 0o755); err != nil {
		return err
	}
	pages, err := filepath.Glob(filepath.Join(data, "pages", "*.html"))
	if err != nil || len(pages) == 0 {
		return fmt.Errorf("no pages in %q", filepath.Join(data, "pages"))
	}
	for _, name := range pages {
		text, err := os.ReadFile(name)
		if err != nil {
			return fmt.Errorf("read page: %w", err)
		}
		r.pages = append(r.pages, filepath.Base(name))
		if err := writePage(filepath.Join(www, filepath.Base(name)), text); err != nil {
			return err
		}
	}
	small := strings.Repeat("<p>The quick brown fox jumps over the lazy dog.</p>\n", 30)[:smallSize]
	if err := writePage(filepath.Join(www, "small.html"), []byte(small)); err != nil {
		return err
	}
	if err := r.layOutLong(www); err != nil {
		return err
	}
	big, err := os.Create(filepath.Join(www, "big.bin"))
	if err != nil {
		return err
	}
	// A hole reads as zeros from the page cache, like any hot file.
	return errors.Join(big.Truncate(bigSize), big.Close())
}

// layOutLong writes the long pages: the longest of the others, repeated, so that its words
// count once.
func (r *rig) layOutLong(www string) error {
	var longest []byte
	for _, name := range r.pages {
		text, err := os.ReadFile(filepath.Join(www, name))
		if err != nil {
			return err
		}
		if len(text) > len(longest) {
			longest = text
		}
	}
	for name, size := range map[string]int{"large.html": largeSize, "larger.html": largerSize} {
		text := bytes.Repeat(longest, size/len(longest)+1)[:size]
		if err := writePage(filepath.Join(www, name), text); err != nil {
			return err
		}
	}
	return nil
}

// writePage writes a page and its copy for gzip_static.
func writePage(name string, text []byte) error {
	if err := os.WriteFile(name, text, 0o644); err != nil {
		return err
	}
	f, err := os.Create(name + ".gz")
	if err != nil {
		return err
	}
	z, err := gzip.NewWriterLevel(f, 6)
	if err != nil {
		return errors.Join(err, f.Close())
	}
	_, err = z.Write(text)
	return errors.Join(err, z.Close(), f.Close())
}

// base returns the origin's address as a URL without a path. With TLS it has a name, because
// clients verify certificates by name.
func (r *rig) base() string {
	if r.certs == nil {
		return "http://" + r.origin
	}
	return "https://localhost"
}

func (r *rig) pageURLs() []string {
	var urls []string
	for _, p := range r.pages {
		urls = append(urls, r.base()+"/"+p)
	}
	return urls
}

func (r *rig) smallURLs() []string  { return []string{r.base() + "/small.html"} }
func (r *rig) largeURLs() []string  { return []string{r.base() + "/large.html"} }
func (r *rig) largerURLs() []string { return []string{r.base() + "/larger.html"} }
func (r *rig) bigURLs() []string    { return []string{r.base() + "/big.bin"} }

func (r *rig) startOrigin() error {
	addr, err := freeAddr()
	if err != nil {
		return err
	}
	if r.certs != nil { // e2guardian only decrypts TLS on this port
		l, err := net.Listen("tcp", httpsAddr)
		if err != nil {
			return fmt.Errorf("the origin needs the port of HTTPS: %w", err)
		}
		l.Close()
		addr = httpsAddr
	}
	r.origin = addr
	listen := addr
	if r.certs != nil {
		listen = addr + " ssl"
	}
	conf := expand(`daemon off; master_process off; worker_processes 1;
error_log DIR/nginx.err; pid DIR/nginx.pid;
events { worker_connections 8192; }
http {
	access_log off; sendfile on; tcp_nopush on; keepalive_requests 1000000000; keepalive_timeout 300s;
	types { text/html html; application/octet-stream bin; } charset utf-8;
	client_body_temp_path DIR/nginx1; proxy_temp_path DIR/nginx2; fastcgi_temp_path DIR/nginx3; uwsgi_temp_path DIR/nginx4; scgi_temp_path DIR/nginx5;
	server {
		listen LISTEN backlog=4096; TLS root DIR/www; gzip_static on; gzip_vary on;
		open_file_cache max=1000 inactive=300s;
		location /verify/ { open_file_cache off; }
		location /object { expires 1d; }
	}
}
`, "DIR", r.dir, "LISTEN", listen, "TLS", r.originTLS())
	_, err = r.start(loadCore, "nginx", addr, []string{"nginx", "-c", "FILE"}, conf)
	return err
}

const httpsAddr = "127.0.0.1:443"

// originTLS returns nginx's settings for its certificate.
func (r *rig) originTLS() string {
	if r.certs == nil {
		return ""
	}
	return "ssl_certificate " + r.certs.origin + "; ssl_certificate_key " + r.certs.originKey + "; ssl_session_cache shared:tls:10m;"
}

// expand replaces the words in capitals in a settings text.
func expand(text string, pairs ...string) string { return strings.NewReplacer(pairs...).Replace(text) }

// freeAddr returns an address that was free a moment ago.
func freeAddr() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", fmt.Errorf("find a free port: %w", err)
	}
	defer l.Close()
	return l.Addr().String(), nil
}

// build builds the program in a folder, unless this run has it already.
func (r *rig) build(dir string) (program string, err error) {
	if program = cmp.Or(r.program, os.Getenv(programOf)); program != "" {
		return program, nil
	}
	program = filepath.Join(dir, "bin")
	build := exec.CommandContext(r.ctx, "go", "build", "-o", program, "./cmd/shuultuur") // as make does
	build.Dir, build.Env = r.root, append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build shuultuur: %w:\n%s", err, out)
	}
	r.program = program
	return program, nil
}

// start starts a daemon on a core and waits until addr accepts connections. settings are
// written to a file, whose name replaces FILE in args.
func (r *rig) start(core, name, addr string, args []string, settings string) (*process, error) {
	own, err := r.folder(name)
	if err != nil {
		return nil, err
	}
	file := filepath.Join(own, name+".conf")
	if err := os.WriteFile(file, []byte(settings), 0o644); err != nil {
		return nil, err
	}
	path, err := find(args[0])
	if err != nil {
		return nil, err
	}
	line := []string{"-c", core, path}
	for _, a := range args[1:] {
		line = append(line, strings.ReplaceAll(a, "FILE", file))
	}
	p := &process{name: name, log: filepath.Join(own, "output"), done: make(chan struct{})}
	out, err := os.Create(p.log)
	if err != nil {
		return nil, err
	}
	defer out.Close()
	// taskset executes the daemon, so its process ID is the daemon's.
	p.cmd = exec.Command("taskset", line...)
	p.cmd.Dir, p.cmd.Stdout, p.cmd.Stderr = own, out, out
	if err := p.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	r.procs = append(r.procs, p)
	go func() {
		// Its waiters read from its output how it ended.
		_ = p.cmd.Wait()
		close(p.done)
	}()
	return p, p.ready(r.ctx, addr)
}

// folder makes a folder that a daemon may write to as any user.
func (r *rig) folder(name string) (string, error) {
	dir := filepath.Join(r.dir, strings.ReplaceAll(name, " ", "-"))
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	return dir, os.Chmod(dir, 0o777)
}

// ready waits until the daemon listens.
func (p *process) ready(ctx context.Context, addr string) error {
	const patience = 60 * time.Second
	deadline := time.Now().Add(patience)
	for time.Now().Before(deadline) {
		if nc, err := net.DialTimeout("tcp", addr, time.Second); err == nil {
			return nc.Close()
		}
		select {
		case <-p.done:
			return fmt.Errorf("%s ended before it listened on %s:\n%s", p.name, addr, p.tail())
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(20 * time.Millisecond):
		}
	}
	return fmt.Errorf("%s does not listen on %s after %s:\n%s", p.name, addr, patience, p.tail())
}

// tail returns the end of the daemon's output.
func (p *process) tail() string {
	text, err := os.ReadFile(p.log)
	if err != nil {
		return err.Error()
	}
	return string(text[max(0, len(text)-2000):])
}

// stop waits for the daemon, which was asked to end, or kills it with its children.
func (p *process) stop(tree []int) {
	select {
	case <-p.done:
	case <-time.After(3 * time.Second):
		_ = p.cmd.Process.Kill()
		<-p.done
	}
	for _, pid := range tree[1:] {
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}
}

// pinSelf moves all threads of this process to a core.
func (r *rig) pinSelf(core string) error {
	out, err := exec.Command("taskset", "-apc", core, strconv.Itoa(os.Getpid())).CombinedOutput()
	if err != nil {
		return fmt.Errorf("pin this process: %w: %s", err, out)
	}
	runtime.GOMAXPROCS(1)
	return nil
}

// stat reads the parent and the processor ticks of a process.
func stat(pid int) (parent int, ticks int64, ok bool) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, 0, false
	}
	// The name in parentheses may contain anything: parse from its end.
	_, rest, _ := strings.Cut(string(text[strings.LastIndexByte(string(text), ')'):]), " ")
	f := strings.Fields(rest)
	if len(f) < 13 {
		return 0, 0, false
	}
	parent, _ = strconv.Atoi(f[1])
	user, _ := strconv.ParseInt(f[11], 10, 64)
	system, _ := strconv.ParseInt(f[12], 10, 64)
	return parent, user + system, true
}

// processTree returns a process and all its descendants, itself first.
func processTree(pid int) []int {
	children := map[int][]int{}
	entries, _ := os.ReadDir("/proc")
	for _, e := range entries {
		if child, err := strconv.Atoi(e.Name()); err == nil {
			if parent, _, ok := stat(child); ok {
				children[parent] = append(children[parent], child)
			}
		}
	}
	tree := []int{pid}
	for i := 0; i < len(tree); i++ {
		tree = append(tree, children[tree[i]]...)
	}
	return tree
}

// cpu returns the processor time of the process tree, to 10 ms (USER_HZ is 100 on every Linux
// that Go supports).
func (p *process) cpu() time.Duration {
	sum := int64(0)
	for _, pid := range processTree(p.cmd.Process.Pid) {
		_, ticks, _ := stat(pid)
		sum += ticks
	}
	return time.Duration(sum) * 10 * time.Millisecond
}

// peakMB returns the peak of resident memory of the process tree, in 10^6 bytes: the sum of
// each process's own peak.
func (p *process) peakMB() float64 { return p.memoryMB("status", "VmHWM:") }

// residentMB returns the resident memory of the process tree, in 10^6 bytes.
func (p *process) residentMB() float64 { return p.memoryMB("status", "VmRSS:") }

// pssMB returns the memory of the process tree, with shared memory counted once.
func (p *process) pssMB() float64 { return p.memoryMB("smaps_rollup", "Pss:") }

// memoryMB adds up one line of a file of /proc/PID over the process tree.
func (p *process) memoryMB(file, of string) float64 {
	sum := 0.0
	for _, pid := range processTree(p.cmd.Process.Pid) {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/%s", pid, file))
		if err != nil {
			continue
		}
		for line := range strings.Lines(string(text)) {
			if v, ok := strings.CutPrefix(line, of); ok {
				kb, _ := strconv.ParseFloat(strings.Fields(v)[0], 64)
				sum += kb * 1024 / 1e6
			}
		}
	}
	return sum
}

// settle waits until the process has finished work that its clients abandoned.
func (p *process) settle(ctx context.Context) {
	deadline := time.Now().Add(20 * time.Second)
	for before := p.cpu(); time.Now().Before(deadline); {
		select {
		case <-ctx.Done():
			return
		case <-p.done:
			return
		case <-time.After(200 * time.Millisecond):
		}
		now := p.cpu()
		if now-before <= 10*time.Millisecond {
			return
		}
		before = now
	}
}
