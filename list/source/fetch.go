package source

import (
	"bufio"
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
)

// Bounds of one fetch.
const (
	maxRedirects = 5
	attempts     = 3
	fetchTime    = 15 * time.Minute // of one attempt
	maxSums      = 4 << 20          // bytes of a file of checksums
)

// dialTime bounds how long it may take to connect.
const dialTime = 15 * time.Second

// NewClient returns a client for Stores. Requests go through the proxy parent if it is not
// nil, except for hosts for which direct returns true. dial connects to everything other than
// the parent, and may refuse.
func NewClient(parent *url.URL, direct func(host string) bool, dial func(ctx context.Context, network, addr string) (net.Conn, error)) *http.Client {
	t := &http.Transport{
		ResponseHeaderTimeout: time.Minute,
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

// follow bounds redirects, and refuses those from https to http.
func follow(r *http.Request, via []*http.Request) error {
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

// A download is the result of a fetch.
type download struct {
	unchanged    bool // the server says that our version is current; the rest is empty then
	ETag         string
	LastModified string
	Size         int64
	SHA256       string
	MD5          string
}

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
		var p permanentError
		var forged *tls.CertificateVerificationError
		if err == nil || errors.As(err, &p) || errors.As(err, &forged) || ctx.Err() != nil || n == attempts {
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

// fetch fetches src.URL into f, unless the validators of st show that it is unchanged.
func (s *Store) fetch(ctx context.Context, name string, src Source, st State, f *os.File) (d download, err error) {
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return d, permanentError{err}
	}
	if err := f.Truncate(0); err != nil {
		return d, permanentError{err}
	}
	r, err := request(ctx, src.URL)
	if err != nil {
		return d, err
	}
	if src.SHA256 != "" || src.Sums != "" {
		r.Header.Set("Accept-Encoding", "identity") // a checksum covers the bytes as they are
	}
	if st.ETag != "" {
		r.Header.Set("If-None-Match", st.ETag)
	}
	if st.LastModified != "" {
		r.Header.Set("If-Modified-Since", st.LastModified)
	}
	res, err := s.Client.Do(r) //nolint:bodyclose // it is closed below
	if err != nil {
		return d, err
	}
	defer res.Body.Close()
	if res.StatusCode == http.StatusNotModified && st.ETag+st.LastModified != "" {
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
	body := &countingReader{r: res.Body, tell: func(done int64) {
		if s.Progress != nil {
			s.Progress(name, done, res.ContentLength)
		}
	}}
	d.Size, err = io.Copy(io.MultiWriter(f, long, short), io.LimitReader(body, src.Limit+1))
	if err != nil {
		return d, err
	}
	if d.Size > src.Limit {
		return d, permanentError{fmt.Errorf("more than the limit of %d bytes", src.Limit)}
	}
	d.ETag, d.LastModified = res.Header.Get("ETag"), res.Header.Get("Last-Modified")
	d.SHA256, d.MD5 = hex.EncodeToString(long.Sum(nil)), hex.EncodeToString(short.Sum(nil))
	return d, nil
}

func request(ctx context.Context, to string) (*http.Request, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, to, nil)
	if err != nil {
		return nil, permanentError{err}
	}
	r.Header.Set("User-Agent", "Shuultuur")
	return r, nil
}

// statusError returns the error for a response that is not 200.
func statusError(res *http.Response) error {
	switch c := res.StatusCode; {
	case c == http.StatusOK:
		return nil
	case c >= 500, c == http.StatusRequestTimeout, c == http.StatusTooManyRequests:
		return fmt.Errorf("the server answers %d %s", c, http.StatusText(c))
	default:
		return permanentError{fmt.Errorf("the server answers %d %s", c, http.StatusText(c))}
	}
}

// A countingReader counts the bytes read.
type countingReader struct {
	r    io.Reader
	n    int64
	tell func(int64)
}

func (c *countingReader) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	c.n += int64(n)
	c.tell(c.n)
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
	if len(want) > 0 && !slices.Contains(want, d.SHA256) && !slices.Contains(want, d.MD5) {
		return fmt.Errorf("its checksum is not the one in %s", src.Sums)
	}
	return nil
}

// sums returns the checksums in src.Sums for the file of src, in the form of md5sum and
// sha256sum (sum, then name) or of BSD. A sum without a name applies if there is only one
// file.
func (s *Store) sums(ctx context.Context, src Source) ([]string, error) {
	r, err := request(ctx, src.Sums)
	if err != nil {
		return nil, err
	}
	res, err := s.Client.Do(r) //nolint:bodyclose // it is closed below
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	if res.StatusCode == http.StatusNotFound {
		return nil, nil // not offered, or no longer
	}
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
		f := strings.Fields(lines.Text())
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
