package intercept

import (
	"context"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"time"
)

// These bounds are for fetching missing intermediates (authority information access, RFC 5280
// section 4.2.2.1). The address is in a stranger's certificate, so everything about it is
// bounded.
const (
	maxFetchDepth  = 3
	maxFetches     = 16 // concurrent fetches; one more fails at once
	maxIssuers     = 1024
	maxIssuerBytes = 64 << 10
	issuerTime     = 24 * time.Hour
	failureTime    = time.Minute
	fetchTimeout   = 5 * time.Second // for one verification
	maxIssuerURLs  = 2               // tried per certificate
)

var (
	// errNoIssuer reports a certificate without an address of its issuer.
	errNoIssuer = errors.New("no address of its issuer")
	errBusy     = errors.New("too many others are being fetched")
)

// An issuer is the result of a fetch: a certificate or a failure, both kept.
type issuer struct {
	cert *x509.Certificate
	err  error
}

func issuerClient(dial func(ctx context.Context, network, addr string) (net.Conn, error)) *http.Client {
	return &http.Client{
		Transport: &http.Transport{
			DialContext:            dial,
			DisableKeepAlives:      true,
			DisableCompression:     true,
			MaxResponseHeaderBytes: 16 << 10,
		},
		CheckRedirect: func(r *http.Request, via []*http.Request) error {
			if len(via) > 2 {
				return errors.New("more than two redirects")
			}
			return issuerURL(r.URL)
		},
	}
}

// issuerURL refuses forms that no public authority uses. TLS is unnecessary, because
// certificates are signed, and would need certificates again.
func issuerURL(u *url.URL) error {
	if u.Scheme != "http" || u.Hostname() == "" || u.User != nil || u.Port() != "" && u.Port() != "80" {
		return fmt.Errorf("%q is not a plain http address on port 80", u)
	}
	return nil
}

// issuer fetches the certificate that signed c.
func (v *Verifier) issuer(ctx context.Context, c *x509.Certificate, deadline time.Time) (*x509.Certificate, error) {
	err := errNoIssuer
	if v.client == nil {
		return nil, err
	}
	for _, address := range c.IssuingCertificateURL[:min(len(c.IssuingCertificateURL), maxIssuerURLs)] {
		got, _ := v.issuers.get(address, func() (issuer, time.Time, error) {
			// Other callers may wait for it, too, so it outlives this one.
			ctx, cancel := context.WithDeadline(context.WithoutCancel(ctx), deadline)
			defer cancel()
			cert, err := v.fetch(ctx, address)
			switch {
			case errors.Is(err, errBusy):
				return issuer{err: err}, time.Time{}, nil
			case err != nil:
				return issuer{err: err}, time.Now().Add(failureTime), nil
			}
			return issuer{cert: cert}, time.Now().Add(issuerTime), nil
		})
		if err = got.err; err != nil {
			continue
		}
		if err = c.CheckSignatureFrom(got.cert); err != nil {
			err = fmt.Errorf("the certificate at %q did not sign it: %w", address, err)
			continue
		}
		return got.cert, nil
	}
	return nil, err
}

func (v *Verifier) fetch(ctx context.Context, address string) (*x509.Certificate, error) {
	u, err := url.Parse(address)
	if err != nil {
		return nil, err
	}
	if err := issuerURL(u); err != nil {
		return nil, err
	}
	select {
	case v.slots <- struct{}{}:
		defer func() { <-v.slots }()
	default:
		return nil, fmt.Errorf("fetch %q: %w", address, errBusy)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return nil, err
	}
	resp, err := v.client.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("fetch %q: %s", address, resp.Status)
	}
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxIssuerBytes+1))
	if err != nil {
		return nil, fmt.Errorf("fetch %q: %w", address, err)
	}
	if len(body) > maxIssuerBytes {
		return nil, fmt.Errorf("fetch %q: more than %d bytes", address, maxIssuerBytes)
	}
	if block, _ := pem.Decode(body); block != nil { // some servers send this wrong form
		body = block.Bytes
	}
	cert, err := x509.ParseCertificate(body)
	if err != nil {
		return nil, fmt.Errorf("fetch %q: %w", address, err)
	}
	return cert, nil
}
