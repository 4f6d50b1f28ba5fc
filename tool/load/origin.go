package load

import (
	"compress/gzip"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"math/big"
	"mime"
	"net"
	"net/http"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"shuultuur/lib/wait"
)

// Fault is a kind of misbehaviour of an Origin.
type Fault uint8

const (
	NoFault     Fault = iota
	Reset             // RST instead of a response
	Stall             // head and half the body, then nothing
	ShortBody         // announces the body, sends half, closes
	WrongLength       // announces half the body, sends all, closes
	Drip              // the body in ten pieces over OriginConfig.Slow
	faults
)

var faultNames = [faults]string{"", "reset", "stall", "short", "wrong", "drip"}

// OriginConfig configures an Origin.
type OriginConfig struct {
	Pages string        // folder whose files are served at /; "" for none
	Gzip  bool          // compress for clients that accept it
	Delay time.Duration // before each response
	Slow  time.Duration // duration of a dripping body, and of a stall; 0 means 10 s

	// Faults is the share of responses with each fault; the sum is at most 1.
	Faults map[Fault]float64
	Seed   uint64 // with the same seed, the n-th request has the same fault
}

const (
	maxSize  = 1 << 30 // of /size/N
	maxDelay = time.Minute
	maxPage  = 64 << 20
	maxPages = 512 << 20
)

// Origin is a web server for tests: it has pages from a folder, bodies of any size at /size/N,
// and faults at known rates, each counted. A query with "delay=50ms" or "fault=reset" applies
// to that response alone.
type Origin struct {
	cfg    OriginConfig
	pages  map[string]page // by URL path
	filler []byte

	served atomic.Uint64
	counts [faults]atomic.Int64
}

type page struct {
	mime          string
	plain, zipped []byte
}

// NewOrigin reads the pages into memory.
func NewOrigin(cfg OriginConfig) (*Origin, error) {
	sum := 0.0
	for f, share := range cfg.Faults {
		if f == NoFault || f >= faults || share < 0 {
			return nil, fmt.Errorf("fault %d with share %g is unknown", f, share)
		}
		sum += share
	}
	if sum > 1 {
		return nil, fmt.Errorf("faults make up %g of all responses, more than 1", sum)
	}
	if cfg.Slow == 0 {
		cfg.Slow = 10 * time.Second
	}
	o := &Origin{cfg: cfg, pages: map[string]page{}, filler: filler()}
	if cfg.Pages == "" {
		return o, nil
	}
	return o, o.read(cfg.Pages)
}

// filler returns text that compresses about as well as HTML.
func filler() []byte {
	b := make([]byte, 0, 64<<10)
	for n := uint64(0); len(b) < 64<<10; n++ {
		b = fmt.Appendf(b, "<p>line %d %x</p>\n", n, mix(0, n)&0xffffff)
	}
	return b[:64<<10]
}

func (o *Origin) read(folder string) error {
	total := int64(0)
	return filepath.WalkDir(folder, func(name string, d os.DirEntry, err error) error {
		if err != nil {
			return fmt.Errorf("reading pages: %w", err)
		}
		if !d.Type().IsRegular() {
			return nil
		}
		info, err := d.Info()
		if err != nil {
			return fmt.Errorf("reading pages: %w", err)
		}
		if total += info.Size(); info.Size() > maxPage || total > maxPages {
			return fmt.Errorf("reading pages: with %q they have more than %d bytes", name, maxPages)
		}
		text, err := os.ReadFile(name)
		if err != nil {
			return fmt.Errorf("reading pages: %w", err)
		}
		rel, err := filepath.Rel(folder, name)
		if err != nil {
			return fmt.Errorf("reading pages: %w", err)
		}
		kind := mime.TypeByExtension(path.Ext(name))
		if kind == "" {
			kind = http.DetectContentType(text)
		}
		p := page{mime: kind, plain: text}
		if o.cfg.Gzip {
			p.zipped = zip(text)
		}
		o.pages["/"+filepath.ToSlash(rel)] = p
		return nil
	})
}

func zip(text []byte) []byte {
	var b strings.Builder
	z := gzip.NewWriter(&b)
	// A strings.Builder cannot fail to write.
	_, _ = z.Write(text)
	_ = z.Close()
	return []byte(b.String())
}

// Counts returns how many responses had each fault; "" has those without faults.
func (o *Origin) Counts() map[string]int64 {
	m := map[string]int64{}
	for f := range o.counts {
		m[faultNames[f]] = o.counts[f].Load()
	}
	return m
}

// ServeHTTP answers one request.
func (o *Origin) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	delay, fault, err := o.requested(r)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	if delay > 0 {
		t := time.NewTimer(delay)
		defer t.Stop()
		select {
		case <-t.C:
		case <-r.Context().Done():
			return
		}
	}
	a, ok := o.answer(r)
	if !ok {
		http.NotFound(w, r)
		return
	}
	o.counts[fault].Add(1)
	w.Header().Set("Content-Type", a.mime)
	if a.zipped {
		w.Header().Set("Content-Encoding", "gzip")
	}
	if o.cfg.Gzip {
		w.Header().Set("Vary", "Accept-Encoding")
	}
	o.send(w, r, a, fault)
}

// requested returns delay and fault for this request: from its query, or by its share.
func (o *Origin) requested(r *http.Request) (time.Duration, Fault, error) {
	n := o.served.Add(1) - 1
	delay, fault := o.cfg.Delay, o.draw(n)
	if r.URL.RawQuery == "" {
		return delay, fault, nil
	}
	q := r.URL.Query()
	if s := q.Get("delay"); s != "" {
		d, err := time.ParseDuration(s)
		if err != nil || d < 0 || d > maxDelay {
			return 0, 0, fmt.Errorf("delay %q is not a time up to %s", s, maxDelay)
		}
		delay = d
	}
	if s := q.Get("fault"); s != "" {
		f, err := parseFault(s)
		if err != nil {
			return 0, 0, err
		}
		fault = f
	}
	return delay, fault, nil
}

func (o *Origin) draw(n uint64) Fault {
	if len(o.cfg.Faults) == 0 {
		return NoFault
	}
	u := unit(mix(o.cfg.Seed, n))
	for f := Reset; f < faults; f++ {
		if u -= o.cfg.Faults[f]; u < 0 {
			return f
		}
	}
	return NoFault
}

func parseFault(s string) (Fault, error) {
	for f, name := range faultNames {
		if name == s && f > 0 {
			return Fault(f), nil
		}
	}
	return 0, fmt.Errorf("fault %q is not one of %s", s, strings.Join(faultNames[1:], ", "))
}

// answer is a body: bytes, or a number of bytes of filler.
type answer struct {
	mime   string
	body   []byte
	size   int64
	zipped bool
}

func (o *Origin) answer(r *http.Request) (answer, bool) {
	accepts := o.cfg.Gzip && strings.Contains(r.Header.Get("Accept-Encoding"), "gzip")
	if p, ok := o.pages[r.URL.Path]; ok {
		if accepts {
			return answer{p.mime, p.zipped, int64(len(p.zipped)), true}, true
		}
		return answer{p.mime, p.plain, int64(len(p.plain)), false}, true
	}
	digits, ok := strings.CutPrefix(r.URL.Path, "/size/")
	if !ok {
		return answer{}, false
	}
	n, err := strconv.ParseInt(digits, 10, 64)
	if err != nil || n < 0 || n > maxSize {
		return answer{}, false
	}
	a := answer{mime: "text/html; charset=utf-8", size: n}
	if n <= int64(len(o.filler)) {
		a.body = o.filler[:n]
		if accepts {
			a.body, a.zipped = zip(a.body), true
			a.size = int64(len(a.body))
		}
	}
	return a, true
}

// write sends bytes [from, to) of the body. An error means that the client has gone, which it
// may do.
func (o *Origin) write(w io.Writer, a answer, from, to int64) {
	for from < to {
		piece := a.body
		if piece != nil {
			piece = piece[from:to]
		} else {
			at := from % int64(len(o.filler))
			piece = o.filler[at:min(int64(len(o.filler)), at+to-from)]
		}
		if _, err := w.Write(piece); err != nil {
			return
		}
		from += int64(len(piece))
	}
}

func (o *Origin) send(w http.ResponseWriter, r *http.Request, a answer, fault Fault) {
	announce := func(n int64) { w.Header().Set("Content-Length", strconv.FormatInt(n, 10)) }
	switch fault {
	case Reset:
		reset1(w)
	case Stall:
		announce(a.size)
		o.write(w, a, 0, a.size/2)
		flush(w)
		_ = wait.For(r.Context(), o.cfg.Slow)
		panic(http.ErrAbortHandler)
	case ShortBody:
		announce(a.size)
		o.write(w, a, 0, a.size/2)
		flush(w)
		panic(http.ErrAbortHandler)
	case WrongLength:
		o.wrongLength(w, a)
	case Drip:
		announce(a.size)
		for i := range int64(10) {
			o.write(w, a, a.size*i/10, a.size*(i+1)/10)
			flush(w)
			_ = wait.For(r.Context(), o.cfg.Slow/10)
		}
	default:
		announce(a.size)
		o.write(w, a, 0, a.size)
	}
}

func flush(w http.ResponseWriter) {
	if f, ok := w.(http.Flusher); ok {
		f.Flush()
	}
}

// reset1 ends the TCP connection with RST. In HTTP/2 the panic resets the stream instead.
func reset1(w http.ResponseWriter) {
	h, ok := w.(http.Hijacker)
	if !ok {
		panic(http.ErrAbortHandler)
	}
	nc, _, err := h.Hijack()
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	if t, ok := nc.(*tls.Conn); ok {
		nc = t.NetConn()
	}
	if t, ok := nc.(*net.TCPConn); ok {
		// Closing without linger time sends RST.
		_ = t.SetLinger(0)
	}
	nc.Close()
}

// wrongLength bypasses net/http, which would prevent it. HTTP/2 frames cannot contradict their
// length, so there the body is just shorter.
func (o *Origin) wrongLength(w http.ResponseWriter, a answer) {
	h, ok := w.(http.Hijacker)
	if !ok {
		o.write(w, a, 0, a.size/2)
		return
	}
	nc, rw, err := h.Hijack()
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	defer nc.Close()
	encoding := ""
	if a.zipped {
		encoding = "Content-Encoding: gzip\r\n"
	}
	fmt.Fprintf(rw, "HTTP/1.1 200 OK\r\nContent-Type: %s\r\n%sContent-Length: %d\r\nConnection: close\r\n\r\n", a.mime, encoding, a.size/2)
	o.write(rw, a, 0, a.size)
	// The client may have closed after the announced half.
	_ = rw.Flush()
}

// Serve serves on a listener until ctx is done; with a certificate, over TLS. HTTP/2 is
// enabled: h2 over TLS, prior knowledge over plain TCP.
func (o *Origin) Serve(ctx context.Context, l net.Listener, cert *tls.Certificate) error {
	var protocols http.Protocols
	protocols.SetHTTP1(true)
	protocols.SetHTTP2(true)
	protocols.SetUnencryptedHTTP2(true)
	s := &http.Server{
		Handler: o, Protocols: &protocols, ReadHeaderTimeout: 10 * time.Second, IdleTimeout: time.Minute,
		// Failed handshakes are tests of clients, and need no log line.
		ErrorLog: log.New(io.Discard, "", 0),
	}
	stopped := make(chan error, 1)
	stop := context.AfterFunc(ctx, func() { stopped <- s.Close() })
	defer stop()
	var err error
	if cert == nil {
		err = s.Serve(l)
	} else {
		s.TLSConfig = &tls.Config{Certificates: []tls.Certificate{*cert}}
		err = s.ServeTLS(l, "", "")
	}
	if errors.Is(err, http.ErrServerClosed) && ctx.Err() != nil {
		return <-stopped
	}
	return err
}

// SelfMade makes an authority and a certificate for the names, both valid for a day. The
// authority's PEM is for clients.
func SelfMade(names []string) (cert tls.Certificate, authority []byte, err error) {
	caKey, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return cert, nil, fmt.Errorf("making a key: %w", err)
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return cert, nil, fmt.Errorf("making a key: %w", err)
	}
	now := time.Now()
	ca := &x509.Certificate{
		SerialNumber: big.NewInt(now.UnixNano()), Subject: pkix.Name{CommonName: "shuultuur load origin test authority"},
		NotBefore: now.Add(-time.Hour), NotAfter: now.Add(24 * time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	leaf := &x509.Certificate{
		SerialNumber: big.NewInt(now.UnixNano() + 1), Subject: pkix.Name{CommonName: "shuultuur load origin"},
		NotBefore: ca.NotBefore, NotAfter: ca.NotAfter,
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	for _, n := range names {
		if ip := net.ParseIP(n); ip != nil {
			leaf.IPAddresses = append(leaf.IPAddresses, ip)
		} else {
			leaf.DNSNames = append(leaf.DNSNames, n)
		}
	}
	caDER, err := x509.CreateCertificate(rand.Reader, ca, ca, &caKey.PublicKey, caKey)
	if err != nil {
		return cert, nil, fmt.Errorf("making an authority: %w", err)
	}
	leafDER, err := x509.CreateCertificate(rand.Reader, leaf, ca, &key.PublicKey, caKey)
	if err != nil {
		return cert, nil, fmt.Errorf("making a certificate: %w", err)
	}
	cert = tls.Certificate{Certificate: [][]byte{leafDER, caDER}, PrivateKey: key}
	return cert, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: caDER}), nil
}

const originHelp = `
Serves pages to load tests: those of a folder, and /size/N with N bytes. It goes
on until it is interrupted.`

func originCommand(fs *flag.FlagSet) func(context.Context, []string, io.Writer, io.Writer) error {
	var cfg OriginConfig
	var wanted, names words
	listen := fs.String("listen", "127.0.0.1:8090", "`address` for HTTP/1.1 and HTTP/2 without TLS; \"\" for none")
	secure := fs.String("tls", "", "`address` for HTTPS with a self-made authority")
	ca := fs.String("ca", "", "write the authority's certificate to this `file`")
	fs.Var(&names, "name", "`name` or address in the certificate; may be repeated (localhost, 127.0.0.1, ::1)")
	fs.StringVar(&cfg.Pages, "pages", "", "serve the files in this `folder`")
	fs.BoolVar(&cfg.Gzip, "gzip", false, "compress for clients that accept it")
	fs.DurationVar(&cfg.Delay, "delay", 0, "wait this `time` before each answer")
	fs.DurationVar(&cfg.Slow, "slow", 10*time.Second, "`time` that a drip or a stall takes")
	fs.Uint64Var(&cfg.Seed, "seed", 1, "same seed `N`, same faults")
	fs.Var(&wanted, "fault", "`name=share`, such as reset=0.01: reset, stall, short, wrong, drip; may be repeated")
	return func(ctx context.Context, _ []string, stdout, _ io.Writer) error {
		if err := cfg.fail(wanted); err != nil {
			return err
		}
		if len(names) == 0 {
			names = words{"localhost", "127.0.0.1", "::1"}
		}
		o, err := NewOrigin(cfg)
		if err != nil {
			return err
		}
		return o.listen(ctx, *listen, *secure, *ca, names, stdout)
	}
}

// fail parses the shares of faults.
func (cfg *OriginConfig) fail(wanted []string) error {
	cfg.Faults = map[Fault]float64{}
	for _, s := range wanted {
		name, share, _ := strings.Cut(s, "=")
		f, err := parseFault(name)
		if err != nil {
			return err
		}
		if cfg.Faults[f], err = strconv.ParseFloat(share, 64); err != nil {
			return fmt.Errorf("fault %q must look like reset=0.01", s)
		}
	}
	return nil
}

// listen opens the listeners, prints their addresses, and serves until ctx is done.
func (o *Origin) listen(ctx context.Context, plain, secure, ca string, names []string, stdout io.Writer) error {
	if plain == "" && secure == "" {
		return errors.New("neither -listen nor -tls has an address")
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	ended := make(chan error, 2)
	serving := 0
	serve := func(scheme, addr string, cert *tls.Certificate) error {
		l, err := net.Listen("tcp", addr)
		if err != nil {
			return fmt.Errorf("listen for %s: %w", scheme, err)
		}
		fmt.Fprintf(stdout, "%s://%s/ %d pages, /size/N\n", scheme, l.Addr(), len(o.pages))
		serving++
		go func() { ended <- o.Serve(ctx, l, cert) }()
		return nil
	}
	var err error
	if plain != "" {
		err = serve("http", plain, nil)
	}
	if secure != "" && err == nil {
		var cert tls.Certificate
		var authority []byte
		if cert, authority, err = SelfMade(names); err == nil && ca != "" {
			err = os.WriteFile(ca, authority, 0o644)
		}
		if err == nil {
			err = serve("https", secure, &cert)
		}
	}
	if err != nil {
		cancel()
	}
	for range serving {
		if e := <-ended; e != nil && err == nil {
			err = e
		}
		cancel()
	}
	for _, f := range sortedKeys(o.Counts()) {
		if n := o.Counts()[f]; n > 0 && f != "" {
			fmt.Fprintf(stdout, "fault %s: %d answers\n", f, n)
		}
	}
	return err
}
