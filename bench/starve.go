package main

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"
)

const starveAbout = "20 attacks by one address: what an ordinary client notices"

const (
	starveP99   = 300 // ms
	starveTime  = 4 * time.Second
	starveEvery = 25 * time.Millisecond // the ordinary client's pace
	starveHeld  = 3000                  // connections of an attack that holds them, if the generator keeps up with them
	starveLeast = 16                    // a smaller part of them is no attack
	starveLate  = 25                    // ms by which the generator may wake up late (99 of 100 times)
	starveBusy  = 16                    // connections of an attack that works
	starveAgain = time.Second           // until a connection that has ended is opened again
	attackerIP  = "127.0.0.2"
)

// starveSettings are as a new user has them, with a phrase list of its own.
const starveSettings = `listen: {proxy: "PROXY", admin: "ADMIN"}
data: DIR
proxy: {private: [127.0.0.0/8], connect-ports: [any]}
checks: {phrase: {weighted: [DIR/words]}}
policies:
  - name: everyone
    rules:
      - {name: words, action: block, category: [phrase], over: 100}
      - {name: uploads, action: block, words: [nobody writes this]}
events: {sqlite: events.db}
`

// An attacker is one address that attacks the proxy.
type attacker struct {
	proxy  string
	admin  string // of the proxy
	origin string // of pages
	bad    string // host:port of an origin that helps it
	held   int    // connections that it holds
}

// An attack goes on until ctx ends.
type attack struct {
	name string
	force
}

// A force attacks on some connections.
type force struct {
	most int
	run  func(a *attacker, ctx context.Context)
}

var attacks = []attack{
	{"connections that say nothing", hold("")},
	{"heads that do not end", hold("GET http://ORIGIN/small.html HTTP/1.1\r\nHost: x\r\nA: ")},
	{"heads, a byte a second", drip("GET http://ORIGIN/small.html HTTP/1.1\r\nHost: x\r\nA: ")},
	{"bodies that do not come", hold("POST http://BAD/take HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000\r\n\r\n")},
	{"bodies, a byte a second", drip("POST http://BAD/take HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000\r\n\r\n")},
	{"Expect: 100-continue, and no body", hold("POST http://BAD/take HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 1000\r\n\r\n")},
	{"an origin that does not answer", hold("GET http://BAD/silent HTTP/1.1\r\nHost: x\r\n\r\n")},
	{"an origin that answers a byte a second", hold("GET http://BAD/slow HTTP/1.1\r\nHost: x\r\n\r\n")},
	{"answers that are not read", hold("GET http://BAD/endless HTTP/1.1\r\nHost: x\r\n\r\n")},
	{"requests without reading", hold(strings.Repeat("GET http://ORIGIN/large.html HTTP/1.1\r\nHost: x\r\n\r\n", 50))},
	{"tunnels that say nothing", hold("CONNECT BAD HTTP/1.1\r\nHost: x\r\n\r\n")},
	{"tunnels that begin a hello", hold("CONNECT BAD HTTP/1.1\r\nHost: x\r\n\r\n\x16\x03\x01")},
	{"hosts that do not answer", hold("CONNECT 192.0.2.1:443 HTTP/1.1\r\nHost: x\r\n\r\n")},
	{"chunks that do not end", hold("POST http://BAD/take HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nffffff\r\nabc")},
	{"new connections", again("GET http://ORIGIN/small.html HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", false)},
	{"small requests", again("GET http://ORIGIN/small.html HTTP/1.1\r\nHost: x\r\n\r\n", true)},
	{"large pages", again("GET http://ORIGIN/large.html HTTP/1.1\r\nHost: x\r\n\r\n", true)},
	{"bodies that grow when decoded", again("GET http://BAD/bomb HTTP/1.1\r\nHost: x\r\n\r\n", true)},
	{"malformed heads", again("GET http://ORIGIN/ HTTP/1.1\r\nHost: x\r\nA b\r\n\r\n", false)},
	{"uploads that are judged", again("POST http://BAD/take HTTP/1.1\r\nHost: x\r\nContent-Type: text/plain\r\nContent-Length: 200000\r\nConnection: close\r\n\r\n"+strings.Repeat("words of an upload ", 10526)+"......", false)},
}

// fill puts the addresses into what is said.
func (a *attacker) fill(text string) []byte {
	return []byte(expand(text, "ORIGIN", a.origin, "BAD", a.bad))
}

func (a *attacker) dial(ctx context.Context) (net.Conn, error) {
	d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(attackerIP)}, Timeout: 2 * time.Second}
	return d.DialContext(ctx, "tcp", a.proxy)
}

// hold opens connections, says something on each, and keeps them. One that ends is opened again.
func hold(text string) force { return held(text, 0) }

// drip is hold, with a further byte each second.
func drip(text string) force { return held(text, time.Second) }

func held(text string, every time.Duration) force {
	return force{starveHeld, func(a *attacker, ctx context.Context) {
		said := a.fill(text)
		var wg sync.WaitGroup
		for i := range a.held {
			wg.Go(func() {
				pauseFor(ctx, starveAgain*time.Duration(i)/time.Duration(a.held))
				for ctx.Err() == nil {
					a.hold(ctx, said, every)
				}
			})
		}
		wg.Wait()
	}}
}

func (a *attacker) hold(ctx context.Context, said []byte, every time.Duration) {
	c, err := a.dial(ctx)
	if err != nil {
		pauseFor(ctx, starveAgain)
		return
	}
	defer c.Close()
	stop := context.AfterFunc(ctx, func() { c.Close() })
	defer stop()
	_ = c.SetWriteDeadline(time.Now().Add(starveTime))
	if _, err := c.Write(said); err != nil {
		pauseFor(ctx, starveAgain)
		return
	}
	for every > 0 && ctx.Err() == nil {
		pauseFor(ctx, every)
		if _, err := c.Write([]byte("a")); err != nil {
			return
		}
	}
	if bytes.Contains(said, []byte("endless")) || bytes.Count(said, []byte("GET ")) > 1 { // it does not read
		<-ctx.Done()
		return
	}
	_, _ = io.Copy(io.Discard, c) // until the proxy ends it
	pauseFor(ctx, starveAgain)
}

// again sends a request as often as it is answered, on some connections.
func again(text string, keep bool) force {
	return force{starveBusy, func(a *attacker, ctx context.Context) {
		said := a.fill(text)
		var wg sync.WaitGroup
		for range a.held {
			wg.Go(func() {
				for ctx.Err() == nil {
					if err := a.ask(ctx, said, keep); err != nil {
						pauseFor(ctx, 10*time.Millisecond)
					}
				}
			})
		}
		wg.Wait()
	}}
}

func (a *attacker) ask(ctx context.Context, said []byte, keep bool) error {
	c, err := a.dial(ctx)
	if err != nil {
		return err
	}
	defer c.Close()
	stop := context.AfterFunc(ctx, func() { c.Close() })
	defer stop()
	r := bufio.NewReader(c)
	for {
		if _, err := c.Write(said); err != nil {
			return err
		}
		res, err := http.ReadResponse(r, nil)
		if err != nil {
			return err
		}
		_, err = io.Copy(io.Discard, res.Body)
		res.Body.Close()
		if err != nil || !keep || res.Close {
			return err
		}
	}
}

func pauseFor(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}

// badOrigin is an origin that helps an attacker.
func badOrigin() (*http.Server, string, error) {
	var bomb bytes.Buffer
	z := gzip.NewWriter(&bomb)
	if _, err := z.Write(bytes.Repeat([]byte("<p>a word of a page "), 1<<19)); err != nil {
		return nil, "", err
	}
	if err := z.Close(); err != nil {
		return nil, "", err
	}
	noise := make([]byte, 64<<10)
	_, _ = rand.Read(noise)
	mux := http.NewServeMux()
	mux.HandleFunc("/take", func(w http.ResponseWriter, q *http.Request) { _, _ = io.Copy(io.Discard, q.Body) })
	mux.HandleFunc("/silent", func(_ http.ResponseWriter, q *http.Request) { <-q.Context().Done() })
	mux.HandleFunc("/slow", func(w http.ResponseWriter, q *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		for q.Context().Err() == nil {
			_, _ = io.WriteString(w, "a")
			_ = http.NewResponseController(w).Flush()
			pauseFor(q.Context(), time.Second)
		}
	})
	mux.HandleFunc("/endless", func(w http.ResponseWriter, q *http.Request) {
		w.Header().Set("Content-Type", "application/octet-stream")
		for q.Context().Err() == nil {
			if _, err := w.Write(noise); err != nil {
				return
			}
		}
	})
	mux.HandleFunc("/bomb", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		w.Header().Set("Content-Encoding", "gzip")
		_, _ = w.Write(bomb.Bytes())
	})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, "", err
	}
	s := &http.Server{Handler: mux}
	go func() { _ = s.Serve(l) }() // ends with Close
	return s, l.Addr().String(), nil
}

// An experience is what the ordinary client has had during an attack.
type experience struct {
	ms     []float64
	failed int
	why    string    // of the last failure
	late   []float64 // ms by which the generator woke up late
	held   int       // connections of the attack
	fell   bool      // the generator was behind with the fewest connections, too
}

// behind reports whether the generator fell behind by itself: it did not ask at its pace, or it slept
// longer than it wanted to. Its times are then its own, and say nothing of the proxy.
func (e *experience) behind() bool {
	return len(e.ms) < int(starveTime/starveEvery)*95/100 || quantileOf(e.late, 0.99) > starveLate
}

// sleep notes how late it wakes up each time, until ctx ends.
func (e *experience) sleep(ctx context.Context) {
	const short = 5 * time.Millisecond
	for ctx.Err() == nil {
		begun := time.Now()
		time.Sleep(short)
		e.late = append(e.late, float64((time.Since(begun)-short).Microseconds())/1000)
	}
}

// starve attacks the proxy from one address while an ordinary client of another one fetches pages.
func starve(ctx context.Context, opt options, out io.Writer) error {
	r, err := newRig(ctx, false)
	if err != nil {
		return err
	}
	defer r.close()
	bad, badAddr, err := badOrigin()
	if err != nil {
		return err
	}
	defer bad.Close()
	proxy, admin, err := (&socketRig{r}).startStarved()
	if err != nil {
		return err
	}
	if err := r.pinSelf(loadCore); err != nil {
		return err
	}
	a := &attacker{proxy: proxy, admin: admin, origin: r.origin, bad: badAddr}
	all := append([]attack{{"none", force{run: func(_ *attacker, ctx context.Context) { <-ctx.Done() }}}}, attacks...)
	had := map[string]*experience{}
	for round := range opt.rounds {
		for _, x := range all {
			a.held = x.most
			e := (&socketRig{r}).endure(a, x)
			for e.behind() && a.held > x.most/starveLeast && ctx.Err() == nil {
				fmt.Fprintf(os.Stderr, "round %d %-40s the generator fell behind with %d connections: %d requests, it woke up %.0f ms late\n", round+1, x.name, a.held, len(e.ms), quantileOf(e.late, 0.99))
				a.held /= 2
				e = (&socketRig{r}).endure(a, x)
			}
			if had[x.name] == nil {
				had[x.name] = &experience{held: a.held}
			}
			h := had[x.name]
			h.held = min(h.held, a.held)
			h.fell = h.fell || e.behind()
			h.ms, h.failed, h.late = append(h.ms, e.ms...), h.failed+e.failed, append(h.late, e.late...)
			if e.why != "" {
				h.why = e.why
			}
			fmt.Fprintf(os.Stderr, "round %d %-40s %d requests, %d failed, p99 %.0f ms %s\n", round+1, x.name, len(e.ms), e.failed, quantileOf(e.ms, 0.99), e.why)
			if err := ctx.Err(); err != nil {
				return err
			}
		}
	}
	return printStarved(out, opt, all, had)
}

// startStarved starts the program with ordinary limits, and returns its addresses.
func (r *socketRig) startStarved() (proxy, admin string, err error) {
	dir, err := r.folder("starve")
	if err != nil {
		return "", "", err
	}
	if err := os.WriteFile(filepath.Join(dir, "words"), []byte("<never in a page of the bench><200>\n"), 0o644); err != nil {
		return "", "", err
	}
	program, err := r.build(dir)
	if err != nil {
		return "", "", err
	}
	if admin, err = freeAddr(); err != nil {
		return "", "", err
	}
	if proxy, err = freeAddr(); err != nil {
		return "", "", err
	}
	_, err = r.start(proxyCore, "starve", proxy, []string{program, "run", "-config", "FILE"}, expand(starveSettings, "PROXY", proxy, "ADMIN", admin, "DIR", dir))
	return proxy, admin, err
}

// endure fetches pages at an ordinary pace during an attack, which has two seconds to begin.
func (r *socketRig) endure(a *attacker, x attack) (e experience) {
	ctx, stop := context.WithCancel(r.ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		x.run(a, ctx)
	}()
	pauseFor(ctx, 2*time.Second)
	t := &http.Transport{Proxy: http.ProxyURL(&url.URL{Scheme: "http", Host: a.proxy}), MaxIdleConnsPerHost: 8}
	client := &http.Client{Transport: t, Timeout: 10 * time.Second}
	var mu sync.Mutex
	var wg sync.WaitGroup
	urls := append(r.smallURLs(), r.pageURLs()...)
	sleeping, wake := context.WithCancel(ctx)
	slept := make(chan struct{})
	go func() {
		defer close(slept)
		e.sleep(sleeping)
	}()
	tick := time.NewTicker(starveEvery)
	for i, end := 0, time.Now().Add(starveTime); time.Now().Before(end) && ctx.Err() == nil; i++ {
		wg.Go(func() {
			begun := time.Now()
			err := fetchWhole(ctx, client, urls[i%len(urls)])
			mu.Lock()
			defer mu.Unlock()
			e.ms = append(e.ms, float64(time.Since(begun).Microseconds())/1000)
			if err != nil {
				e.failed++
				e.why = err.Error()
			}
		})
		<-tick.C
	}
	tick.Stop()
	wake()
	<-slept
	wg.Wait()
	t.CloseIdleConnections()
	stop()
	<-ended
	a.settle(r.ctx)
	return e
}

// settle waits until the proxy has done with an attack: the next one is measured alone.
func (a *attacker) settle(ctx context.Context) {
	open := regexp.MustCompile(`(?m)^shuultuur_connections (\d)$`) // fewer than ten
	for end := time.Now().Add(time.Minute); time.Now().Before(end) && ctx.Err() == nil; pauseFor(ctx, 200*time.Millisecond) {
		res, err := http.Get("http://" + a.admin + "/metrics")
		if err != nil {
			continue
		}
		text, err := io.ReadAll(res.Body)
		res.Body.Close()
		if err == nil && open.Match(text) && bytes.Contains(text, []byte("\nshuultuur_requests_queued 0\n")) {
			return
		}
	}
}

func fetchWhole(ctx context.Context, c *http.Client, url string) error {
	q, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	res, err := c.Do(q)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	if _, err := io.Copy(io.Discard, res.Body); err != nil {
		return err
	}
	if res.StatusCode != http.StatusOK {
		return errors.New(res.Status)
	}
	return nil
}

// quantileOf returns a quantile of some values, 0 of none.
func quantileOf(v []float64, share float64) float64 {
	if len(v) == 0 {
		return 0
	}
	v = slices.Clone(v)
	slices.Sort(v)
	return v[min(len(v)-1, int(share*float64(len(v))))]
}

func printStarved(out io.Writer, opt options, all []attack, had map[string]*experience) error {
	var b strings.Builder
	fmt.Fprintf(&b, "### %s\n\n%s. %s\n`go run -C bench . starve -rounds %d`: settings as a new user has them. The attacker holds up to %d connections, or works on %d, from one address; an ordinary client from another address fetches a page or a small file each %s for %s. Attacker, its origin and the ordinary client share a core: where they fall behind by themselves (fewer requests than the pace, or sleep that ends more than %d ms late), the attack is repeated with half of the connections, and what is measured while they are behind is no figure of the proxy.\n\n| attack | connections | requests | failures | median ms | p99 ms | generator late, p99 ms |\n|---|--:|--:|--:|--:|--:|--:|\n",
		starveAbout, time.Now().UTC().Format("2006-01-02 15:04 MST"), machine("at the end"), opt.rounds, starveHeld, starveBusy, starveEvery, starveTime, starveLate)
	failed, worst, behind := 0, 0.0, 0
	for _, x := range all {
		h := had[x.name]
		median, p99 := quantileOf(h.ms, 0.5), quantileOf(h.ms, 0.99)
		times := fmt.Sprintf("%.1f | %.0f", median, p99)
		switch {
		case h.fell:
			times, behind = "generator behind | generator behind", behind+1
		case x.name != "none":
			worst = max(worst, p99)
		}
		if x.name != "none" {
			failed += h.failed
		}
		fmt.Fprintf(&b, "| %s | %d | %d | %d | %s | %.0f |\n", x.name, h.held, len(h.ms), h.failed, times, quantileOf(h.late, 0.99))
	}
	fmt.Fprintf(&b, "\n* failures 0: %d: **%s**\n* p99 ≤ %d ms in each attack that the generator keeps up with: %.0f ms: **%s**\n* attacks that it does not keep up with: %d\n\n", failed, verdict(failed == 0), starveP99, worst, verdict(worst <= starveP99), behind)
	_, err := io.WriteString(out, b.String())
	return err
}
