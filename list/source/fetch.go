package source

import (
	"bufio"
	"bytes"
	"context"
	"crypto/md5"
	"crypto/sha256"
	"crypto/tls"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"time"

	"shuultuur/lib/wait"

	"shuultuur/lib/setting"
)

// Bounds of one fetch.
const (
	maxRedirects = 5
	attempts     = 3
	fetchTime    = 6 * time.Hour    // of one attempt
	silence      = 30 * time.Second // in which something must come
	slowest      = 64               // bytes a second that must come, over a minute
	pauseAtMost  = 24 * time.Hour   // that a server may ask for
	maxSums      = 4 << 20          // bytes of a file of checksums
)

// dialTime bounds how long it may take to connect.
const dialTime = 15 * time.Second

// NewClient returns a client for Stores. Requests go through the proxy parent if it is not
// nil, except for hosts for which direct returns true. dial connects to everything other than
// the parent, and may refuse.
func NewClient(parent *url.URL, direct func(host string) bool, dial func(ctx context.Context, network, addr string) (net.Conn, error)) *http.Client {
	t := &http.Transport{
		ResponseHeaderTimeout: silence,
		TLSHandshakeTimeout:   15 * time.Second,
		IdleConnTimeout:       30 * time.Second,
		ForceAttemptHTTP2:     true,
		DialContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
			ctx, cancel := context.WithTimeout(ctx, dialTime)
			defer cancel()
			if parent != nil && addr == parent.Host {
				var d net.Dialer
				return d.DialContext(ctx, network, addr)
			}
			c, err := dial(ctx, network, addr)
			if err != nil && !isTemporary(err) {
				err = permanentError{err}
			}
			return c, err
		},
	}
	if parent != nil {
		t.Proxy = func(r *http.Request) (*url.URL, error) {
			if direct(r.URL.Hostname()) {
				return nil, nil
			}
			return parent, nil
		}
	}
	return &http.Client{Transport: t, CheckRedirect: follow}
}

// isTemporary reports whether a connection failed because of the network, which may recover,
// rather than because we refused it.
func isTemporary(err error) bool {
	var system syscall.Errno
	var name *net.DNSError
	var n net.Error
	return errors.As(err, &system) || errors.As(err, &name) || errors.As(err, &n) && n.Timeout() || errors.Is(err, context.DeadlineExceeded)
}

// unreached reports whether no server was reached.
func unreached(err error) bool {
	var name *net.DNSError
	var op *net.OpError
	return errors.As(err, &name) || errors.As(err, &op) && op.Op == "dial"
}

// follow bounds redirects, and refuses those from https to http.
func follow(r *http.Request, via []*http.Request) error {
	r.Header.Del("Referer") // the address before may contain a key
	if r.URL.Host != via[0].URL.Host {
		onlyOurs(r.Header)
	}
	last := via[len(via)-1].URL
	switch {
	case len(via) > maxRedirects:
		return permanentError{fmt.Errorf("more than %d redirects", maxRedirects)}
	case r.URL.Scheme != "https" && r.URL.Scheme != "http":
		return permanentError{fmt.Errorf("redirect to %q, which is neither http nor https", r.URL.Redacted())}
	case last.Scheme == "https" && r.URL.Scheme != "https":
		return permanentError{fmt.Errorf("redirect from https to %q, which anybody on the path could change", r.URL.Redacted())}
	}
	return nil
}

// A permanentError does not go away by retrying.
type permanentError struct{ err error }

func (p permanentError) Error() string { return p.err.Error() }
func (p permanentError) Unwrap() error { return p.err }

// A busyError is the answer of a server that wants to be asked later (RFC 9110, 10.2.3).
type busyError struct {
	error
	after time.Duration
}

// An openError has a text for logs and pages: without what may be a secret in addresses.
type openError struct{ error }

func (e openError) Error() string { return setting.WithoutCredentials(e.error.Error()) }
func (e openError) Unwrap() error { return e.error }

// A download is the result of a fetch.
type download struct {
	From         string // the address
	unchanged    bool   // the server says that our version is current; the rest is empty then
	ETag         string
	LastModified string
	Size         int64
	SHA256       string
	MD5          string
}

// validators say to a server which version is here.
type validators struct{ etag, modified string }

// retry runs do, and repeats it after a pause if that may help.
func (s *Store) retry(ctx context.Context, do func(context.Context) error) error {
	wait := s.wait
	if wait == 0 {
		wait = 2 * time.Second
	}
	for n := 1; ; n++ {
		c, cancel := context.WithTimeout(ctx, fetchTime)
		err := do(c)
		cancel()
		if err == nil || isFinal(err) || ctx.Err() != nil || n == attempts {
			return err
		}
		// Many gateways may have had the same failure at the same time.
		pause := time.NewTimer(wait/2 + rand.N(wait))
		select {
		case <-ctx.Done():
			pause.Stop()
			return ctx.Err()
		case <-pause.C:
		}
		wait *= 4
	}
}

// isForged reports whether a server has shown a certificate that is not valid for it.
func isForged(err error) bool {
	var forged *tls.CertificateVerificationError
	return errors.As(err, &forged)
}

// fetch fetches src into f, unless it is as have says.
func (s *Store) fetch(ctx context.Context, name string, src Source, have validators, f *os.File) (d download, err error) {
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return d, permanentError{err}
	}
	if err := f.Truncate(0); err != nil {
		return d, permanentError{err}
	}
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	r, err := src.request(ctx, src.address())
	if err != nil {
		return d, err
	}
	if src.SHA256 != "" || src.Sums != "" {
		r.Header.Set("Accept-Encoding", "identity") // a checksum covers the bytes as they are
	}
	if have.etag != "" {
		r.Header.Set("If-None-Match", have.etag)
	}
	if have.modified != "" {
		r.Header.Set("If-Modified-Since", have.modified)
	}
	res, err := s.Client.Do(r) //nolint:bodyclose // it is closed below
	if err != nil {
		return d, err
	}
	defer res.Body.Close()
	if src.stays && res.Request.URL.Host != r.URL.Host {
		return d, permanentError{errors.New("it is redirected to another server")}
	}
	if res.StatusCode == http.StatusNotModified && have != (validators{}) {
		return download{unchanged: true}, nil
	}
	if err := statusError(res); err != nil {
		return d, err
	}
	// What the content is, it says itself; only its coding has to be known.
	switch coding := strings.ToLower(strings.TrimSpace(res.Header.Get("Content-Encoding"))); coding {
	case "", "identity", "gzip", "x-gzip", "zstd": // which are recognised when the file is read
	default:
		return d, permanentError{fmt.Errorf("the answer has the coding %q, for which nobody asked", coding)}
	}
	if res.ContentLength > src.Limit {
		return d, permanentError{fmt.Errorf("%d bytes, more than the limit of %d", res.ContentLength, src.Limit)}
	}
	long, short := sha256.New(), md5.New()
	body := newPacedReader(res.Body, stop, func(done int64) {
		if s.Progress != nil {
			s.Progress(name, done, res.ContentLength)
		}
	})
	defer body.quiet.Stop()
	d.Size, err = io.Copy(io.MultiWriter(f, long, short), io.LimitReader(body, src.Limit+1))
	if err != nil {
		if why := context.Cause(ctx); why != nil && errors.As(why, new(permanentError)) {
			err = why
		}
		return d, err
	}
	if d.Size > src.Limit {
		return d, permanentError{fmt.Errorf("more than the limit of %d bytes", src.Limit)}
	}
	if res.ContentLength < 0 && res.ProtoMajor == 1 && len(res.TransferEncoding) == 0 && unfinished(f, d.Size) {
		return d, errors.New("it ends within a line, and its server has not said how long it is")
	}
	d.From, d.ETag, d.LastModified = src.here(), res.Header.Get("ETag"), res.Header.Get("Last-Modified")
	d.SHA256, d.MD5 = hex.EncodeToString(long.Sum(nil)), hex.EncodeToString(short.Sum(nil))
	return d, nil
}

// unfinished reports whether a file of text ends within a line. Compressed files know their end.
func unfinished(f *os.File, size int64) bool {
	first, last := make([]byte, 512), make([]byte, 1)
	n, _ := f.ReadAt(first, 0)
	if _, err := f.ReadAt(last, size-1); err != nil || bytes.IndexByte(first[:n], 0) >= 0 || bytes.HasPrefix(first, []byte("\x1f\x8b")) || bytes.HasPrefix(first, []byte("\x28\xb5\x2f\xfd")) {
		return false
	}
	return last[0] != '\n' && last[0] != '\r'
}

// request returns a request for the list or for what is about it. Only the list's own server gets the
// header fields of the settings.
func (src Source) request(ctx context.Context, to string) (*http.Request, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, to, nil)
	if err != nil {
		return nil, permanentError{err}
	}
	r.Header.Set("User-Agent", "Shuultuur")
	if at, err := url.Parse(src.address()); err == nil && at.Scheme == r.URL.Scheme && at.Host == r.URL.Host {
		for name, value := range src.Headers {
			r.Header.Set(name, value)
		}
	}
	return r, nil
}

// statusError returns the error for a response that is not 200.
func statusError(res *http.Response) error {
	after := min(wait.Asked(res.Header, time.Now()).Round(time.Second), pauseAtMost)
	switch c := res.StatusCode; {
	case c == http.StatusOK:
		return nil
	case after > 0 && (c == http.StatusTooManyRequests || c == http.StatusServiceUnavailable):
		return busyError{fmt.Errorf("the server answers %d %s, and wants to be asked again in %v", c, http.StatusText(c), after), after}
	case c >= 500, c == http.StatusRequestTimeout, c == http.StatusTooManyRequests:
		return fmt.Errorf("the server answers %d %s", c, http.StatusText(c))
	default:
		return permanentError{fmt.Errorf("the server answers %d %s", c, http.StatusText(c))}
	}
}

// A pacedReader counts what is read, and ends a body that has stopped or all but stopped. A slow one
// goes on as long as it likes: it delays no other.
type pacedReader struct {
	r     io.Reader
	n     int64
	tell  func(int64)
	quiet *time.Timer // ends the fetch
	since time.Time   // of the minute
	was   int64       // n then
}

func newPacedReader(r io.Reader, end context.CancelCauseFunc, tell func(int64)) *pacedReader {
	return &pacedReader{r: r, tell: tell, since: time.Now(), quiet: time.AfterFunc(silence, func() {
		end(permanentError{fmt.Errorf("nothing has come for %v", silence)})
	})}
}

func (p *pacedReader) Read(b []byte) (int, error) {
	n, err := p.r.Read(b)
	if n > 0 {
		p.quiet.Reset(silence)
	}
	p.n += int64(n)
	p.tell(p.n)
	if now := time.Now(); now.Sub(p.since) >= time.Minute {
		if got := p.n - p.was; err == nil && got < int64(slowest*now.Sub(p.since).Seconds()) {
			return n, permanentError{fmt.Errorf("%d bytes have come within %v, which is too slow", got, now.Sub(p.since).Round(time.Second))}
		}
		p.since, p.was = now, p.n
	}
	return n, err
}

// verify verifies a download by the checksum in the settings and the one that its server
// offers, if any. The latter comes from the same server, so it protects against damage more
// than against malice.
func (s *Store) verify(ctx context.Context, src Source, d download) error {
	if src.SHA256 != "" && src.SHA256 != d.SHA256 {
		return fmt.Errorf("its SHA-256 is %s, and the settings name %s", d.SHA256, src.SHA256)
	}
	if src.Sums == "" {
		return nil
	}
	var want []string
	err := s.retry(ctx, func(ctx context.Context) (err error) {
		want, err = s.sums(ctx, src)
		return err
	})
	if err != nil {
		return fmt.Errorf("getting checksums from %s: %w", src.Sums, err)
	}
	if len(want) == 0 {
		return fmt.Errorf("%s has no checksum of it", src.Sums)
	}
	if !slices.Contains(want, d.SHA256) && !slices.Contains(want, d.MD5) {
		return fmt.Errorf("its checksum is not the one in %s", src.Sums)
	}
	return nil
}

// sums returns the checksums in src.Sums for the file of src, in the form of md5sum and
// sha256sum (sum, then name) or of BSD. A sum without a name applies if there is only one
// file.
func (s *Store) sums(ctx context.Context, src Source) ([]string, error) {
	r, err := src.request(ctx, src.Sums)
	if err != nil {
		return nil, err
	}
	res, err := s.Client.Do(r) //nolint:bodyclose // it is closed below
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	if err := statusError(res); err != nil {
		return nil, err
	}
	u, err := url.Parse(src.URL)
	if err != nil {
		return nil, permanentError{err}
	}
	return parseSums(io.LimitReader(res.Body, maxSums), path.Base(u.Path))
}

// bsd matches a line of md5 and sha256 of BSD: MD5 (file) = sum.
var bsd = regexp.MustCompile(`^[A-Z0-9]+ \((.+)\) = ([0-9A-Fa-f]+)$`)

func parseSums(r io.Reader, file string) (found []string, err error) {
	lines := bufio.NewScanner(r)
	for lines.Scan() {
		f := strings.Fields(strings.TrimPrefix(lines.Text(), "\ufeff"))
		if m := bsd.FindStringSubmatch(strings.TrimSpace(lines.Text())); m != nil {
			f = []string{m[2], m[1]}
		}
		if len(f) == 0 || len(f[0]) != 32 && len(f[0]) != 64 {
			continue
		}
		if len(f) == 1 || path.Base(strings.TrimPrefix(f[1], "*")) == file {
			found = append(found, strings.ToLower(f[0]))
		}
	}
	return found, lines.Err()
}
