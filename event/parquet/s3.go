package parquet

import (
	"bytes"
	"cmp"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/xml"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"path"
	"slices"
	"strings"
	"time"
)

// A bucket is a bucket or prefix in an object store.
type bucket struct {
	url                 url.URL
	name, prefix        string
	region, key, secret string
	client              *http.Client
}

// put stores an object. The object appears when it is complete.
func (b *bucket) put(ctx context.Context, name string, data []byte) error {
	u := b.url
	u.Path = path.Join("/", u.Path, b.name, b.prefix, name)
	u.RawPath = escaped(u.Path)
	q, err := http.NewRequestWithContext(ctx, http.MethodPut, u.String(), bytes.NewReader(data))
	if err != nil {
		return err
	}
	q.URL.RawPath = u.RawPath
	q.Header.Set("Content-Type", "application/vnd.apache.parquet")
	b.sign(q, data, time.Now())
	res, err := b.client.Do(q)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	text, _ := io.ReadAll(io.LimitReader(res.Body, 64<<10))
	if res.StatusCode/100 != 2 {
		return refusal(res.StatusCode, text)
	}
	return nil
}

// advice tells the administrator what to do, by the error codes of S3.
var advice = map[string]string{
	"AccessDenied":                 "let the key put objects there (s3:PutObject)",
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
func (b *bucket) sign(q *http.Request, body []byte, now time.Time) {
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
