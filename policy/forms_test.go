package policy

import (
	"net/url"
	"testing"
)

func TestSearchTermsAreFoundByStem(t *testing.T) {
	f := newForms()
	for _, p := range []string{"{qimor}", "{o'yin} klubi", "{бооцоо}"} {
		if err := f.add(p); err != nil {
			t.Fatal(err)
		}
	}
	if err := f.add("{-}"); err == nil {
		t.Error("a phrase without a letter is taken")
	}
	for term, want := range map[string]bool{
		"eng yaxshi qimorlarga": true, "o‘yinlar klubi": true, "қиморларга": true, "бооцооноосоо": true,
		"qimorboz": false, "o'yinlar": false, "klubi": false, "": false,
	} {
		if got := f.in(appendTerm(nil, []byte(url.QueryEscape(term)))); got != want {
			t.Errorf("%q: %v, want %v", term, got, want)
		}
	}
}
