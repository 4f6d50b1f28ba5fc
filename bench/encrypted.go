package main

import (
	"context"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/quic-go/quic-go"

	"shuultuur/lib/dns"
	"shuultuur/tool/load"
)

const encryptedAbout = "Cached names over TLS, HTTPS and QUIC, beside unbound and dnsdist"

// An encryptedServer is a name server with the addresses of its transports; "" for a transport
// that it lacks.
type encryptedServer struct {
	name, tls, https, quic string
	proc                   *process
}

// encrypted measures the cost of an answer over an encrypted transport.
func encrypted(ctx context.Context, opt options, out io.Writer) error {
	r, err := newNameRig(ctx, out, encryptedAbout, "nsd", "dnsperf", "taskset")
	if err != nil || r == nil {
		return err
	}
	defer r.close()
	if r.certs, err = r.certify(); err != nil {
		return err
	}
	upstream, queries, err := r.startNSD()
	if err != nil {
		return err
	}
	servers, missing, err := r.startEncrypted(upstream)
	if err != nil {
		return err
	}
	if err := r.pinSelf(dnsGeneratorCore); err != nil {
		return err
	}
	all := map[string][]volley{}
	for round := range opt.rounds + 1 { // the first round fills the caches, and is not counted
		for i := range servers {
			s := &servers[i]
			for _, transport := range []string{"DoT", "DoH", "DoQ"} {
				v, err := r.encryptedVolley(s, transport, queries, opt)
				if errors.Is(err, errMissing) {
					continue
				}
				if err != nil {
					return fmt.Errorf("round %d, %s, %s: %w\n%s", round, s.name, transport, err, s.proc.tail())
				}
				if round > 0 {
					all[transport+" "+s.name] = append(all[transport+" "+s.name], v)
				}
			}
		}
	}
	return r.printEncrypted(out, all, servers, missing, opt)
}

const dnsdistEncrypted = `setLocal("127.0.0.1:PLAIN")
addTLSLocal("ATDOT", "CERT", "KEY")
addDOHLocal("ATDOH", "CERT", "KEY", "/dns-query")
newServer({address="UPSTREAM"})
getPool(""):setCache(newPacketCache(20000))
setSecurityPollSuffix("")
setVerboseHealthChecks(false)
`

const unboundEncrypted = `server:
  interface: 127.0.0.1@DOTPORT
  interface: 127.0.0.1@DOHPORT
  tls-port: DOTPORT
  https-port: DOHPORT
  tls-service-pem: "CERT"
  tls-service-key: "KEY"
  do-daemonize: no
  username: ""
  chroot: ""
  pidfile: ""
  use-syslog: no
  verbosity: 0
  num-threads: 1
  do-not-query-localhost: no
  module-config: "iterator"
  access-control: 127.0.0.0/8 allow
remote-control:
  control-enable: no
forward-zone:
  name: "."
  forward-addr: 127.0.0.1@UPPORT
`

const oursEncrypted = `listen: {proxy: "127.0.0.1:0", admin: "127.0.0.1:0"}
data: DIR/data
policies: [{name: everyone}]
dns:
  tls: ["ATDOT"]
  https: ["ATDOH"]
  quic: ["ATDOT"]
  cert: CERT
  key: KEY
  log: off
  forward: {upstreams: ["UPSTREAM"]}
`

// startEncrypted starts the installed servers.
func (r *dnsRig) startEncrypted(upstream string) (all []encryptedServer, missing []string, err error) {
	dir, err := r.folder("encrypted")
	if err != nil {
		return nil, nil, err
	}
	program, err := r.build(dir)
	if err != nil {
		return nil, nil, err
	}
	for _, s := range []struct {
		name, settings string
		args           []string
	}{
		{"shuultuur", oursEncrypted, []string{program, "run", "-config", "FILE"}},
		{"unbound", unboundEncrypted, []string{"unbound", "-d", "-c", "FILE"}},
		{"dnsdist", dnsdistEncrypted, []string{"dnsdist", "--supervised", "--disable-syslog", "-C", "FILE"}},
	} {
		if _, err := find(s.args[0]); err != nil {
			missing = append(missing, s.name)
			continue
		}
		var addrs [3]string
		for i := range addrs {
			if addrs[i], err = freeAddr(); err != nil {
				return nil, nil, err
			}
		}
		port := func(addr string) string { _, p, _ := strings.Cut(addr, ":"); return p }
		settings := expand(s.settings, "DOTPORT", port(addrs[0]), "DOHPORT", port(addrs[1]), "PLAIN", port(addrs[2]), "UPPORT", port(upstream),
			"ATDOT", addrs[0], "ATDOH", addrs[1], "CERT", r.certs.origin, "KEY", r.certs.originKey, "UPSTREAM", upstream, "DIR", filepath.Join(dir, "own"))
		e := encryptedServer{name: s.name, tls: addrs[0], https: addrs[1]}
		if e.proc, err = r.start(dnsServerCore, s.name, e.tls, s.args, settings); err != nil {
			return nil, nil, err
		}
		if s.name == "shuultuur" {
			e.quic = e.tls
		}
		all = append(all, e)
	}
	return all, missing, nil
}

// encryptedVolley runs a round over one transport. It returns errMissing if the server lacks
// it.
func (r *dnsRig) encryptedVolley(s *encryptedServer, transport, queries string, opt options) (v volley, err error) {
	before := s.proc.cpu()
	switch transport {
	case "DoT":
		v, err = r.dnsperf(s.tls, queries, 4, opt, "-m", "dot")
	case "DoH":
		if s.name == "dnsdist" { // Debian's version does not answer dnsperf
			v, err = r.loadDNS("https://"+s.https+"/dns-query", queries, load.DNSConfig{Duration: opt.duration(), Roots: r.certs.roots})
			break
		}
		v, err = r.dnsperf(s.https, queries, 4, opt, "-m", "doh", "-O", "doh-uri=https://localhost/dns-query")
	case "DoQ":
		if s.quic == "" {
			return v, errMissing
		}
		v, err = r.loadQUIC(s.quic, queries, opt.duration())
	}
	if err == nil {
		// Each volley opens new connections, whose cost is small compared with that of the
		// answers.
		v.perQuery = float64((s.proc.cpu() - before).Microseconds()) / (v.rate * max(1, float64(int(opt.seconds+0.5))))
	}
	return v, err
}

// loadQUIC queries over four connections, with 25 concurrent streams each.
func (r *dnsRig) loadQUIC(server, queries string, d time.Duration) (volley, error) {
	text, err := os.ReadFile(queries)
	if err != nil {
		return volley{}, err
	}
	var msgs [][]byte
	for line := range strings.Lines(string(text)) {
		name, _, _ := strings.Cut(line, " ")
		wire, err := dns.Name(name)
		if err != nil {
			return volley{}, err
		}
		q := dns.AppendQuery(make([]byte, 2), wire, dns.TypeA, 0)
		binary.BigEndian.PutUint16(q, uint16(len(q)-2))
		msgs = append(msgs, q)
	}
	ctx, cancel := context.WithTimeout(r.ctx, d)
	defer cancel()
	var next, done, lost atomic.Int64
	var all sync.WaitGroup
	begin := time.Now()
	for range 4 {
		c, err := quic.DialAddr(r.ctx, server, &tls.Config{RootCAs: r.certs.roots, NextProtos: []string{"doq"}}, nil)
		if err != nil {
			return volley{}, err
		}
		defer func() { _ = c.CloseWithError(0, "") }()
		for range 25 {
			all.Go(func() {
				for ctx.Err() == nil {
					switch err := askQUIC(ctx, c, msgs[next.Add(1)%int64(len(msgs))]); {
					case err == nil:
						done.Add(1)
					case time.Since(begin) < d: // later errors are due to the end of the round, which streams may notice before ctx
						lost.Add(1)
					}
				}
			})
		}
	}
	all.Wait()
	if done.Load() == 0 {
		return volley{}, errors.New("no answer over QUIC")
	}
	return volley{rate: float64(done.Load()) / time.Since(begin).Seconds(), lost: lost.Load()}, nil
}

func askQUIC(ctx context.Context, c *quic.Conn, q []byte) error {
	st, err := c.OpenStreamSync(ctx)
	if err != nil {
		return err
	}
	if deadline, ok := ctx.Deadline(); ok {
		if err := st.SetDeadline(deadline); err != nil {
			return err
		}
	}
	if _, err := st.Write(q); err != nil {
		return err
	}
	if err := st.Close(); err != nil {
		return err
	}
	b, err := io.ReadAll(st)
	if err == nil && (len(b) < 14 || b[5]&15 != 0) {
		return fmt.Errorf("an answer has %d bytes", len(b))
	}
	return err
}

func (r *dnsRig) printEncrypted(w io.Writer, all map[string][]volley, servers []encryptedServer, missing []string, opt options) error {
	var b strings.Builder
	fmt.Fprintf(&b, "### %s\n\n%s. %s\n`go run -C bench . encrypted -rounds %d -seconds %g`: %d names, dnsperf with 4 connections and 100 queries in progress (QUIC: a client of ours), the server on one core, the load on the other, by turns, medians and the range over the rounds. shuultuur %s.\n\n",
		encryptedAbout, time.Now().UTC().Format("2006-01-02 15:04 MST"), machine("at the end"), opt.rounds, opt.seconds, dnsNames, r.revision())
	b.WriteString("| transport | server | answers/s | CPU µs per answer | range | lost |\n|---|---|--:|--:|--:|--:|\n")
	for _, transport := range []string{"DoT", "DoH", "DoQ"} {
		for _, s := range servers {
			rows := all[transport+" "+s.name]
			if len(rows) == 0 {
				continue
			}
			least, most, lost := rows[0].perQuery, rows[0].perQuery, int64(0)
			for _, v := range rows {
				least, most, lost = min(least, v.perQuery), max(most, v.perQuery), lost+v.lost
			}
			fmt.Fprintf(&b, "| %s | %s | %s | %.1f | %.1f to %.1f | %d |\n", transport, s.name, figure(median(rows, volley.perSecond)), median(rows, volley.cost), least, most, lost)
		}
	}
	for _, m := range missing {
		fmt.Fprintf(&b, "\n* left out, not installed: %s\n", m)
	}
	b.WriteString("\n* DoH of dnsdist is asked by load dns, as Debian's does not answer dnsperf\n* DoQ: neither unbound nor dnsdist of Debian has it\n\n")
	_, err := io.WriteString(w, b.String())
	return err
}
