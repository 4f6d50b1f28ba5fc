package resolver

import (
	"encoding/json"
	"reflect"
	"testing"

	miekg "github.com/miekg/dns"

	"shuultuur/filter"
	"shuultuur/lib/dns"
)

func TestErrorsAreStructuredWhenTheClientAsks(t *testing.T) {
	v := block(filter.NXDomain)
	x := newRig(t, Config{Block: Block{Contact: []string{"mailto:help@example.com"}, Organization: "A school"}}, Parts{},
		&judge{verdicts: map[string]filter.Verdict{"bad.com": v}}, nil)
	ask := func(name string, options ...miekg.EDNS0) (uint16, string) {
		t.Helper()
		m := new(miekg.Msg).SetQuestion(name, miekg.TypeA)
		m.SetEdns0(1232, false)
		m.IsEdns0().Option = options
		b, err := m.Pack()
		if err != nil {
			t.Fatal(err)
		}
		q, a, tr := new(dns.Query), new(dns.Reply), new(filter.Transaction)
		if q.Parse(b) != dns.OK {
			t.Fatal("Parse refused the test's own query")
		}
		q.Recursion = true
		a.Start(q, nil, 1000)
		if o := x.r.Answer(q, a, tr); o != dns.Answered {
			t.Fatalf("got outcome %v, want Answered", o)
		}
		r := new(miekg.Msg)
		if err := r.Unpack(a.Finish(&dns.Options{Size: 1232, Max: 1232})); err != nil {
			t.Fatal(err)
		}
		for _, o := range r.IsEdns0().Option {
			if e, ok := o.(*miekg.EDNS0_EDE); ok {
				return e.InfoCode, e.ExtraText
			}
		}
		return 0, ""
	}
	if _, text := ask("bad.com."); text == "" || text[0] == '{' {
		t.Errorf("client that did not request it: got %q, want plain text", text)
	}
	if _, text := ask("bad.com.", &miekg.EDNS0_EDE{InfoCode: 15}); text == "" || text[0] == '{' {
		t.Errorf("an error in the query that is not empty: %q, want a text", text)
	}
	code, text := ask("bad.com.", &miekg.EDNS0_EDE{})
	var got map[string]any
	if err := json.Unmarshal([]byte(text), &got); err != nil || code != 15 {
		t.Fatalf("structured error: got code %d, %s: %v", code, text, err)
	}
	id, _ := got["j"].(string)
	const start = `block category games policy pupils id `
	if len(id) <= len(start) || id[:len(start)] != start {
		t.Errorf("the justification %q lacks the transaction's ID", id)
	}
	delete(got, "j")
	if want := map[string]any{"c": []any{"mailto:help@example.com"}, "o": "A school", "s": 5.0}; !reflect.DeepEqual(got, want) {
		t.Errorf("structured error: got %v, want %v", got, want)
	}
	v.Reason.Finding.Category, v.Reason.Policy = "malware", `the "kids"`
	text = string(x.r.block.structured(nil, &v, ""))
	if want := `{"c":["mailto:help@example.com"],"j":"block category malware policy the \"kids\"","s":1,"o":"A school"}`; text != want {
		t.Errorf("structured error: got %s, want %s", text, want)
	}
	if _, err := New(Config{Block: Block{Contact: []string{"help@example.com"}}}, x.r.parts); err == nil {
		t.Error("New accepted a contact without a scheme")
	}
}
