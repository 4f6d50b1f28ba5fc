package main

import (
	"bufio"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"shuultuur/lib/ingest"
	"shuultuur/lib/setting"
	programs "shuultuur/test/peer"
	"shuultuur/tool/load"
	"shuultuur/vote"
	"shuultuur/vote/booth"
)

const votesAbout = "Votes: acknowledged from memory, from the log, with databases behind it"

// serveVotes is the argument with which this program is a server of votes, of one of several
// kinds.
const serveVotes = "serve-votes"

// A voteSubject is one kind of server of votes.
type voteSubject struct {
	name, kind string
	tls, close bool
	clients    int // 0 means one
}

// crowd is the number of concurrent clients in the rows for several.
const crowd = 4

func voteSubjects() []voteSubject {
	return []voteSubject{
		{name: "nginx, constant answer", kind: "nginx"},
		{name: "net/http, counted in memory", kind: "net/http"},
		{name: "shuultuur, memory", kind: "memory"},
		{name: "shuultuur, log", kind: "log"},
		{name: "shuultuur, log and SQLite", kind: "sqlite"},
		{name: "shuultuur, log and PostgreSQL", kind: "postgres"},
		{name: "shuultuur, log, TLS on the same port", kind: "log", tls: true},
		{name: "shuultuur, log, a connection for each vote", kind: "log", close: true},
		{name: "net/http, a connection for each vote", kind: "net/http", close: true},
		{name: "shuultuur, memory, four clients", kind: "memory", clients: crowd},
		{name: "shuultuur, log, four clients", kind: "log", clients: crowd},
	}
}

const (
	voteConnections = 256
	leastVotes      = 20_000
)

// A voteRound is one measurement.
type voteRound struct {
	report  *load.VotesReport
	cpu     time.Duration // of the server
	all     time.Duration // of server and client
	ended   voteEnd
	settled time.Duration // from the last response until all were counted
}

// A voteEnd is the output of a server at its end.
type voteEnd struct{ Syncs, Records, Counted int64 }

func votes(ctx context.Context, opt options, out io.Writer) error {
	rounds := map[string][]voteRound{}
	var missing []string
	var pg *programs.Postgres
	if p, err := programs.StartPostgres(); err == nil {
		pg = p
		defer pg.Close()
	}
	count := int64(max(leastVotes, int(opt.seconds*10_000)))
	for n := range opt.rounds {
		for _, s := range voteSubjects() {
			many := count
			if s.close {
				many /= 4
			}
			place := ""
			if s.kind == "postgres" {
				if pg == nil {
					continue
				}
				var err error
				if place, err = pg.Database(fmt.Sprint("votes", n)); err != nil {
					return err
				}
			}
			r, err := voteTurn(ctx, s, place, many)
			if errors.Is(err, exec.ErrNotFound) {
				missing = append(missing, s.name)
				continue
			}
			if err != nil {
				return fmt.Errorf("%s: %w", s.name, err)
			}
			rounds[s.name] = append(rounds[s.name], r)
		}
	}
	printVotes(out, rounds, opt, count)
	if len(missing) > 0 {
		slices.Sort(missing)
		fmt.Fprintf(out, "\nNot measured: %s.\n", strings.Join(slices.Compact(missing), ", "))
	}
	return nil
}

func printVotes(out io.Writer, rounds map[string][]voteRound, opt options, count int64) {
	fmt.Fprintf(out, "### %s\n\n%d votes over %d kept-alive connections (a quarter where each has its own), 256 at once, then all are waited for. In the last rows four such clients run side by side, and their ratio is to memory with four. The rate and the processor time are set against memory in the same round. Client and server share the machine. %s Medians of %d rounds.\n\n",
		votesAbout, count, voteConnections, machine("at the end"), opt.rounds)
	fmt.Fprint(out, "| server | votes/s | to memory, rate | to memory, CPU | server CPU µs/vote | all CPU µs/vote | p50 ms | p99 ms | votes/sync | counted after s |\n|--|--|--|--|--|--|--|--|--|--|\n")
	each := func(r voteRound, d time.Duration) float64 { return d.Seconds() * 1e6 / float64(r.report.Acknowledged) }
	for _, s := range voteSubjects() {
		all := rounds[s.name]
		if len(all) == 0 {
			continue
		}
		floor := rounds["shuultuur, memory"]
		if s.clients > 0 {
			floor = rounds["shuultuur, memory, four clients"]
		}
		var costs, rates []float64
		for n, r := range all {
			if n < len(floor) {
				costs = append(costs, each(floor[n], floor[n].cpu)/each(r, r.cpu))
				rates = append(rates, r.report.Rate/floor[n].report.Rate)
			}
		}
		sync, settled := "-", "-"
		if n := median(all, func(r voteRound) float64 { return float64(r.ended.Records) / float64(max(1, r.ended.Syncs)) }); n > 0 {
			sync = fmt.Sprintf("%.0f", n)
		}
		if all[0].ended.Counted > 0 {
			settled = fmt.Sprintf("%.1f", median(all, func(r voteRound) float64 { return r.settled.Seconds() }))
		}
		ratio := func(all []float64) string {
			if len(all) == 0 {
				return ""
			}
			slices.Sort(all)
			return fmt.Sprintf("%.2f%s", middle(all), spread(all, 2))
		}
		ms := func(of func(*load.VotesReport) time.Duration) float64 {
			return median(all, func(r voteRound) float64 { return of(r.report).Seconds() * 1000 })
		}
		fmt.Fprintf(out, "| %s | %.0f | %s | %s | %.1f | %.1f | %.1f | %.1f | %s | %s |\n", s.name,
			median(all, func(r voteRound) float64 { return r.report.Rate }), ratio(rates), ratio(costs),
			median(all, func(r voteRound) float64 { return each(r, r.cpu) }), median(all, func(r voteRound) float64 { return each(r, r.all) }),
			ms(func(r *load.VotesReport) time.Duration { return r.P50 }), ms(func(r *load.VotesReport) time.Duration { return r.P99 }), sync, settled)
	}
}

// voteTurn starts a server, sends votes, and ends it.
func voteTurn(ctx context.Context, s voteSubject, place string, count int64) (r voteRound, err error) {
	dir, err := os.MkdirTemp("", "shuultuur-votes-")
	if err != nil {
		return r, err
	}
	defer os.RemoveAll(dir)
	cmd, at, end, err := startVotes(ctx, s, dir, place)
	if err != nil {
		return r, err
	}
	defer func() { _ = cmd.Process.Kill() }()
	p := &process{cmd: cmd}
	before, own := p.cpu(), ownCPU()
	scheme := "http://"
	if s.tls {
		scheme = "https://"
	}
	r.report, _, err = load.Votes(ctx, load.VotesConfig{URL: scheme + at, Clients: s.clients, Parallel: voteConnections, Count: count, Close: s.close, TLS: &tls.Config{InsecureSkipVerify: true}})
	if err != nil {
		return r, err
	}
	if r.report.Acknowledged != count {
		return r, fmt.Errorf("%d of %d votes were acknowledged", r.report.Acknowledged, count)
	}
	answered := time.Now()
	r.cpu = p.cpu() - before
	r.all = r.cpu + ownCPU() - own
	r.ended, err = end()
	r.settled = time.Since(answered)
	if err == nil && r.ended.Counted > 0 && r.ended.Counted != count {
		err = fmt.Errorf("%d votes are counted, %d were acknowledged", r.ended.Counted, count)
	}
	return r, err
}

func ownCPU() time.Duration {
	_, ticks, _ := stat(os.Getpid())
	return time.Duration(ticks) * 10 * time.Millisecond
}

// startVotes starts a server. end ends it and returns its output.
func startVotes(ctx context.Context, s voteSubject, dir, place string) (cmd *exec.Cmd, at string, end func() (voteEnd, error), err error) {
	if s.kind == "nginx" {
		return nginxVotes(ctx, dir)
	}
	self, err := os.Executable()
	if err != nil {
		return nil, "", nil, err
	}
	cmd = exec.CommandContext(ctx, self, serveVotes, s.kind, dir, place)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, "", nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, "", nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, "", nil, err
	}
	lines := bufio.NewScanner(out)
	if !lines.Scan() {
		return nil, "", nil, errors.Join(errors.New("the server did not start"), cmd.Wait())
	}
	return cmd, lines.Text(), func() (e voteEnd, err error) {
		in.Close()
		if lines.Scan() {
			err = json.Unmarshal(lines.Bytes(), &e)
		}
		return e, errors.Join(err, cmd.Wait())
	}, nil
}

func nginxVotes(ctx context.Context, dir string) (cmd *exec.Cmd, at string, end func() (voteEnd, error), err error) {
	program, err := find("nginx")
	if err != nil {
		return nil, "", nil, exec.ErrNotFound
	}
	if at, err = freeAddr(); err != nil {
		return nil, "", nil, err
	}
	conf := expand(`daemon off; worker_processes 1; pid DIR/pid; error_log DIR/error;
events { worker_connections 4096; }
http { access_log off; keepalive_requests 100000000; client_body_temp_path DIR/a; proxy_temp_path DIR/b; fastcgi_temp_path DIR/c; uwsgi_temp_path DIR/d; scgi_temp_path DIR/e;
 server { listen AT; location / { return 202 "{}"; } } }`, "DIR", dir, "AT", at)
	file := filepath.Join(dir, "nginx.conf")
	if err := os.WriteFile(file, []byte(conf), 0o644); err != nil {
		return nil, "", nil, err
	}
	cmd = exec.CommandContext(ctx, program, "-c", file, "-e", dir+"/error")
	if err := cmd.Start(); err != nil {
		return nil, "", nil, err
	}
	for end := time.Now().Add(10 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		if c, err := net.Dial("tcp", at); err == nil {
			c.Close()
			break
		}
		if time.Now().After(end) {
			return nil, "", nil, errors.New("nginx does not listen")
		}
	}
	return cmd, at, func() (voteEnd, error) {
		_ = cmd.Process.Signal(os.Interrupt)
		_ = cmd.Wait()
		return voteEnd{}, nil
	}, nil
}

// voteServer accepts votes until its input ends, then prints its statistics. args are the
// kind, a folder, and a database.
func voteServer(ctx context.Context, args []string) error {
	kind, dir, place := args[0], args[1], args[2]
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	cert, err := voteCertificate()
	if err != nil {
		return err
	}
	if kind == "sqlite" || kind == "postgres" {
		return boothVotes(ctx, dir, place)
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	fmt.Println(ln.Addr())
	var e voteEnd
	ended := make(chan error, 1)
	switch kind {
	case "net/http":
		var n atomic.Int64
		srv := &http.Server{ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			var v struct{ ID, Vote, URL string }
			if json.NewDecoder(r.Body).Decode(&v) != nil {
				w.WriteHeader(http.StatusBadRequest)
				return
			}
			n.Add(1)
			w.WriteHeader(http.StatusAccepted)
		})}
		go func() { ended <- srv.Serve(ln) }()
		_, _ = io.Copy(io.Discard, os.Stdin)
		return json.NewEncoder(os.Stdout).Encode(e)
	case "memory", "log":
		sealer, err := vote.NewSealer([]byte("benchmark"))
		if err != nil {
			return err
		}
		parts := vote.Parts{Log: memoryIngest{}, Sealer: sealer, TLS: &tls.Config{Certificates: []tls.Certificate{cert}}}
		var l *ingest.Log
		if kind == "log" {
			if l, err = ingest.Open(ingest.Config{Folder: filepath.Join(dir, "log")}, nil); err != nil {
				return err
			}
			go func() { ended <- l.Run(ctx) }()
			parts.Log = l
		}
		go func() { _ = vote.NewServer(parts).Serve(ctx, ln) }()
		_, _ = io.Copy(io.Discard, os.Stdin)
		if l != nil {
			e.Syncs, e.Records = l.Syncs()
		}
		return json.NewEncoder(os.Stdout).Encode(e)
	}
	return fmt.Errorf("%q is no way to take votes", kind)
}

// A memoryIngest acknowledges votes and stores them in memory only.
type memoryIngest struct{}

func (memoryIngest) Append(context.Context, ...[]byte) error { return nil }

func boothVotes(ctx context.Context, dir, place string) error {
	var off booth.Limit
	if err := off.UnmarshalText([]byte("off")); err != nil {
		return err
	}
	b, err := booth.Open(ctx, booth.Config{Listen: setting.OneOrMore[setting.Address]{"127.0.0.1:0"}, Store: place, Limit: off},
		booth.Parts{Data: dir, Key: []byte("benchmark"), Apply: func(context.Context, *vote.Decision) error { return nil }})
	if err != nil {
		return err
	}
	if err := b.Listen(ctx); err != nil {
		return err
	}
	fmt.Println(b.Addrs()[0])
	ctx, stop := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- b.Run(ctx) }()
	_, _ = io.Copy(io.Discard, os.Stdin)
	for b.Pending() > 0 && ctx.Err() == nil {
		time.Sleep(10 * time.Millisecond)
	}
	var e voteEnd
	e.Syncs, e.Records = b.Log().Syncs()
	if e.Counted, err = b.Desk().Store().Total(ctx); err != nil {
		stop()
		return errors.Join(err, <-ended)
	}
	stop()
	return errors.Join(json.NewEncoder(os.Stdout).Encode(e), <-ended)
}

// voteCertificate makes a certificate.
func voteCertificate() (tls.Certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return tls.Certificate{}, err
	}
	now := time.Now()
	t := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: now.Add(-time.Hour), NotAfter: now.Add(24 * time.Hour), DNSNames: []string{"localhost"}}
	der, err := x509.CreateCertificate(rand.Reader, t, t, key.Public(), key)
	if err != nil {
		return tls.Certificate{}, err
	}
	text, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return tls.Certificate{}, err
	}
	return tls.X509KeyPair(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: text}))
}
