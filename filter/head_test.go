package filter

import (
	"context"
	"errors"
	"io"
	"testing"
	"time"

	"shuultuur/content"
	"shuultuur/lib/message"
)

func TestTheUseOfAResponseFollowsFromTheRequest(t *testing.T) {
	for _, c := range []struct {
		dest, accept, target string
		want                 content.Use
	}{
		{want: content.Unsaid},
		{accept: "text/html,*/*", want: content.Document},
		{accept: "image/avif", want: content.Embedded},
		{accept: "text/css", want: content.Sheet},
		{accept: "*/*", want: content.Unsaid},
		{dest: "iframe", accept: "image/png", want: content.Document}, // the browser's word counts more
		{dest: "empty", want: content.Program},
		{dest: "style", want: content.Sheet},
		{dest: "image", want: content.Embedded},
		{dest: "script", target: "/app.js", want: content.Embedded},
		{dest: "script", target: "/data?Callback=f", want: content.Unsaid}, // JSONP is data
	} {
		x := &Transaction{Request: &message.Request{Target: []byte(c.target)}, Response: &message.Response{Status: 200}}
		for name, value := range map[string]string{"Sec-Fetch-Dest": c.dest, "Accept": c.accept} {
			if value != "" {
				x.Request.Add(name, value)
			}
		}
		if got := x.Content().Use(); got != c.want {
			t.Errorf("Sec-Fetch-Dest %q, Accept %q, %q: use %v, want %v", c.dest, c.accept, c.target, got, c.want)
		}
	}
}

// TestTheDescriptionFollowsTheResponse: an informational response may come before the final one
// in the same memory.
func TestTheDescriptionFollowsTheResponse(t *testing.T) {
	x := new(Transaction)
	if got := x.Content().Type(); got != "" {
		t.Errorf("without a response the type is %q, want none", got)
	}
	x.Response = &message.Response{Status: 103}
	if got := x.Content().Type(); got != "" {
		t.Errorf("without fields the type is %q, want none", got)
	}
	x.Response.Status = 200
	x.Response.Add("Content-Type", "image/png")
	if got := x.Content().Type(); got != "image/png" {
		t.Errorf("after the final response the type is %q, want image/png", got)
	}
	if got := x.Sent().Type(); got != "" {
		t.Errorf("without a request the upload has the type %q, want none", got)
	}
	x.Request = new(message.Request)
	x.Request.Add("Content-Type", "text/plain")
	if got := x.Sent().Type(); got != "text/plain" {
		t.Errorf("the upload has the type %q, want text/plain", got)
	}
}

func TestTheClientAsksForAPicture(t *testing.T) {
	if new(Transaction).ForPicture() {
		t.Error("a transaction without a request is for a picture")
	}
	for _, c := range []struct {
		dest, accept string
		want         bool
	}{{"", "", false}, {"", "image/webp", true}, {"image", "", true}, {"document", "image/webp", false}} {
		x := &Transaction{Request: new(message.Request)}
		if c.dest != "" {
			x.Request.Add("Sec-Fetch-Dest", c.dest)
		}
		x.Request.Add("Accept", c.accept)
		if got := x.ForPicture(); got != c.want {
			t.Errorf("Sec-Fetch-Dest %q, Accept %q: for a picture %v, want %v", c.dest, c.accept, got, c.want)
		}
	}
}

func TestAnswersAreReadAsTheyAreWritten(t *testing.T) {
	for a := NXDomain; a <= Refused; a++ {
		text, err := a.MarshalText()
		var back Answer
		if err == nil {
			err = back.UnmarshalText(text)
		}
		if err != nil || back != a {
			t.Errorf("%d is written as %q and read as %d, %v", a, text, back, err)
		}
	}
	for _, wrong := range []string{"", "NXDOMAIN", "usual"} {
		if a := Zero; a.UnmarshalText([]byte(wrong)) == nil || a != Zero {
			t.Errorf("%q is read as %v, want an error and no change", wrong, a)
		}
	}
}

func TestNamesOfProtocolsAndStages(t *testing.T) {
	var all []string
	for s := Name; s <= ResponseBody; s++ {
		all = append(all, s.String())
	}
	if all[0] != "name" || all[4] != "response-body" || Proto(0).String() != "http" {
		t.Errorf("the stages are called %q, the first protocol %q", all, Proto(0))
	}
}

func TestChangesAreEmptyWithoutAnyAndAfterReset(t *testing.T) {
	for name, c := range map[string]Changes{
		"style": {Style: []byte("a")}, "script": {Script: []byte("a")}, "sheet": {Sheet: "/a"},
		"policy": {Policies: []string{"a"}}, "permission": {Permissions: []string{"a"}},
	} {
		if c.Empty() {
			t.Errorf("changes of the %s count as none", name)
		}
		if c.Reset(); !c.Empty() {
			t.Errorf("changes of the %s outlive Reset", name)
		}
	}
	if c := (Changes{Hidden: 3, Scriptlets: []string{"a"}}); !c.Empty() {
		t.Error("notes about changes count as changes")
	}
}

func TestAPanicBecomesAnErrorWithItsStack(t *testing.T) {
	err := func() (err error) {
		defer Catch(&err)
		panic("odd")
	}()
	var crash *Crash
	if !errors.As(err, &crash) || err.Error() != "panic: odd" || len(crash.Stack) == 0 {
		t.Errorf("the error is %v, want the panic with its stack", err)
	}
	if err := func() (err error) { defer Catch(&err); return io.EOF }(); err != io.EOF {
		t.Errorf("without a panic the error is %v, want it unchanged", err)
	}
}

// waiter notes who waits.
type waiter struct {
	context.Context
	on []bool
}

func (w *waiter) Waiting(on bool) { w.on = append(w.on, on) }

func TestAContextCarriesItsTransactionAndIsToldOfWaiting(t *testing.T) {
	x := new(Transaction)
	if Of(t.Context()) != nil || Of(With(t.Context(), x)) != x {
		t.Error("the context does not carry its transaction, or another's does")
	}
	w := &waiter{Context: t.Context()}
	Waiting(w, true)
	Waiting(w, false)
	Waiting(t.Context(), true) // no limit to tell
	if len(w.on) != 2 || !w.on[0] || w.on[1] {
		t.Errorf("the limit was told %v, want that waiting begins and ends", w.on)
	}
	if JudgeTime(0) != 15*time.Second || JudgeTime(64<<20) != 79*time.Second {
		t.Errorf("judging may take %v, and %v for 64 MiB", JudgeTime(0), JudgeTime(64<<20))
	}
}

// storedBody is a body from a store.
type storedBody struct{ message.Body }

func (storedBody) HasVerdicts() bool               { return false }
func (storedBody) Verdict([16]byte) ([]byte, bool) { return nil, false }
func (storedBody) KeepVerdict([16]byte, []byte)    {}

// heldBody is one that checks are reading.
type heldBody struct {
	message.Body
	of Stored
}

func (h heldBody) Stored() Stored { return h.of }

func TestTheStoreOfABodyIsFoundThroughItsHolder(t *testing.T) {
	s := storedBody{}
	if StoredOf(s) != Stored(s) || StoredOf(heldBody{of: s}) != Stored(s) {
		t.Error("the store of a body is not found")
	}
	if StoredOf(nil) != nil || StoredOf(heldBody{}) != nil {
		t.Error("a body from an origin has a store")
	}
}

// TestRequestsMayLackTheirCodings: a server reads a request's body as it is if it has not the coding
// that its fields name; browsers read no such response.
func TestRequestsMayLackTheirCodings(t *testing.T) {
	tr := &Transaction{Request: &message.Request{}, Response: &message.Response{}}
	if !tr.Sent().Claimed() || tr.Content().Claimed() {
		t.Errorf("claimed: request %v, response %v; want the request alone", tr.Sent().Claimed(), tr.Content().Claimed())
	}
}
