//go:build !small

package icap

import (
	"bytes"
	"compress/gzip"
	"context"
	"math/rand/v2"
	"strings"
	"testing"

	"shuultuur/content"
	"shuultuur/filter"
	httpmessage "shuultuur/lib/message"
	"shuultuur/lib/setting"
)

func contains(s, part string) bool { return strings.Contains(s, part) }

// filler returns text of n bytes that compresses little.
func filler(n int) string {
	r := rand.New(rand.NewPCG(1, uint64(n)))
	b := make([]byte, n)
	for i := range b {
		b[i] = "abcdefghijklmnopqrstuvwxyz \n"[r.IntN(28)]
	}
	return string(b)
}

// check makes a check that is closed at the end of the test.
func check(t testing.TB, cfg Config) *Check {
	t.Helper()
	c, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// transaction returns the transaction of the tests.
func transaction() *filter.Transaction {
	x := &filter.Transaction{URL: "http://origin.example/file.bin?a=b", Host: "origin.example", Request: &httpmessage.Request{Method: "GET"}, Response: &httpmessage.Response{Status: 200}}
	x.Request.Add("Host", "origin.example")
	x.Request.Add("Proxy-Authorization", "Basic c2VjcmV0")
	x.Response.Add("Content-Type", "text/plain")
	x.Client.User, x.Client.Groups = "anna", []string{"staff"}
	return x
}

// find runs the check on a message whose body arrives in pieces.
func find(ctx context.Context, c *Check, s filter.Stage, pieces int, body string) ([]filter.Finding, error) {
	return findIn(ctx, c, transaction(), s, pieces, body, &content.Head{})
}

func findIn(ctx context.Context, c *Check, x *filter.Transaction, s filter.Stage, pieces int, body string, h *content.Head) (got []filter.Finding, err error) {
	if s == filter.Request {
		return c.Find(ctx, x, s, nil)
	}
	var b content.Body
	b.Reset(h, content.Limits{})
	defer b.Release()
	if x.Body = &b; s == filter.RequestBody {
		x.Request.Method = "POST"
		x.Body, x.Upload = nil, &b
	}
	for n := pieces; n > 0; n-- {
		k := len(body) / n
		b.Append([]byte(body[:k]))
		if body = body[k:]; n == 1 {
			b.Finish()
		}
		if got, err = c.Find(ctx, x, s, nil); err != nil || len(got) > 0 {
			return got, err
		}
		if n > 1 {
			b.Forget()
		}
	}
	return got, err
}

func zipped(s string) string {
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	_, _ = w.Write([]byte(s))
	_ = w.Close()
	return b.String()
}

func TestWrongSettingsAreRefused(t *testing.T) {
	one := setting.OneOrMore[string]{"icap://127.0.0.1/x"}
	for want, cfg := range map[string]Config{
		"no server":                     {},
		"not an ICAP service":           {Servers: setting.OneOrMore[string]{"http://h/x"}},
		`"icap://h" is not an ICAP`:     {Servers: setting.OneOrMore[string]{"icap://h"}},
		"no valid port":                 {Servers: setting.OneOrMore[string]{"icap://h:0/x"}},
		"neither own nor scanner":       {Servers: one, Page: "theirs"},
		"would hold its messages":       {Servers: one, Timeout: off[setting.Duration](t)},
		"no scanner could be asked":     {Servers: one, Connections: off[setting.Count](t)},
		"bodies of any size":            {Servers: one, Largest: off[setting.Size](t)},
		"not a media type":              {Servers: one, Skip: setting.OneOrMore[string]{"images"}},
		"no such file":                  {Servers: one, CA: "/does/not/exist"},
		"contains no certificate in PE": {Servers: one, CA: "icap_test.go"},
	} {
		if _, err := New(cfg); err == nil || !contains(err.Error(), want) {
			t.Errorf("New returned %v, want an error with %q", err, want)
		}
	}
}

// off returns the value of a setting that is off.
func off[T any, P interface {
	*T
	UnmarshalText([]byte) error
}](t *testing.T) (v T) {
	if err := P(&v).UnmarshalText([]byte("off")); err != nil {
		t.Fatal(err)
	}
	return v
}
