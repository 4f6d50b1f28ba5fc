package objectstore

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"
)

// TestSignature compares with the examples in Amazon's documentation ("Signature Calculations
// for the Authorization Header").
func TestSignature(t *testing.T) {
	b := Bucket{region: "us-east-1", key: "AKIAIOSFODNN7EXAMPLE", secret: "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"}
	at := time.Date(2013, 5, 24, 0, 0, 0, 0, time.UTC)
	for _, tt := range []struct {
		method, path, body string
		head               map[string]string
		want               string
	}{
		{"GET", "/test.txt", "", map[string]string{"Range": "bytes=0-9"}, "f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41"},
		{"PUT", "/test$file.text", "Welcome to Amazon S3.", map[string]string{"Date": "Fri, 24 May 2013 00:00:00 GMT", "X-Amz-Storage-Class": "REDUCED_REDUNDANCY"}, "98ad721746da40c64f1a55b78f14c238d841ea1380cd77a1b5971af0ece108bd"},
	} {
		q := &http.Request{Method: tt.method, URL: &url.URL{Scheme: "https", Host: "examplebucket.s3.amazonaws.com", Path: tt.path}, Header: http.Header{}}
		for name, value := range tt.head {
			q.Header.Set(name, value)
		}
		b.sign(q, []byte(tt.body), at)
		if got := q.Header.Get("Authorization"); !strings.HasSuffix(got, "Signature="+tt.want) {
			t.Errorf("%s %s: signature %s differs from Amazon's example", tt.method, tt.path, got)
		}
	}
}

func TestRefusalsSayWhatToDo(t *testing.T) {
	for text, want := range map[string]string{
		"<Error><Code>NoSuchBucket</Code><Message>It is not there</Message></Error>":            `status 400, NoSuchBucket: "It is not there"; make the bucket, or correct to`,
		"<Error><Code>AuthorizationHeaderMalformed</Code><Region>eu-central-1</Region></Error>": `status 400, AuthorizationHeaderMalformed: ""; correct region: the bucket is in "eu-central-1"`,
		`<?xml version="1.0"?><Error><Code>SlowDown</Code><Message>Wait</Message></Error>`:      `status 400, SlowDown: "Wait"`,
		"<html>": `status 400: "<html>"`,
	} {
		if got := refusal(400, []byte(text)).Error(); got != want {
			t.Errorf("%s: got %s, want %s", text, got, want)
		}
	}
}

// TestWhatWasPutCanBeGot: an object comes back under its name, and a name without one is told apart from
// a bucket that is not there.
func TestWhatWasPutCanBeGot(t *testing.T) {
	all := map[string][]byte{}
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch b, ok := all[r.URL.Path]; {
		case r.Method == http.MethodPut:
			all[r.URL.Path], _ = io.ReadAll(r.Body)
		case ok:
			_, _ = w.Write(b)
		case strings.HasPrefix(r.URL.Path, "/away/"):
			w.WriteHeader(http.StatusNotFound)
			_, _ = io.WriteString(w, "<Error><Code>NoSuchBucket</Code></Error>")
		default:
			w.WriteHeader(http.StatusNotFound)
			_, _ = io.WriteString(w, "<Error><Code>NoSuchKey</Code></Error>")
		}
	}))
	defer srv.Close()
	open := func(to string) *Bucket {
		b, err := Open(Config{To: to, Endpoint: srv.URL, Key: "key", Secret: "secret"})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(b.Close)
		return b
	}
	b := open("lake/a b")
	if err := b.Put(t.Context(), "x/y", "text/plain", []byte("words")); err != nil || string(all["/lake/a b/x/y"]) != "words" {
		t.Fatalf("put: %v; the store has %q", err, all)
	}
	r, err := b.Get(t.Context(), "x/y")
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if got, err := io.ReadAll(r); string(got) != "words" || err != nil {
		t.Errorf("got %q, %v", got, err)
	}
	if _, err := b.Get(t.Context(), "other"); !errors.Is(err, ErrAbsent) {
		t.Errorf("no object: %v, want ErrAbsent", err)
	}
	if _, err := open("away").Get(t.Context(), "x/y"); err == nil || errors.Is(err, ErrAbsent) {
		t.Errorf("no bucket: %v, want another error than ErrAbsent", err)
	}
}
