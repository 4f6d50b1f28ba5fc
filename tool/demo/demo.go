// Package demo shows what the filter does, on one machine and without the internet: [Run] starts
// an origin with sample pages and a name server with an address for every name, opens a gateway
// that fetches from them, sends requests and queries through it, and prints what became of each
// from the gateway's record.
package demo

import (
	"bytes"
	"compress/gzip"
	"context"
	"embed"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"text/tabwriter"
	"time"

	"shuultuur/event"
	"shuultuur/lib/dns"
	"shuultuur/resolver"
)

//go:embed site
var site embed.FS

// A step is one request of the demonstration.
type step struct {
	method, url string
	page        string // file of the site; "" for a plain answer
	coding      string // content coding of the origin
	what        string // what the visitor should see
}

var steps = []step{
	{"GET", "http://herald.example/", "news.html", "", "an ordinary page"},
	{"GET", "http://herald.example/zipped", "news.html", "gzip", "the same, compressed: the bytes pass unchanged"},
	{"GET", "http://ads.doubleclick.net/banner.gif", "", "", "an advertiser, by list"},
	{"GET", "http://www.casino.example/", "news.html", "", "a listed site that one may enter after a warning"},
	{"GET", "http://tips.example/weekend", "tips.html", "", "a page with some bad words"},
	{"GET", "http://lucky.example/", "lucky.html", "", "a page with many, hidden in markup and entities"},
	{"GET", "http://lucky.example/gzip", "lucky.html", "gzip", "the same in gzip"},
	{"GET", "http://lucky.example/br", "lucky.html", "br", "the same in brotli"},
	{"GET", "http://lucky.example/zstd", "lucky.html", "zstd", "the same in zstd"},
	{"GET", "http://bomb.example/", "", "bomb", "32 KiB that would unpack to 32 MiB"},
	{"GET", "http://help.example/", "help.html", "", "the same words where they help: negative weights"},
	{"GET", "http://workshop.example/12", "pipe.html", "", "one banned phrase is enough"},
	{"GET", "http://school.learning.example/12", "lesson.html", "", "a site on the allow list: not looked into"},
	{"GET", "http://duckduckgo.com/?q=ferry", "news.html", "", "SafeSearch, set on the way"},
	{"CONNECT", "www.adult.example:443", "", "", "a tunnel to a listed site"},
}

// A Gateway is what is shown. The record of events is asked for its verdicts.
type Gateway interface {
	Run(ctx context.Context) error
	ProxyAddr() string
	AdminAddr() string
	DNSAddr() string
	Store() event.Reader
}

// Run sends all requests and queries through the gateway that open returns, and prints their
// results. adapt changes the starter settings so that the gateway takes free ports and fetches
// everything from the demonstration. With stay, the gateway goes on until ctx ends.
func Run(ctx context.Context, w io.Writer, stay bool, open func(ctx context.Context, adapt func(settings string) string) (Gateway, error)) error {
	origin, err := startSite()
	if err != nil {
		return err
	}
	defer origin.Close()
	upstream, err := startUpstream()
	if err != nil {
		return err
	}
	defer func() { _ = upstream.Close() }()
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	g, err := open(ctx, func(settings string) string { return adapted(settings, origin.Addr, upstream.LocalAddr().String()) })
	if err != nil {
		return err
	}
	ended := make(chan error, 1)
	go func() { ended <- g.Run(ctx) }()

	if err = browse(ctx, w, g); err == nil {
		err = askNames(w, g.DNSAddr())
	}
	if err == nil && stay {
		fmt.Fprintf(w, "\nThe gateway is at %s, its metrics at http://%s/metrics; names: dig @%s NAME. Interrupt to end.\n",
			g.ProxyAddr(), g.AdminAddr(), strings.Replace(g.DNSAddr(), ":", " -p ", 1))
		<-ctx.Done()
	}
	stop()
	return errors.Join(err, <-ended)
}

// names are queried after the requests.
var names = []struct {
	name  string
	qtype uint16
	what  string
}{
	{"herald.example", dns.TypeA, "an ordinary name"},
	{"ads.doubleclick.net", dns.TypeA, "an advertiser, by list"},
	{"www.casino.example", dns.TypeAAAA, "a listed site"},
	{"shop.example", dns.TypeA, "a name that leads to an advertiser"},
	{"duckduckgo.com", dns.TypeA, "SafeSearch: another name"},
	{"use-application-dns.net", dns.TypeA, "Firefox asks whether it may go elsewhere"},
}

// startUpstream starts a name server that has an address for every name. It ends
// when the connection is closed.
func startUpstream() (net.PacketConn, error) {
	conn, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	go func() {
		buf := make([]byte, 4096)
		for {
			n, client, err := conn.ReadFrom(buf)
			if errors.Is(err, net.ErrClosed) {
				return
			}
			var q dns.Query
			if err == nil && q.Parse(buf[:n]) == dns.OK {
				_, _ = conn.WriteTo(answerOf(&q), client) // the gateway asks again
			}
		}
	}()
	return conn, nil
}

// answerOf returns the demo's answer: an address, and an alias for one name.
func answerOf(q *dns.Query) []byte {
	const ttl, limit = 60, 1232
	var r dns.Reply
	r.Start(q, nil, limit)
	var owner []byte // nil means the name in the question
	if dns.Text(q.Name) == "shop.example." {
		owner = []byte("\x04shop\x0bdoubleclick\x03net\x00")
		r.Record(nil, dns.TypeCNAME, dns.ClassIN, ttl, owner)
		r.Answers++
	}
	if q.Type == dns.TypeA {
		r.Record(owner, dns.TypeA, dns.ClassIN, ttl, []byte{198, 51, 100, 1})
		r.Answers++
	}
	return r.Finish(&dns.Options{Size: limit, Max: limit})
}

// askNames queries every name and prints the answers.
func askNames(w io.Writer, addr string) error {
	tw := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	fmt.Fprintf(tw, "\nRCODE\tANSWER\tNAME\tEXTENDED ERROR\tWHAT IT IS\n")
	for _, n := range names {
		m, err := askName(addr, n.name, n.qtype)
		if err != nil {
			return fmt.Errorf("asking %s for %s: %w", addr, n.name, err)
		}
		answer, extended := "-", "-"
		if len(m.Records) > 0 {
			_, answer, _ = strings.Cut(m.Records[0], " IN ")
			_, answer, _ = strings.Cut(answer, " ")
		}
		if m.HasEDE {
			extended, _, _ = strings.Cut(m.EDEText, " policy ")
		}
		fmt.Fprintf(tw, "%s\t%s\t%s %s\t%s\t%s\n", dns.RcodeName(m.Rcode), answer, n.name, dns.TypeName(n.qtype), extended, n.what)
	}
	return tw.Flush()
}

// askName sends one query over UDP.
func askName(addr, name string, qtype uint16) (resolver.Text, error) {
	wire, err := dns.Name(name)
	if err != nil {
		return resolver.Text{}, err
	}
	conn, err := net.DialTimeout("udp", addr, 5*time.Second)
	if err != nil {
		return resolver.Text{}, err
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(5 * time.Second)); err != nil {
		return resolver.Text{}, err
	}
	if _, err := conn.Write(dns.AppendQuery(nil, wire, qtype, 1232)); err != nil {
		return resolver.Text{}, err
	}
	buf := make([]byte, 4096)
	n, err := conn.Read(buf)
	if err != nil {
		return resolver.Text{}, err
	}
	return resolver.ReadText(buf[:n])
}

// adapted returns the starter settings with free ports, and with the demonstration's origin and
// upstream in the place of the internet.
func adapted(settings, origin, upstream string) string {
	settings = strings.Replace(settings, "listen: {proxy: 127.0.0.1:8080, admin: 127.0.0.1:8081}",
		"listen: {proxy: 127.0.0.1:0, admin: 127.0.0.1:0}\nproxy: {parent: 'http://"+origin+"'}", 1)
	return strings.Replace(settings, `listen: ["127.0.0.1:8053"]`, `listen: ["127.0.0.1:0"]`+"\n  forward: {upstreams: ['"+upstream+"']}", 1)
}

// browse takes every step and prints its result from the record.
func browse(ctx context.Context, w io.Writer, g Gateway) error {
	type outcome struct {
		status int
		err    error
	}
	outcomes := make([]outcome, len(steps))
	for i, s := range steps {
		outcomes[i].status, outcomes[i].err = s.take(g.ProxyAddr())
	}
	rows, err := recorded(ctx, g.Store(), len(steps))
	if err != nil {
		return err
	}
	tw := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	fmt.Fprintf(tw, "STATUS\tVERDICT\tREQUEST\tRULE\tWHAT IT IS\n")
	for i, s := range steps {
		o, r := outcomes[i], rows[i]
		if o.err != nil {
			fmt.Fprintf(tw, "-\terror\t%s\t%v\t%s\n", s.url, o.err, s.what)
			continue
		}
		rule := r.Rule
		if rule == "" {
			rule = "-"
		}
		if r.Score != 0 {
			rule += fmt.Sprintf(" (score %d)", r.Score)
		}
		fmt.Fprintf(tw, "%d\t%s\t%s\t%s\t%s\n", o.status, r.Action, s.url, rule, s.what)
	}
	return tw.Flush()
}

// recorded waits until n transactions are on record and returns them, oldest
// first. Requests are sent one after another, so they are in that order.
func recorded(ctx context.Context, store event.Reader, n int) ([]event.Row, error) {
	for end := time.Now().Add(10 * time.Second); time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
		var rows []event.Row
		for r, err := range store.Query(ctx, event.Filter{}, event.Page{}) {
			if err != nil {
				return nil, err
			}
			rows = append(rows, r)
		}
		if len(rows) >= n {
			return rows, nil
		}
	}
	return nil, fmt.Errorf("fewer than %d transactions on record after 10 seconds", n)
}

// startSite starts the origin. It answers requests for any host in absolute
// form, as a parent proxy would, so no name must resolve.
func startSite() (*http.Server, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	s := &http.Server{Addr: l.Addr().String(), Handler: http.HandlerFunc(serveSite), ReadHeaderTimeout: 10 * time.Second}
	go func() { _ = s.Serve(l) }() // ends with Close
	return s, nil
}

func serveSite(w http.ResponseWriter, r *http.Request) {
	host := r.Host
	if r.URL.Host != "" {
		host = r.URL.Host
	}
	for _, s := range steps {
		u, err := url.Parse(s.url)
		if err != nil || u.Host != host || u.Path != r.URL.Path {
			continue
		}
		servePage(w, s)
		return
	}
	http.NotFound(w, r)
}

func servePage(w http.ResponseWriter, s step) {
	if s.coding == "bomb" {
		w.Header().Set("Content-Type", "text/html")
		w.Header().Set("Content-Encoding", "gzip")
		_, _ = w.Write(zipped(make([]byte, 32<<20)))
		return
	}
	if s.page == "" {
		w.Header().Set("Content-Type", "text/plain")
		_, _ = io.WriteString(w, "sample\n")
		return
	}
	name := "site/" + s.page
	if s.coding == "br" || s.coding == "zstd" {
		name += "." + s.coding // it is stored encoded, because the program has no encoder for it
	}
	page, err := site.ReadFile(name)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	if s.coding != "" {
		w.Header().Set("Content-Encoding", s.coding)
	}
	if s.coding == "gzip" {
		page = zipped(page)
	}
	_, _ = w.Write(page)
}

func zipped(page []byte) []byte {
	var b bytes.Buffer
	c := gzip.NewWriter(&b)
	_, _ = c.Write(page) // writing to memory cannot fail
	_ = c.Close()
	return b.Bytes()
}

// take sends the step's request through the proxy at addr and returns the
// status of the answer.
func (s step) take(addr string) (status int, err error) {
	c, err := net.DialTimeout("tcp", addr, 5*time.Second)
	if err != nil {
		return 0, err
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(20 * time.Second))
	host := s.url
	if u, err := url.Parse(s.url); err == nil && u.Host != "" {
		host = u.Host
	}
	fmt.Fprintf(c, "%s %s HTTP/1.1\r\nHost: %s\r\nAccept-Encoding: gzip, br, zstd\r\nAccept: text/html\r\nConnection: close\r\n\r\n", s.method, s.url, host)
	answer, err := io.ReadAll(c)
	if err != nil && len(answer) == 0 {
		return 0, err
	}
	if _, err := fmt.Sscanf(string(answer), "HTTP/1.1 %d", &status); err != nil {
		return 0, fmt.Errorf("the answer begins with %.40q", answer)
	}
	return status, nil
}
