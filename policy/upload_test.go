package policy

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"mime/multipart"
	"strings"
	"testing"
	"time"

	"shuultuur/content"
	"shuultuur/filter"
	"shuultuur/lib/message"
	"shuultuur/lib/setting"
)

// sending returns a POST whose body arrived in pieces of n bytes.
func sending(e *Engine, ctype string, body []byte, n int) (*filter.Transaction, filter.Verdict) {
	t := &filter.Transaction{Start: time.Now(), Host: "a.test", URL: "http://a.test/x", Request: &message.Request{Method: "POST", Path: []byte("/x"), Length: int64(len(body))}, Last: filter.ResponseBody}
	t.Request.Add("Content-Type", ctype)
	ctx := context.Background()
	if e.Decide(ctx, t, filter.Name); t.Verdict.Action == filter.Pass {
		e.Decide(ctx, t, filter.Request)
	}
	if t.Verdict.Action != filter.Pass || !e.Wants(t, filter.RequestBody) {
		return t, t.Verdict
	}
	var b content.Body
	defer b.Release()
	b.Reset(t.Sent(), content.Limits{})
	t.Upload = &b
	for len(body) > n {
		b.Append(body[:n])
		e.Decide(ctx, t, filter.RequestBody)
		if v := t.Verdict; v.Final() {
			return t, v
		}
		b.Forget()
		body = body[n:]
	}
	b.Append(body)
	b.Finish()
	e.Decide(ctx, t, filter.RequestBody)
	v := t.Verdict
	t.Upload = nil
	if !v.Final() {
		t.Response = &message.Response{Status: 200}
		e.Decide(ctx, t, filter.Response)
		v = t.Verdict
	}
	return t, v
}

func form(files map[string]string, fields map[string]string) (ctype string, body []byte) {
	var b bytes.Buffer
	w := multipart.NewWriter(&b)
	for k, v := range fields {
		w.WriteField(k, v)
	}
	for name, data := range files {
		p, _ := w.CreateFormFile("f", name)
		p.Write([]byte(data))
	}
	w.Close()
	return w.FormDataContentType(), b.Bytes()
}

func TestRulesLookAtWhatIsSent(t *testing.T) {
	file := "\n\r\nfirst line\r\n--not the boundary\r\nlast\r\n"
	sum := sha256.Sum256([]byte(file))
	ctype, upload := form(map[string]string{"Plan.DOCX": file, "b.txt": "text"}, map[string]string{"q": "payment 4111 1111 1111 1111"})
	for name, tt := range map[string]struct {
		rule  Rule
		ctype string
		body  string
		want  string // in the evidence; "" does not fit
	}{
		"a word of a form":          {Rule{Words: []string{"Geheime Sache"}}, "application/x-www-form-urlencoded", "q=eine+geheime%20sache", `word "geheime sache"`},
		"a part of a word":          {Rule{Words: []string{"Sache"}}, "application/x-www-form-urlencoded", "q=ursache", ""},
		"a word of a prompt":        {Rule{Words: []string{"secret"}}, "application/json", `{"messages":[{"content":"a \u0073ecret"}]}`, "word"},
		"a word of a form's field":  {Rule{Words: []string{"payment"}}, ctype, string(upload), "word"},
		"a card":                    {Rule{Pattern: []string{"card", "iban"}}, ctype, string(upload), "pattern card, 1 found"},
		"no card":                   {Rule{Pattern: []string{"card"}}, "text/plain", "4111 1111 1111 1112", ""},
		"an account":                {Rule{Pattern: []string{"card", "iban"}}, "text/plain", "to DE89 3704 0044 0532 0130 00 now", "pattern iban"},
		"an expression":             {Rule{Pattern: []string{`/PRJ-[0-9]{4}/`}}, "text/plain", "see PRJ-1234", "pattern /PRJ-"},
		"a size":                    {Rule{Larger: setting.Size(10)}, "text/plain", "12345678901", "larger than 10"},
		"a smaller one":             {Rule{Larger: setting.Size(10)}, "text/plain", "1234567890", ""},
		"a type":                    {Rule{Upload: []string{"image/*"}}, "image/png", "x", "of type image/png"},
		"a type that is not said":   {Rule{Upload: []string{"image/png"}}, "application/x-y", "\x89PNG\r\n\x1a\n", "file"},
		"another type":              {Rule{Upload: []string{"image/*"}}, "text/plain", "x", ""},
		"a file's name":             {Rule{File: []string{"*.docx"}}, ctype, string(upload), `"plan.docx"`},
		"another name":              {Rule{File: []string{"*.exe"}}, ctype, string(upload), ""},
		"a file's hash":             {Rule{Hash: []string{hex.EncodeToString(sum[:])}}, ctype, string(upload), `"plan.docx"`},
		"a body's hash":             {Rule{Hash: []string{"9F86D081884C7D659A2FEAA0C55AD015A3BF4F1B2B0B822CD15D6C15B0F00A08"}}, "application/octet-stream", "test", "file"},
		"another hash":              {Rule{Hash: []string{strings.Repeat("0", 40)}}, ctype, string(upload), ""},
		"two conditions":            {Rule{Words: []string{"payment"}, Pattern: []string{"card"}}, ctype, string(upload), "pattern card"},
		"two, one of which is not":  {Rule{Words: []string{"payment"}, Pattern: []string{"iban"}}, ctype, string(upload), ""},
		"together with the request": {Rule{Words: []string{"payment"}, Method: []string{"PUT"}}, ctype, string(upload), ""},
		"together with the host":    {Rule{Words: []string{"payment"}, Host: []string{"a.test"}}, ctype, string(upload), "word"},
	} {
		tt.rule.Name, tt.rule.Action = "sent", "block"
		e := newEngineOf(t, Config{{Name: "p", Rules: []Rule{tt.rule}}}, Parts{})
		for _, n := range []int{1 << 20, 7} {
			tr, v := sending(e, tt.ctype, []byte(tt.body), n)
			if v.Final() != (tt.want != "") || !strings.Contains(v.Reason.Finding.Evidence, tt.want) {
				t.Errorf("%s, pieces of %d bytes: got %+v", name, n, v)
			}
			for _, f := range tr.Findings {
				if strings.Contains(f.Evidence, "4111") {
					t.Errorf("%s: the evidence quotes the number: %q", name, f.Evidence)
				}
			}
		}
	}
}

// TestAClaimedTransferCodingHidesNothing: most servers ignore a part's transfer coding, so the
// part is judged as it came and decoded.
func TestAClaimedTransferCodingHidesNothing(t *testing.T) {
	const text = "This is a geheime Sache, not base64!"
	const png = "\x89PNG\r\n\x1a\nrest of a picture"
	hash := func(s string) string { sum := sha256.Sum256([]byte(s)); return hex.EncodeToString(sum[:]) }
	lines := func(s string) string { // as MIME has them
		s = base64.StdEncoding.EncodeToString([]byte(s))
		var b strings.Builder
		for ; len(s) > 76; s = s[76:] {
			b.WriteString(s[:76] + "\r\n")
		}
		return b.String() + s
	}
	long := strings.Repeat("quiet lines of a long text\n", 1000)
	for name, tt := range map[string]struct {
		rule   Rule
		coding string
		file   bool
		body   string
		want   bool
	}{
		"words, base64 that is none":        {Rule{Words: []string{"geheime Sache"}}, "base64", false, text, true},
		"one word, which may be base64":     {Rule{Words: []string{"geheimen"}}, "base64", false, "geheimen", true},
		"words of a file":                   {Rule{Words: []string{"geheime Sache"}}, "base64", true, text, true},
		"words behind true base64":          {Rule{Words: []string{"geheime Sache"}}, "base64", false, lines(long) + "\r\n" + text, true},
		"words far within false base64":     {Rule{Words: []string{"geheime Sache"}}, "base64", false, long + text + long, true},
		"a list of words":                   {Rule{Words: []string{"geheime Sache"}}, "base64", false, strings.Repeat("word\r\n", 2000) + "and\r\ngeheime\r\nSache\r\n", true},
		"words in true base64":              {Rule{Words: []string{"geheime Sache"}}, "base64", false, lines(text), true},
		"words in quoted-printable":         {Rule{Words: []string{"geheime Sache"}}, "quoted-printable", false, "a gehei=\r\nme=20Sache", true},
		"words that quoted-printable parts": {Rule{Words: []string{"see=20geheime"}}, "quoted-printable", false, "see=20geheime", true},
		"no such word":                      {Rule{Words: []string{"geheime Sache"}}, "base64", false, "geheime andere Sache", false},
		"no words by chance":                {Rule{Words: []string{"ab"}}, "base64", true, lines(long) + "\r\n/ab+", false},
		"a hash as it came":                 {Rule{Hash: []string{hash(text)}}, "base64", true, text, true},
		"a hash of true base64":             {Rule{Hash: []string{hash(png)}}, "base64", true, lines(png), true},
		"a hash as quoted-printable came":   {Rule{Hash: []string{hash("a=20b\r\n")}}, "quoted-printable", true, "a=20b\r\n", true},
		"a hash of quoted-printable":        {Rule{Hash: []string{hash("a b")}}, "quoted-printable", true, "a=20b", true},
		"another hash":                      {Rule{Hash: []string{hash("x")}}, "base64", true, text, false},
		"a type as it came":                 {Rule{Upload: []string{"image/png"}}, "base64", true, png, true},
		"a type in true base64":             {Rule{Upload: []string{"image/png"}}, "base64", true, lines(png), true},
		"a type and a hash":                 {Rule{Upload: []string{"image/png"}, Hash: []string{hash(png)}}, "base64", true, png, true},
	} {
		disposition := `form-data; name="f"`
		if tt.file {
			disposition += `; filename="f.txt"`
		}
		fields := func(more string) string { return "--b\r\nContent-Disposition: " + disposition + more + "\r\n\r\n" }
		body := fields("\r\nContent-Transfer-Encoding: "+tt.coding) + tt.body + "\r\n" + fields("") + "last\r\n--b--\r\n"
		tt.rule.Name, tt.rule.Action = "sent", "block"
		e := newEngineOf(t, Config{{Name: "p", Rules: []Rule{tt.rule}}}, Parts{})
		for _, n := range []int{1 << 20, 1000, 7} {
			if _, v := sending(e, "multipart/form-data; boundary=b", []byte(body), n); v.Final() != tt.want {
				t.Errorf("%s, pieces of %d bytes: got %+v", name, n, v)
			}
		}
	}
}

// FuzzCodedPart: for any pieces in which a part comes, rules reach the same verdict.
func FuzzCodedPart(f *testing.F) {
	for _, body := range []string{"a geheime Sache!", "Z2VoZWltZSBTYWNoZQ==", "gehei=\r\nme=20Sache", "\x89PNG\r\n\x1a\n", "\r\r\n--c\r\n", "="} {
		f.Add([]byte(body), true, byte(3))
		f.Add([]byte(body), false, byte(1))
	}
	c := Config{{Name: "p", Rules: []Rule{
		{Name: "words", Action: "block", Words: []string{"geheime Sache"}},
		{Name: "type", Action: "block", Upload: []string{"image/png"}},
		{Name: "hash", Action: "block", Hash: []string{strings.Repeat("0", 64)}},
	}}}
	e := newEngineOf(f, c, Parts{})
	f.Fuzz(func(t *testing.T, part []byte, base64 bool, n byte) {
		coding := "quoted-printable"
		if base64 {
			coding = "base64"
		}
		body := "--b\r\nContent-Disposition: form-data; name=f; filename=f\r\nContent-Type: text/plain\r\nContent-Transfer-Encoding: " + coding + "\r\n\r\n" + string(part) + "\r\n--b--\r\n"
		_, whole := sending(e, "multipart/form-data; boundary=b", []byte(body), len(body))
		_, pieces := sending(e, "multipart/form-data; boundary=b", []byte(body), int(n)+1)
		if whole.Action != pieces.Action {
			t.Errorf("in one piece: %+v, in pieces of %d bytes: %+v", whole, int(n)+1, pieces)
		}
	})
}

func TestAnAllowWaitsForWhatIsSent(t *testing.T) {
	rules := []Rule{
		{Name: "cards", Action: "block", Pattern: []string{"card"}},
		{Name: "all else", Action: "allow", Host: []string{"a.test"}},
	}
	e := newEngineOf(t, Config{{Name: "p", Rules: rules}}, Parts{})
	if _, v := sending(e, "text/plain", []byte("4111111111111111"), 100); v.Action != filter.Block {
		t.Errorf("body with a card number: got %+v, want block", v)
	}
	if _, v := sending(e, "text/plain", []byte("hello"), 100); v.Action != filter.Allow {
		t.Errorf("body without a card number: got %+v, want allow", v)
	}
}

func TestARuleOnWhatIsSentMayAskForTheResponse(t *testing.T) {
	e := newEngineOf(t, Config{{Name: "p", Rules: []Rule{{Name: "r", Action: "block", Words: []string{"x"}, Type: []string{"text/html"}}}}}, Parts{})
	for ctype, want := range map[string]filter.Action{"text/html": filter.Block, "image/png": filter.Pass} {
		tr, _ := sending(e, "text/plain", []byte("a x b"), 100)
		tr.Verdict = filter.Verdict{}
		tr.Response = &message.Response{Status: 200}
		tr.Response.Add("Content-Type", ctype)
		e.Decide(context.Background(), tr, filter.Response)
		if v := tr.Verdict; v.Action != want {
			t.Errorf("body of type %s: got %+v", ctype, v)
		}
	}
}

func TestMistakesInConditionsOnWhatIsSent(t *testing.T) {
	for want, r := range map[string]Rule{
		"words[0]":     {Words: []string{"--"}},
		"pattern[1]":   {Pattern: []string{"card", "cards"}},
		"upload[0]":    {Upload: []string{"image"}},
		"file[0]":      {File: []string{"[a"}},
		"hash[0]":      {Hash: []string{"abc"}},
		"conversation": {Conversation: "pause"},
	} {
		r.Name, r.Action = "r", "block"
		if _, err := New(Config{{Name: "p", Rules: []Rule{r}}}, nil, Parts{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want an error at %s", err, want)
		}
	}
}

func TestASearchInAFormIsASearch(t *testing.T) {
	e := newEngineOf(t, Config{{Name: "p", Rules: []Rule{
		{Name: "terms", Action: "block", Search: []string{"free casino", "{qimor}"}},
		{Name: "bank", Action: "allow", Search: []string{"bank"}},
		{Name: "posts", Action: "block", Search: []string{"poker"}, Type: []string{"text/html"}},
	}}}, Parts{})
	const urlencoded = "application/x-www-form-urlencoded"
	for name, c := range map[string]struct{ host, typ, body, want string }{
		"listed":                {"duckduckgo.com", urlencoded, "q=Free+c%61sino&kl=us", "block terms"},
		"charset":               {"duckduckgo.com", urlencoded + "; charset=UTF-8", "kl=us&q=my%20free%20casino%20now", "block terms"},
		"by stem":               {"html.duckduckgo.com", urlencoded, "q=qimorlarimizdan", "block terms"},
		"a country's host":      {"www.google.mn", urlencoded, "q=free+casino", "block terms"},
		"not listed":            {"duckduckgo.com", urlencoded, "q=library", "pass "},
		"allowed":               {"duckduckgo.com", urlencoded, "q=my+bank", "allow bank"},
		"part of a word":        {"duckduckgo.com", urlencoded, "q=free+casinos", "pass "},
		"another field":         {"duckduckgo.com", urlencoded, "x=free+casino&q=x", "pass "},
		"no engine":             {"a.test", urlencoded, "q=free+casino", "pass "},
		"no form":               {"duckduckgo.com", "text/plain", "q=free+casino", "pass "},
		"decided by the answer": {"duckduckgo.com", urlencoded, "q=poker", "block posts"},
	} {
		for _, n := range []int{1, 3, 1000} {
			tr := &filter.Transaction{Start: time.Now(), Host: c.host, URL: "http://" + c.host + "/", Request: &message.Request{Method: "POST", Path: []byte("/"), Length: int64(len(c.body))}, Last: filter.ResponseBody}
			tr.Request.Add("Content-Type", c.typ)
			if v := sendPieces(e, tr, []byte(c.body), n, "text/html"); v.Action.String()+" "+v.Reason.Rule != c.want {
				t.Errorf("%s, in pieces of %d bytes: got %v %s, want %s", name, n, v.Action, v.Reason.Rule, c.want)
			}
		}
	}
}

// sendPieces shows a transaction to an engine stage by stage. Its body comes in pieces of n
// bytes, and the response has a media type.
func sendPieces(e *Engine, t *filter.Transaction, body []byte, n int, answer string) filter.Verdict {
	ctx := context.Background()
	for _, s := range []filter.Stage{filter.Name, filter.Request} {
		if e.Decide(ctx, t, s); t.Verdict.Action != filter.Pass {
			return t.Verdict
		}
	}
	if e.Wants(t, filter.RequestBody) {
		var b content.Body
		defer b.Release()
		b.Reset(t.Sent(), content.Limits{})
		t.Upload = &b
		for len(body) > 0 {
			k := min(n, len(body))
			b.Append(body[:k])
			if body = body[k:]; len(body) == 0 {
				b.Finish()
			}
			e.Decide(ctx, t, filter.RequestBody)
			if v := t.Verdict; v.Action != filter.Pass {
				return v
			}
			b.Forget()
		}
		t.Upload = nil
	}
	t.Response = &message.Response{Status: 200}
	t.Response.Add("Content-Type", answer)
	e.Decide(ctx, t, filter.Response)
	return t.Verdict
}
