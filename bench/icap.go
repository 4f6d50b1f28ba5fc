package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	wire "shuultuur/lib/message/icap"
)

const icapAbout = "ICAP: responses that a proxy asks about, beside e2guardian and c-icap"

const (
	icapConnections = 10
	icapPages       = 5.0  // relative to e2guardian's, for processor time and pages
	icapSmall       = 1.0  // relative to c-icap's, for processor time and messages of 1 KiB
	icapBefore      = 0.98 // relative to an older program of ours
	icapShort       = 60 << 10
)

// An icapServer is a server to measure.
type icapServer struct {
	name, version, service string
	addr                   string
	proc                   *process
	filters                bool
	program                string // of ours, "" to build it from this checkout
	admin                  string // address of ours
	sessionField           string // field of its REQMOD response that the RESPMOD request must have
	request                string // service for REQMOD
	squid                  *peer  // the Squid that uses it; nil without Squid
	fetches                int64  // through Squid per round
	pages, small           []icapRound
	behind                 []squidRound
}

// A squidRound is one measurement through Squid: pages per second, and CPU µs per page of
// Squid and of the ICAP server.
type squidRound struct{ rate, squid, server float64 }

// An icapRound is one measurement.
type icapRound struct{ rate, cost float64 } // messages per second, CPU µs per message

// icaps sends pages and small messages to ICAP servers, in turn.
func icaps(ctx context.Context, opt options, out io.Writer) error {
	base, err := newRig(ctx, false)
	if err != nil {
		return err
	}
	defer base.close()
	r := &icapRig{base}
	servers, missing, err := r.startICAP()
	if err != nil {
		return err
	}
	if err := r.pinSelf(loadCore); err != nil {
		return err
	}
	pages, small, err := r.icapBodies()
	if err != nil {
		return err
	}
	for _, s := range servers {
		if err := r.verifyICAP(s, pages); err != nil {
			return fmt.Errorf("verify %s: %w", s.name, err)
		}
	}
	page := scenario{name: "icap", unit: "pages", connections: icapConnections, urls: func(*rig) []string { return r.shortURLs() }, timeout: 20 * time.Second, most: 60 * time.Second}
	if err := r.startSquids(servers, page, opt); err != nil {
		return err
	}
	for round := range opt.rounds {
		for _, s := range turns(servers, round) {
			if s.squid != nil {
				one, err := r.behindSquid(s, page, opt)
				if err != nil {
					return fmt.Errorf("%s: %w", s.squid.name, err)
				}
				s.behind = append(s.behind, one)
			}
			profiled := make(chan error, 1)
			if opt.profile != "" && s.name == subject {
				go func() {
					profiled <- profile(ctx, "http://"+s.admin, 2*opt.seconds, filepath.Join(opt.profile, "icap.pprof"))
				}()
			} else {
				profiled <- nil
			}
			if s.filters {
				one, err := s.round(ctx, pages, opt.duration())
				if err != nil {
					return fmt.Errorf("%s: %w", s.name, err)
				}
				s.pages = append(s.pages, one)
			}
			one, err := s.round(ctx, small, opt.duration())
			if err != nil {
				return fmt.Errorf("%s: %w", s.name, err)
			}
			s.small = append(s.small, one)
			if err := <-profiled; err != nil {
				return err
			}
		}
	}
	return r.printICAP(servers, missing, len(pages), opt, out)
}

// startICAP starts the installed servers.
func (r *icapRig) startICAP() (all []*icapServer, missing []string, err error) {
	for _, s := range []struct {
		icapServer
		needs   string
		version []string
		begin   func(*icapServer) error
	}{
		{icapServer{name: subject, service: "respmod", request: "reqmod", filters: true}, "go", nil, r.beginShuultuurICAP},
		{icapServer{name: subject + "-before", service: "respmod", request: "reqmod", filters: true, program: os.Getenv("BEFORE")}, "go", nil, r.beginShuultuurICAP},
		{icapServer{name: "e2guardian", service: "response", request: "request", filters: true}, "e2guardian", []string{"-v"}, r.beginGuardianICAP},
		{icapServer{name: "c-icap, echo", service: "echo", request: "echo"}, "c-icap", []string{"-V"}, r.beginEchoICAP},
	} {
		if s.name == subject+"-before" && s.program == "" {
			continue
		}
		path, err := find(s.needs)
		if err == nil {
			s.icapServer.version = versionOf(path, s.version)
			if s.addr, err = freeAddr(); err == nil {
				err = s.begin(&s.icapServer)
			}
		} else {
			err = fmt.Errorf("%w: %w", errMissing, err)
		}
		if errors.Is(err, errMissing) {
			missing = append(missing, s.name+": "+err.Error())
			continue
		}
		if err != nil {
			return nil, nil, err
		}
		all = append(all, &s.icapServer)
	}
	return all, missing, nil
}

// beginShuultuurICAP starts Shuultuur with the lists of e2guardian.
func (r *icapRig) beginShuultuurICAP(s *icapServer) error {
	dir, err := r.folder(s.name)
	if err != nil {
		return err
	}
	program := s.program
	if s.version = program; s.name != subject {
		if _, err := os.Stat(program); err != nil {
			return fmt.Errorf("%w: set BEFORE to an older program (%w)", errMissing, err)
		}
	} else {
		if program, err = r.build(dir); err != nil {
			return err
		}
		s.version = r.revision()
	}
	if s.admin, err = freeAddr(); err != nil {
		return err
	}
	s.proc, err = r.start(proxyCore, s.name, s.addr, []string{program, "run", "-config", "FILE"}, expand(`listen: {icap: "ADDR", admin: "ADMIN"}
data: DIR
checks:
  phrase:
    weighted: [LISTS/weightedphraselist]
    banned: [LISTS/bannedphraselist]
    exception: [LISTS/exceptionphraselist]
    naughtynesslimit: LIMIT
policies:
  - name: everyone
    rules:
      - {name: excepted words, action: allow, category: [exceptionphrase]}
      - {name: forbidden words, action: block, category: [bannedphrase]}
      - {name: words, action: block, category: [phrase], over: LIMIT}
events: {sqlite: events.db}
icap: {wait: "off"}
`, "ADDR", s.addr, "ADMIN", s.admin, "DIR", dir, "LISTS", filepath.Join(guardianFolder, "lists"), "LIMIT", limit))
	return err
}

// beginGuardianICAP starts e2guardian with its ICAP port.
func (r *icapRig) beginGuardianICAP(s *icapServer) error {
	_, port, _ := strings.Cut(s.addr, ":")
	p := peer{name: s.name}
	err := (&peerRig{r.rig}).beginGuardianWith(&p, map[string]string{"icapport": port})
	s.proc = p.proc
	if err != nil {
		return err
	}
	if err := p.proc.ready(r.ctx, s.addr); err != nil {
		return err
	}
	return s.learnField(r.ctx)
}

// beginEchoICAP starts c-icap with a service that changes nothing.
func (r *icapRig) beginEchoICAP(s *icapServer) error {
	modules, _ := filepath.Glob("/usr/lib/*/c_icap")
	if len(modules) == 0 {
		return fmt.Errorf("%w, its modules are not where Debian keeps them", errMissing)
	}
	dir, err := r.folder("c-icap")
	if err != nil {
		return err
	}
	s.proc, err = r.start(proxyCore, "c-icap", s.addr, []string{"c-icap", "-N", "-f", "FILE"}, expand(`PidFile DIR/pid
CommandsSocket DIR/ctl
TmpDir DIR
ServerLog DIR/server.log
AccessLog DIR/access.log
Port ADDR
StartServers 1
MaxServers 1
ThreadsPerChild 60
MaxKeepAliveRequests -1
MaxRequestsPerChild 0
ModulesDir MODULES
ServicesDir MODULES
TemplateDir /usr/share/c_icap/templates/
LoadMagicFile /etc/c-icap/c-icap.magic
Service echo srv_echo.so
`, "DIR", dir, "ADDR", s.addr, "MODULES", modules[0]))
	return err
}

// startSquids starts a Squid for each server, which sends it requests and responses, and
// verifies that it filters.
func (r *icapRig) startSquids(servers []*icapServer, page scenario, opt options) error {
	if _, err := find("squid"); err != nil {
		return nil
	}
	r.heavy = r.heavy[:min(len(r.heavy), icapShort)]
	for _, s := range servers {
		name, _, _ := strings.Cut(s.name, ",")
		p := &peer{name: "squid-" + name, filters: s.filters}
		// e2guardian does not judge a response without the field from its REQMOD response.
		if err := (&peerRig{r.rig}).beginSquidWith(p, expand(`icap_enable on
icap_send_client_ip on
icap_preview_enable on
icap_persistent_connections on
icap_service req reqmod_precache icap://ADDR/REQUEST bypass=off
icap_service resp respmod_precache icap://ADDR/RESPONSE bypass=off
adaptation_masterx_shared_names FIELD
adaptation_access req allow all
adaptation_access resp allow all
`, "ADDR", s.addr, "REQUEST", s.request, "RESPONSE", s.service, "FIELD", guardianField)); err != nil {
			return err
		}
		if err := p.proc.ready(r.ctx, p.proxy); err != nil {
			return err
		}
		if s.filters {
			if err := (&verifier{r.rig}).blocks(p); err != nil {
				return fmt.Errorf("verify %s: %w", p.name, err)
			}
		}
		n, err := r.calibrate(page, opt, p)
		if err != nil {
			return fmt.Errorf("warm up %s: %w", p.name, err)
		}
		s.squid, s.fetches = p, n
	}
	return nil
}

// shortURLs returns the pages for which e2guardian answers Squid: for longer ones it often
// leaves Squid waiting for the end.
func (r *icapRig) shortURLs() (urls []string) {
	for n, url := range r.pageURLs() {
		if info, err := os.Stat(filepath.Join(r.dir, "www", r.pages[n])); err == nil && info.Size() <= icapShort {
			urls = append(urls, url)
		}
	}
	return urls
}

// behindSquid fetches pages through the Squid that uses a server.
func (r *icapRig) behindSquid(s *icapServer, page scenario, opt options) (squidRound, error) {
	before := s.proc.cpu()
	w, err := r.round(page, opt, s.squid, s.fetches)
	if err != nil {
		return squidRound{}, err
	}
	if n := w.report.Errors; len(n) > 0 {
		return squidRound{}, fmt.Errorf("fetches failed: %v", n)
	}
	spent := s.proc.cpu() - before
	return squidRound{w.rate(), w.perFetch(), float64(spent.Microseconds()) / float64(w.report.Fetches)}, nil
}

// icapBodies reads the pages and the small one.
func (r *icapRig) icapBodies() (pages, small [][]byte, err error) {
	for _, name := range append(slices.Clone(r.pages), "small.html") {
		body, err := os.ReadFile(filepath.Join(r.dir, "www", name))
		if err != nil {
			return nil, nil, fmt.Errorf("read page: %w", err)
		}
		pages = append(pages, body)
	}
	last := len(pages) - 1
	return pages[:last], pages[last:], nil
}

// ask makes a RESPMOD request: heads and the whole body, which need not be returned if nothing
// changes.
func (s *icapServer) ask(path string, body []byte) []byte {
	request := icapRequest(path)
	response := fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Type: text/html; charset=utf-8\r\nContent-Length: %d\r\n\r\n", len(body))
	var b bytes.Buffer
	fmt.Fprintf(&b, "RESPMOD icap://%s/%s ICAP/1.0\r\nHost: %s\r\nAllow: 204\r\nX-Client-IP: 127.0.0.1\r\n%sEncapsulated: req-hdr=0, res-hdr=%d, res-body=%d\r\n\r\n%s%s%x\r\n",
		s.addr, s.service, s.addr, s.sessionField, len(request), len(request)+len(response), request, response, len(body))
	b.Write(body)
	b.WriteString("\r\n0\r\n\r\n")
	return b.Bytes()
}

func icapRequest(path string) string {
	return "GET http://pages.example/" + path + " HTTP/1.1\r\nHost: pages.example\r\nUser-Agent: bench\r\n\r\n"
}

// guardianField is e2guardian's verdict on a request, without which it does not judge the
// response.
const guardianField = "X-ICAP-E2G"

// learnField sends a REQMOD request to e2guardian, and stores the field of its response.
func (s *icapServer) learnField(ctx context.Context) error {
	c, err := s.dial(ctx)
	if err != nil {
		return err
	}
	defer c.Close()
	request := icapRequest("page0")
	if _, err := fmt.Fprintf(c, "REQMOD icap://%s/request ICAP/1.0\r\nHost: %s\r\nAllow: 204\r\nX-Client-IP: 127.0.0.1\r\nEncapsulated: req-hdr=0, null-body=%d\r\n\r\n%s", s.addr, s.addr, len(request), request); err != nil {
		return err
	}
	for {
		line, err := wire.ReadLine(c.in)
		if err != nil || len(line) == 0 {
			return errors.Join(errors.New("the answer to REQMOD has no field "+guardianField), err)
		}
		if name, _, ok := strings.Cut(string(line), ":"); ok && strings.EqualFold(name, guardianField) {
			s.sessionField = string(line) + "\r\n"
			return nil
		}
	}
}

// An icapConn is one connection to a server.
type icapConn struct {
	net.Conn
	in *bufio.Reader
}

func (s *icapServer) dial(ctx context.Context) (*icapConn, error) {
	var d net.Dialer
	c, err := d.DialContext(ctx, "tcp", s.addr)
	if err != nil {
		return nil, err
	}
	return &icapConn{c, bufio.NewReaderSize(c, wire.MaxLine)}, nil
}

// exchange sends a request with a body and reads the response. passed reports that the message
// is unchanged: it was not returned, or returned whole. e2guardian knows no other way, and
// also answers with its own page with status 200.
func (c *icapConn) exchange(ask, body []byte) (passed bool, err error) {
	if err := c.SetDeadline(time.Now().Add(time.Minute)); err != nil {
		return false, err
	}
	if _, err := c.Write(ask); err != nil {
		return false, err
	}
	var parts wire.Encapsulated
	status := ""
	for {
		line, err := wire.ReadLine(c.in)
		if err != nil {
			return false, err
		}
		if len(line) == 0 {
			break
		}
		if status == "" {
			status = string(line)
		}
		if name, value, ok := strings.Cut(string(line), ":"); ok && strings.EqualFold(name, "Encapsulated") {
			if err := parts.Parse(strings.TrimSpace(value)); err != nil {
				return false, err
			}
		}
	}
	switch {
	case strings.HasPrefix(status, "ICAP/1.0 204 "):
		return true, nil
	case !strings.HasPrefix(status, "ICAP/1.0 200 "):
		return false, fmt.Errorf("the answer is %q", status)
	}
	head := make([]byte, max(parts.Req, 0)+max(parts.Res, 0))
	if _, err := io.ReadFull(c.in, head); err != nil {
		return false, err
	}
	size := int64(0)
	for parts.Body {
		n, _, err := wire.ReadChunk(c.in)
		if size += n; err == nil && n == 0 {
			return size == int64(len(body)), wire.SkipTrailer(c.in)
		}
		if err == nil {
			_, err = io.CopyN(io.Discard, c.in, n)
		}
		if err == nil {
			err = wire.EndChunk(c.in)
		}
		if err != nil {
			return false, err
		}
	}
	return false, nil
}

// verifyICAP verifies that a server lets the pages pass and refuses one of bad words.
func (r *icapRig) verifyICAP(s *icapServer, pages [][]byte) error {
	c, err := s.dial(r.ctx)
	if err != nil {
		return err
	}
	defer c.Close()
	for n, body := range pages {
		if passed, err := c.exchange(s.ask(fmt.Sprint("page", n), body), body); err != nil || !passed {
			return errors.Join(fmt.Errorf("page %q does not pass", r.pages[n]), err)
		}
	}
	if !s.filters {
		return nil
	}
	if r.heavy, err = heavyPage(filepath.Join(guardianFolder, "lists", "weightedphraselist")); err != nil {
		return err
	}
	if passed, err := c.exchange(s.ask("heavy", r.heavy), r.heavy); err != nil || passed {
		return errors.Join(errors.New("a page of bad words passes"), err)
	}
	return nil
}

// round sends bodies to a server for a time, one after another on each connection.
func (s *icapServer) round(ctx context.Context, bodies [][]byte, d time.Duration) (icapRound, error) {
	asks := make([][]byte, len(bodies))
	for n, body := range bodies {
		asks[n] = s.ask(fmt.Sprint("page", n), body)
	}
	var done atomic.Int64
	var failed atomic.Pointer[error]
	before, begin := s.proc.cpu(), time.Now()
	var all sync.WaitGroup
	for n := range icapConnections {
		all.Go(func() {
			c, err := s.dial(ctx)
			if err != nil {
				failed.Store(&err)
				return
			}
			defer c.Close()
			for i := n; time.Since(begin) < d && ctx.Err() == nil; i++ {
				passed, err := c.exchange(asks[i%len(asks)], bodies[i%len(asks)])
				if err == nil && !passed {
					err = errors.New("a page that passed before is refused")
				}
				if err != nil {
					failed.Store(&err)
					return
				}
				done.Add(1)
			}
		})
	}
	all.Wait()
	took, spent := time.Since(begin), s.proc.cpu()-before
	if err := failed.Load(); err != nil {
		return icapRound{}, *err
	}
	n := float64(done.Load())
	return icapRound{n / took.Seconds(), float64(spent.Microseconds()) / n}, ctx.Err()
}

func (r *icapRig) printICAP(servers []*icapServer, missing []string, pages int, opt options, out io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "### %s\n\n%s. %s\n`go run -C bench . icap -rounds %d -seconds %g`: RESPMOD with whole bodies and `Allow: 204` over %d kept-alive connections, by turns, the server on core %s, the client on core %s; medians. Pages are %d real ones, judged by the phrase lists of e2guardian; c-icap's echo service judges nothing. e2guardian sends every page back whole: it does not answer with 204.\n\n| server | pages/s | CPU µs/page | 1 KiB messages/s | CPU µs/message |\n|--|--:|--:|--:|--:|\n",
		icapAbout, time.Now().UTC().Format("2006-01-02 15:04 MST"), machine("at the end"), opt.rounds, opt.seconds, icapConnections, proxyCore, loadCore, pages)
	rate, cost := func(x icapRound) float64 { return x.rate }, func(x icapRound) float64 { return x.cost }
	for _, s := range servers {
		fmt.Fprintf(&b, "| %s %s | %s | %s | %.0f | %.1f |\n", s.name, s.version, orDash(s.pages, rate), orDash(s.pages, cost), median(s.small, rate), median(s.small, cost))
	}
	b.WriteString("\n")
	ours := servers[0]
	ratio := func(s *icapServer, mine, theirs []icapRound, what string, target float64) {
		var each []float64
		for n := range theirs {
			each = append(each, theirs[n].cost/mine[n].cost)
		}
		slices.Sort(each)
		fmt.Fprintf(&b, "* target ≥ %g × %s for %s a core (by processor time, within a round): %.2f×%s: **%s**\n", target, s.name, what, middle(each), spread(each, 2), verdict(middle(each) >= target))
	}
	for _, s := range servers[1:] {
		if s.filters {
			ratio(s, ours.pages, s.pages, "pages", s.target())
		}
		if !s.filters || s.target() < 1 {
			ratio(s, ours.small, s.small, "1 KiB messages", min(s.target(), icapSmall))
		}
	}
	for _, m := range missing {
		fmt.Fprintf(&b, "* %s\n", m)
	}
	b.WriteString("\n")
	r.printBehindSquid(&b, servers)
	_, err := io.WriteString(out, b.String())
	return err
}

// printBehindSquid writes the table of pages through Squid.
func (r *icapRig) printBehindSquid(b *strings.Builder, servers []*icapServer) {
	ours := servers[0]
	if len(ours.behind) == 0 {
		b.WriteString("* squid is not installed: not measured through it\n\n")
		return
	}
	fmt.Fprintf(b, "The %d pages of at most %d KiB by HTTP through Squid, which asks the server about each request and response (preview, `Allow: 204`); both share a core. Longer pages are left out: e2guardian often leaves Squid waiting for their end.\n\n| Squid with | pages/s | CPU µs/page, Squid | CPU µs/page, server |\n|--|--:|--:|--:|\n", len(r.shortURLs()), icapShort>>10)
	for _, s := range servers {
		fmt.Fprintf(b, "| %s | %s | %.0f | %.0f |\n", s.name, figure(median(s.behind, func(x squidRound) float64 { return x.rate })),
			median(s.behind, func(x squidRound) float64 { return x.squid }), median(s.behind, func(x squidRound) float64 { return x.server }))
	}
	b.WriteString("\n")
	for _, s := range servers[1:] {
		if !s.filters {
			continue
		}
		var each []float64
		for n, x := range s.behind {
			each = append(each, (x.squid+x.server)/(ours.behind[n].squid+ours.behind[n].server))
		}
		slices.Sort(each)
		fmt.Fprintf(b, "* target ≥ %g × %s for pages a core through Squid (by processor time of both, within a round): %.2f×%s: **%s**\n\n", s.target(), s.name, middle(each), spread(each, 2), verdict(middle(each) >= s.target()))
	}
}

// target returns how much less processor time ours should need for a page.
func (s *icapServer) target() float64 {
	if s.name == subject+"-before" {
		return icapBefore
	}
	return icapPages
}

// orDash formats a median, or a dash if nothing was measured.
func orDash(all []icapRound, of func(icapRound) float64) string {
	if len(all) == 0 {
		return "-"
	}
	return figure(median(all, of))
}
