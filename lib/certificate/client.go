package certificate

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"time"

	"shuultuur/lib/setting"
)

// clientFor returns a client that trusts the roots in a file alone; "" for the system's. It connects to
// this network, too: an owner names the authority, which may be in it.
func clientFor(client *http.Client, file string) (*http.Client, error) {
	t, ok := client.Transport.(*http.Transport)
	if !ok {
		return nil, errors.New("the client of the authority has no transport of its own")
	}
	t = t.Clone()
	t.DialContext = (&net.Dialer{Timeout: dialTime}).DialContext
	if file == "" {
		return &http.Client{Transport: t}, nil
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, setting.At("root", err)
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(text) {
		return nil, setting.At("root", fmt.Errorf("%q contains no certificate in PEM form", file))
	}
	t.TLSClientConfig = &tls.Config{RootCAs: roots}
	return &http.Client{Transport: t}, nil
}

const (
	dialTime   = 15 * time.Second
	answerTime = 30 * time.Second // longest time of one answer
	maxAnswer  = 1 << 20          // longest body of one
)

// asked are the requests of one order, which it bounds: in number, in time and in bytes.
type asked struct {
	to   http.RoundTripper
	most int

	mu     sync.Mutex
	n      int
	served time.Time // by the clock of the authority, when it answered last
}

// bounded returns a client for one order of so many names.
func bounded(client *http.Client, names int) (*http.Client, *asked) {
	a := &asked{to: client.Transport, most: 100 + 50*names}
	return &http.Client{Transport: a, Timeout: answerTime, CheckRedirect: func(r *http.Request, via []*http.Request) error {
		if len(via) > 3 || r.URL.Scheme != "https" {
			return fmt.Errorf("it sends on to %s", r.URL)
		}
		return nil
	}}, a
}

func (a *asked) RoundTrip(r *http.Request) (*http.Response, error) {
	a.mu.Lock()
	a.n++
	over := a.n > a.most
	a.mu.Unlock()
	if over {
		return nil, fmt.Errorf("%s was asked %d times and the order is not done", r.URL.Host, a.most)
	}
	if r.URL.Scheme != "https" {
		return nil, fmt.Errorf("%s is no https URL", r.URL)
	}
	res, err := a.to.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	if at, err := http.ParseTime(res.Header.Get("Date")); err == nil {
		a.mu.Lock()
		a.served = at
		a.mu.Unlock()
	}
	if v := res.Header.Get("Retry-After"); strings.HasPrefix(v, "-") {
		res.Header.Del("Retry-After") // no time is less than none
	}
	res.Body = &limited{res.Body, maxAnswer}
	return res, nil
}

func (a *asked) date() time.Time {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.served
}

// limited is a body that fails beyond a length.
type limited struct {
	io.ReadCloser
	left int
}

var errLong = errors.New("the answer of the authority is too long")

func (l *limited) Read(p []byte) (int, error) {
	if l.left <= 0 {
		return 0, errLong
	}
	n, err := l.ReadCloser.Read(p[:min(len(p), l.left)])
	l.left -= n
	return n, err
}

// backoff says when a request is repeated: a few times after a wrong nonce or an error of the server. What
// the authority limits waits for the next order.
func backoff(n int, _ *http.Request, res *http.Response) time.Duration {
	if n > 4 || res.StatusCode == http.StatusTooManyRequests || res.StatusCode >= 500 && (n > 2 || res.Header.Get("Retry-After") != "") {
		return 0
	}
	return time.Duration(n) * 250 * time.Millisecond
}
