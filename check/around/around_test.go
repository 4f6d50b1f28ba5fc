package around

import (
	"encoding/base64"
	"strings"
	"testing"

	"shuultuur/filter"
	"shuultuur/lib/message"
)

var _ filter.Check = Check{}

// query makes a DNS query for the address of a name.
func query(name string) string {
	p := []byte{0, 0, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0}
	for label := range strings.SplitSeq(name, ".") {
		p = append(append(p, byte(len(label))), label...)
	}
	return base64.RawURLEncoding.EncodeToString(append(p, 0, 0, 1, 0, 1))
}

func TestWaysAroundInRequests(t *testing.T) {
	for name, c := range map[string]struct {
		path, upgrade string
		fields        []string
		want, says    string
	}{
		"bare, version 3":        {"/bare/v3/", "", []string{"X-Bare-URL", "https://bad.example/"}, Bare, "bad.example"},
		"bare, version 1":        {"/x/v1/", "", []string{"x-bare-host", "bad.example", "X-Bare-Path", "/"}, Bare, "bad.example"},
		"bare, other fields":     {"/x", "", []string{"X-Bare-Headers", "{}"}, Bare, ""},
		"bare, socket":           {"/bare/v3/", "websocket", nil, Bare, "/bare/v3/"},
		"bare, subprotocol":      {"/v1/", "websocket", []string{"Sec-WebSocket-Protocol", "bare, abc"}, Bare, ""},
		"path of bare, no more":  {"/bare/v3/", "", nil, "", ""},
		"subprotocol, no socket": {"/", "", []string{"Sec-WebSocket-Protocol", "bare"}, "", ""},
		"wisp":                   {"/wisp/", "websocket", nil, "wisp", "/wisp/"},
		"wisp, below":            {"/a/wisp/?x=1", "websocket", nil, "wisp", ""},
		"wisp, no socket":        {"/wisp/", "", nil, "", ""},
		"whisper":                {"/willowisp", "websocket", nil, "", ""},
		"socket.io":              {"/socket.io/?EIO=4&transport=websocket", "websocket", nil, "", ""},
		"DoH, GET":               {"/any?dns=" + query("bad.example"), "", nil, DoH, "bad.example"},
		"DoH, padded":            {"/any?a=b&dns=" + query("bad.example") + "==", "", nil, DoH, "bad.example"},
		"DoH, POST":              {"/any", "", []string{"Content-Type", "application/dns-message"}, DoH, "dns-message"},
		"DoH, accepted":          {"/any", "", []string{"Accept", "Application/DNS-JSON; q=1"}, DoH, "dns-json"},
		"DoH, oblivious":         {"/proxy", "", []string{"Content-Type", "application/oblivious-dns-message"}, DoH, ""},
		"DoH, JSON":              {"/resolve?name=bad.example&type=A", "", nil, DoH, "/resolve"},
		"DoH, JSON by number":    {"/resolve?name=bad.example&type=28", "", nil, DoH, ""},
		"DoH, JSON at dns-query": {"/dns-query?name=bad.example", "", nil, DoH, ""},
		"another resolve":        {"/resolve?name=x&type=A", "", nil, "", ""},
		"a resolve of a package": {"/resolve?name=a.b", "", nil, "", ""},
		"a parameter dns":        {"/x?dns=8.8.8.8", "", nil, "", ""},
		"a parameter of base64":  {"/x?dns=" + base64.RawURLEncoding.EncodeToString([]byte("some ordinary text, long enough")), "", nil, "", ""},
		"a response":             {"/x?dns=" + base64.RawURLEncoding.EncodeToString([]byte("\x00\x00\x81\x80\x00\x01\x00\x00\x00\x00\x00\x00\x01a\x00\x00\x01\x00\x01")), "", nil, "", ""},
		"a query that is cut":    {"/x?dns=" + query("bad.example")[:24], "", nil, "", ""},
		"nothing":                {"/", "", nil, "", ""},
		"no path":                {"", "", nil, "", ""},
	} {
		q := &message.Request{Method: "GET", Path: []byte(c.path)}
		if c.upgrade != "" {
			q.Upgrade = []byte(c.upgrade)
		}
		for i := 0; i < len(c.fields); i += 2 {
			q.Add(c.fields[i], c.fields[i+1])
		}
		tr := &filter.Transaction{Host: "host.example", Request: q}
		found, err := Check{}.Find(t.Context(), tr, filter.Request, nil)
		if err != nil {
			t.Fatal(err)
		}
		got, says := "", ""
		if len(found) > 0 {
			got, says = found[0].Category, found[0].Evidence
		}
		if got != c.want || len(found) > 1 || !strings.Contains(says, c.says) {
			t.Errorf("%s: found %+v, want %q with %q", name, found, c.want, c.says)
		}
	}
}

func TestStages(t *testing.T) {
	plain, socket := &message.Request{}, &message.Request{Upgrade: []byte("websocket")}
	for name, c := range map[string]struct {
		t    filter.Transaction
		s    filter.Stage
		want bool
	}{
		"a name":                    {filter.Transaction{}, filter.Name, false},
		"a request":                 {filter.Transaction{Request: plain}, filter.Request, true},
		"a tunnel":                  {filter.Transaction{Proto: filter.TLS}, filter.Request, false},
		"a body":                    {filter.Transaction{Request: plain}, filter.RequestBody, false},
		"the client's messages":     {filter.Transaction{Request: socket}, filter.RequestBody, true},
		"a page":                    {filter.Transaction{Request: plain, Response: &message.Response{Status: 200}}, filter.ResponseBody, false},
		"the messages of a socket":  {filter.Transaction{Request: socket, Response: &message.Response{Status: 101}}, filter.ResponseBody, true},
		"before there is an answer": {filter.Transaction{Request: plain}, filter.ResponseBody, false},
	} {
		if got := (Check{}).Wants(&c.t, c.s); got != c.want {
			t.Errorf("%s: wanted %v, want %v", name, got, c.want)
		}
	}
}

func FuzzRequest(f *testing.F) {
	f.Add("/any?dns=" + query("bad.example"))
	f.Fuzz(func(t *testing.T, path string) {
		tr := &filter.Transaction{Request: &message.Request{Path: []byte(path), Upgrade: []byte("websocket")}}
		if _, err := (Check{}).Find(t.Context(), tr, filter.Request, nil); err != nil {
			t.Fatal(err)
		}
	})
}
