// Package objectstore puts objects into stores that speak the protocol of Amazon S3, and gets them.
//
// A [Bucket] signs each request (AWS Signature Version 4). An object appears when it is complete, so
// that nobody reads half of one.
package objectstore

import (
	"bytes"
	"cmp"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"path"
	"slices"
	"strings"
	"time"

	"shuultuur/lib/setting"
)

// A Config names a bucket and who uses it.
type Config struct {
	To       string // bucket/prefix
	Endpoint string // URL of the object store; default Amazon's in the region
	Region   string // default us-east-1
	Key      string // access key
	Secret   string // of the access key
}

// A Bucket is a bucket in an object store, or what is below a prefix of its names.
type Bucket struct {
	url                 url.URL
	name, prefix        string
	region, key, secret string
	client              *http.Client
}

// ErrAbsent reports that the bucket has no object with a name.
var ErrAbsent = errors.New("the object store has no such object")

// Open checks the settings. Mistakes name their key.
func Open(cfg Config) (*Bucket, error) {
	if cfg.Key == "" || cfg.Secret == "" {
		return nil, setting.At("key", errors.New("an object store needs an access key and its secret: set key and secret"))
	}
	region := cmp.Or(cfg.Region, "us-east-1")
	endpoint := cmp.Or(cfg.Endpoint, "https://s3."+region+".amazonaws.com")
	u, err := url.Parse(endpoint)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil || u.RawQuery != "" {
		return nil, setting.At("endpoint", fmt.Errorf(`%q is not an object store; write it like "https://s3.example:9000"`, endpoint))
	}
	name, prefix, _ := strings.Cut(cfg.To, "/")
	if name == "" || strings.ContainsAny(name, "?#\\ ") {
		return nil, setting.At("to", fmt.Errorf(`%q names no bucket; write it like "s3://bucket/prefix"`, "s3://"+cfg.To))
	}
	return &Bucket{
		url: *u, name: name, prefix: strings.Trim(prefix, "/"), region: region, key: cfg.Key, secret: cfg.Secret,
		client: &http.Client{Timeout: time.Minute, Transport: transport(), CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }},
	}, nil
}

// transport gives up early if nothing answers, so that a restarted object store is soon tried
// again.
func transport() http.RoundTripper {
	t := http.DefaultTransport.(*http.Transport).Clone()
	t.DialContext = (&net.Dialer{Timeout: 2 * time.Second}).DialContext
	return t
}

// Close closes idle connections.
func (b *Bucket) Close() { b.client.CloseIdleConnections() }

// String returns the URL of the bucket.
func (b *Bucket) String() string { return "s3://" + path.Join(b.name, b.prefix) }

// Put stores an object of a media type. The object appears when it is complete.
func (b *Bucket) Put(ctx context.Context, name, mediaType string, data []byte) error {
	res, err := b.ask(ctx, http.MethodPut, name, mediaType, data)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	_, _ = io.Copy(io.Discard, io.LimitReader(res.Body, maxAnswer))
	return nil
}

// Get opens an object. The error is [ErrAbsent] if there is none.
func (b *Bucket) Get(ctx context.Context, name string) (io.ReadCloser, error) {
	res, err := b.ask(ctx, http.MethodGet, name, "", nil)
	if err != nil {
		return nil, err
	}
	return res.Body, nil
}

// maxAnswer bounds the answers that are read for their words.
const maxAnswer = 64 << 10

// ask returns the answer to a request, whose body the caller closes, or why there is none.
func (b *Bucket) ask(ctx context.Context, method, name, mediaType string, data []byte) (*http.Response, error) {
	u := b.url
	u.Path = path.Join("/", u.Path, b.name, b.prefix, name)
	u.RawPath = escaped(u.Path)
	q, err := http.NewRequestWithContext(ctx, method, u.String(), bytes.NewReader(data))
	if err != nil {
		return nil, err
	}
	q.URL.RawPath = u.RawPath
	if mediaType != "" {
		q.Header.Set("Content-Type", mediaType)
	}
	b.sign(q, data, time.Now())
	res, err := b.client.Do(q)
	if err != nil || res.StatusCode/100 == 2 {
		return res, err
	}
	defer res.Body.Close()
	text, _ := io.ReadAll(io.LimitReader(res.Body, maxAnswer))
	err = refusal(res.StatusCode, text)
	if res.StatusCode == http.StatusNotFound && method == http.MethodGet && !bytes.Contains(text, []byte("NoSuchBucket")) {
		err = fmt.Errorf("%w: %w", ErrAbsent, err)
	}
	return nil, err
}

// advice tells the administrator what to do, by the error codes of S3.
var advice = map[string]string{
	"AccessDenied":                 "let the key put and get objects there (s3:PutObject, s3:GetObject)",
	"AuthorizationHeaderMalformed": "correct region",
	"InvalidAccessKeyId":           "compare key with those of the object store",
	"NoSuchBucket":                 "make the bucket, or correct to",
	"PermanentRedirect":            "correct region and endpoint",
	"RequestTimeTooSkewed":         "set the clock of this machine",
	"SignatureDoesNotMatch":        "compare secret with that of the key",
}

// refusal makes an error of an answer that is not a success.
func refusal(status int, text []byte) error {
	var said struct{ Code, Message, Region string }
	if xml.Unmarshal(text, &said) != nil || said.Code == "" {
		return fmt.Errorf("status %d: %.300q", status, text)
	}
	err := fmt.Errorf("status %d, %.100s: %.300q", status, said.Code, said.Message)
	switch do := advice[said.Code]; {
	case said.Region != "":
		return fmt.Errorf("%w; %s: the bucket is in %.60q", err, cmp.Or(do, "correct region"), said.Region)
	case do != "":
		return fmt.Errorf("%w; %s", err, do)
	}
	return err
}

// sign signs a request (AWS Signature Version 4).
func (b *Bucket) sign(q *http.Request, body []byte, now time.Time) {
	sum := sha256.Sum256(body)
	hash, at := hex.EncodeToString(sum[:]), now.UTC().Format("20060102T150405Z")
	q.Header.Set("X-Amz-Content-Sha256", hash)
	q.Header.Set("X-Amz-Date", at)
	names := []string{"host"}
	for name := range q.Header {
		names = append(names, strings.ToLower(name))
	}
	slices.Sort(names)
	var head strings.Builder
	for _, name := range names {
		value := q.URL.Host
		if name != "host" {
			value = strings.Join(q.Header.Values(name), ",")
		}
		head.WriteString(name + ":" + strings.TrimSpace(value) + "\n")
	}
	signed := strings.Join(names, ";")
	whole := sha256.Sum256([]byte(strings.Join([]string{q.Method, escaped(q.URL.Path), "", head.String(), signed, hash}, "\n")))
	scope := at[:8] + "/" + b.region + "/s3/aws4_request"
	text := "AWS4-HMAC-SHA256\n" + at + "\n" + scope + "\n" + hex.EncodeToString(whole[:])
	key := []byte("AWS4" + b.secret)
	for _, part := range []string{at[:8], b.region, "s3", "aws4_request", text} {
		m := hmac.New(sha256.New, key)
		m.Write([]byte(part))
		key = m.Sum(nil)
	}
	q.Header.Set("Authorization", "AWS4-HMAC-SHA256 Credential="+b.key+"/"+scope+", SignedHeaders="+signed+", Signature="+hex.EncodeToString(key))
}

// escaped returns a path for the signature: all but unreserved characters are
// escaped (RFC 3986, 2.3).
func escaped(p string) string {
	const hex = "0123456789ABCDEF"
	var b strings.Builder
	for i := range len(p) {
		c := p[i]
		if c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || strings.IndexByte("-._~/", c) >= 0 {
			b.WriteByte(c)
			continue
		}
		b.WriteString("%" + string(hex[c>>4]) + string(hex[c&15]))
	}
	return b.String()
}
